test_that("what is asked for reaches the core in its types", {
  core <- local_core()
  fit <- fit_pdf("hera", replicas = 4, seed = 3, control = fit_control(epochs = 100))
  asked <- core$calls$fit
  expect_identical(asked[[1]], "hera")
  expect_identical(asked[[2]], list(q2min = 3.49, w2min = 12.5))
  expect_identical(asked[[3]], "hera")
  expect_identical(asked$replicas, 4L)
  expect_identical(asked$seed, 3L)
  expect_identical(asked$t0, "toy")
  expect_identical(asked$control$epochs, 100L)
  expect_null(asked$progress)
  expect_s3_class(fit, "pdf_fit")
  expect_identical(fit$seed, 3L)
})

test_that("lists of entries become lists and dictionaries", {
  core <- local_core()
  fit_pdf(list("A", list(dataset = "B", frac = 0.5)), replicas = 4, seed = 1)
  expect_identical(core$calls$fit[[1]], list("A", list(dataset = "B", frac = 0.5)))
  fit_pdf(c("A", "B"), replicas = 4, seed = 1)
  expect_identical(core$calls$fit[[1]], list("A", "B"))
})

test_that("bad calls stop before Python starts", {
  local_no_python()
  expect_snapshot(error = TRUE, {
    fit_pdf("hera", replicas = 0)
    fit_pdf("hera", replicas = "many")
    fit_pdf("hera", replicas = NA)
    fit_pdf("hera", replicas = NULL)
    fit_pdf("hera", seed = 1.5)
    fit_pdf("hera", seed = -1)
    fit_pdf("hera", seed = "one")
    fit_pdf("hera", seed = NA)
    fit_pdf("hera", replica = 10)
    fit_pdf(NA)
    fit_pdf(data.frame(x = 1))
    fit_pdf("hera", theory = NULL)
    fit_pdf("hera", control = list(epochs = 3))
    fit_pdf("hera", t0 = 3)
    fit_pdf("hera", model = "big")
    fit_pdf("hera", verbose = NA)
  })
})

test_that("the seed is drawn from R only when it is NULL, and stored", {
  local_core()
  set.seed(1)
  a <- fit_pdf("hera", replicas = 4)
  set.seed(1)
  expect_identical(fit_pdf("hera", replicas = 4)$seed, a$seed)
  before <- .Random.seed
  expect_identical(fit_pdf("hera", replicas = 4, seed = 5)$seed, 5L)
  expect_identical(.Random.seed, before)
})

test_that("a refused call draws no seed", {
  local_no_python()
  set.seed(1)
  before <- .Random.seed
  expect_error(fit_pdf("hera", replicas = 0), class = "partonfit_error_argument")
  expect_identical(.Random.seed, before)
})

test_that("an earlier fit can be the t0 PDF; its bytes are handed over once", {
  first <- fake_fit()
  core <- local_core()
  fit_pdf("hera", replicas = 4, seed = 1, t0 = first)
  expect_identical(core$calls$load[[1]], first$id)
  expect_identical(core$calls$load[[2]], first$state)
  expect_identical(core$calls$fit$t0, list(fit = first$id))
})

test_that("an interrupted fit is returned with a classed warning", {
  core <- fake_core()
  core$fit <- function(...) fake_parts(interrupted = TRUE)
  local_core(core)
  expect_warning(fit <- fit_pdf("hera", seed = 1), class = "partonfit_warning_interrupted")
  expect_true(fit$interrupted)
  expect_output(print(fit), "Interrupted")
})

test_that("a fit without a kept replica comes back with a classed warning", {
  core <- fake_core()
  core$fit <- function(...) fake_parts(replicas = 2L, vetoed = 2L)
  local_core(core)
  expect_snapshot(fit <- fit_pdf("hera", replicas = 2, seed = 1))
  expect_output(print(fit), "0 kept")
})

test_that("update() repeats the call with changes", {
  fit <- fake_fit(control = fit_control(epochs = 50))
  core <- local_core()
  again <- update(fit, data = pdf_data("hera", q2min = 10))
  asked <- core$calls$fit
  expect_identical(asked[[2]]$q2min, 10)
  expect_identical(asked$seed, 1L)
  expect_identical(asked$control$epochs, 50L)
  expect_identical(update(fit, seed = 9)$seed, 9L)
  expect_error(update(fit, 3), class = "partonfit_error_argument")
  expect_error(update(fit, replica = 3), class = "partonfit_error_argument")
})
