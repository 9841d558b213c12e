test_that("the verdict follows from what is found", {
  libraries <- function(keras) {
    tibble::tibble(library = c("jax", "keras", "numpy", "pineappl"), version = c("1", keras, "1", "1"))
  }
  expect_true(verdict(list(keras_backend = "jax", libraries = libraries("3")))$ok)
  expect_match(verdict(list(keras_backend = "jax", libraries = libraries("")))$reason, "keras")
  expect_match(verdict(list(keras_backend = "torch", libraries = libraries("3")))$reason, "torch")
})

test_that("without Python it still prints and says why", {
  local_core(NULL)
  local_functions(find_python = function(...) {
    abort_partonfit("python", "There is no Python here.", call = NULL)
  })
  expect_snapshot(
    found <- partonfit_sitrep(),
    transform = function(lines) gsub("[0-9]+[.][0-9.]+", "<version>", lines)
  )
  expect_false(found$ok)
  expect_silent(partonfit_sitrep(verbosity = "quiet"))
})

test_that("with the core everything is in place", {
  skip_without_core()
  found <- partonfit_sitrep(verbosity = "quiet")
  expect_true(found$ok)
  expect_identical(found$keras_backend, "jax")
  expect_output(suppressMessages(partonfit_sitrep()), "jax")
})
