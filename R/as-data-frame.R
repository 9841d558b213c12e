#' Tables of a fit
#'
#' The plain tables inside a fit, as data frames. Needs no Python.
#'
#' @param x A fit made by [fit_pdf()].
#' @param row.names,optional As in [as.data.frame()]; not used.
#' @param ... No further arguments; a misspelt one is an error.
#' @param what Which table:
#'   * `"pdfs"`: x f(x, Q) on the stored grid: `Q` \[GeV\], `flavour`, `x`, `mean`, `sd`, `lower` and
#'     `upper` (68 % interval);
#'   * `"replicas"`: `replica`, `kept`, `status`, `sentence`, `epoch` (where it stopped),
#'     `best_epoch`, `training` and `validation` (chi2 per point at the best epoch);
#'   * `"chi2"`: `covariance`, `dataset`, `n_data`, `chi2`;
#'   * `"points"`: one row per data point: `dataset`, `point`, `x`, `Q2` \[GeV^2\], `y`, `value`,
#'     `error` (total experimental), `prediction` and `prediction_sd` (over replicas);
#'   * `"history"`: `replica`, `epoch`, `training`, `validation` (chi2 per point);
#'   * `"timings"`: `step`, `seconds`.
#'
#' @return A data frame.
#' @examples
#' \dontrun{
#' head(as.data.frame(fit, what = "replicas"))
#' }
#' @export
as.data.frame.pdf_fit <- function(x, row.names = NULL, optional = FALSE, ..., what = table_names) {
  check_dots(...)
  x <- upgrade_fit(x)
  as.data.frame(x[[check_choice(what, table_names)]])
}

table_names <- c("pdfs", "replicas", "chi2", "points", "history", "timings")

#' @importFrom stats nobs
#' @export
nobs.pdf_fit <- function(object, ...) nrow(object$points)

#' @importFrom stats fitted
#' @export
fitted.pdf_fit <- function(object, ...) object$points$prediction

#' @importFrom stats residuals
#' @export
residuals.pdf_fit <- function(object, type = c("raw", "pull"), ...) {
  type <- check_choice(type, c("raw", "pull"))
  raw <- object$points$value - object$points$prediction
  if (type == "pull") raw / object$points$error else raw
}
