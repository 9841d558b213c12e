test_that("a fit holds plain R values only", {
  plain <- function(value) {
    if (is.list(value)) return(all(vapply(unclass(value), plain, NA)))
    is.null(value) || is.atomic(value)
  }
  expect_true(plain(unclass(fake_fit())))
})

test_that("a saved fit prints, sums up and plots without Python", {
  fit <- fake_fit()
  file <- withr::local_tempfile(fileext = ".rds")
  saveRDS(fit, file)
  local_no_python()
  back <- readRDS(file)
  expect_equal(back, fit)
  expect_output(print(back), "4 replicas")
  expect_output(print(summary(back)), "chi2 by dataset")
  expect_identical(nrow(chi2(back)), 3L)
  expect_s3_class(autoplot(back, Q = 100), "ggplot")
})

test_that("a fit of a newer format is refused in words", {
  fit <- fake_fit()
  fit$format_version <- 99L
  expect_snapshot(error = TRUE, print(fit))
})

test_that("fits saved by earlier versions still load", {
  local_no_python()
  for (file in list.files(test_path("fixtures"), pattern = "^fit-format-.*[.]rds$", full.names = TRUE)) {
    fit <- readRDS(file)
    expect_output(print(fit), "PDF fit")
    expect_gt(nrow(chi2(fit)), 1)
  }
})

test_that("the constructor asserts what methods rely on", {
  parts <- fake_parts()
  parts$state <- raw()
  expect_error(new_pdf_fit(parts, list()))
})
