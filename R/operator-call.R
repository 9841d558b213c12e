# How operators run: their functions on R's main thread, their errors with the name of the function.

# The Python side of an operator, made when it is not there (any more).
operator_handle <- function(op, call) {
  if (inherits(op, "partonfit_surrogate")) {
    return(call_core("surrogate_handle", load_surrogate_in_core(op, call), .call = call))
  }
  if (is_gone(op$cache$handle)) {
    recipe <- op$recipe
    for (kind in intersect(operator_kinds, names(recipe))) {
      if (is.function(recipe[[kind]])) {
        recipe[[kind]] <- for_core(recipe[[kind]], kind, isTRUE(recipe$batched), op$cache)
      }
    }
    op$cache$handle <- call_core("make_operator", recipe, .call = call)
  }
  op$cache$handle
}

operator_kinds <- c("forward", "tangent_linear", "adjoint")

# Python pointers do not survive saveRDS().
is_gone <- function(handle) {
  is.null(handle) || (inherits(handle, "python.builtin.object") && reticulate::py_is_null_xptr(handle))
}

# An R function as the core calls it: plain vectors (or matrices) in, an array of doubles out. What it
# raises is kept in `cache`, since Python hands on no more than the text.
for_core <- function(f, kind, batched, cache) {
  # All of them now: this is called in a loop.
  force(list(f, kind, batched, cache))
  function(...) {
    given <- list(...)
    one <- length(dim(given[[1]])) < 2
    given <- lapply(given, function(a) {
      a <- if (one) as.vector(a) else unname(a)
      if (one && batched) matrix(a, 1) else a
    })
    result <- tryCatch(do.call(f, given), error = function(e) {
      cache$failure <- list(kind = kind, error = e)
      stop(e)
    })
    as_python_result(result, one)
  }
}

as_python_result <- function(result, one) {
  if (is.data.frame(result)) result <- as.matrix(result)
  if (!is.numeric(result) && !is.logical(result)) return(result)
  shape <- dim(result)
  if (is.null(shape) || (one && sum(shape > 1) <= 1)) shape <- length(result)
  array(as.double(result), shape)
}

# call_core() for calls that may run functions of `op`: an error in one comes out as it was.
call_with_operator <- function(op, name, ..., .call = rlang::caller_env()) {
  cache <- if (inherits(op, "partonfit_operator")) op$cache else new.env()
  cache$failure <- NULL
  tryCatch(call_core(name, ..., .call = .call), partonfit_error = function(e) {
    failure <- cache$failure
    if (is.null(failure)) rlang::cnd_signal(e)
    cache$failure <- NULL
    abort_partonfit("operator", "{.arg {failure$kind}} of the operator {.val {op$name}} failed.",
      parent = failure$error, call = .call)
  })
}

#' Call an operator
#'
#' `forward()` gives the observations of states, `tangent_linear()` how they change when the state
#' changes by `dx`, `adjoint()` the gradient of `sum(dy * forward(x))`. They work for operators,
#' wrapped operators and surrogates.
#'
#' @param op An operator made by [operator()] or its kin, wrapped by [wrap_operator()], or a surrogate
#'   made by [fit_surrogate()].
#' @param x A state (a vector), or many: a matrix or data frame with one row for each.
#' @param dx,dy A direction of the state, or a vector of the observations; one for all states, or one
#'   row for each.
#' @param ... No further arguments; a misspelt one is an error.
#'
#' @return A numeric vector for one state, else a matrix with one row for each state.
#' @section Errors: Sizes that do not fit are errors of class `partonfit_error_argument`; an operator
#'   that fails, lacks the derivative or gives values that are not finite, `partonfit_error_operator`.
#' @examples
#' \dontrun{
#' op <- matrix_operator(matrix(1:6, 2))
#' forward(op, c(1, 0, 0))
#' adjoint(op, c(1, 0, 0), dy = c(0, 1))
#' }
#' @export
forward <- function(op, x, ...) {
  check_dots(...)
  run_operator(op, "forward", x)
}

#' @rdname forward
#' @export
tangent_linear <- function(op, x, dx, ...) {
  check_dots(...)
  run_operator(op, "tangent_linear", x, dx = dx)
}

#' @rdname forward
#' @export
adjoint <- function(op, x, dy, ...) {
  check_dots(...)
  run_operator(op, "adjoint", x, dy = dy)
}

run_operator <- function(op, kind, x, dx = NULL, dy = NULL, call = rlang::caller_env()) {
  wrapped <- as_wrapped(op, call)
  if (is_python(x) || is_python(dx) || is_python(dy)) {
    handle <- wrapped_handle(wrapped, call)
    return(do.call(handle$value[[kind]], unname(Filter(Negate(is.null), list(x, dx, dy)))))
  }
  n_state <- wrapped$operator$n_state
  arguments <- list(check_states(x, n_state, "x", call))
  if (!is.null(dx)) arguments <- c(arguments, list(check_states(dx, n_state, "dx", call)))
  if (!is.null(dy)) arguments <- c(arguments, list(check_states(dy, wrapped$operator$n_obs, "dy", call)))
  ask_wrapped(wrapped, kind, arguments, call)
}

ask_wrapped <- function(wrapped, kind, arguments, call) {
  arrays <- lapply(arguments, function(a) if (is.matrix(a)) a else array(a))
  answer <- do.call(call_with_operator, c(
    list(wrapped$operator, "apply_operator", wrapped_handle(wrapped, call), kind), arrays, list(.call = call)
  ))
  if (any(vapply(arguments, is.matrix, NA))) as_matrix(answer) else as.vector(answer)
}

is_python <- function(x) inherits(x, "python.builtin.object")
