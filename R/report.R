#' Report of a fit as one HTML page
#'
#' Writes a self-contained page (no other files, no network) with the summary, the chi2 of every
#' dataset, PDFs, data against theory, the training and the complete settings.
#'
#' @param fit A fit made by [fit_pdf()].
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
  fit <- check_fit(fit)
  file <- check_writable(file)
  invisible(as_text(call_core("report", load_in_core(fit), file)))
}
