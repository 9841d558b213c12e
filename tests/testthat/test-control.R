test_that("settings are checked when they are made", {
  control <- fit_control(epochs = 2e3, threshold_chi2 = NULL, block_size = 10)
  expect_identical(control$epochs, 2000L)
  expect_identical(control$block_size, 10L)
  expect_null(control$threshold_chi2)
  expect_true("threshold_chi2" %in% names(control))
  expect_snapshot(fit_control(precision = "float64"))
  expect_snapshot(error = TRUE, {
    fit_control(epochs = 0)
    fit_control(epoch = 10)
    fit_control(patience = 2)
    fit_control(precision = "float16")
    fit_control(pseudodata = NA)
    fit_control(optimizer = 3)
  })
})

test_that("names and defaults are those of the core", {
  skip_without_core()
  theirs <- reticulate::import("partonfit")$fit_control()$to_dict()
  ours <- unclass(fit_control())
  expect_setequal(names(ours), names(theirs))
  for (name in names(ours)) expect_equal(ours[[name]], theirs[[name]], info = name)
})
