test_that("a wrapped operator is a function of states", {
  skip_without_core()
  H <- wrap_operator(tanh_operator())
  x <- 1:4 / 7
  expect_equal(H(x), as.vector(tanh_forward(x)))
  expect_equal(dim(H(rbind(x, x))), c(2L, 3L))
  expect_identical(calls(H), c(forward = 3L, tangent_linear = 0L, adjoint = 0L, stored = 0L))
  expect_snapshot(H)
  expect_equal(adjoint(H, x, 1:3), as.vector(tanh_adjoint(x, 1:3)))
})

test_that("mode tangent_linear, also with a fixed state", {
  skip_without_core()
  x <- 1:4 / 7
  dx <- c(1, 0, -1, 2)
  want <- as.vector(tanh_tangent(x, dx))
  expect_equal(wrap_operator(tanh_operator(), mode = "tangent_linear")(x, dx), want)
  expect_equal(wrap_operator(tanh_operator(), mode = "tangent_linear", at = x)(dx), want)
})

test_that("gradients go through R functions on R's thread, with one call of each", {
  skip_without_core()
  jnp <- reticulate::import("jax.numpy")
  H <- wrap_operator(tanh_operator())
  x <- c(0.1, -0.2, 0.3, 0.4)
  y <- c(0.2, 0.1, -0.3)
  found <- value_and_grad(function(v) jnp$sum((H(v) - array(y))^2), x)
  residual <- as.vector(tanh_forward(x)) - y
  expect_equal(found$value, sum(residual^2), tolerance = 1e-14)
  expect_equal(found$gradient, as.vector(tanh_adjoint(x, 2 * residual)), tolerance = 1e-14)
  expect_identical(calls(H)[c("forward", "adjoint")], c(forward = 1L, adjoint = 1L))
})

test_that("a vector that meets an array of JAX gets a hint", {
  skip_without_core()
  jnp <- reticulate::import("jax.numpy")
  expect_snapshot(error = TRUE, value_and_grad(function(v) jnp$sum(v - c(1, 2)), c(1, 2)))
})

test_that("a call from another thread is refused before R is touched, and R goes on", {
  skip_without_core()
  op <- tanh_operator()
  handle <- partonfit:::operator_handle(op, NULL)
  elsewhere <- reticulate::py_run_string(paste(
    "from concurrent.futures import ThreadPoolExecutor",
    "import numpy as np",
    "def elsewhere(handle):",
    "    with ThreadPoolExecutor(1) as pool:",
    "        return str(pool.submit(handle.value.forward, np.zeros(4)).exception(timeout=60))",
    sep = "\n"
  ))$elsewhere
  expect_match(elsewhere(handle), "R runs on one thread only")
  expect_equal(forward(op, 1:4 / 7), as.vector(tanh_forward(1:4 / 7)))
})

test_that("results are kept on disk when asked for", {
  skip_without_core()
  folder <- withr::local_tempdir()
  op <- tanh_operator(key = "tanh, first version")
  first <- wrap_operator(op, reload_results = folder)
  first(1:4)
  again <- wrap_operator(op, reload_results = folder)
  expect_equal(again(1:4), first(1:4))
  expect_identical(calls(again)[["forward"]], 1L)
  expect_gte(calls(again)[["stored"]], 1L)
  nameless <- wrap_operator(tanh_operator(), reload_results = folder)
  expect_error(nameless(1:4), class = "partonfit_error_setting")
})

test_that("bad calls are refused before Python starts", {
  local_no_python()
  expect_snapshot(error = TRUE, {
    wrap_operator(function(x) x)
    wrap_operator(tanh_operator(), mode = "adjoint")
    wrap_operator(tanh_operator(), at = 1:3)
    wrap_operator(tanh_operator(), reload_results = 3)
    wrap_operator(tanh_operator())(1:3)
    calls(tanh_operator())
    value_and_grad("f", 1)
    value_and_grad(sum, NA)
  })
})

test_that("a wrapped operator works in a new session, where Python knows nothing of it", {
  skip_without_core()
  H <- wrap_operator(matrix_operator(matrix(1:6, 2)))
  before <- H(1:3)
  file <- withr::local_tempfile(fileext = ".rds")
  saveRDS(H, file)
  expect_equal(readRDS(file)(1:3), before)
})
