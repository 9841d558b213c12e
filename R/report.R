#' Report of a fit or a comparison as one HTML page
#'
#' Writes a self-contained page (no other files, no network) with the summary, the chi2 of every
#' dataset, PDFs, data against theory, the training and the complete settings; for a comparison with
#' distances, chi2 and ratios.
#'
#' @param fit A fit made by [fit_pdf()], or a comparison made by [compare()].
#' @param file The file to write, ending in `.html`.
#' @param ... No further arguments; a misspelt one is an error.
#'
#' @return The path of the file, invisibly.
#' @section Errors: A file that cannot be written is an error of class `partonfit_error_storage`,
#'   raised before any work.
#' @examples
#' \dontrun{
#' report(fit, "fit.html")
#' }
#' @export
report <- function(fit, file, ...) {
  check_dots(...)
  both <- inherits(fit, "fit_comparison")
  if (!both) fit <- check_fit(fit)
  file <- check_writable(file)
  if (both) {
    parts <- comparison_for_core(fit$fits[[1]], fit$fits[[2]], fit$asked)
    return(invisible(as_text(do.call(call_core, c(list("report_comparison"), parts, list(file))))))
  }
  invisible(as_text(call_core("report", load_in_core(fit), file)))
}
