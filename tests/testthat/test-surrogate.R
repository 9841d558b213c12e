test_that("a surrogate of three R functions has their values and derivatives", {
  sur <- small_surrogate()
  expect_identical(sur$calls, c(forward = 40L, tangent_linear = 0L, adjoint = 80L))
  errors <- stats::setNames(sur$errors$error, sur$errors$what)
  expect_lt(errors[["values"]], 0.45)
  expect_lt(errors[["adjoint"]], 0.5)
  x <- c(0.2, -0.3, 0.1, 0.4)
  expect_equal(as.vector(predict(sur, x)), as.vector(tanh_forward(x)), tolerance = 0.5)
  expect_identical(sur$seed, 3L)
})

test_that("predictions have a row for each state", {
  sur <- small_surrogate()
  states <- rbind(1:4, c(0, 0, 1, 0), 4:1) / 5
  mean <- predict(sur, states)
  expect_identical(dim(mean), c(3L, 3L))
  expect_equal(predict(sur, as.data.frame(states)), mean)
  members <- predict(sur, states, type = "members")
  expect_identical(dim(members), c(3L, 3L, 2L))
  expect_equal(apply(members, 1:2, mean), mean)
  expect_equal(predict(sur, states, type = "sd"), apply(members, 1:2, sd))
})

test_that("a surrogate is an operator with consistent derivatives", {
  sur <- small_surrogate()
  expect_true(check_operator(sur)$passed)
  x <- 1:4 / 5
  expect_equal(forward(sur, x), as.vector(predict(sur, x)))
  expect_equal(sum(1:3 * tangent_linear(sur, x, 4:1)), sum(adjoint(sur, x, 1:3) * 4:1))
  jnp <- reticulate::import("jax.numpy")
  H <- wrap_operator(sur)
  found <- value_and_grad(function(v) jnp$sum(H(v)^2), x)
  expect_equal(found$gradient, adjoint(sur, x, 2 * forward(sur, x)), tolerance = 1e-6)
})

test_that("a surrogate survives saveRDS() and a file that Python reads too", {
  sur <- small_surrogate()
  folder <- withr::local_tempdir()
  saveRDS(sur, file.path(folder, "sur.rds"))
  back <- readRDS(file.path(folder, "sur.rds"))
  expect_equal(back, sur)
  code <- sprintf(paste(
    "library(partonfit); sur <- readRDS('%s');",
    "cat(format(predict(sur, c(0.1, 0.2, 0.3, 0.4))[1, 1], digits = 12))"
  ), file.path(folder, "sur.rds"))
  out <- system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote(code)), stdout = TRUE)
  there <- as.numeric(utils::tail(out, 1))
  expect_equal(there, predict(sur, c(0.1, 0.2, 0.3, 0.4))[1, 1], tolerance = 1e-9)
  file <- save_surrogate(sur, file.path(folder, "sur.npz"))
  expect_equal(predict(load_surrogate(file), 1:4), predict(sur, 1:4))
  expect_error(save_surrogate(sur, file), class = "partonfit_error_storage")
  writeLines("nothing", file.path(folder, "text"))
  expect_error(load_surrogate(file.path(folder, "text")), class = "partonfit_error_storage")
})

test_that("an export is checked and says what it wrote", {
  sur <- small_surrogate()
  skip_if_not(reticulate::py_module_available("jax2onnx"), "the Python library jax2onnx is not available")
  folder <- withr::local_tempdir()
  found <- export_onnx(sur, file.path(folder, "sur.onnx"), parts = c("forward", "adjoint"))
  expect_identical(found$part, c("forward", "adjoint"))
  expect_true(all(file.exists(found$file)))
  expect_lt(max(found$error), 1e-5)
  expect_error(export_onnx(sur, file.path(folder, "sur.onnx")), class = "partonfit_error")
  session <- reticulate::import("onnxruntime")$InferenceSession(found$file[[1]])
  x <- rbind(1:4, c(0, 0, 1, 0)) / 5
  given <- reticulate::import("numpy", convert = FALSE)$array(x, dtype = "float32")
  inputs <- stats::setNames(list(given), session$get_inputs()[[1]]$name)
  expect_equal(session$run(NULL, reticulate::r_to_py(inputs))[[1]], predict(sur, x), tolerance = 1e-5)
  expect_snapshot(error = TRUE, {
    export_onnx(sur, "sur.onnx", parts = "gradient")
    export_onnx(tanh_operator(), "sur.onnx")
    export_onnx(sur, 3)
  })
})

