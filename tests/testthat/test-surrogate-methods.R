test_that("surrogates have a summary, tidy tables and figures, without Python", {
  sur <- small_surrogate()
  local_no_python()
  expect_output(print(summary(sur)), "Errors of the observations")
  expect_identical(summary(sur)$calls, sur$calls[sur$calls > 0])
  expect_identical(tidy(sur)$term, sur$errors$what)
  expect_identical(glance(sur)$members, 2L)
  for (type in c("training", "errors")) expect_s3_class(autoplot(sur, type = type), "ggplot")
  expect_error(autoplot(sur, type = "losses"), class = "partonfit_error_argument")
})

test_that("operators say what they offer", {
  expect_snapshot({
    summary(tanh_operator())
    summary(operator(function(x) x, n_state = 2, n_obs = 2, key = "twice"))
    summary(matrix_operator(matrix(1:6, 2)))
  })
})

test_that("optimizers and callbacks reach the training of a surrogate", {
  skip_without_core()
  set.seed(1)
  states <- matrix(rnorm(80), 20)
  file <- file.path(withr::local_tempdir(), "log.csv")
  sgd <- reticulate::import("keras")$optimizers$SGD(0.01)
  sur <- fit_surrogate(tanh_operator(), states, hidden = 4, epochs = 5, optimizer = sgd, callbacks = file,
    seed = 1)
  expect_gt(nrow(utils::read.csv(file)), 0)
  expect_error(
    fit_surrogate(tanh_operator(), states, epochs = 5, optimizer = "no such"), class = "partonfit_error"
  )
})

test_that("a training has a figure and a table", {
  history <- tibble::tibble(member = rep(0:1, each = 3), epoch = rep(0:2, 2), loss = 6:1, validation = 6:1)
  trained <- structure(list(history = history), class = "partonfit_training")
  expect_s3_class(autoplot(trained), "ggplot")
  expect_identical(as.data.frame(trained), as.data.frame(history))
})
