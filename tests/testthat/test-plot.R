test_that("every kind of figure draws, from one replica up", {
  local_core()
  for (replicas in c(1L, 4L)) {
    core <- fake_core()
    core$fit <- function(...) fake_parts(replicas = replicas, vetoed = 0L)
    local_core(core)
    fit <- fit_pdf("hera", seed = 1)
    for (type in c("pdfs", "ratio", "chi2", "data", "training")) {
      expect_silent(built <- ggplot2::ggplot_build(autoplot(fit, type = type)))
      expect_gt(nrow(built$data[[length(built$data)]]), 0)
    }
  }
})

test_that("stored scales need no Python; others ask the core", {
  fit <- fake_fit()
  local_no_python()
  expect_s3_class(autoplot(fit, flavours = "g", Q = 100), "ggplot")
  expect_s3_class(autoplot(fit, xscale = "linear"), "ggplot")
  core <- local_core()
  autoplot(fit, flavours = "g", Q = 10)
  expect_true(all(core$calls$predict[[3]] == 10))
})

test_that("replicas are drawn one line each", {
  fit <- fake_fit()
  local_core()
  figure <- autoplot(fit, type = "replicas", flavours = "g")
  expect_identical(length(unique(figure$data$replica)), 3L)
})

test_that("labels carry scale and symbols", {
  figure <- autoplot(fake_fit(), flavours = c("u_v", "ubar"), Q = 100)
  expect_match(figure$labels$title, "Q = 100 GeV")
  expect_identical(levels(figure$data$panel), c("x*' '*u[v]", "x*' '*bar(u)"))
  expect_identical(
    vapply(c("T3", "s_plus", "Sigma", "g", "d_minus"), symbol, ""),
    c(T3 = "T[3]", s_plus = "s^{'+'}", Sigma = "Sigma", g = "g", d_minus = "d^{'-'}")
  )
})

test_that("bad requests are refused", {
  fit <- fake_fit()
  local_no_python()
  expect_snapshot(error = TRUE, {
    autoplot(fit, flavours = "gluon")
    autoplot(fit, flavours = "uv")
    autoplot(fit, flavours = character())
    autoplot(fit, flavours = 1)
    autoplot(fit, Q = "high")
    autoplot(fit, type = "histogram")
    autoplot(fit, type = "ratio", to = 3)
    autoplot(fit, xscale = "sqrt")
    autoplot(fit, flavour = "g")
  })
})
