#' Export a surrogate for programs without R, Python or JAX
#'
#' `export_onnx()` writes ONNX, `export_stablehlo()` the form of `jax.export`. Each part is a model of
#' its own, in physical units and for any number of states at once: the forward model in `file`, the
#' derivatives beside it in `<name>_tangent_linear` and `<name>_adjoint`. Every part is run before it is
#' written and must agree with the surrogate to 1e-5.
#'
#' @param surrogate A surrogate made by [fit_surrogate()].
#' @param file Path of the forward part, ending in `.onnx` or `.stablehlo`.
#' @param ... No further arguments; a misspelt one is an error.
#' @param parts Of `"forward"`, `"tangent_linear"` and `"adjoint"`; one that cannot be right is then an
#'   error. `NULL`: the forward part, and the derivatives where they can be exported.
#' @param overwrite `TRUE` to replace files that exist.
#'
#' @return A tibble, invisibly: `part`, `file`, `error` (the largest relative disagreement measured). Parts
#'   that were left out are said in a message with the reason.
#' @section Errors: A part that cannot be right is an error of class `partonfit_error_operator`; a file
#'   that cannot be written, `partonfit_error_storage`; libraries that are missing in Python,
#'   `partonfit_error_dependency`.
#' @examples
#' \dontrun{
#' export_onnx(sur, "surrogate.onnx")
#' }
#' @export
export_onnx <- function(surrogate, file, ..., parts = NULL, overwrite = FALSE) {
  check_dots(...)
  export_surrogate(surrogate, file, parts, overwrite, "onnx", rlang::current_env())
}

#' @rdname export_onnx
#' @export
export_stablehlo <- function(surrogate, file, ..., parts = NULL, overwrite = FALSE) {
  check_dots(...)
  export_surrogate(surrogate, file, parts, overwrite, "stablehlo", rlang::current_env())
}

export_surrogate <- function(surrogate, file, parts, overwrite, form, call) {
  surrogate <- check_surrogate(surrogate, call = call)
  file <- check_writable(file, call = call)
  overwrite <- check_flag(overwrite, call = call)
  if (!is.null(parts)) {
    for (part in parts) check_choice(part, operator_kinds, "parts", call)
    parts <- as_python_strings(parts)
  }
  id <- load_surrogate_in_core(surrogate, call)
  found <- call_core("export_surrogate", id, file, parts, overwrite, form, .call = call)
  refused <- as_table(found$refused, c(part = "character", reason = "character"))
  for (i in seq_len(nrow(refused))) {
    cli::cli_inform(c("!" = "Without {refused$part[[i]]}: {refused$reason[[i]]}"))
  }
  invisible(as_table(found$written, c(part = "character", file = "character", error = "double")))
}
