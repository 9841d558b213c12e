#' Choose the data of a fit
#'
#' Says which datasets to fit and with which kinematic cuts. Nothing is read yet: the choice is a
#' plain R object that [fit_pdf()] and [update()][update.pdf_fit] take.
#'
#' @param datasets `"hera"` for the seven HERA I+II inclusive datasets that the package carries, a
#'   vector of dataset names, or a list whose elements are names or lists such as
#'   `list(dataset = "HERA_NC_318GEV_EP_SIGMARED", variant = "legacy", frac = 0.75)`.
#' @param q2min Smallest Q^2 \[GeV^2\] of a point that is kept.
#' @param w2min Smallest W^2 \[GeV^2\] of a point that is kept.
#' @param ... No further arguments; a misspelt one is an error.
#'
#' @return An object of class `pdf_data`.
#' @section Errors:
#' Malformed entries are errors of class `partonfit_error_argument`. An unknown dataset is an error
#' of class `partonfit_error_data` when the data are read, at the start of [fit_pdf()]; its message
#' suggests the nearest name.
#' @examples
#' pdf_data("hera", q2min = 10)
#' @export
pdf_data <- function(datasets = "hera", ..., q2min = 3.49, w2min = 12.5) {
  check_dots(...)
  structure(
    list(
      entries = check_entries(datasets),
      cuts = list(q2min = check_number(q2min, min = 0), w2min = check_number(w2min, min = 0))
    ),
    class = "pdf_data"
  )
}

#' @export
print.pdf_data <- function(x, ...) {
  names <- vapply(x$entries, function(entry) {
    if (is.character(entry)) entry else entry$dataset
  }, "")
  cat_text(
    "Data for a fit: {paste(names, collapse = ', ')}",
    "Cuts: Q2 >= {x$cuts$q2min} GeV2, W2 >= {x$cuts$w2min} GeV2",
    if (!is.null(x$closure)) "Values are made from a known PDF, level {x$closure$level}"
  )
  invisible(x)
}

entry_keys <- c("dataset", "variant", "frac", "cfac", "weight")

check_entries <- function(entries, arg = "datasets", call = rlang::caller_env()) {
  if (is.factor(entries)) entries <- as.character(entries)
  if (is.list(entries) && !is.data.frame(entries)) {
    if (!is.null(names(entries))) entries <- list(entries)
    if (!length(entries)) abort_no_entries(entries, arg, call)
    return(lapply(entries, check_entry, arg = arg, call = call))
  }
  if (!is.character(entries) || !length(entries) || anyNA(entries)) {
    abort_no_entries(entries, arg, call)
  }
  enc2utf8(entries)
}

abort_no_entries <- function(entries, arg, call) {
  abort_argument(arg, "names of datasets, or a list of names and lists", entries,
    hint = "{.val hera} is the set the package carries.", call = call)
}

check_entry <- function(entry, arg, call) {
  if (is.character(entry)) return(check_string(entry, arg, call = call))
  unknown <- setdiff(names(entry), entry_keys)
  if (!is.list(entry) || is.null(entry$dataset) || length(unknown)) {
    abort_partonfit("argument", c(
      "Each element of {.arg {arg}} must be a name or a list with an element {.field dataset}.",
      x = if (length(unknown)) "Unknown element{?s}: {.field {unknown}}.",
      i = "Known elements: {.field {entry_keys}}."
    ), arg = arg, call = call)
  }
  entry$dataset <- check_string(entry$dataset, "dataset", call = call)
  entry
}

# What fit_pdf() takes as `data`: a choice, or anything pdf_data() makes one from.
as_pdf_data <- function(data, call = rlang::caller_env()) {
  if (inherits(data, "pdf_data")) return(data)
  choice <- pdf_data()
  choice$entries <- check_entries(data, "data", call = call)
  choice
}

# Cuts, and the law of closure data.
choice_for_core <- function(data) {
  closure <- data$closure
  if (is.null(closure)) return(data$cuts)
  closure$pdf <- pdf_for_core(closure$pdf)
  c(data$cuts, list(closure = closure))
}

#' Fake data from a known PDF
#'
#' The same datasets, points and uncertainties, with values made from a PDF that is known: a fit to them
#' should find it again. [closure_test()] makes many such fits at once.
#'
#' @param data,theory As in [fit_pdf()].
#' @param pdf The law: `"toy"`, a fit, or a function as in [chi2()].
#' @param ... No further arguments; a misspelt one is an error.
#' @param level `0` for the predictions of the law themselves; `1` for these plus one draw of noise with the
#'   experimental covariance, as nature would draw it.
#' @param seed A whole number for the noise of level 1; `NULL` draws one from R's random numbers.
#'
#' @return A choice of data like that of [pdf_data()]; nothing is computed yet.
#' @section Errors: Wrong arguments are errors of class `partonfit_error_argument`; unknown data and missing
#'   tables as in [fit_pdf()], when the data are used.
#' @examples
#' closure_data("hera", pdf = "toy", level = 1, seed = 1)
#' \dontrun{
#' chi2(closure_data("hera"), pdf = "toy")   # 0: the law describes its own data
#' }
#' @export
closure_data <- function(data = "hera", theory = "hera", pdf = "toy", ..., level = 0, seed = NULL) {
  check_dots(...)
  data <- as_pdf_data(data)
  theory <- check_string(theory)
  pdf <- check_pdf(pdf)
  level <- check_whole(level)
  if (level > 1) {
    abort_argument("level", "0 (exact) or 1 (with noise)", level, call = rlang::current_env())
  }
  data$closure <- list(
    theory = theory, pdf = pdf, level = level, seed = if (level == 1) check_seed(seed)
  )
  data
}
