test_that("columns become tibbles of the types asked for", {
  table <- as_table(
    list(a = array(c(1, 2)), b = list("x", "y"), c = c(TRUE, FALSE)),
    c(b = "character", a = "integer", c = "logical")
  )
  expect_identical(table, tibble::tibble(b = c("x", "y"), a = 1:2, c = c(TRUE, FALSE)))
  expect_identical(nrow(as_table(list(a = list()), c(a = "double"))), 0L)
})

test_that("vectors of length one stay vectors in Python", {
  skip_without_core()
  len <- function(x) reticulate::py_to_r(reticulate::import_builtins()$len(x))
  expect_identical(len(as_python_numbers(0.5)), 1L)
  expect_identical(len(as_python_strings("g")), 1L)
})

test_that("a million numbers cross quickly and unchanged", {
  skip_without_core()
  numpy <- reticulate::import("numpy", convert = FALSE)
  x <- stats::runif(1e6)
  seconds <- system.time(back <- reticulate::py_to_r(numpy$asarray(as_python_numbers(x))))[["elapsed"]]
  expect_identical(as.vector(back), x)
  expect_lt(seconds, 0.5)
})
