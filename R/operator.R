#' Observation operators
#'
#' An observation operator takes a state to what is observed, and knows its two derivatives: the tangent
#' linear (a change of the state to a change of the observations) and the adjoint (its transpose, which
#' gives gradients). `operator()` makes one from three R functions. [check_operator()] says whether they
#' belong together, [wrap_operator()] makes them a function that JAX differentiates, and
#' [fit_surrogate()] trains a fast network in their place.
#'
#' R runs on one thread, so functions written in R are called on R's main thread only: directly, in
#' gradients taken with [value_and_grad()], and for the design points of a surrogate, which are all
#' asked for before its training starts. A compiled program that calls one from a thread of its own is
#' refused.
#'
#' @param forward `function(x)`: observations (`n_obs` numbers) of a state (a vector of `n_state`
#'   numbers). Names and the shape of a one-column matrix, as `M %*% x` returns, do no harm.
#' @param tangent_linear `function(x, dx)`: change of the observations at the state `x` for a change
#'   `dx` of the state. May be left out: gradients do not need it.
#' @param adjoint `function(x, dy)`: the gradient (`n_state` numbers) of `sum(dy * forward(x))`. May be
#'   left out: the tangent linear does not need it.
#' @param n_state,n_obs Sizes, whole numbers.
#' @param ... No further arguments; a misspelt one is an error.
#' @param batched `TRUE` when the functions take and return matrices with one row for each state; one
#'   call then does the work of many.
#' @param linear `TRUE` when the derivatives do not depend on the state.
#' @param key A text that identifies the operator and all its settings; needed to keep results on disk.
#' @param name What messages call it.
#'
#' @return An object of class `partonfit_operator`.
#' @section Errors: Wrong arguments are errors of class `partonfit_error_argument`. An error in one of
#'   the functions becomes one of class `partonfit_error_operator` that says which function failed, with
#'   the original as its parent; so do results of the wrong size, and values that are not finite.
#' @examples
#' op <- operator(
#'   forward = function(x) x[1:2]^2,
#'   tangent_linear = function(x, dx) 2 * x[1:2] * dx[1:2],
#'   adjoint = function(x, dy) c(2 * x[1:2] * dy, 0),
#'   n_state = 3, n_obs = 2, name = "first two squared"
#' )
#' op
#' @seealso [transport_model()], [matrix_operator()], [theory_operator()] and
#'   [finite_difference_operator()] make others; [forward()] calls them.
#' @export
operator <- function(forward, tangent_linear = NULL, adjoint = NULL, n_state, n_obs, ...,
                     batched = FALSE, linear = FALSE, key = NULL, name = "operator") {
  check_dots(...)
  if (missing(forward) || missing(n_state) || missing(n_obs)) {
    abort_partonfit("argument", c(
      "{.arg forward}, {.arg n_state} and {.arg n_obs} must be given.",
      i = "{.arg n_state} is the length of the state, {.arg n_obs} that of what {.arg forward} returns."
    ))
  }
  new_operator(
    list(
      kind = "functions",
      forward = check_function(forward),
      tangent_linear = if (!is.null(tangent_linear)) check_function(tangent_linear),
      adjoint = if (!is.null(adjoint)) check_function(adjoint),
      n_state = check_whole(n_state, min = 1),
      n_obs = check_whole(n_obs, min = 1),
      batched = check_flag(batched),
      linear = check_flag(linear),
      key = if (!is.null(key)) check_string(key),
      name = check_string(name)
    )
  )
}

#' Operators from a model, a matrix, tables or a forward function alone
#'
#' * `transport_model()`: emissions on a grid, carried by winds, spread, and measured at stations, with
#'   its exact adjoint; something realistic to try things on.
#' * `matrix_operator()`: H x + offset.
#' * `theory_operator()`: from PDFs on the grid of the theory to the predictions for the data.
#' * `finite_difference_operator()`: derivatives by central differences of `forward`; slow, since one
#'   adjoint costs 2 `n_state` calls.
#'
#' @param nx,ny Cells of the grid; the state has `nx * ny` elements.
#' @param ... No further arguments; a misspelt one is an error.
#' @param stations,times There are `stations * times` observations.
#' @param steps Time steps between two measurements.
#' @param wind,diffusion Largest wind \[cells per step\] and diffusion \[cells^2 per step\].
#' @param loss,saturation Rate of the reaction, and the concentration at which a station shows half;
#'   with `0` and `Inf` the model is linear.
#' @param seed Of winds and stations.
#' @param matrix A numeric matrix, one row for each observation.
#' @param offset Numbers added to the observations, or `NULL`.
#' @param key,name As in [operator()].
#' @param data,theory As in [fit_pdf()].
#' @param basis `"evolution"` or `"fitted"`: what a state is made of.
#' @param forward,n_state,n_obs As in [operator()].
#' @param step Step of the differences, relative to the size of an element.
#'
#' @return An object of class `partonfit_operator`.
#' @section Errors: Wrong arguments are errors of class `partonfit_error_argument`; without Python,
#'   `transport_model()` and `theory_operator()` end with one of class `partonfit_error_python`.
#' @examples
#' matrix_operator(matrix(1:6, 2))
#' \dontrun{
#' transport_model(nx = 12, ny = 10)
#' }
#' @export
transport_model <- function(nx = 50, ny = 40, ..., stations = 20, times = 5, steps = 8, wind = 0.3,
                            diffusion = 0.05, loss = 0.05, saturation = 2, seed = 0) {
  check_dots(...)
  if (!identical(saturation, Inf)) saturation <- check_number(saturation, above = 0)
  recipe <- list(
    kind = "transport", nx = check_whole(nx, min = 1), ny = check_whole(ny, min = 1),
    stations = check_whole(stations, min = 1), times = check_whole(times, min = 1),
    steps = check_whole(steps, min = 1), wind = check_number(wind, min = 0),
    diffusion = check_number(diffusion, min = 0), loss = check_number(loss, min = 0),
    saturation = saturation, seed = check_whole(seed)
  )
  from_core(recipe, rlang::current_env())
}

