#' Train a network to stand for an operator
#'
#' Asks the operator for values, and for derivatives along random directions where the loss wants them,
#' at all states first; then trains one network or an ensemble. The result predicts in microseconds
#' what the operator takes long for, has its own exact derivatives, and is an operator itself: it goes
#' into [check_operator()], [wrap_operator()], [forward()], [tangent_linear()] and [adjoint()].
#'
#' Part of the states is held out to decide when to stop, another part only to measure the errors that
#' the result reports.
#'
#' @param op An operator made by [operator()] or its kin.
#' @param states States to learn from: a matrix or data frame with one row for each, or a function of a
#'   number `n` that gives `n` such rows, drawn with R's random numbers.
#' @param ... No further arguments; a misspelt one is an error.
#' @param samples How many states to draw with the function, or how many of the given ones to take.
#' @param loss What to match, by [surrogate_loss()]; `NULL` for the values only.
#' @param model A Keras model (made with keras3 or reticulate) from scaled states to scaled
#'   observations; `NULL` for the default: `hidden` layers beside a linear path.
#' @param hidden Widths of the hidden layers, whole numbers.
#' @param members Networks in the ensemble; their spread is the uncertainty of a prediction.
#' @param validation,test Shares of the states that decide when to stop, and that only measure errors.
#' @param epochs Passes over the states; `NULL`: as many as make 20000 updates, and at least 100.
#'   Derivatives are learnt long after values.
#' @param batch_size,patience States in one step (`NULL` for all), and passes without improvement after
#'   which to stop (`NULL` for never); the best weights by validation are kept in any case.
#' @param optimizer A Keras optimizer (made with keras3 or reticulate) or its name; `NULL`: Adam with a
#'   rate that falls from 3e-3 to zero along a cosine.
#' @param seed A whole number; `NULL` draws one from R's random numbers, as in [fit_pdf()].
#' @param callbacks As in [fit_pdf()].
#' @param reload_results As in [wrap_operator()].
#' @param verbose Show progress? `NULL` means: in an interactive session.
#'
#' @return An object of class `partonfit_surrogate`, plain R values that survive [saveRDS()]: `errors`
#'   (a tibble: on held-out states, `values` is the error over the standard deviation,
#'   `tangent_linear` and `adjoint` the relative errors of the derivatives, `spread` the standard
#'   deviation of the members over the error), `observation_errors` (one for each observation),
#'   `history` (a tibble), `calls` (how often the operator was called), `n_state`, `n_obs`,
#'   `n_members`, `seed`.
#' @section Errors: Wrong arguments are errors of class `partonfit_error_argument`; an operator that
#'   fails, lacks a derivative or gives values that are not finite, `partonfit_error_operator`; a
#'   training without a usable network, `partonfit_error_fit`.
#' @examples
#' \dontrun{
#' op <- operator(
#'   forward = function(x) x[1:2]^2, tangent_linear = function(x, dx) 2 * x[1:2] * dx[1:2],
#'   adjoint = function(x, dy) c(2 * x[1:2] * dy, 0), n_state = 3, n_obs = 2
#' )
#' states <- matrix(rnorm(300), 100)
#' sur <- fit_surrogate(op, states, loss = surrogate_loss(adjoint = 0.5), epochs = 200, seed = 1)
#' sur
#' predict(sur, rbind(c(1, 2, 3)))
#' }
#' @seealso [predict.partonfit_surrogate()], [export_onnx()]
#' @export
fit_surrogate <- function(op, states, ..., samples = NULL, loss = NULL, model = NULL,
                          hidden = c(64, 64), members = 1, validation = 0.15, test = 0.15,
                          epochs = NULL, batch_size = 32, patience = NULL, optimizer = NULL,
                          seed = NULL, callbacks = NULL, reload_results = FALSE, verbose = NULL) {
  check_dots(...)
  op <- check_operator_class(op)
  if (!is.null(samples)) samples <- check_whole(samples, min = 4)
  settings <- list(
    hidden = as.list(check_wholes(hidden)), members = check_whole(members, min = 1),
    validation = check_number(validation, above = 0, max = 0.9),
    test = check_number(test, above = 0, max = 0.9),
    epochs = if (!is.null(epochs)) check_whole(epochs, min = 1),
    batch_size = if (!is.null(batch_size)) check_whole(batch_size, min = 1),
    patience = if (!is.null(patience)) check_whole(patience, min = 1),
    reload_results = check_reload(reload_results), callbacks = check_callbacks(callbacks),
    optimizer = if (!is.null(optimizer)) check_optimizer(optimizer)
  )
  loss <- check_loss(loss)
  network <- check_keras(model)
  verbose <- wants_progress(verbose)
  states <- check_design_states(states, samples, op$n_state)
  settings$seed <- check_seed(seed)
  call <- rlang::current_env()
  if (!is.null(network)) network <- keras_text(network, call)
  the$compiled <- TRUE
  parts <- call_with_operator(
    op, "fit_surrogate", operator_handle(op, call), states, loss, network, settings,
    progress = progress_callback(verbose), .call = call
  )
  new_surrogate(parts)
}

