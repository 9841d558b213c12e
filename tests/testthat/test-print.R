test_that("print is short and names the next call", {
  fit <- fake_fit()
  local_no_python()
  expect_snapshot(fit)
  expect_snapshot(summary(fit))
})

test_that("summary is plain tables", {
  result <- summary(fake_fit())
  expect_identical(result$replicas$n, c(3L, 1L))
  expect_identical(result$training$quantity[[1]], "training chi2/N")
  expect_equal(result$training$mean[[1]], 1.02)
  expect_identical(result$seed, 1L)
})
