test_that("chi2 has one row per dataset and a total", {
  fit <- fake_fit()
  table <- chi2(fit)
  expect_identical(table$dataset, c("A", "B", "Total"))
  expect_equal(table$chi2_per_point, table$chi2 / table$n_data)
  expect_equal(chi2(fit, covariance = "t0")$chi2[[3]], 5.8)
  expect_snapshot(error = TRUE, {
    chi2(3)
    chi2(fit, covariance = "total")
    chi2(fit, covarianc = "t0")
  })
})
