#' Write a fit as an LHAPDF set
#'
#' Writes a folder with an `.info` file and one grid file per member, in the form LHAPDF reads:
#' member 0 is the mean over the kept replicas, the others are the replicas, all evolved in Q.
#'
#' @param fit A fit made by [fit_pdf()].
#' @param path The folder to write; its last part is the name of the set. It must not exist, or be
#'   empty.
#' @param ... No further arguments; a misspelt one is an error.
#'
#' @return The path of the folder, invisibly.
#' @section Errors: A folder that cannot be written is an error of class `partonfit_error_storage`,
#'   raised before any work; nothing half-written is left behind.
#' @examples
#' \dontrun{
#' write_lhapdf(fit, "myset")
#' }
#' @export
write_lhapdf <- function(fit, path, ...) {
  check_dots(...)
  fit <- check_fit(fit)
  path <- check_writable(path)
  invisible(as_text(call_core("write_lhapdf", load_in_core(fit), path)))
}
