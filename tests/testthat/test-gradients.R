test_that("the slope of a PDF is that of differences of its predictions", {
  fit <- real_fit()
  rows <- data.frame(x = c(0.02, 0.2, 0.02), flavour = c("g", "u_v", "Sigma"))
  found <- input_gradients(fit, rows)
  step <- 2e-3
  at <- function(factor) {
    predict(fit, data.frame(x = rows$x * factor, Q = fit$q0, flavour = rows$flavour))$.pred
  }
  difference <- (at(1 + step) - at(1 - step)) / (2 * step * rows$x)
  expect_equal(found$.slope, difference, tolerance = 0.01)
  expect_equal(found$.elasticity, found$.slope * rows$x / at(1))
  expect_true(all(found$.sd > 0))
})

test_that("sensitivities of predictions are those of differences", {
  fit <- real_fit()
  found <- sensitivity(fit, c(2, 700))
  op <- theory_operator("hera", basis = "fitted")
  expect_identical(nrow(found), 2L * op$n_state)
  first <- found[found$point == 2, ]
  inside <- first$x < 1
  state <- numeric(op$n_state)
  rows <- data.frame(x = first$x, Q = fit$q0, flavour = first$flavour)[inside, ]
  state[inside] <- predict(fit, rows)$.pred
  # The theory of these data is linear: slopes times PDFs are the prediction itself.
  expect_equal(sum(first$slope * state), fit$points$prediction[[2]], tolerance = 1e-4)
  expect_equal(first$pull, first$slope * state / fit$points$error[[2]])
  expect_identical(unique(found$dataset), fit$points$dataset[c(2, 700)])
})

test_that("the saliency of a classifier points to the input that decides", {
  skip_without_core()
  keras <- reticulate::import("keras")
  model <- keras$Sequential(list(keras$Input(tuple_of(3L)), keras$layers$Dense(8L, "tanh"),
    keras$layers$Dense(1L, "sigmoid")))
  set.seed(2)
  x <- matrix(rnorm(600), 200)
  label <- matrix(as.double(x[, 2] > 0))
  adam <- keras$optimizers$Adam(0.03)
  trained <- train_stateless(model, "binary_crossentropy", list(x, label), members = 2, optimizer = adam,
    epochs = 150, seed = 1)
  slopes <- input_gradients(trained, x)
  expect_identical(dim(slopes), c(200L, 3L, 2L))
  size <- apply(abs(slopes), 2, mean)
  expect_gt(size[[2]], 3 * max(size[-2]))
  # The Keras model has the weights of the first member.
  expect_equal(input_gradients(model, x), slopes[, , 1], tolerance = 1e-5)
  step <- matrix(rep(c(0, 1e-3, 0), each = 200), 200)
  difference <- (predict(trained, x + step) - predict(trained, x - step))[, 1, 1] / 2e-3
  expect_equal(slopes[, 2, 1], difference, tolerance = 1e-3)
  expect_error(input_gradients(trained, x, output = 2), "1 outputs", class = "partonfit_error_setting")
})

test_that("gradients of a surrogate are its adjoint", {
  sur <- small_surrogate()
  x <- rbind(1:4, 4:1) / 5
  expect_equal(input_gradients(sur, x, output = 2), adjoint(sur, x, c(0, 1, 0)))
})

test_that("a loop of one's own trains a Keras model", {
  skip_without_core()
  keras <- reticulate::import("keras")
  jnp <- reticulate::import("jax.numpy")
  model <- keras$Sequential(list(keras$Input(tuple_of(1L)), keras$layers$Dense(1L)))
  x <- matrix(seq(0, 1, by = 0.1))
  y <- 3 * x - 1
  weights <- model_weights(model)
  before <- weights
  loss <- function(w) jnp$mean((model_call(model, w, x) - y)^2)
  for (step in 1:150) {
    found <- value_and_grad(loss, weights, precision = "float32")
    weights <- Map(function(w, g) w - 0.4 * g, weights, found$gradient)
  }
  expect_lt(found$value, 1e-3)
  expect_equal(as.vector(weights[[1]]), 3, tolerance = 0.1)
  expect_equal(model_weights(model), before)
})

test_that("lists keep their names and shapes", {
  skip_without_core()
  jnp <- reticulate::import("jax.numpy")
  found <- value_and_grad(function(p) jnp$sum(p$a * p$b), list(a = c(1, 2), b = c(3, 4)))
  expect_equal(found, list(value = 11, gradient = list(a = c(3, 4), b = c(1, 2))))
  square <- value_and_grad(function(m) jnp$sum(m^2), diag(2))
  expect_equal(square$gradient, 2 * diag(2))
})

test_that("bad calls are refused before Python starts", {
  fit <- fake_fit()
  local_no_python()
  expect_snapshot(error = TRUE, {
    input_gradients(3, 1)
    input_gradients(fit, c(0.1, 0.2))
    input_gradients(fit, data.frame(x = c(0.1, 1)))
    input_gradients(fit, data.frame(x = c(0.1, NA)))
    input_gradients(fit, data.frame(y = 1))
    input_gradients(fit, data.frame(x = 0.1), output = 2)
    sensitivity(3, 1)
    sensitivity(fit, 0)
    sensitivity(fit, 99)
    sensitivity(fit, 1.5)
    sensitivity(fit, "first")
    value_and_grad("f", 1)
    value_and_grad(identity, "x")
    value_and_grad(identity, 1, precision = "half")
    model_weights(NULL)
    model_call("model", list(), 1)
  })
})