#' @rdname transport_model
#' @export
matrix_operator <- function(matrix, ..., offset = NULL, key = NULL, name = "matrix") {
  check_dots(...)
  if (!is.matrix(matrix) || !is.numeric(matrix) || !length(matrix)) {
    abort_argument("matrix", "a numeric matrix with one row for each observation", matrix,
      call = rlang::current_env())
  }
  check_numbers(matrix, must = "finite numbers")
  if (!is.null(offset)) offset <- check_vector(offset, nrow(matrix))
  new_operator(list(
    kind = "matrix", matrix = unname(matrix + 0), offset = offset, n_state = ncol(matrix),
    n_obs = nrow(matrix), linear = TRUE, key = if (!is.null(key)) check_string(key),
    name = check_string(name)
  ))
}

#' @rdname transport_model
#' @export
theory_operator <- function(data = "hera", theory = "hera", ..., basis = c("evolution", "fitted")) {
  check_dots(...)
  data <- as_pdf_data(data)
  from_core(list(
    kind = "theory", data = as_python_entries(data$entries), cuts = choice_for_core(data),
    theory = check_string(theory), basis = check_choice(basis, c("evolution", "fitted"))
  ), rlang::current_env())
}

#' @rdname transport_model
#' @export
finite_difference_operator <- function(forward, n_state, n_obs, ..., step = 1e-6, key = NULL,
                                       name = "finite differences") {
  check_dots(...)
  new_operator(list(
    kind = "functions", differences = TRUE, forward = check_function(forward),
    n_state = check_whole(n_state, min = 1), n_obs = check_whole(n_obs, min = 1),
    step = check_number(step, above = 0), key = if (!is.null(key)) check_string(key),
    name = check_string(name)
  ))
}

# A recipe that Python can follow, the sizes, and a place for what lives in Python, which is made again
# when it is gone (after readRDS(), in another session).
new_operator <- function(recipe, facts = recipe) {
  lacks <- if (is.null(facts$lacks) && recipe$kind == "functions" && is.null(recipe$differences)) {
    c("tangent linear", "adjoint")[c(is.null(recipe$tangent_linear), is.null(recipe$adjoint))]
  }
  structure(
    list(
      recipe = recipe, n_state = as.integer(facts$n_state), n_obs = as.integer(facts$n_obs),
      name = facts$name, linear = isTRUE(facts$linear), batched = isTRUE(facts$batched),
      lacks = as.character(lacks), cache = new.env(parent = emptyenv())
    ),
    class = "partonfit_operator"
  )
}

# The sizes of these are known to the core only.
from_core <- function(recipe, call) {
  force(recipe)
  handle <- call_core("make_operator", recipe, .call = call)
  facts <- call_core("operator_facts", handle, .call = call)
  facts$lacks <- character()
  op <- new_operator(recipe, facts)
  op$cache$handle <- handle
  op
}

#' @export
print.partonfit_operator <- function(x, ...) {
  offers <- c(
    if (length(x$lacks)) paste("no", paste(x$lacks, collapse = " and no ")),
    if (x$linear) "linear", if (x$batched) "takes many states at once"
  )
  cat_text(
    "Operator '{x$name}': {x$n_state} -> {x$n_obs}{if (length(offers)) ', '}{paste(offers, collapse = ', ')}",
    "Next: check_operator(op), wrap_operator(op), fit_surrogate(op, states = )"
  )
  invisible(x)
}

check_operator_class <- function(op, arg = rlang::caller_arg(op), call = rlang::caller_env()) {
  if (!inherits(op, c("partonfit_operator", "partonfit_surrogate"))) {
    abort_argument(arg, "an operator made by {.fn operator}", op, call = call)
  }
  op
}

check_function <- function(value, arg = rlang::caller_arg(value), call = rlang::caller_env()) {
  if (!is.function(value)) abort_argument(arg, "a function", value, call = call)
  value
}

# `size` finite numbers.
check_vector <- function(value, size, arg = rlang::caller_arg(value), call = rlang::caller_env()) {
  force(arg)
  must <- paste(size, "finite numbers")
  value <- check_numbers(value, arg, must = must, call = call)
  if (length(value) != size) abort_argument(arg, must, value, call = call)
  value
}

# One state or more: a vector, or a matrix or data frame with one row for each. Keeps which it was.
check_states <- function(value, size, arg = rlang::caller_arg(value), call = rlang::caller_env()) {
  force(arg)
  if (is.data.frame(value)) value <- as.matrix(value)
  if (!is.matrix(value)) return(check_vector(value, size, arg, call))
  must <- paste("finite numbers in", size, "columns, one row for each state")
  check_numbers(value, arg, must = must, call = call)
  if (ncol(value) != size) {
    abort_partonfit("argument", c(
      "{.arg {arg}} must be {must}.",
      x = "It has {nrow(value)} row{?s} and {ncol(value)} column{?s}."
    ), arg = arg, call = call)
  }
  unname(value + 0)
}
