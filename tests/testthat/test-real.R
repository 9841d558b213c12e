# With the real core: small fits of the embedded data.

test_that("a fit from R is a working fit", {
  fit <- real_fit()
  expect_identical(nrow(fit$replicas), 3L)
  expect_gt(nobs(fit), 1000)
  expect_true(all(is.finite(chi2(fit)$chi2)))
  expect_output(print(fit), "7 datasets")
  expect_identical(fit$seed, 7L)
})

test_that("the stored grid is what predict() gives", {
  fit <- real_fit()
  stored <- fit$pdfs[fit$pdfs$flavour == "g" & fit$pdfs$Q == 100, ]
  asked <- predict(fit, x = stored$x, Q = 100, flavour = "g")
  expect_equal(asked$.pred, stored$mean, tolerance = 1e-10)
  expect_equal(asked$.upper, stored$upper, tolerance = 1e-10)
  replicas <- predict(fit, x = 0.1, Q = 1.65, flavour = "u_v", type = "replicas")$.replicas[[1]]
  expect_length(replicas, sum(fit$replicas$kept))
  expect_equal(mean(replicas), predict(fit, x = 0.1, flavour = "u_v")$.pred)
})

test_that("fits repeat, and depend on the seed", {
  fit <- real_fit()
  again <- update(fit)
  expect_equal(again$pdfs$mean, fit$pdfs$mean, tolerance = 1e-6)
  expect_false(isTRUE(all.equal(update(fit, seed = 8)$pdfs$mean, fit$pdfs$mean, tolerance = 1e-6)))
})

test_that("a saved fit predicts in a new session", {
  fit <- real_fit()
  file <- withr::local_tempfile(fileext = ".rds")
  saveRDS(fit, file)
  code <- sprintf(paste(
    "library(partonfit); fit <- readRDS('%s');",
    "cat(format(predict(fit, x = 0.1, Q = 91.2)$.pred, digits = 12))"
  ), file)
  out <- system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote(code)), stdout = TRUE)
  expect_equal(as.numeric(utils::tail(out, 1)), predict(fit, x = 0.1, Q = 91.2)$.pred, tolerance = 1e-9)
})

test_that("mistakes that only the core can see come back as classed errors", {
  skip_without_core()
  control <- small_control()
  expect_snapshot(error = TRUE, fit_pdf("herra", replicas = 2, seed = 1, control = control))
  expect_error(fit_pdf("herra", replicas = 2, seed = 1), class = "partonfit_error_data")
  expect_error(
    fit_pdf("hera", theory = tempfile("nothing"), replicas = 2, seed = 1),
    class = "partonfit_error_theory"
  )
  expect_snapshot(error = TRUE, predict(real_fit(), x = 0.1, flavour = "gluonn"))
  expect_error(predict(real_fit(), x = 0.1, Q = 1.2), class = "partonfit_error_setting")
})

test_that("damaged bytes are refused in words", {
  fit <- real_fit()
  fit$id <- "damaged"
  fit$state <- fit$state[1:100]
  expect_error(predict(fit, x = 0.1), class = "partonfit_error_storage")
})

test_that("an interrupt gives the best so far", {
  skip_without_core()
  local_functions(progress_callback = function(...) {
    function(step, total, metrics) if (step > 0) rlang::interrupt()
  })
  control <- fit_control(epochs = 4000, threshold_chi2 = NULL)
  expect_warning(
    fit <- fit_pdf("hera", replicas = 2, seed = 1, control = control, verbose = TRUE),
    class = "partonfit_warning_interrupted"
  )
  expect_true(any(fit$replicas$status == "interrupted"))
  expect_lt(max(fit$replicas$epoch), 4000)
})

test_that("an LHAPDF set and a page are written", {
  fit <- real_fit()
  folder <- withr::local_tempdir()
  set <- write_lhapdf(fit, file.path(folder, "small"))
  expect_length(list.files(set, pattern = "[.]dat$"), 1 + sum(fit$replicas$kept))
  expect_true(file.exists(file.path(set, "small.info")))
  page <- report(fit, file.path(folder, "fit.html"))
  expect_match(paste(readLines(page, n = 5, warn = FALSE), collapse = ""), "html")
})

test_that("a fit without a usable replica is an object with a warning, not an error", {
  skip_without_core()
  hard <- fit_control(epochs = 5, threshold_chi2 = 0.001)
  expect_warning(fit <- fit_pdf("hera", replicas = 1, seed = 1, control = hard), "No replica can be used")
  expect_output(print(fit), "0 kept, 1 never_passed")
  expect_true(all(is.nan(chi2(fit)$chi2)))
  expect_error(predict(fit, x = 0.1), class = "partonfit_error_fit")
  expect_error(ggplot2::autoplot(fit), class = "partonfit_error_fit")
  expect_s3_class(ggplot2::autoplot(fit, type = "training"), "ggplot")
})

test_that("t0 = NULL fits with the experimental covariance", {
  skip_without_core()
  short <- fit_control(epochs = 5, threshold_chi2 = NULL)
  fit <- fit_pdf("hera", replicas = 1, seed = 1, t0 = NULL, control = short)
  expect_true(all(is.finite(chi2(fit)$chi2)))
  expect_error(chi2(fit, covariance = "t0"), class = "partonfit_error_argument")
})