#' What a surrogate is to match
#'
#' All three parts are relative: a network that gives a constant has 1 in the first, one with vanishing
#' derivatives 1 in the other two.
#'
#' @param values Weight of the observations, above 0.
#' @param tangent_linear Weight of the tangent linear along random directions; good where there are more
#'   observations than states.
#' @param adjoint Weight of the adjoint; the better one where the state is larger.
#' @param ... No further arguments; a misspelt one is an error.
#' @param probes Directions for each state that the operator is asked for.
#' @param mixed Directions for each state and step of the training: random combinations of the `probes`.
#'
#' @return A list of class `surrogate_loss`.
#' @section Errors: A wrong value is an error of class `partonfit_error_argument`.
#' @examples
#' surrogate_loss(adjoint = 0.5)
#' @export
surrogate_loss <- function(values = 1, tangent_linear = 0, adjoint = 0, ..., probes = 4, mixed = 1) {
  check_dots(...)
  structure(
    list(
      values = check_number(values, above = 0), tangent_linear = check_number(tangent_linear, min = 0),
      adjoint = check_number(adjoint, min = 0), probes = check_whole(probes, min = 1),
      mixed = check_whole(mixed, min = 1)
    ),
    class = "surrogate_loss"
  )
}

#' @export
print.surrogate_loss <- function(x, ...) {
  weights <- unlist(x[c("values", "tangent_linear", "adjoint")])
  weights <- weights[weights > 0]
  parts <- paste(format(weights), gsub("_", " ", names(weights)), collapse = " + ")
  cat_text(paste("Loss of a surrogate:", parts))
  if (length(weights) > 1) {
    cat_text("{x$probes} direction{?s} for each state, {x$mixed} combination{?s} for each step")
  }
  invisible(x)
}

check_loss <- function(loss, call = rlang::caller_env()) {
  loss <- loss %||% surrogate_loss()
  if (!inherits(loss, "surrogate_loss")) {
    abort_argument("loss", "made by {.fn surrogate_loss}", loss, call = call)
  }
  unclass(loss)
}

check_wholes <- function(value, arg = rlang::caller_arg(value), call = rlang::caller_env()) {
  force(arg)
  if (!is.numeric(value) || !length(value)) {
    abort_argument(arg, "whole numbers, one for each hidden layer", value, call = call)
  }
  vapply(value, check_whole, 1L, arg = arg, min = 1, call = call)
}

check_design_states <- function(states, samples, n_state, call = rlang::caller_env()) {
  if (is.function(states)) {
    if (is.null(samples)) {
      abort_partonfit("argument", c(
        "{.arg samples} must say how many states to draw when {.arg states} is a function."
      ), arg = "samples", call = call)
    }
    states <- states(samples)
  }
  if (!is.matrix(states) && !is.data.frame(states)) {
    abort_argument("states", paste("a matrix with", n_state, "columns, one row for each state"), states,
      call = call)
  }
  states <- check_states(states, n_state, "states", call)
  if (nrow(states) < max(4L, samples)) {
    abort_partonfit("argument", c(
      "{.arg states} must have at least {max(4L, samples)} rows.", x = "It has {nrow(states)}."
    ), arg = "states", call = call)
  }
  if (is.null(samples)) states else states[seq_len(samples), , drop = FALSE]
}
