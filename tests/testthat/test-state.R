H <- rbind(c(1, 0, 0), c(0, 1, 1))

small_state <- function(...) {
  fit_state(H, y = c(1, 1), R = 0.5, prior_mean = c(0, 0, 0), prior_covariance = 0.5, ...)
}

test_that("the estimate of a linear operator is that on paper", {
  skip_without_core()
  for (minimiser in c("scipy", "optax")) {
    found <- small_state(minimiser = minimiser)
    expect_equal(coef(found), c(1 / 2, 1 / 3, 1 / 3), tolerance = 1e-5)
  }
  expect_equal(fitted(found), c(1 / 2, 2 / 3), tolerance = 1e-5)
  expect_equal(residuals(found), 1 - fitted(found))
  expect_equal(sum(residuals(found, type = "pull")^2), found$chi2, tolerance = 1e-8)
  expect_identical(nobs(found), 2L)
  expect_output(print(found), "3 elements from 2 observations")
})

test_that("R functions, matrices of covariance and factors work", {
  skip_without_core()
  op <- operator(function(x) as.vector(H %*% x), function(x, dx) as.vector(H %*% dx),
    function(x, dy) as.vector(t(H) %*% dy), n_state = 3, n_obs = 2)
  by_functions <- fit_state(op, c(1, 1), diag(0.5, 2), prior_mean = numeric(3),
    prior_factor = diag(sqrt(0.5), 3))
  expect_equal(coef(by_functions), c(1 / 2, 1 / 3, 1 / 3), tolerance = 1e-5)
  expect_true(by_functions$calls[["forward"]] > 0)
})

test_that("members spread as the posterior does, and seeds govern", {
  skip_without_core()
  found <- small_state(members = 400, seed = 1)
  # The posterior covariance is (B^-1 + H' R^-1 H)^-1.
  posterior <- solve(diag(2, 3) + t(H) %*% H / 0.5)
  expect_equal(found$sd, sqrt(diag(posterior)), tolerance = 0.12)
  expect_identical(nrow(tidy(found)), 3L)
  expect_identical(glance(found)$members, 400L)
  expect_output(print(summary(found)), "Standard deviations")
  set.seed(5)
  first <- small_state(members = 2)$seed
  set.seed(5)
  expect_identical(small_state(members = 2)$seed, first)
  for (type in c("state", "observations")) expect_s3_class(autoplot(found, type = type), "ggplot")
  expect_identical(unserialize(serialize(found, NULL)), found)
})

test_that("bad calls are refused before Python starts", {
  local_no_python()
  expect_snapshot(error = TRUE, {
    fit_state("H", 1, 1)
    fit_state(H, 1, 1)
    fit_state(H, c(1, NA), 1)
    fit_state(H, c(1, 1), R = c(1, 2, 3))
    fit_state(H, c(1, 1), R = 0)
    fit_state(H, c(1, 1), R = matrix(1:4, 2))
    fit_state(H, c(1, 1), R = 1)
    fit_state(H, c(1, 1), R = 1, prior_mean = c(0, 0, 0))
    fit_state(H, c(1, 1), R = 1, prior_mean = 0, prior_covariance = 1)
    fit_state(H, c(1, 1), R = 1, prior_mean = c(0, 0, 0), prior_covariance = 1, prior_factor = diag(3))
    fit_state(H, c(1, 1), R = 1, prior_mean = c(0, 0, 0), prior_factor = diag(2))
    fit_state(H, c(1, 1), R = 1, prior_mean = c(0, 0, 0), prior_covariance = 1, members = -1)
    fit_state(H, c(1, 1), R = 1, prior_mean = c(0, 0, 0), prior_covariance = 1, minimiser = "newton")
  })
})

test_that("a PDF fit through an operator is that of the tables, and R functions are refused", {
  fit <- real_fit()
  op <- theory_operator("hera", basis = "fitted")
  x <- unique(sensitivity(fit, 1)$x)
  through <- fit_pdf("hera", operator = op, grid = x, replicas = 1, seed = 7,
    control = fit_control(epochs = 20, threshold_chi2 = NULL))
  tables <- fit_pdf("hera", replicas = 1, seed = 7, control = fit_control(epochs = 20, threshold_chi2 = NULL))
  expect_equal(through$replicas$training, tables$replicas$training, tolerance = 0.02)
  expect_null(through$arguments$operator$cache$handle)
  mine <- operator(function(x) x, n_state = 2, n_obs = 2)
  expect_snapshot(error = TRUE, {
    fit_pdf("hera", operator = mine, grid = x)
    fit_pdf("hera", operator = op)
    fit_pdf("hera", grid = 0.1)
    fit_pdf("hera", operator = op, grid = c(0.1, 2))
    fit_pdf("hera", operator = 3, grid = 0.1)
  })
})
