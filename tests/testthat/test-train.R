small_model <- function(units = 8L) {
  skip_without_core()
  keras <- reticulate::import("keras")
  keras$Sequential(list(keras$Input(tuple_of(1L)), keras$layers$Dense(units, "tanh"), keras$layers$Dense(1L)))
}

test_that("a Keras model is trained with a Keras loss, as an ensemble", {
  model <- small_model()
  x <- matrix(seq(-1, 1, length.out = 60))
  adam <- reticulate::import("keras")$optimizers$Adam(0.03)
  trained <- train_stateless(model, "mse", list(x, sin(2 * x)), members = 2, epochs = 300,
    optimizer = adam, metrics = "mae", validation = 0.2, seed = 1)
  expect_identical(nrow(trained$members), 2L)
  expect_true(all(c("member", "epoch", "loss", "validation", "mae") %in% names(trained$history)))
  expect_identical(nrow(trained$history), 600L)
  fitted <- predict(trained, x)
  expect_identical(dim(fitted), c(60L, 1L, 2L))
  expect_lt(mean((fitted[1:48, 1, 1] - sin(2 * x[1:48]))^2), 0.05)
  write_back(trained, 1)
  expect_equal(as.vector(model$predict(x, verbose = 0L)), fitted[, 1, 2], tolerance = 1e-5)
  expect_output(print(trained), "2 members")
})

test_that("a loss written in R may differentiate the model", {
  model <- small_model()
  jax <- reticulate::import("jax")
  decay <- function(predict, t) {
    slope <- jax$jvp(predict, list(t), list(jax$numpy$ones_like(t)))[[2]]
    jax$numpy$mean((slope + predict(t))^2) + jax$numpy$mean((predict(t * 0) - 1)^2)
  }
  t <- matrix(seq(0, 1, length.out = 20))
  adam <- reticulate::import("keras")$optimizers$Adam(0.02)
  solved <- train_stateless(model, decay, t, optimizer = adam, epochs = 600, seed = 1)
  expect_lt(max(abs(predict(solved, t)[, 1, 1] - exp(-t))), 0.03)
})

test_that("bad calls are refused before Python starts", {
  old <- structure(list(handle = NULL), class = "partonfit_training")
  local_no_python()
  expect_snapshot(error = TRUE, {
    train_stateless(NULL, "mse", 1)
    train_stateless("model", "mse", 1)
    predict(old, 1)
    write_back(3)
    data_parallel(devices = 0)
    data_parallel(number = 2)
  })
})

test_that("data_parallel() divides Keras' work and the replicas over forced devices", {
  skip_without_core()
  code <- paste(
    "library(partonfit)", "data_parallel(devices = 4)",
    "keras <- reticulate::import('keras')",
    "cat(length(keras$distribution$distribution()$device_mesh$devices), '\\n')",
    "model <- keras$Sequential(list(keras$Input(reticulate::tuple(1L)), keras$layers$Dense(1L)))",
    "model$compile(loss = 'mse', optimizer = 'sgd')",
    "h <- model$fit(matrix(1:8 + 0), matrix(1:8 + 0), epochs = 1L, batch_size = 8L, verbose = 0L)",
    "cat(is.finite(h$history$loss[[1]]), '\\n')",
    "control <- fit_control(epochs = 5, threshold_chi2 = NULL)",
    "fit <- fit_pdf('hera', replicas = 4, seed = 1, control = control)",
    "cat(nrow(fit$replicas), '\\n')",
    "tryCatch(data_parallel(), partonfit_error_setting = function(e) cat(conditionMessage(e)))",
    sep = "; "
  )
  out <- paste(suppressWarnings(system2(
    file.path(R.home("bin"), "Rscript"), c("-e", shQuote(code)), stdout = TRUE, stderr = TRUE
  )), collapse = "\n")
  expect_match(out, "divided over 4 devices: cpu:0")
  expect_match(out, "4 \nTRUE \n4 \n")
  expect_match(out, "comes too late")
})

test_that("more devices than there are is refused with what to do", {
  skip_without_core()
  expect_error(partonfit:::call_core("data_parallel", 999L), "new session", class = "partonfit_error_setting")
})
