#' Agreement with the data
#'
#' For a fit: the chi2 of the central PDF (the mean of the kept replicas) with the data of the fit, for
#' each dataset and in total; needs no Python. For a choice of data made by [pdf_data()]: the chi2 of
#' any PDF with these data.
#'
#' The total is not the sum of the rows: uncertainties that datasets share are counted once. With
#' `covariance = "experimental"` multiplicative uncertainties are relative to the measured values,
#' which is the definition to quote; with `"t0"` they are relative to the predictions of the t0 PDF,
#' which is what the fit minimises.
#'
#' @param object A fit made by [fit_pdf()], or data chosen by [pdf_data()].
#' @param ... No further arguments; a misspelt one is an error.
#' @param covariance `"experimental"` or `"t0"`.
#' @param theory As in [fit_pdf()].
#' @param pdf,t0 `"toy"`, a fit, or a function that takes a vector of x and returns x f at
#'   Q0 = 1.65 GeV as a matrix with 14 rows, in the order photon, Sigma, g, V, V3, V8, V15, V24, V35,
#'   T3, T8, T15, T24, T35, and one column per x. `t0` is needed for the t0 covariance only.
#'
#' @return A tibble with one row per dataset and the row `"Total"`: `dataset`, `n_data`, `chi2` and
#'   `chi2_per_point`.
#' @section Errors: Another object than these is an error of class `partonfit_error_argument`; unknown
#'   data and missing tables as in [fit_pdf()].
#' @examples
#' \dontrun{
#' chi2(fit)
#' chi2(pdf_data("hera"), pdf = "toy")
#' }
#' @export
chi2 <- function(object, ...) UseMethod("chi2")

#' @export
chi2.default <- function(object, ...) {
  abort_argument("object", "a fit made by {.fn fit_pdf} or data chosen by {.fn pdf_data}", object,
    call = rlang::caller_env())
}

#' @rdname chi2
#' @export
chi2.pdf_fit <- function(object, ..., covariance = c("experimental", "t0")) {
  check_dots(...)
  object <- upgrade_fit(object)
  covariance <- check_choice(covariance, c("experimental", "t0"))
  rows <- object$chi2[object$chi2$covariance == covariance, c("dataset", "n_data", "chi2")]
  if (!nrow(rows)) {
    abort_partonfit("argument", c(
      "This fit has no t0 covariance: it was made with {.code t0 = NULL}.",
      i = "Use {.code chi2(fit)}, which takes the experimental covariance."
    ))
  }
  rows$chi2_per_point <- rows$chi2 / rows$n_data
  rows
}

#' @rdname chi2
#' @export
chi2.pdf_data <- function(object, theory = "hera", pdf = "toy", ...,
                          covariance = c("experimental", "t0"), t0 = NULL) {
  check_dots(...)
  covariance <- check_choice(covariance, c("experimental", "t0"))
  theory <- check_string(theory)
  pdf <- check_pdf(pdf)
  if (covariance == "t0") t0 <- check_pdf(t0)
  answer <- call_core(
    "chi2", as_python_entries(object$entries), choice_for_core(object), theory, pdf_for_core(pdf), covariance,
    pdf_for_core(t0)
  )
  rows <- as_table(answer, c(dataset = "character", n_data = "integer", chi2 = "double"))
  rows$chi2_per_point <- rows$chi2 / rows$n_data
  rows
}

check_pdf <- function(pdf, arg = rlang::caller_arg(pdf), call = rlang::caller_env()) {
  if (inherits(pdf, "pdf_fit") || is.function(pdf)) return(pdf)
  check_string(pdf, arg, hint = "{.val toy}, a fit, or a function of x.", call = call)
}

pdf_for_core <- function(pdf) {
  if (inherits(pdf, "pdf_fit")) return(list(fit = load_in_core(pdf)))
  if (!is.function(pdf)) return(pdf)
  function(x) pdf(as.vector(x))
}
