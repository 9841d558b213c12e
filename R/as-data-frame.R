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

#' Residuals, likelihood, weights and new data of a fit
#'
#' * `residuals()`: data minus prediction of the central PDF; as they are (`"raw"`), divided by the total
#'   error of the point (`"pull"`), or whitened: L^-1 (data - prediction), L being the Cholesky factor of
#'   the covariance, so that the sum of their squares is the chi2.
#' * `logLik()`: logarithm of the Gaussian density of the data around the prediction of the central PDF,
#'   -1/2 (chi2 + log det C + n log 2 pi). A network ensemble has no number of degrees of freedom, so
#'   `df` is `NA`, and [AIC()] with it.
#' * `coef()`: the trained weights.
#' * `simulate()`: new pseudodata: the prediction of the central PDF plus noise with the covariance of
#'   the data, drawn with R's random numbers.
#'
#' `residuals(type = "raw" | "pull")` need no Python; the others do.
#'
#' @param object A fit made by [fit_pdf()].
#' @param ... No further arguments; a misspelt one is an error.
#' @param type Kind of residuals.
#' @param covariance `"experimental"` or `"t0"`, as in [chi2()].
#' @param nsim Number of sets of pseudodata.
#' @param seed A whole number for [set.seed()], after which R's stream is put back; `NULL` to use the
#'   stream as it is.
#'
#' @return `residuals()` a numeric vector, one number for each point; `logLik()` an object of class
#'   `logLik`; `coef()` a matrix with one row for each kept replica and one named column for each weight;
#'   `simulate()` a data frame with one row for each point and the columns `sim_1`, `sim_2`, ...
#' @section Errors: A type that is not known is an error of class `partonfit_error_argument`; a t0
#'   covariance that the fit does not have, `partonfit_error_setting`.
#' @examples
#' \dontrun{
#' sum(residuals(fit, type = "whitened")^2)   # the chi2
#' logLik(fit)
#' simulate(fit, 2, seed = 1)
#' }
#' @importFrom stats residuals
#' @export
residuals.pdf_fit <- function(object, ..., type = c("raw", "pull", "whitened"),
                              covariance = c("experimental", "t0")) {
  check_dots(...)
  type <- check_choice(type, c("raw", "pull", "whitened"))
  covariance <- check_choice(covariance, c("experimental", "t0"))
  raw <- object$points$value - object$points$prediction
  if (type == "raw") return(raw)
  if (type == "pull") return(raw / object$points$error)
  as.vector(call_core("whiten", load_in_core(object), matrix(raw), covariance, FALSE))
}

#' @rdname residuals.pdf_fit
#' @importFrom stats logLik
#' @export
logLik.pdf_fit <- function(object, ..., covariance = c("experimental", "t0")) {
  check_dots(...)
  covariance <- check_choice(covariance, c("experimental", "t0"))
  log_determinant <- as.double(call_core("log_determinant", load_in_core(object), covariance))
  n <- nobs(object)
  value <- -(total_chi2(object, covariance)$chi2 + log_determinant + n * log(2 * pi)) / 2
  structure(value, df = NA_integer_, nobs = n, class = "logLik")
}

#' @rdname residuals.pdf_fit
#' @importFrom stats coef
#' @export
coef.pdf_fit <- function(object, ...) {
  check_dots(...)
  answer <- call_core("weights", load_in_core(check_fit(object)))
  values <- as_matrix(answer$values)
  kept <- object$replicas$replica[object$replicas$kept]
  dimnames(values) <- list(kept, as_column(answer$names, "character"))
  values
}

#' @rdname residuals.pdf_fit
#' @importFrom stats simulate
#' @export
simulate.pdf_fit <- function(object, nsim = 1, seed = NULL, ..., covariance = c("experimental", "t0")) {
  check_dots(...)
  nsim <- check_whole(nsim, min = 1)
  covariance <- check_choice(covariance, c("experimental", "t0"))
  n <- nobs(object)
  noise <- with_seed_of(seed, function() matrix(stats::rnorm(n * nsim), n))
  id <- load_in_core(check_fit(object))
  drawn <- as_matrix(call_core("whiten", id, noise, covariance, TRUE)) + object$points$prediction
  colnames(drawn) <- paste0("sim_", seq_len(nsim))
  as.data.frame(drawn)
}

# Runs `f` after set.seed(seed) and puts R's stream back; with NULL, on the stream as it is.
with_seed_of <- function(seed, f, call = rlang::caller_env()) {
  if (is.null(seed)) return(f())
  seed <- check_seed(seed, call)
  old <- get0(".Random.seed", envir = globalenv(), inherits = FALSE)
  on.exit(
    if (is.null(old)) {
      rm(".Random.seed", envir = globalenv())
    } else {
      assign(".Random.seed", old, envir = globalenv())
    }
  )
  set.seed(seed)
  f()
}
