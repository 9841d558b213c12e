#' Choose positivity and integrability observables
#'
#' Says which constraints [fit_pdf()] imposes. Nothing is read yet.
#'
#' @param entries `"nnpdf40"` for the set of the NNPDF4.0 fits with its cuts, or a list of names and of
#'   lists such as `list(dataset = "NNPDF_POS_2P24GEV_F2U", maxlambda = 1e6)`.
#' @param ... No further arguments; a misspelt one is an error.
#' @param cuts Conditions on the points to keep, named by dataset, or `NULL`.
#'
#' @return An object of class `pdf_constraints`, plain values.
#' @section Errors: Malformed entries are errors of class `partonfit_error_argument`; unknown names and
#'   conditions are refused at the start of [fit_pdf()], with class `partonfit_error_data` or
#'   `partonfit_error_setting`.
#' @examples
#' load_constraints("nnpdf40")
#' @export
load_constraints <- function(entries = "nnpdf40", ..., cuts = NULL) {
  check_dots(...)
  entries <- check_constraint_entries(entries)
  if (!is.null(cuts) && (is.null(names(cuts)) || !all(vapply(cuts, is.character, NA)))) {
    abort_argument("cuts", "texts named by dataset", cuts, call = rlang::current_env())
  }
  structure(list(entries = entries, cuts = if (length(cuts)) as.list(cuts)), class = "pdf_constraints")
}

check_constraint_entries <- function(entries, call = rlang::caller_env()) {
  if (is.list(entries) && !is.null(names(entries))) entries <- list(entries)
  if (is.character(entries) && length(entries) > 1) entries <- as.list(entries)
  fits <- function(entry) {
    (is_one(entry) && is.character(entry)) || (is.list(entry) && !is.null(entry$dataset))
  }
  taken <- length(entries) && (is.character(entries) || (is.list(entries) && !is.data.frame(entries)))
  if (!taken || !all(vapply(entries, fits, NA))) {
    abort_argument("entries", "{.val nnpdf40}, or a list of names and of lists with {.field dataset}",
      entries, call = call)
  }
  entries
}

#' @export
print.pdf_constraints <- function(x, ...) {
  names <- vapply(x$entries, function(entry) if (is.character(entry)) entry else entry$dataset, "")
  cat_text("Constraints of a fit: {paste(names, collapse = ', ')}")
  invisible(x)
}

check_constraints <- function(constraints, call = rlang::caller_env()) {
  if (is.null(constraints) || inherits(constraints, "pdf_constraints")) return(constraints)
  if (!identical(constraints, "nnpdf40")) {
    abort_argument("constraints",
      "{.code NULL}, {.val nnpdf40}, or made by {.fn load_constraints}", constraints, call = call)
  }
  load_constraints("nnpdf40")
}

constraints_for_core <- function(constraints) {
  if (is.null(constraints)) return(NULL)
  list(entries = as_python_entries(constraints$entries), cuts = constraints$cuts)
}

#' Decide anew which replicas are kept
#'
#' [fit_pdf()] has done this with the thresholds of the NNPDF4.0 fits, which are the defaults here.
#'
#' @param fit A fit made by [fit_pdf()]; it is not changed.
#' @param ... No further arguments; a misspelt one is an error.
#' @param sigmas A replica leaves when its chi2, or the arc length of one of its PDFs, lies more than so
#'   many standard deviations above the mean of the replicas that stay.
#' @param integrability Largest sum of |x q| over x = 1e-9, 1e-8, 1e-7 for q = V, T3, V3, T8, V8; `NULL`: 0.5,
#'   and no limit for a form with parameters.
#' @param positivity Largest loss of a positivity observable; `NULL` for the threshold of the fit.
#'
#' @return A fit with the same replicas and other statuses.
#' @section Errors: A threshold that is no positive number is an error of class
#'   `partonfit_error_argument`.
#' @examples
#' \dontrun{
#' strict <- postfit(fit, sigmas = 2)
#' }
#' @export
postfit <- function(fit, ..., sigmas = 4, integrability = NULL, positivity = NULL) {
  check_dots(...)
  fit <- check_fit(fit)
  sigmas <- check_number(sigmas, above = 0)
  if (!is.null(integrability)) integrability <- check_number(integrability, above = 0)
  if (!is.null(positivity)) positivity <- check_number(positivity, above = 0)
  parts <- call_core("postfit", load_in_core(fit), sigmas, integrability, positivity)
  new_pdf_fit(parts, fit$arguments)
}
