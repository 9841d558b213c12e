test_that("constraints, callbacks, checkpoint and devices reach the core", {
  core <- local_core()
  folder <- withr::local_tempdir()
  seen <- NULL
  fit <- fit_pdf("hera", replicas = 4, seed = 1,
    constraints = "nnpdf40", checkpoint = file.path(folder, "kept"), devices = 2,
    callbacks = list(function(step, total, metrics) NULL, file.path(folder, "fit.csv")))
  asked <- core$calls$fit
  expect_identical(asked$constraints, list(entries = "nnpdf40", cuts = NULL))
  expect_identical(asked$checkpoint, file.path(folder, "kept"))
  expect_false(asked$resume)
  expect_identical(asked$devices, 2L)
  expect_type(asked$callbacks[[1]], "closure")
  expect_identical(asked$callbacks[[2]], file.path(folder, "fit.csv"))
  update(fit)
  expect_identical(core$calls$fit$constraints$entries, "nnpdf40")
  expect_null(core$calls$fit$checkpoint)
})

test_that("a resumed fit has the seed of its checkpoint and draws none", {
  core <- local_core()
  set.seed(1)
  before <- .Random.seed
  fit <- fit_pdf("hera", replicas = 4, checkpoint = tempfile("kept"), resume = TRUE)
  expect_identical(.Random.seed, before)
  expect_null(core$calls$fit$seed)
  expect_identical(fit$arguments$seed, 77L)
})

test_that("lists of constraints become lists and dictionaries", {
  chosen <- load_constraints(list("A", list(dataset = "B", maxlambda = 10)), cuts = c(A = "x > 0.1"))
  expect_identical(
    constraints_for_core(chosen),
    list(entries = list("A", list(dataset = "B", maxlambda = 10)), cuts = list(A = "x > 0.1"))
  )
  expect_snapshot(chosen)
})

test_that("bad calls stop before Python starts", {
  fit <- fake_fit()
  local_no_python()
  expect_snapshot(error = TRUE, {
    fit_pdf("hera", constraints = "nnpdf31")
    fit_pdf("hera", constraints = TRUE)
    fit_pdf("hera", resume = TRUE)
    fit_pdf("hera", checkpoint = 3)
    fit_pdf("hera", checkpoint = "/proc/nothing/here")
    fit_pdf("hera", callbacks = "log.txt")
    fit_pdf("hera", callbacks = list(3))
    fit_pdf("hera", devices = 0)
    load_constraints(3)
    load_constraints(list(list(name = "A")))
    load_constraints("nnpdf40", cuts = "x > 3")
    fit_control(positivity_initial = 0)
    fit_control(quadratic_tolerance = 1)
    postfit(fit, sigmas = 0)
    postfit("fit")
  })
})

test_that("postfit() asks for other statuses and keeps the arguments", {
  fit <- fake_fit()
  core <- local_core()
  strict <- postfit(fit, sigmas = 2)
  expect_identical(core$calls$postfit[-1], list(2, NULL, NULL))
  expect_identical(sum(strict$replicas$kept), 2L)
  expect_identical(strict$arguments, fit$arguments)
})

test_that("postfit() of a real fit vetoes by its thresholds", {
  fit <- real_fit()
  none <- postfit(fit, integrability = 1e-12)
  expect_false(any(none$replicas$kept))
  expect_identical(nrow(none$replicas), 3L)
  expect_equal(postfit(none)$replicas, postfit(fit)$replicas)
})

test_that("a CSV log, a callback that fails, and a checkpoint that is resumed", {
  skip_without_core()
  folder <- withr::local_tempdir()
  log <- file.path(folder, "fit.csv")
  kept <- file.path(folder, "kept")
  short <- fit_control(epochs = 60, threshold_chi2 = NULL)
  first <- fit_pdf("hera", replicas = 1, seed = 5, control = short, callbacks = log, checkpoint = kept)
  expect_true(all(c("epoch", "training", "validation") %in% names(utils::read.csv(log))))
  again <- fit_pdf("hera", replicas = 1, control = short, checkpoint = kept, resume = TRUE)
  expect_identical(again$seed, 5L)
  expect_equal(again$pdfs$mean, first$pdfs$mean)
  expect_error(
    fit_pdf("hera", replicas = 2, seed = 5, control = short, checkpoint = kept, resume = TRUE),
    class = "partonfit_error_storage"
  )
  classes <- character()
  withCallingHandlers(
    fit_pdf("hera", replicas = 1, seed = 5, control = fit_control(epochs = 3000, threshold_chi2 = NULL),
      callbacks = function(step, total, metrics) stop("my callback broke")),
    warning = function(w) {
      classes <<- c(classes, class(w)[[1]])
      invokeRestart("muffleWarning")
    }
  )
  expect_true("partonfit_warning_callback" %in% classes)
})
