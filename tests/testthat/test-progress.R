test_that("progress is shown when asked for", {
  local_core()
  withr::local_options(cli.dynamic = FALSE)
  expect_message(fit_pdf("hera", replicas = 4, seed = 1, verbose = TRUE), "step 10 of 10, training 1.25")
  expect_silent(fit_pdf("hera", replicas = 4, seed = 1, verbose = FALSE))
  expect_silent(fit_pdf("hera", replicas = 4, seed = 1))
})

test_that("a bar survives its updates", {
  withr::local_options(cli.dynamic = TRUE)
  update <- progress_bar(environment())
  expect_no_error_at_all <- function(code) expect_error(suppressMessages(code), NA)
  expect_no_error_at_all(update(1, 3, list(training = 2)))
  expect_no_error_at_all(update(3, 3, list(training = 1, kept = 3)))
  expect_identical(format_metrics(list()), "")
})
