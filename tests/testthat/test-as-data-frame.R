test_that("tables come out as data frames", {
  fit <- fake_fit()
  local_no_python()
  for (what in c("pdfs", "replicas", "chi2", "points", "history", "timings")) {
    table <- as.data.frame(fit, what = what)
    expect_identical(class(table), "data.frame")
    expect_gt(nrow(table), 0)
  }
  expect_named(as.data.frame(fit), c("Q", "flavour", "x", "mean", "sd", "lower", "upper"))
  expect_error(as.data.frame(fit, what = "weights"), class = "partonfit_error_argument")
})

test_that("the accessors of a model work", {
  fit <- fake_fit()
  expect_identical(nobs(fit), 5L)
  expect_equal(residuals(fit), fit$points$value - fitted(fit))
  expect_equal(residuals(fit, type = "pull"), residuals(fit) / 0.05)
})
