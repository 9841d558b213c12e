#' Settings of the training
#'
#' Everything about how a fit is trained that is not the data, the theory or the model. The defaults
#' are those of the NNPDF4.0 methodology where it has one.
#'
#' @param ... No further arguments; a misspelt one is an error.
#' @param epochs Largest number of training steps; every step sees all training points.
#' @param patience Stop a replica when its validation chi2 has not improved for this share of
#'   `epochs`; its best weights are kept.
#' @param learning_rate Step size of the optimizer.
#' @param optimizer The name of a Keras optimizer, or an optimizer made with keras3 or reticulate, which has
#'   its own `learning_rate` and `clipnorm`: those given here are not used then.
#' @param clipnorm Largest norm of the gradient of one weight tensor of one replica; `NULL` for none.
#' @param training_fraction Share of the points of each dataset that a replica trains on; the others
#'   decide when it stops. Every replica has its own split; a dataset's `frac` takes precedence.
#' @param threshold_chi2 A replica whose validation chi2 per point never falls below this is not kept;
#'   `NULL` keeps all.
#' @param pseudodata `TRUE` to fluctuate the data of each replica within the covariance; `FALSE` to
#'   fit the measured values.
#' @param split What is divided into training and validation: the `"points"` of each dataset, or the
#'   eigen-`"modes"` of the correlation matrix of all data (a dataset's `frac` then has no meaning).
#' @param separate_multiplicative `TRUE` to let multiplicative uncertainties act on pseudodata as factors.
#' @param t0_in_sampling Do multiplicative uncertainties of pseudodata scale with the t0 predictions, as in
#'   the fit, or with the data?
#' @param positive_tries How often the pseudodata of a replica are drawn again while a cross section is
#'   negative; 0 accepts them. Drawing again biases the mean.
#' @param theory_in_sampling,theory_in_fitting Where the theory covariance that a fit is given counts.
#' @param precision `"float32"` (matrix products at highest precision) or `"float64"`.
#' @param compression Relative singular value below which a direction of the theory map is dropped; 0
#'   keeps all.
#' @param block_size Replicas in one compiled block; `NULL` chooses for the device.
#' @param positivity_initial,integrability_initial Multiplier of the penalty of each observable in the
#'   first epochs; `NULL`: what reaches the maximum with the given factor, or 1.
#' @param positivity_multiplier,integrability_multiplier Factor by which it grows every 100 epochs;
#'   `NULL`: what reaches the observable's maximum at the last epoch.
#' @param positivity_threshold Weights count only while the penalty of every positivity observable is
#'   below.
#' @param quadratic_tolerance,positivity_tolerance Error that the short form of rows quadratic in the
#'   PDF may make in the training, of data and of positivity observables, relative to the size of a
#'   row; 0 for none.
#'
#' @return A list of class `fit_control`.
#' @section Errors:
#' A value of the wrong type or out of range is an error of class `partonfit_error_argument`.
#' @examples
#' fit_control(epochs = 2000, precision = "float64")
#' @export
fit_control <- function(..., epochs = 17000, patience = 0.1, learning_rate = 2.621e-3,
                        clipnorm = 6.073e-6, optimizer = "Nadam", training_fraction = 0.75,
                        threshold_chi2 = 3.5, pseudodata = TRUE, split = c("points", "modes"),
                        separate_multiplicative = FALSE, t0_in_sampling = TRUE, positive_tries = 0,
                        theory_in_sampling = TRUE, theory_in_fitting = TRUE,
                        precision = c("float32", "float64"),
                        compression = 3e-7, block_size = NULL, positivity_initial = 184.8,
                        positivity_multiplier = NULL, positivity_threshold = 1e-6,
                        integrability_initial = 10, integrability_multiplier = NULL,
                        quadratic_tolerance = 1e-4, positivity_tolerance = 3e-3) {
  check_dots(...)
  structure(
    list(
      epochs = check_whole(epochs, min = 1),
      patience = check_number(patience, above = 0, max = 1),
      learning_rate = check_number(learning_rate, above = 0),
      clipnorm = if (!is.null(clipnorm)) check_number(clipnorm, above = 0),
      optimizer = described_optimizer(optimizer),
      training_fraction = check_number(training_fraction, above = 0, max = 1),
      threshold_chi2 = if (!is.null(threshold_chi2)) check_number(threshold_chi2, above = 0),
      pseudodata = check_flag(pseudodata),
      split = check_choice(split, c("points", "modes")),
      separate_multiplicative = check_flag(separate_multiplicative),
      t0_in_sampling = check_flag(t0_in_sampling),
      positive_tries = check_whole(positive_tries, min = 0),
      theory_in_sampling = check_flag(theory_in_sampling),
      theory_in_fitting = check_flag(theory_in_fitting),
      precision = check_choice(precision, c("float32", "float64")),
      compression = check_number(compression, min = 0, max = 1e-2),
      block_size = if (!is.null(block_size)) check_whole(block_size, min = 1),
      positivity_initial = if (!is.null(positivity_initial)) check_number(positivity_initial, above = 0),
      positivity_multiplier = if (!is.null(positivity_multiplier)) {
        check_number(positivity_multiplier, above = 0)
      },
      positivity_threshold = check_number(positivity_threshold, above = 0),
      integrability_initial = if (!is.null(integrability_initial)) {
        check_number(integrability_initial, above = 0)
      },
      integrability_multiplier = if (!is.null(integrability_multiplier)) {
        check_number(integrability_multiplier, above = 0)
      },
      quadratic_tolerance = check_number(quadratic_tolerance, min = 0, max = 0.1),
      positivity_tolerance = check_number(positivity_tolerance, min = 0, max = 0.1)
    ),
    class = "fit_control"
  )
}

#' @export
print.fit_control <- function(x, ...) {
  cat_text("Settings of the training")
  # An optimizer made with Keras is a long description.
  if (startsWith(x$optimizer, "{")) x$optimizer <- "made with Keras"
  values <- vapply(x, function(v) format(v %||% "none"), "")
  cat(paste0("  ", format(names(values)), "  ", values), sep = "\n")
  invisible(x)
}

described_optimizer <- function(optimizer, call = rlang::caller_env()) {
  optimizer <- check_optimizer(optimizer, call = call)
  if (is_python(optimizer)) keras_text(optimizer, call) else optimizer
}

check_control <- function(control, call = rlang::caller_env()) {
  if (!inherits(control, "fit_control")) {
    abort_argument("control", "made by {.fn fit_control}", control,
      hint = "Write for instance {.code control = fit_control(epochs = 2000)}.", call = call)
  }
  unclass(control)
}
