#' Fits as tidy tables
#'
#' The verbs of the generics package. None needs Python.
#'
#' @param x A fit made by [fit_pdf()].
#' @param ... No further arguments; a misspelt one is an error.
#' @param Q Scale \[GeV\], Q0 or 100; `NULL` for Q0.
#'
#' @return Tibbles. `tidy()`: one row for each flavour and x of the stored grid: `term` (the flavour),
#'   `x`, `Q` \[GeV\], `estimate` (x f, mean over replicas), `std.error` (standard deviation),
#'   `conf.low`, `conf.high` (68 % interval). `glance()`: one row: `nobs`, `replicas`, `kept`, `chi2` and
#'   `chi2_per_point` (experimental covariance), `phi`, `training`, `validation` (chi2 per point, means
#'   over the kept replicas), `q0`, `seed`. `augment()`: one row for each data point: the points of
#'   `as.data.frame(fit, what = "points")` with `.fitted`, `.se.fit` (standard deviation over replicas),
#'   `.resid` and `.std.resid` (the residual over the total error).
#' @examples
#' \dontrun{
#' tidy(fit)
#' glance(fit)
#' augment(fit)
#' }
#' @name tidiers
NULL

#' @rdname tidiers
#' @importFrom generics tidy
#' @export
tidy.pdf_fit <- function(x, ..., Q = NULL) {
  check_dots(...)
  x <- upgrade_fit(x)
  q <- if (is.null(Q)) x$q0 else check_number(Q, min = 1, max = 1e5)
  rows <- x$pdfs[abs(x$pdfs$Q - q) < 1e-9, ]
  if (!nrow(rows)) {
    abort_partonfit("argument", c(
      "{.arg Q} must be one of the stored scales, {unique(x$pdfs$Q)} GeV, not {q}.",
      i = "{.code predict(fit, x = , Q = {q})} gives PDFs at any scale."
    ), arg = "Q")
  }
  tibble::tibble(
    term = rows$flavour, x = rows$x, Q = rows$Q, estimate = rows$mean, std.error = rows$sd,
    conf.low = rows$lower, conf.high = rows$upper
  )
}

#' @rdname tidiers
#' @importFrom generics glance
#' @export
glance.pdf_fit <- function(x, ...) {
  check_dots(...)
  x <- upgrade_fit(x)
  good <- x$replicas[x$replicas$kept, ]
  total <- total_chi2(x)
  tibble::tibble(
    nobs = total$n_data, replicas = nrow(x$replicas), kept = nrow(good), chi2 = total$chi2,
    chi2_per_point = total$chi2 / total$n_data, phi = x$summary$phi %||% NA_real_,
    training = mean(good$training), validation = mean(good$validation), q0 = x$q0, seed = x$seed
  )
}

#' @rdname tidiers
#' @importFrom generics augment
#' @export
augment.pdf_fit <- function(x, ...) {
  check_dots(...)
  points <- upgrade_fit(x)$points
  rest <- points[setdiff(names(points), c("prediction", "prediction_sd"))]
  rest$.fitted <- points$prediction
  rest$.se.fit <- points$prediction_sd
  rest$.resid <- points$value - points$prediction
  rest$.std.resid <- rest$.resid / points$error
  rest
}

#' @importFrom generics tidy
#' @export
generics::tidy

#' @importFrom generics glance
#' @export
generics::glance

#' @importFrom generics augment
#' @export
generics::augment

#' Fit by the generic of the generics package
#'
#' `fit()` of a choice of data or of a network calls [fit_pdf()].
#'
#' @param object Data chosen by [pdf_data()], or a network by [pdf_model()].
#' @param data For a network: the data, as in [fit_pdf()].
#' @param ... Further arguments of [fit_pdf()].
#'
#' @return As [fit_pdf()].
#' @examples
#' \dontrun{
#' fit(pdf_data("hera", q2min = 10), replicas = 20)
#' fit(pdf_model(nodes = 30), "hera", replicas = 20)
#' }
#' @name fit.pdf_data
#' @importFrom generics fit
#' @export
fit.pdf_data <- function(object, ...) fit_pdf(object, ...)

#' @rdname fit.pdf_data
#' @export
fit.pdf_model <- function(object, data = "hera", ...) fit_pdf(data, model = object, ...)

#' @importFrom generics fit
#' @export
generics::fit

#' PDFs of a fit as draws
#'
#' With the posterior package: one draw for each kept replica, one variable for each x, Q and flavour.
#'
#' @param x A fit made by [fit_pdf()].
#' @param ... No further arguments; a misspelt one is an error.
#' @param new_data As in [predict.pdf_fit()].
#'
#' @return An object of class `draws_matrix`, with variables such as `g(x=0.1,Q=1.65)`.
#' @examples
#' \dontrun{
#' posterior::summarise_draws(posterior::as_draws(fit, new_data = data.frame(x = c(0.01, 0.1))))
#' }
#' @exportS3Method posterior::as_draws
as_draws.pdf_fit <- function(x, ..., new_data = data.frame(x = c(0.001, 0.01, 0.1, 0.3))) {
  check_dots(...)
  posterior::as_draws_matrix(draws_of(x, new_data))
}

# Replicas as rows, predictions as named columns.
draws_of <- function(fit, new_data) {
  answer <- stats::predict(fit, new_data, type = "replicas")
  draws <- do.call(cbind, answer$.replicas)
  colnames(draws) <- sprintf("%s(x=%s,Q=%s)", answer$flavour, format_each(answer$x), format_each(answer$Q))
  draws
}

format_each <- function(values) vapply(values, format, "", digits = 6)
