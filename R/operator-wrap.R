#' An operator as a function that JAX differentiates
#'
#' The result is called like a function, with a state or a matrix of states. Given arrays of JAX
#' instead, as inside [value_and_grad()] or `jax$grad()`, it gives arrays of JAX and hands on the
#' operator's own derivatives, with one forward and one adjoint call for a gradient.
#'
#' An operator made of R functions runs on R's main thread. A compiled program (`jax$jit()`) that calls
#' it from another thread, which is up to JAX, is refused with an error.
#'
#' @param op An operator made by [operator()] or its kin, or a surrogate.
#' @param ... No further arguments; a misspelt one is an error.
#' @param mode `"forward"`: the result is called with states, `H(x)`. `"tangent_linear"`: with
#'   `H(x, dx)`, or with `H(dx)` when `at` fixes the state.
#' @param at The fixed state of mode `"tangent_linear"`, or `NULL`.
#' @param reload_results `TRUE` keeps results on disk and takes them from there; a path names the
#'   folder. The operator needs a `key`.
#' @param nonfinite `"raise"`: a value that is not finite is an error; `"nan"`: it is passed on.
#'
#' @return A function of class `wrapped_operator`. `calls(H)` says how often the operator was called.
#' @section Errors: Those of [operator()].
#' @examples
#' \dontrun{
#' op <- operator(
#'   forward = function(x) x^2, tangent_linear = function(x, dx) 2 * x * dx,
#'   adjoint = function(x, dy) 2 * x * dy, n_state = 3, n_obs = 3
#' )
#' H <- wrap_operator(op)
#' H(c(1, 2, 3))
#' jnp <- reticulate::import("jax.numpy")
#' value_and_grad(function(x) jnp$sum((H(x) - array(c(1, 1, 1)))^2), c(1, 2, 3))
#' calls(H)
#' }
#' @export
wrap_operator <- function(op, ..., mode = c("forward", "tangent_linear"), at = NULL,
                          reload_results = FALSE, nonfinite = c("raise", "nan")) {
  check_dots(...)
  op <- check_operator_class(op)
  mode <- check_choice(mode, c("forward", "tangent_linear"))
  if (!is.null(at)) at <- check_vector(at, op$n_state)
  reload_results <- check_reload(reload_results)
  new_wrapped(op, mode, at, reload_results, check_choice(nonfinite, c("raise", "nan")))
}

check_reload <- function(value, arg = rlang::caller_arg(value), call = rlang::caller_env()) {
  force(arg)
  if (is.character(value)) return(check_writable(value, arg, call))
  check_flag(value, arg, call)
}

new_wrapped <- function(op, mode, at, reload_results, nonfinite) {
  parts <- list(
    operator = op, mode = mode, at = at, reload_results = reload_results, nonfinite = nonfinite,
    cache = new.env(parent = emptyenv())
  )
  body <- if (mode == "forward") {
    function(x) call_wrapped(parts, list(x = x))
  } else if (is.null(at)) {
    function(x, dx) call_wrapped(parts, list(x = x, dx = dx))
  } else {
    function(dx) call_wrapped(parts, list(dx = dx))
  }
  structure(body, class = c("wrapped_operator", "function"), parts = parts)
}

call_wrapped <- function(parts, arguments, call = rlang::caller_env()) {
  if (any(vapply(arguments, is_python, NA))) {
    return(do.call(wrapped_handle(parts, call)$value, unname(arguments)))
  }
  for (name in names(arguments)) {
    arguments[[name]] <- check_states(arguments[[name]], parts$operator$n_state, name, call)
  }
  ask_wrapped(parts, "call", unname(arguments), call)
}

# The parts of a wrapped operator; an operator is wrapped for the moment, and kept wrapped.
as_wrapped <- function(op, call) {
  if (inherits(op, "wrapped_operator")) return(attr(op, "parts"))
  check_operator_class(op, "op", call)
  if (inherits(op, "partonfit_surrogate")) {
    return(attr(new_wrapped(op, "forward", NULL, FALSE, "raise"), "parts"))
  }
  if (is.null(op$cache$wrapped)) {
    op$cache$wrapped <- attr(new_wrapped(op, "forward", NULL, FALSE, "raise"), "parts")
    op$cache$wrapped$operator <- op
  }
  op$cache$wrapped
}

wrapped_handle <- function(parts, call) {
  if (is_gone(parts$cache$handle)) {
    parts$cache$handle <- call_core(
      "wrap_operator", operator_handle(parts$operator, call), parts$mode,
      if (!is.null(parts$at)) as_python_numbers(parts$at), parts$reload_results, parts$nonfinite,
      .call = call
    )
  }
  parts$cache$handle
}

#' @export
print.wrapped_operator <- function(x, ...) {
  parts <- attr(x, "parts")
  arguments <- paste(names(formals(x)), collapse = ", ")
  cat_text(
    "Wrapped operator '{parts$operator$name}': {parts$operator$n_state} -> {parts$operator$n_obs}",
    "Call it as H({arguments}), with numbers or with arrays of JAX; calls(H) counts"
  )
  invisible(x)
}

#' @rdname wrap_operator
#' @param object A wrapped operator.
#' @export
calls <- function(object) {
  if (!inherits(object, "wrapped_operator")) {
    abort_argument("object", "made by {.fn wrap_operator}", object, call = rlang::current_env())
  }
  counts <- call_core("operator_calls", wrapped_handle(attr(object, "parts"), rlang::current_env()))
  vapply(counts, as.integer, 1L)
}
