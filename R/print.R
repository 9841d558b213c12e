#' @export
print.pdf_fit <- function(x, ...) {
  x <- upgrade_fit(x)
  total <- total_chi2(x)
  n_datasets <- length(unique(x$points$dataset))
  cat_text(
    "PDF fit: {nrow(x$replicas)} replica{?s} ({describe_statuses(x$replicas)})",
    paste0(
      "{total$n_data} point{?s} in {n_datasets} dataset{?s}, Q0 = {x$q0} GeV; ",
      "chi2/N = {two_digits(total$chi2 / total$n_data)} (experimental covariance)"
    ),
    if (x$interrupted) "Interrupted: this is the best so far.",
    'Next: summary(fit), plot(fit), predict(fit, x = , Q = ), write_lhapdf(fit, "myset")'
  )
  invisible(x)
}

# Lines on the standard output, glued and pluralised; print methods are not messages.
cat_text <- function(..., .envir = parent.frame()) {
  lines <- vapply(c(...), function(line) as.character(cli::pluralize(line, .envir = .envir)), "")
  cat(lines, sep = "\n")
}

two_digits <- function(x) formatC(x, digits = 2, format = "f")

# "97 kept, 2 vetoed, 1 diverged": kept first, the others by how many they are.
describe_statuses <- function(replicas) {
  others <- sort(table(replicas$status[!replicas$kept]), decreasing = TRUE)
  paste(c(paste(sum(replicas$kept), "kept"), if (length(others)) paste(others, names(others))),
    collapse = ", ")
}

#' Summary of a fit
#'
#' What a physicist looks for first: the chi2 of every dataset, training and validation chi2 and
#' training lengths with their spreads, and what became of each replica. Needs no Python.
#'
#' @param object A fit made by [fit_pdf()].
#' @param ... Not used.
#'
#' @return An object of class `summary.pdf_fit` with the elements `chi2` (a tibble as by [chi2()]),
#'   `training` (a tibble: `quantity`, `mean`, `sd` over the kept replicas), `replicas` (a tibble:
#'   `status`, `n`), `phi` (spread of the replicas in data space, square root of the mean chi2 of the
#'   replicas less that of their mean, per point), `seed`, `q0` \[GeV\] and `timings` \[s\].
#' @examples
#' \dontrun{
#' summary(fit)
#' }
#' @export
summary.pdf_fit <- function(object, ...) {
  object <- upgrade_fit(object)
  kept <- object$replicas[object$replicas$kept, ]
  spread <- function(name, values) {
    tibble::tibble(quantity = name, mean = mean(values), sd = stats::sd(values))
  }
  statuses <- table(object$replicas$status)
  structure(
    list(
      chi2 = chi2(object),
      training = rbind(
        spread("training chi2/N", kept$training),
        spread("validation chi2/N", kept$validation),
        spread("best epoch", kept$best_epoch)
      ),
      replicas = tibble::tibble(status = names(statuses), n = as.integer(statuses)),
      phi = object$summary$phi,
      seed = object$seed,
      q0 = object$q0,
      timings = object$timings
    ),
    class = "summary.pdf_fit"
  )
}

#' @export
print.summary.pdf_fit <- function(x, ...) {
  cat_text("chi2 by dataset (experimental covariance)")
  print_columns(x$chi2)
  cat_text("Kept replicas: mean and standard deviation")
  print_columns(x$training)
  cat_text(
    "Statuses: {paste(x$replicas$n, x$replicas$status, collapse = ', ')}",
    if (length(x$phi) && is.finite(x$phi)) "phi = {signif(x$phi, 3)}",
    "seed {x$seed}, Q0 = {x$q0} GeV"
  )
  invisible(x)
}

print_columns <- function(table) {
  rows <- utils::capture.output(print(as.data.frame(table), digits = 3, row.names = FALSE))
  cat(paste0("  ", rows), sep = "\n")
}
