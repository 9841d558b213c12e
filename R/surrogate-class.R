# The surrogate: plain R values only, like a fit. Change `surrogate_version` with the fields.

surrogate_version <- 1L

new_surrogate <- function(parts) {
  structure(
    list(
      format_version = surrogate_version,
      id = as_text(parts$id), state = as.raw(parts$state), name = as_text(parts$name),
      n_state = as.integer(parts$n_state), n_obs = as.integer(parts$n_obs),
      n_members = as.integer(parts$n_members), seed = as.integer(parts$seed),
      settings = as_text(parts$settings), statuses = as_column(parts$statuses, "character"),
      errors = as_table(parts$errors, c(what = "character", error = "double")),
      observation_errors = as.double(parts$observation_errors),
      calls = vapply(parts$calls, as.integer, 1L),
      history = as_table(parts$history,
        c(member = "integer", epoch = "integer", loss = "double", validation = "double"))
    ),
    class = "partonfit_surrogate"
  )
}

check_surrogate <- function(object, arg = rlang::caller_arg(object), call = rlang::caller_env()) {
  force(arg)
  if (!inherits(object, "partonfit_surrogate")) {
    abort_argument(arg, "a surrogate made by {.fn fit_surrogate}", object, call = call)
  }
  if (object$format_version > surrogate_version) {
    abort_partonfit("storage", c(
      "This surrogate was saved by a newer version of partonfit.", i = "Update the package."
    ), call = call)
  }
  object
}

load_surrogate_in_core <- function(object, call = rlang::caller_env()) {
  object <- check_surrogate(object, "object", call)
  if (!isTRUE(call_core("is_surrogate_loaded", object$id, .call = call))) {
    call_core("load_surrogate_state", object$id, as_python_bytes(object$state), .call = call)
  }
  object$id
}

#' @export
print.partonfit_surrogate <- function(x, ...) {
  errors <- paste(gsub("_", " ", x$errors$what), signif(x$errors$error, 2), collapse = ", ")
  asked <- x$calls[x$calls > 0]
  cat_text(
    paste0(
      "{toupper(substr(x$name, 1, 1))}{substring(x$name, 2)}: ",
      "{x$n_state} -> {x$n_obs}, {x$n_members} member{?s}"
    ),
    "Errors on held-out states: {errors}",
    "Calls of the operator: {paste(asked, gsub('_', ' ', names(asked)), collapse = ', ')}",
    "Next: predict(sur, states), adjoint(sur, x, dy), check_operator(sur), export_onnx(sur, \"file.onnx\")"
  )
  invisible(x)
}

#' Predict with a surrogate
#'
#' @param object,x A surrogate made by [fit_surrogate()].
#' @param new_data States: a matrix or data frame with one row for each, or one state as a vector.
#' @param ... No further arguments; a misspelt one is an error.
#' @param type `"response"` for the mean over the members, `"sd"` for their standard deviation (`NaN`
#'   for one member), `"members"` for every member.
#'
#' @return A matrix with one row for each state and one column for each observation; for `"members"` an
#'   array with a third dimension for the member.
#' @section Errors: States of the wrong size or with missing values are errors of class
#'   `partonfit_error_argument`.
#' @examples
#' \dontrun{
#' predict(sur, states)
#' }
#' @export
predict.partonfit_surrogate <- function(object, new_data, ..., type = c("response", "sd", "members")) {
  check_dots(...)
  type <- check_choice(type, c("response", "sd", "members"))
  new_data <- check_states(new_data, check_surrogate(object)$n_state)
  if (!is.matrix(new_data)) new_data <- matrix(new_data, 1)
  answer <- call_core("predict_surrogate", load_surrogate_in_core(object), new_data)
  switch(type,
    response = as_matrix(answer$mean),
    sd = as_matrix(answer$sd),
    members = aperm(answer$members, c(2, 3, 1))
  )
}

#' @rdname predict.partonfit_surrogate
#' @param row.names,optional As in [as.data.frame()]; not used.
#' @param what `"history"` (`member`, `epoch`, `loss`, `validation`), `"errors"` (`what`, `error`) or
#'   `"observations"` (`observation`, `error`).
#' @export
as.data.frame.partonfit_surrogate <- function(x, row.names = NULL, optional = FALSE, ...,
                                              what = c("history", "errors", "observations")) {
  check_dots(...)
  what <- check_choice(what, c("history", "errors", "observations"))
  if (what != "observations") return(as.data.frame(x[[what]]))
  data.frame(observation = seq_len(x$n_obs), error = x$observation_errors)
}

#' Keep a surrogate in a file
#'
#' `save_surrogate()` writes a file that Python's `partonfit.load_surrogate()` reads too;
#' `load_surrogate()` reads it, wherever it was made. Within R, [saveRDS()] does as well.
#'
#' @param surrogate A surrogate made by [fit_surrogate()].
#' @param file Path of the file.
#' @param ... No further arguments; a misspelt one is an error.
#' @param overwrite `TRUE` to replace a file that exists.
#'
#' @return `save_surrogate()` the path, invisibly; `load_surrogate()` the surrogate.
#' @section Errors: A file that cannot be written, exists already, or holds no surrogate is an error of
#'   class `partonfit_error_storage`.
#' @examples
#' \dontrun{
#' save_surrogate(sur, "surrogate.npz")
#' load_surrogate("surrogate.npz")
#' }
#' @export
save_surrogate <- function(surrogate, file, ..., overwrite = FALSE) {
  check_dots(...)
  surrogate <- check_surrogate(surrogate)
  file <- check_writable(file)
  overwrite <- check_flag(overwrite)
  invisible(as_text(call_core("save_surrogate", load_surrogate_in_core(surrogate), file, overwrite)))
}

#' @rdname save_surrogate
#' @export
load_surrogate <- function(file) {
  file <- path.expand(check_string(file))
  new_surrogate(call_core("read_surrogate", file))
}
