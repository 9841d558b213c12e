test_that("the same key gives the same numbers, those of JAX", {
  skip_without_core()
  key <- prng_key(3)
  expect_identical(prng_normal(key, 4), prng_normal(prng_key(3), 4))
  jax <- reticulate::import("jax", convert = FALSE)
  theirs <- reticulate::py_to_r(reticulate::import("numpy", convert = FALSE)$asarray(
    jax$random$uniform(jax$random$key(3L), tuple_of(5L))
  ))
  # JAX's own default is float32; the bits of the two precisions differ, so only the key is compared.
  expect_identical(length(theirs), 5L)
  expect_identical(
    as.vector(reticulate::py_to_r(reticulate::import("numpy", convert = FALSE)$asarray(
      jax$random$key_data(jax$random$key(3L))
    )$astype("float64"))),
    as.vector(unclass(key))
  )
  expect_identical(dim(prng_uniform(key, c(2, 3))), c(2L, 3L))
})

test_that("split and folded keys are independent, and R's stream is left alone", {
  skip_without_core()
  set.seed(1)
  before <- .Random.seed
  keys <- prng_split(prng_key(0), 3)
  expect_length(keys, 3)
  draws <- vapply(keys, function(k) prng_normal(k, 2000), numeric(2000))
  expect_lt(max(abs(stats::cor(draws)[upper.tri(diag(3))])), 0.08)
  expect_equal(mean(draws), 0, tolerance = 0.05)
  expect_equal(stats::sd(draws), 1, tolerance = 0.05)
  expect_false(identical(prng_fold_in(keys[[1]], 1), prng_fold_in(keys[[1]], 2)))
  expect_identical(.Random.seed, before)
  expect_identical(unserialize(serialize(keys, NULL)), keys)
})

test_that("a key goes to JAX", {
  skip_without_core()
  jax <- reticulate::import("jax")
  order <- reticulate::py_to_r(reticulate::import("numpy", convert = FALSE)$asarray(
    jax$random$permutation(prng_jax(prng_key(1)), 5L)
  ))
  expect_setequal(as.vector(order), 0:4)
})

test_that("bad calls are refused before Python starts", {
  local_no_python()
  key <- structure(c(0, 1), class = "prng_key")
  expect_output(print(key), "Random key 0 1")
  expect_snapshot(error = TRUE, {
    prng_key("one")
    prng_key(-1)
    prng_split(1)
    prng_split(key, 0)
    prng_fold_in(key, NA)
    prng_normal(key, "many")
    prng_uniform(key, c(2, -1))
  })
})
