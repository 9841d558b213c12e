test_that("tidy, glance and augment need no Python", {
  fit <- fake_fit()
  local_no_python()
  terms <- tidy(fit)
  expect_named(terms, c("term", "x", "Q", "estimate", "std.error", "conf.low", "conf.high"))
  expect_identical(nrow(terms), 40L)
  expect_identical(unique(tidy(fit, Q = 100)$Q), 100)
  one <- glance(fit)
  expect_identical(dim(one), c(1L, 10L))
  expect_equal(one$chi2_per_point, 5.6 / 5)
  expect_identical(one$kept, 3L)
  points <- augment(fit)
  expect_equal(points$.resid, residuals(fit))
  expect_equal(points$.std.resid, residuals(fit, type = "pull"))
  expect_identical(nrow(points), nobs(fit))
  expect_snapshot(error = TRUE, {
    tidy(fit, Q = 3)
    glance(fit, digits = 3)
    residuals(fit, type = "studentised")
    simulate(fit, nsim = 0)
    coef(fit, digits = 3)
  })
})

test_that("fit() of data and of a network calls fit_pdf()", {
  core <- local_core()
  generics::fit(pdf_data("hera", q2min = 10), replicas = 4, seed = 1)
  expect_identical(core$calls$fit[[2]]$q2min, 10)
  generics::fit(pdf_model(nodes = 7), replicas = 4, seed = 1)
  expect_identical(core$calls$fit$model$nodes, list(7L))
})

test_that("whitened residuals add up to the chi2, with both covariances", {
  fit <- real_fit()
  for (covariance in c("experimental", "t0")) {
    total <- utils::tail(chi2(fit, covariance = covariance)$chi2, 1)
    white <- residuals(fit, type = "whitened", covariance = covariance)
    expect_equal(sum(white^2), total, tolerance = 1e-8)
  }
})

test_that("the likelihood is the density of the data", {
  fit <- real_fit()
  value <- logLik(fit)
  # The same by simulating: whitened noise has chi2 n, so logLik differs by chi2 only.
  white <- residuals(fit, type = "whitened")
  n <- nobs(fit)
  factor <- partonfit:::call_core("whiten", partonfit:::load_in_core(fit), diag(n), "experimental", TRUE)
  log_density <- sum(stats::dnorm(white, log = TRUE)) - sum(log(diag(factor)))
  expect_equal(as.numeric(value), log_density, tolerance = 1e-10)
  expect_true(is.na(attr(value, "df")))
  expect_identical(attr(value, "nobs"), n)
})

test_that("simulated data scatter with the errors of the data; seeds govern", {
  fit <- real_fit()
  drawn <- simulate(fit, 200, seed = 1)
  expect_identical(dim(drawn), c(nobs(fit), 200L))
  pulls <- (as.matrix(drawn) - fitted(fit)) / fit$points$error
  expect_equal(stats::sd(pulls), 1, tolerance = 0.05)
  set.seed(3)
  before <- .Random.seed
  expect_equal(simulate(fit, 1, seed = 1)$sim_1, drawn$sim_1)
  expect_identical(.Random.seed, before)
  first <- simulate(fit)
  expect_false(identical(simulate(fit), first))
})

test_that("coef() gives the weights of the kept replicas by name", {
  fit <- real_fit()
  weights <- coef(fit)
  expect_identical(nrow(weights), sum(fit$replicas$kept))
  # 2-25-20-8 with biases.
  expect_identical(ncol(weights), 3L * 25L + 26L * 20L + 21L * 8L)
  expect_false(anyDuplicated(colnames(weights)) > 0)
})

test_that("draws are replicas", {
  fit <- real_fit()
  draws <- partonfit:::draws_of(fit, data.frame(x = c(0.01, 0.1), flavour = c("g", "u_v")))
  expect_identical(colnames(draws), c("g(x=0.01,Q=1.65)", "u_v(x=0.1,Q=1.65)"))
  expect_identical(nrow(draws), sum(fit$replicas$kept))
  skip_if_not_installed("posterior")
  expect_s3_class(posterior::as_draws(fit), "draws")
})

test_that("an LHAPDF set is read back, and is something to compare with", {
  fit <- real_fit()
  set <- read_lhapdf(write_lhapdf(fit, file.path(withr::local_tempdir(), "small")))
  expect_output(print(set), "LHAPDF set small")
  rows <- data.frame(x = c(0.01, 0.1), Q = c(10, 100), flavour = c("g", "u"))
  expect_equal(predict(set, rows)$.pred, predict(fit, rows)$.pred, tolerance = 1e-3)
  figure <- autoplot(fit, type = "ratio", to = set, flavours = "g", Q = 100)
  expect_match(figure$labels$y, "small")
  middle <- figure$data$mean[figure$data$x > 0.01 & figure$data$x < 0.5]
  expect_lt(max(abs(middle - 1)), 0.01)
  expect_error(read_lhapdf(tempfile()), class = "partonfit_error_storage")
  expect_snapshot(error = TRUE, read_lhapdf(3))
})

test_that("correlations are those of the replicas", {
  fit <- real_fit()
  skip_if(sum(fit$replicas$kept) < 3, "the small fit kept too few replicas")
  figure <- autoplot(fit, type = "correlations", flavours = c("g", "Sigma"))
  cells <- figure$data
  expect_true(all(abs(cells$correlation) <= 1 + 1e-12))
  same <- cells$one == cells$two & as.character(cells$row) == as.character(cells$column)
  expect_equal(cells$correlation[same], rep(1, sum(same)))
})
