test_that("integer-like numbers are accepted and become integers", {
  expect_identical(check_whole(100), 100L)
  expect_identical(check_whole(1e3), 1000L)
  expect_identical(check_whole(5L), 5L)
  expect_identical(check_number(1L), 1)
})

test_that("wrong whole numbers are refused", {
  f <- function(replicas) check_whole(replicas, min = 1)
  expect_snapshot(error = TRUE, {
    f(0)
    f(-3)
    f(1.5)
    f(NA)
    f(NULL)
    f("ten")
    f(TRUE)
    f(c(1, 2))
    f(Inf)
    f(3e9)
    f(factor("3"))
    f(list(1))
  })
})

test_that("wrong numbers, flags, strings and choices are refused", {
  g <- function(share) check_number(share, above = 0, max = 1)
  h <- function(flag) check_flag(flag)
  s <- function(name) check_string(name)
  k <- function(kind) check_choice(kind, c("a", "b"))
  expect_snapshot(error = TRUE, {
    g(0)
    g(1.5)
    g(NaN)
    h(NA)
    h("yes")
    s("")
    s(NA_character_)
    s(c("a", "b"))
    s(3)
    k("c")
    k(NULL)
  })
  expect_identical(k("b"), "b")
  expect_identical(check_choice(c("a", "b"), c("a", "b")), "a")
})

test_that("a bad element of a vector is named with its place", {
  f <- function(x) check_numbers(x, min = 0, max = 1, must = "numbers between 0 and 1")
  expect_snapshot(error = TRUE, {
    f(c(0.1, NA, 0.2))
    f(c(0.1, 0.2, 3))
    f(character())
    f("0.1")
    f(numeric())
  })
})

test_that("misspelt and superfluous arguments are refused", {
  f <- function(..., replicas = 1, seed = NULL) check_dots(...)
  expect_snapshot(error = TRUE, {
    f(replica = 3)
    f(wholly_unknown = 3)
    f(3)
  })
  expect_silent(f(replicas = 2))
})

test_that("set.seed() governs when seed is NULL; a number leaves R's stream alone", {
  set.seed(42)
  a <- check_seed(NULL)
  set.seed(42)
  expect_identical(check_seed(NULL), a)
  expect_type(a, "integer")
  set.seed(42)
  before <- .Random.seed
  expect_identical(check_seed(7), 7L)
  expect_identical(.Random.seed, before)
})

test_that("a path that cannot be written is refused and nothing is left behind", {
  folder <- withr::local_tempdir()
  file.create(file.path(folder, "file"))
  expect_error(check_writable(file.path(folder, "file", "set")), class = "partonfit_error_storage")
  expect_error(check_writable("/proc/nothing/here"), class = "partonfit_error_storage")
  expect_identical(basename(check_writable(file.path(folder, "a", "b"))), "b")
  expect_identical(list.files(folder, all.files = TRUE, no.. = TRUE), "file")
})
