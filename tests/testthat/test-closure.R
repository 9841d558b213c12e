closures <- new.env()

small_closure <- function() {
  skip_without_core()
  if (is.null(closures$small)) {
    closures$small <- closure_test("hera", fits = 3, replicas = 3, seed = 1, control = small_control())
  }
  closures$small
}

test_that("a closure test has one row for each region and each fit", {
  test <- small_closure()
  expect_s3_class(test, "closure_test")
  expect_identical(test$statistics$kind[[1]], "data")
  expect_identical(sum(test$statistics$kind == "dataset"), 7L)
  expect_identical(test$statistics$n_data[[1]], 1145L)
  expect_identical(nrow(test$fits), 3L)
  expect_identical(nrow(test$replicas), 9L)
  all <- test$statistics[1, ]
  used <- test$fits[test$fits$kept > 1, ]
  expect_equal(all$ratio, sqrt(mean(used$bias) / mean(used$variance)), tolerance = 1e-6)
  expect_true(all$xi >= 0 && all$xi <= 1)
  # E[xi] of exact uncertainties is below 0.683 for few replicas.
  expect_lt(test$faithful[["xi"]], 0.683)
})

test_that("the same seed gives the same closure test, here and in Python", {
  test <- small_closure()
  pf <- reticulate::import("partonfit")
  theirs <- pf$closure_test("hera", fits = 3L, replicas = 3L, seed = 1L,
    control = pf$fit_control(epochs = 300L, threshold_chi2 = NULL))
  expect_equal(as.vector(theirs$bias), test$fits$bias, tolerance = 1e-10)
})

test_that("its methods need no Python", {
  test <- small_closure()
  local_no_python()
  expect_output(print(test), "Closure test: 3 fits of 3 replicas")
  expect_output(print(summary(test)), "Faithful uncertainties")
  expect_identical(nrow(tidy(test)), 4L * nrow(test$statistics))
  expect_identical(glance(test)$nobs, 1145L)
  expect_identical(as.data.frame(test, what = "fits")$fit, 0:2)
  for (type in c("ratio", "xi", "pulls", "fits")) expect_s3_class(autoplot(test, type = type), "ggplot")
  file <- withr::local_tempfile(fileext = ".pdf")
  grDevices::pdf(file)
  expect_invisible(plot(test, type = "xi"))
  grDevices::dev.off()
  expect_identical(unserialize(serialize(test, NULL)), test)
})

test_that("a closure test goes to a folder that Python reads, and back", {
  test <- small_closure()
  folder <- file.path(withr::local_tempdir(), "closure")
  save_closure(test, folder)
  expect_equal(load_closure(folder), test)
  expect_error(save_closure(test, folder), class = "partonfit_error_storage")
  expect_error(load_closure(tempfile()), "closure.json", class = "partonfit_error_storage")
})

test_that("closure data are those of the law", {
  skip_without_core()
  exact <- utils::tail(chi2(closure_data("hera"), pdf = "toy")$chi2, 1)
  expect_lt(exact, 1e-6)
  noisy <- utils::tail(chi2(closure_data("hera", level = 1, seed = 3), pdf = "toy")$chi2_per_point, 1)
  expect_equal(noisy, 1, tolerance = 0.1)
  fit <- fit_pdf(closure_data("hera", level = 1, seed = 3), replicas = 1, seed = 1, control = small_control())
  expect_false(isTRUE(all.equal(fit$points$value, real_fit()$points$value)))
  expect_s3_class(update(fit, seed = 2), "pdf_fit")
})

test_that("closure data are plain, printed, and drawn from R's stream", {
  expect_snapshot(closure_data("hera", level = 1, seed = 1))
  set.seed(3)
  first <- closure_data("hera", level = 1)
  set.seed(3)
  expect_identical(closure_data("hera", level = 1), first)
  expect_null(closure_data("hera")$closure$seed)
})

test_that("bad calls are refused before Python starts", {
  local_no_python()
  newer <- structure(list(format_version = 99L), class = "closure_test")
  expect_snapshot(error = TRUE, {
    closure_test(fits = 0)
    closure_test(replicas = 1)
    closure_test(pdf = 3)
    closure_test(fit = 3)
    closure_test(control = list())
    closure_test(seed = NA)
    closure_data(level = 2)
    closure_data(level = "one")
    closure_data(level = 1, seed = -1)
    closure_data(pdf = NULL)
    save_closure(3, "folder")
    save_closure(newer, "folder")
    load_closure("")
    summary(newer)
  })
})
