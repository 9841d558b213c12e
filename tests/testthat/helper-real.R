# The real core, where it is; one small fit serves every test that wants a real one.

skip_without_core <- function() {
  testthat::skip_if_not(partonfit:::has_core(), "the Python core (Python, JAX, Keras) is not available")
}

small_control <- function(...) fit_control(epochs = 300, threshold_chi2 = NULL, ...)

real_fits <- new.env(parent = emptyenv())

real_fit <- function() {
  skip_without_core()
  if (is.null(real_fits$small)) {
    real_fits$small <- fit_pdf("hera", replicas = 3, seed = 7, control = small_control())
  }
  real_fits$small
}
