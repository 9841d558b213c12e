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
    "Cuts: Q2 >= {x$cuts$q2min} GeV2, W2 >= {x$cuts$w2min} GeV2"
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
