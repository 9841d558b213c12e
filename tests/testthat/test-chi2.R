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

test_that("any PDF can be compared with a choice of data", {
  core <- fake_core()
  core$chi2 <- function(...) {
    core$calls$chi2 <- list(...)
    list(dataset = c("A", "Total"), n_data = c(4L, 4L), chi2 = c(4, 5))
  }
  fit <- fake_fit()
  local_core(core)
  table <- chi2(pdf_data("A", q2min = 10), pdf = fit)
  expect_equal(table$chi2_per_point, c(1, 1.25))
  expect_identical(core$calls$chi2[[4]], list(fit = fit$id))
  expect_snapshot(error = TRUE, {
    chi2(pdf_data("A"), pdf = 3)
    chi2(pdf_data("A"), covariance = "t0")
    chi2(pdf_data("A"), theory = NA)
  })
})
