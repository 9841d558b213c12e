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

test_that("a loss of (y_true, y_pred) written in R is one of Keras'", {
  model <- small_model()
  ops <- reticulate::import("keras")$ops
  x <- matrix(seq(-1, 1, length.out = 50))
  y <- sin(2 * x)
  mine <- function(y_true, y_pred) ops$mean((y_true - y_pred)^2, axis = -1L)
  ours <- train_stateless(model, mine, list(x, y), epochs = 20, batch_size = 15, seed = 3)
  theirs <- train_stateless(model, "mse", list(x, y), epochs = 20, batch_size = 15, seed = 3)
  expect_equal(ours$history$loss, theirs$history$loss, tolerance = 1e-5)
  flat <- function(y_true, y_pred) ops$mean((y_true - y_pred)^2)
  expect_error(train_stateless(model, flat, list(x, y)), "for each sample", class = "partonfit_error_setting")
})

test_that("a loss with a key is random as the seed says", {
  model <- small_model()
  jax <- reticulate::import("jax")
  noisy <- function(predict, x, key) {
    jax$numpy$mean((predict(x + 0.1 * jax$random$normal(key, x$shape)) - 1)^2)
  }
  x <- matrix(seq(-1, 1, length.out = 20))
  one <- train_stateless(model, noisy, x, epochs = 5, seed = 3)
  expect_identical(train_stateless(model, noisy, x, epochs = 5, seed = 3)$history, one$history)
  expect_false(identical(train_stateless(model, noisy, x, epochs = 5, seed = 4)$history, one$history))
})

test_that("callbacks of Keras are called, those that change weights are refused", {
  model <- small_model()
  reticulate::py_run_string(paste(
    "import keras", "class Seen(keras.callbacks.Callback):",
    "    def __init__(self):", "        super().__init__()", "        self.words = []",
    "    def on_train_begin(self, logs=None):", "        self.words.append('begin')",
    "    def on_epoch_end(self, epoch, logs=None):", "        self.words.append(f'{epoch} {sorted(logs)}')",
    "    def on_train_end(self, logs=None):", "        self.words.append('end')",
    "class Stop(keras.callbacks.Callback):",
    "    def on_epoch_end(self, epoch, logs=None):", "        self.model.stop_training = True",
    sep = "\n"
  ))
  main <- reticulate::import_main()
  seen <- main$Seen()
  x <- matrix(seq(-1, 1, length.out = 20))
  train_stateless(model, "mse", list(x, x), epochs = 4, seed = 1,
    callbacks = list(seen, function(...) NULL))
  expect_identical(seen$words[c(1, length(seen$words))], c("begin", "end"))
  expect_match(seen$words[[2]], "'loss'.*'val_loss'")
  stopped <- train_stateless(model, "mse", list(x, x), epochs = 1e5, seed = 1,
    callbacks = main$Stop())
  expect_identical(stopped$members$status, "interrupted")
  early <- reticulate::import("keras")$callbacks$EarlyStopping()
  expect_error(train_stateless(model, "mse", list(x, x), callbacks = early), "patience",
    class = "partonfit_error_setting")
})

test_that("the last weights, a precision, metrics and a thinner history can be had", {
  model <- small_model()
  keras <- reticulate::import("keras")
  x <- matrix(seq(-1, 1, length.out = 20))
  trained <- train_stateless(model, "mse", list(x, x), epochs = 10, keep = "last", record_every = 5, seed = 1,
    metrics = list("mae", keras$metrics$MeanSquaredError(name = "square")))
  expect_identical(nrow(trained$history), 2L)
  expect_true(all(c("mae", "square") %in% names(trained$history)))
  expect_identical(trained$members$best_epoch, 10L)
})

test_that("wrong losses, metrics, callbacks and settings are refused before the training", {
  local_no_python()
  model <- structure(list(), class = "python.builtin.object")
  local_functions(check_keras = function(model, ...) model)
  expect_snapshot(error = TRUE, {
    train_stateless(model, function(x) x, 1)
    train_stateless(model, 3, 1)
    train_stateless(model, "mse", 1, metrics = 3)
    train_stateless(model, "mse", 1, callbacks = "log.txt")
    train_stateless(model, "mse", 1, keep = "first")
    train_stateless(model, "mse", 1, precision = "half")
    train_stateless(model, "mse", "data")
    train_stateless(model, "mse", c(1, NA))
    train_stateless(model, "mse", 1, optimizer = 3)
    train_stateless(model, "mse", 1, validation = 2)
    train_stateless(model, "mse", 1, members = 0)
    train_stateless(model, "mse", 1, record_every = 0)
    train_stateless(model, "mse", 1, checkpoint = "/proc/nothing/here")
  })
})
