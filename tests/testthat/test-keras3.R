# What the R package keras3 makes, where it is installed. The core is started first: it chooses JAX.

skip_without_keras3 <- function() {
  skip_if_not_installed("keras3")
  skip_without_core()
  # Some versions complain, when first used, that there is no TensorFlow.
  suppressWarnings(keras3::config_backend())
}

dense_network <- function(inputs, outputs, activation = NULL) {
  model <- keras3::keras_model_sequential(input_shape = inputs)
  model <- keras3::layer_dense(model, 8, activation = "tanh")
  keras3::layer_dense(model, outputs, activation = activation)
}

test_that("a keras3 network, optimizer and callback go into fit_pdf()", {
  skip_without_keras3()
  seen <- new.env()
  seen$epochs <- integer()
  Watch <- keras3::Callback("Watch", on_epoch_end = function(epoch, logs = NULL) {
    seen$epochs <- c(seen$epochs, epoch)
  })
  control <- fit_control(epochs = 300, threshold_chi2 = NULL,
    optimizer = keras3::optimizer_nadam(learning_rate = 0.004, clipnorm = 1e-5))
  fit <- fit_pdf("hera", model = pdf_model(dense_network(2, 8)), replicas = 1, seed = 1, control = control,
    callbacks = Watch())
  expect_identical(ncol(coef(fit)), 3L * 8L + 9L * 8L)
  expect_gt(length(seen$epochs), 0)
  expect_lt(fit$replicas$training, fit$history$training[[1]])
})

test_that("keras3 models, losses, metrics and optimizers go into train_stateless()", {
  skip_without_keras3()
  x <- matrix(seq(-1, 1, length.out = 60))
  y <- sin(2 * x)
  trained <- train_stateless(dense_network(1, 1), keras3::loss_mean_squared_error(), list(x, y),
    optimizer = keras3::optimizer_adam(0.03), metrics = list(keras3::metric_mean_absolute_error()),
    epochs = 300, seed = 1)
  expect_lt(trained$members$loss, 0.02)
  expect_gt(length(setdiff(names(trained$history), c("member", "epoch", "loss", "validation"))), 0)
})

test_that("a layer and a loss written in R with keras3 are trained", {
  skip_without_keras3()
  Scaled <- keras3::Layer("Scaled",
    initialize = function(factor = 1, ...) {
      super$initialize(...)
      self$factor <- factor
    },
    call = function(inputs) inputs * self$factor,
    get_config = function() {
      config <- super$get_config()
      config$factor <- self$factor
      config
    }
  )
  x <- matrix(seq(-1, 1, length.out = 40))
  y <- 3 * x
  model <- keras3::keras_model_sequential(input_shape = 1)
  model <- keras3::layer_dense(Scaled(model, factor = 2), 1)
  absolute <- function(y_true, y_pred) keras3::op_mean(keras3::op_abs(y_true - y_pred), axis = -1)
  trained <- train_stateless(model, absolute, list(x, y), optimizer = keras3::optimizer_adam(0.05),
    epochs = 300, seed = 1)
  expect_lt(trained$members$loss, 0.05)
  states <- matrix(rnorm(120), 30)
  network <- keras3::layer_dense(Scaled(keras3::keras_model_sequential(input_shape = 4), factor = 2), 3)
  sur <- fit_surrogate(tanh_operator(), states, model = network, epochs = 20, seed = 1)
  expect_true(all(is.finite(predict(sur, states))))
})

test_that("loading this package loads no keras3", {
  code <- "library(partonfit); cat('keras3' %in% loadedNamespaces())"
  out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", "-e", shQuote(code)), stdout = TRUE,
    stderr = FALSE)
  expect_identical(utils::tail(out, 1), "FALSE")
})
