#' Derivatives with respect to inputs
#'
#' How the output of something fitted changes with its input, by automatic differentiation: the slope of a
#' PDF in x, or the gradient of a model's output with respect to each input of each sample, which for a
#' classifier is its saliency.
#'
#' @param object A fit made by [fit_pdf()], a training made by [train_stateless()], a surrogate, or a Keras
#'   model.
#' @param new_data For a PDF fit: a data frame with columns `x` (above 0, below 1) and, where wanted,
#'   `flavour` (else `"g"`). Else: an array like the inputs, the first axis being the sample; for a
#'   surrogate a matrix of states.
#' @param ... No further arguments; a misspelt one is an error.
#' @param output Number of the output, from 1.
#'
#' @return For a PDF fit a tibble with the rows of `new_data` and `.slope`, d(x f)/dx at Q0 (mean over
#'   the kept replicas), `.sd` (standard deviation over them) and `.elasticity`, d log(x f) / d log x of
#'   the mean. For a training an array (sample, input, ..., member); for a Keras model or a surrogate one
#'   (sample, input, ...).
#' @section Errors: Wrong arguments are errors of class `partonfit_error_argument`, an output that there is
#'   not, `partonfit_error_setting`.
#' @examples
#' \dontrun{
#' input_gradients(fit, data.frame(x = c(0.01, 0.1, 0.3), flavour = "u_v"))
#'
#' # Which input does a classifier look at?
#' keras <- reticulate::import("keras")
#' model <- keras$Sequential(list(
#'   keras$Input(reticulate::tuple(2L)), keras$layers$Dense(1L, "sigmoid")
#' ))
#' x <- matrix(rnorm(200), 100)
#' trained <- train_stateless(model, "binary_crossentropy", list(x, matrix(x[, 1] > 0) + 0), seed = 1)
#' saliency <- abs(input_gradients(trained, x))
#' colMeans(saliency[, , 1])
#' }
#' @export
input_gradients <- function(object, new_data, ..., output = 1) UseMethod("input_gradients")

#' @export
input_gradients.default <- function(object, new_data, ..., output = 1) {
  if (!is_python(object)) {
    abort_argument("object", "a fit, a training, a surrogate or a Keras model", object,
      call = rlang::caller_env())
  }
  check_dots(...)
  slopes <- slopes_of(check_keras(object), new_data, output)
  array(slopes, dim(slopes)[-1])
}

#' @rdname input_gradients
#' @export
input_gradients.pdf_fit <- function(object, new_data, ..., output = 1) {
  check_dots(...)
  object <- check_fit(object)
  if (!identical(output, 1)) {
    abort_partonfit("argument", c(
      "{.arg output} is for models; a fit has flavours.",
      i = "Name them in {.field flavour} of {.arg new_data}."
    ), arg = "output")
  }
  check_new_data(new_data, NULL, NULL, NULL, rlang::current_env())
  x <- check_numbers(new_data$x, "x", min = .Machine$double.xmin, max = 1 - 1e-6,
    must = "numbers above 0 and below 1")
  rows <- tibble::tibble(
    x = x, flavour = check_names(new_data$flavour %||% rep("g", length(x)), "flavour")
  )
  id <- load_in_core(object)
  slopes <- as_matrix(call_core("pdf_slopes", id, as_python_numbers(x), as_python_strings(rows$flavour)))
  central <- stats::predict(object, cbind(rows, Q = object$q0))$.pred
  rows$.slope <- rowMeans(slopes)
  rows$.sd <- apply(slopes, 1, stats::sd)
  rows$.elasticity <- rows$.slope * x / central
  rows
}

#' @rdname input_gradients
#' @export
input_gradients.partonfit_training <- function(object, new_data, ..., output = 1) {
  check_dots(...)
  slopes <- slopes_of(training_handle(object), new_data, output)
  aperm(slopes, c(seq_along(dim(slopes))[-1], 1))
}

#' @rdname input_gradients
#' @export
input_gradients.partonfit_surrogate <- function(object, new_data, ..., output = 1) {
  check_dots(...)
  output <- check_whole(output, min = 1)
  if (output > object$n_obs) {
    abort_argument("output", paste("a whole number from 1 to", object$n_obs), output,
      call = rlang::current_env())
  }
  states <- check_states(new_data, object$n_state, "new_data")
  if (!is.matrix(states)) states <- matrix(states, 1)
  chosen <- replace(numeric(object$n_obs), output, 1)
  adjoint(object, states, chosen)
}

slopes_of <- function(source, new_data, output, call = rlang::caller_env()) {
  output <- check_whole(output, "output", min = 1, call = call)
  new_data <- check_arrays(new_data, "new_data", call)
  call_core("model_slopes", source, new_data, output - 1L, .call = call)
}

