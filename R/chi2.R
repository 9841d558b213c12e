#' Agreement with the data
#'
#' The chi2 of the central PDF (the mean of the kept replicas) with the data of the fit, for each
#' dataset and in total. Needs no Python.
#'
#' The total is not the sum of the rows: uncertainties that datasets share are counted once. With
#' `covariance = "experimental"` multiplicative uncertainties are relative to the measured values,
#' which is the definition to quote; with `"t0"` they are relative to the predictions of the t0 PDF,
#' which is what the fit minimises.
#'
#' @param object A fit made by [fit_pdf()].
#' @param ... No further arguments; a misspelt one is an error.
#' @param covariance `"experimental"` or `"t0"`.
#'
#' @return A tibble with one row per dataset and the row `"Total"`: `dataset`, `n_data`, `chi2` and
#'   `chi2_per_point`.
#' @section Errors: Another object than a fit is an error of class `partonfit_error_argument`.
#' @examples
#' \dontrun{
#' chi2(fit)
#' }
#' @export
chi2 <- function(object, ...) UseMethod("chi2")

#' @export
chi2.default <- function(object, ...) {
  abort_argument("object", "a fit made by {.fn fit_pdf}", object, call = rlang::caller_env())
}

#' @rdname chi2
#' @export
chi2.pdf_fit <- function(object, ..., covariance = c("experimental", "t0")) {
  check_dots(...)
  object <- upgrade_fit(object)
  covariance <- check_choice(covariance, c("experimental", "t0"))
  rows <- object$chi2[object$chi2$covariance == covariance, c("dataset", "n_data", "chi2")]
  rows$chi2_per_point <- rows$chi2 / rows$n_data
  rows
}
