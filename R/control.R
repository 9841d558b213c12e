#' Settings of the training
#'
#' Everything about how a fit is trained that is not the data, the theory or the model. The defaults
#' are those of the NNPDF4.0 methodology where it has one.
#'
#' @param ... No further arguments; a misspelt one is an error.
#' @param epochs Largest number of training steps; every step sees all training points.
#' @param patience Stop a replica when its validation chi2 has not improved for this share of
#'   `epochs`; its best weights are kept.
#' @param learning_rate,optimizer Step size and name of the Keras optimizer.
#' @param clipnorm Largest norm of the gradient of one weight tensor of one replica; `NULL` for none.
#' @param training_fraction Share of the points of each dataset that a replica trains on; the others
#'   decide when it stops. Every replica has its own split; a dataset's `frac` takes precedence.
#' @param threshold_chi2 A replica whose validation chi2 per point never falls below this is not kept;
#'   `NULL` keeps all.
#' @param pseudodata `TRUE` to fluctuate the data of each replica within the covariance; `FALSE` to
#'   fit the measured values.
#' @param precision `"float32"` (matrix products at highest precision) or `"float64"`.
#' @param compression Relative singular value below which a direction of the theory map is dropped; 0
#'   keeps all.
#' @param block_size Replicas in one compiled block; `NULL` chooses for the device.
#'
#' @return A list of class `fit_control`.
#' @section Errors:
#' A value of the wrong type or out of range is an error of class `partonfit_error_argument`.
#' @examples
#' fit_control(epochs = 2000, precision = "float64")
#' @export
fit_control <- function(..., epochs = 17000, patience = 0.1, learning_rate = 2.621e-3,
                        clipnorm = 6.073e-6, optimizer = "Nadam", training_fraction = 0.75,
                        threshold_chi2 = 3.5, pseudodata = TRUE, precision = c("float32", "float64"),
                        compression = 3e-7, block_size = NULL) {
  check_dots(...)
  structure(
    list(
      epochs = check_whole(epochs, min = 1),
      patience = check_number(patience, above = 0, max = 1),
      learning_rate = check_number(learning_rate, above = 0),
      clipnorm = if (!is.null(clipnorm)) check_number(clipnorm, above = 0),
      optimizer = check_string(optimizer),
      training_fraction = check_number(training_fraction, above = 0, max = 1),
      threshold_chi2 = if (!is.null(threshold_chi2)) check_number(threshold_chi2, above = 0),
      pseudodata = check_flag(pseudodata),
      precision = check_choice(precision, c("float32", "float64")),
      compression = check_number(compression, min = 0, max = 1e-2),
      block_size = if (!is.null(block_size)) check_whole(block_size, min = 1)
    ),
    class = "fit_control"
  )
}

#' @export
print.fit_control <- function(x, ...) {
  cat_text("Settings of the training")
  values <- vapply(x, function(v) format(v %||% "none"), "")
  cat(paste0("  ", format(names(values)), "  ", values), sep = "\n")
  invisible(x)
}

check_control <- function(control, call = rlang::caller_env()) {
  if (!inherits(control, "fit_control")) {
    abort_argument("control", "made by {.fn fit_control}", control,
      hint = "Write for instance {.code control = fit_control(epochs = 2000)}.", call = call)
  }
  unclass(control)
}