test_that("printing and tables need no Python", {
  sur <- small_surrogate()
  local_no_python()
  sur$errors$error <- seq_along(sur$errors$error) / 10
  expect_snapshot(sur)
  expect_named(as.data.frame(sur), c("member", "epoch", "loss", "validation"))
  expect_identical(nrow(as.data.frame(sur, what = "observations")), 3L)
  expect_snapshot(surrogate_loss(adjoint = 0.5))
})

test_that("seeds govern, and an explicit one leaves R's stream alone", {
  skip_without_core()
  states <- matrix(sin(1:80), 20)
  fit <- function(...) fit_surrogate(tanh_operator(), states, hidden = 4, epochs = 3, ...)
  set.seed(4)
  a <- fit()
  set.seed(4)
  expect_identical(fit()$seed, a$seed)
  before <- .Random.seed
  expect_equal(predict(fit(seed = 7), 1:4), predict(fit(seed = 7), 1:4))
  expect_identical(.Random.seed, before)
})

test_that("states can be drawn by a function; a Keras model is taken", {
  skip_without_core()
  keras <- reticulate::import("keras")
  model <- keras$Sequential(list(
    keras$Input(tuple_of(4L)), keras$layers$Dense(5L, "tanh"), keras$layers$Dense(3L)
  ))
  draw <- function(n) matrix(stats::runif(4 * n), n)
  set.seed(1)
  sur <- fit_surrogate(tanh_operator(), draw, samples = 20, model = model, epochs = 3, seed = 1)
  expect_identical(sur$calls[["forward"]], 20L)
  expect_identical(dim(predict(sur, draw(2))), c(2L, 3L))
})

test_that("a failing operator stops the design with its own error", {
  skip_without_core()
  broken <- tanh_operator(forward = function(x) stop("the model crashed"))
  expect_snapshot(error = TRUE, fit_surrogate(broken, matrix(1, 5, 4), seed = 1))
  lacking <- tanh_operator(adjoint = NULL)
  expect_error(
    fit_surrogate(lacking, matrix(sin(1:20), 5), loss = surrogate_loss(adjoint = 1), seed = 1),
    class = "partonfit_error_operator"
  )
})

test_that("bad calls are refused before Python starts", {
  sur <- structure(list(format_version = 99L, n_state = 4L), class = "partonfit_surrogate")
  local_no_python()
  op <- tanh_operator()
  states <- matrix(1, 10, 4)
  expect_snapshot(error = TRUE, {
    fit_surrogate(sum, states)
    fit_surrogate(op, 1:4)
    fit_surrogate(op, matrix(1, 10, 3))
    fit_surrogate(op, states[1:3, ])
    fit_surrogate(op, replace(states, 7, NA))
    fit_surrogate(op, states, samples = 20)
    fit_surrogate(op, function(n) matrix(0, n, 4))
    fit_surrogate(op, states, loss = "adjoint")
    fit_surrogate(op, states, model = "dense")
    fit_surrogate(op, states, hidden = 0)
    fit_surrogate(op, states, members = 0)
    fit_surrogate(op, states, validation = 1)
    fit_surrogate(op, states, epoch = 3)
    surrogate_loss(values = 0)
    surrogate_loss(adjoint = -1)
    surrogate_loss(probes = 1.5)
    predict(sur, 1:4)
    save_surrogate(op, "file")
    load_surrogate(3)
  })
})