#' How predictions change with the PDF
#'
#' Derivatives of predictions of a fit with respect to x f of each fitted combination at each point of the
#' theory's grid in x, at the central PDF: what a data point says about which PDF, and where.
#'
#' @param fit A fit made by [fit_pdf()] with tables.
#' @param points Numbers of data points, as rows of `as.data.frame(fit, what = "points")`.
#' @param ... No further arguments; a misspelt one is an error.
#'
#' @return A tibble with one row for each point, combination and x: `point`, `dataset`, `flavour`, `x`,
#'   `slope` (in the units of the data) and `pull`, the slope times x f over the error of the point,
#'   which is without dimension.
#' @section Errors: Points that there are not are errors of class `partonfit_error_argument`; a fit through
#'   an operator, `partonfit_error_setting`: ask the operator's [adjoint()].
#' @examples
#' \dontrun{
#' found <- sensitivity(fit, points = 1:3)
#' found[which.max(abs(found$pull)), ]
#' }
#' @export
sensitivity <- function(fit, points, ...) {
  check_dots(...)
  fit <- check_fit(fit)
  n <- nobs(fit)
  points <- check_numbers(points, min = 1, max = n, must = paste("whole numbers from 1 to", n))
  if (any(points != round(points))) {
    abort_argument("points", paste("whole numbers from 1 to", n), points, call = rlang::current_env())
  }
  points <- as.integer(points)
  answer <- call_core("prediction_slopes", load_in_core(fit), as.list(points - 1L))
  slopes <- as_matrix(answer$slopes)
  x <- as_column(answer$x, "double")
  flavour <- as_column(answer$flavour, "character")
  inside <- x < 1
  central <- numeric(length(x))
  central[inside] <- stats::predict(fit, data.frame(
    x = x[inside], Q = fit$q0, flavour = flavour[inside]
  ))$.pred
  each <- lapply(seq_along(points), function(i) {
    at <- points[[i]]
    tibble::tibble(
      point = at, dataset = fit$points$dataset[[at]], flavour = flavour, x = x, slope = slopes[i, ],
      pull = slopes[i, ] * central / fit$points$error[[at]]
    )
  })
  do.call(rbind, each)
}

#' Value and gradient of a function written with JAX
#'
#' Calls `f` once with arrays of JAX and gives its value and gradient. Inside `f`, use the functions of
#' `reticulate::import("jax.numpy")`, R's arithmetic, wrapped operators, and [model_call()]. An R vector
#' that meets an array of JAX must be an array too: `x - array(y)`.
#'
#' @param f A function of one array of JAX, or of a list of them, that returns one number (a scalar of JAX).
#' @param x Where: a numeric vector, matrix or array, or a list of those.
#' @param ... No further arguments; a misspelt one is an error.
#' @param precision `"float64"` or `"float32"`, that of most Keras models.
#'
#' @return A list with `value`, a number, and `gradient`, of the shape of `x`.
#' @section Errors: An R error inside `f` becomes one of class `partonfit_error_operator` where it
#'   comes from an operator, else of class `partonfit_error_python`.
#' @examples
#' \dontrun{
#' jnp <- reticulate::import("jax.numpy")
#' value_and_grad(function(x) jnp$sum(jnp$sin(x)), c(0, pi / 3))
#' value_and_grad(function(p) jnp$sum(p$a * p$b), list(a = c(1, 2), b = c(3, 4)))
#' }
#' @export
value_and_grad <- function(f, x, ..., precision = c("float64", "float32")) {
  check_dots(...)
  f <- check_function(f)
  precision <- check_choice(precision, c("float64", "float32"))
  at <- check_arrays(x)
  call <- rlang::current_env()
  core(call)
  answer <- tryCatch(call_core("value_and_grad", f, at, precision), partonfit_error_python = function(e) {
    if (!grepl("'list'", conditionMessage(e), fixed = TRUE)) rlang::cnd_signal(e)
    abort_partonfit("python", c(
      "An R vector met an array of JAX inside {.arg f}.",
      i = "Make it an array: {.code x - array(y)}, not {.code x - y}."
    ), call = call)
  })
  list(value = as.double(answer$value), gradient = shaped_like(x, answer$gradient))
}

# Vectors come back as vectors, lists keep their names.
shaped_like <- function(x, gradient) {
  if (is.list(x) && !is.data.frame(x)) {
    parts <- if (is.null(names(x))) seq_along(x) else names(x)
    return(stats::setNames(lapply(parts, function(i) shaped_like(x[[i]], gradient[[i]])), names(x)))
  }
  if (is.null(dim(x))) as.vector(gradient) else gradient
}

#' A Keras model as a function of its weights
#'
#' For training loops of one's own: `model_weights()` gives the trainable weights as arrays of R,
#' `model_call()` the outputs at any weights, inside [value_and_grad()] or `jax$grad()`. The model itself
#' does not change.
#'
#' @param model A Keras model, made with keras3 or reticulate.
#' @param weights A list of arrays in the model's order, of R or of JAX.
#' @param x Inputs, an array of R or of JAX; the first axis is the sample.
#'
#' @return `model_weights()` a list of arrays; `model_call()` an array of JAX.
#' @section Errors: Something else than a Keras model is an error of class `partonfit_error_argument`.
#' @examples
#' \dontrun{
#' keras <- reticulate::import("keras")
#' jnp <- reticulate::import("jax.numpy")
#' model <- keras$Sequential(list(keras$Input(reticulate::tuple(1L)), keras$layers$Dense(1L)))
#' x <- matrix(seq(0, 1, by = 0.1))
#' y <- 3 * x
#' weights <- model_weights(model)
#' for (step in 1:100) {
#'   found <- value_and_grad(
#'     function(w) jnp$mean((model_call(model, w, x) - y)^2), weights, precision = "float32"
#'   )
#'   weights <- Map(function(w, g) w - 0.3 * g, weights, found$gradient)
#' }
#' found$value
#' }
#' @export
model_call <- function(model, weights, x) {
  model <- check_model_object(model)
  if (!is_python(x)) x <- check_arrays(x)
  call_core("call_model", model, weights, x)
}

#' @rdname model_call
#' @export
model_weights <- function(model) {
  model <- check_model_object(model)
  call_core("model_weights", model)
}

check_model_object <- function(model, call = rlang::caller_env()) {
  if (is.null(model)) abort_argument("model", "a Keras model", model, call = call)
  check_keras(model, "model", call)
}
