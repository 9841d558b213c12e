#' Random numbers by explicit keys
#'
#' JAX draws random numbers as a function of a key, not of a hidden state: the same key gives the same
#' numbers, on any machine and in R and Python. `prng_split()` makes independent keys of one,
#' `prng_fold_in()` one for the number of a step or a member. R's own random numbers are not touched.
#'
#' @param seed,number Whole numbers from 0.
#' @param key A key, made by one of these functions.
#' @param n How many keys.
#' @param dim Lengths of the axes of the result.
#'
#' @return `prng_key()` and `prng_fold_in()` a key, plain numbers of class `prng_key` that survive
#'   [saveRDS()]; `prng_split()` a list of keys; `prng_normal()` (mean 0, standard deviation 1) and
#'   `prng_uniform()` (from 0 to 1) an array of doubles, a vector for one axis; `prng_jax()` the key of JAX,
#'   for functions of `reticulate::import("jax")$random`.
#' @section Errors: Wrong arguments are errors of class `partonfit_error_argument`.
#' @examples
#' \dontrun{
#' keys <- prng_split(prng_key(1), 2)
#' prng_normal(keys[[1]], 3)
#' prng_uniform(keys[[2]], c(2, 2))
#' jax <- reticulate::import("jax")
#' jax$random$permutation(prng_jax(keys[[1]]), 5L)
#' }
#' @export
prng_key <- function(seed) {
  seed <- check_whole(seed)
  new_key(call_core("key_of", seed))
}

#' @rdname prng_key
#' @export
prng_split <- function(key, n = 2) {
  key <- check_key(key)
  n <- check_whole(n, min = 1)
  words <- as_matrix(call_core("split_key", key, n))
  lapply(seq_len(n), function(i) new_key(words[i, ]))
}

#' @rdname prng_key
#' @export
prng_fold_in <- function(key, number) {
  key <- check_key(key)
  number <- check_whole(number)
  new_key(call_core("fold_in", key, number))
}

#' @rdname prng_key
#' @export
prng_normal <- function(key, dim) drawn(key, "normal", dim)

#' @rdname prng_key
#' @export
prng_uniform <- function(key, dim) drawn(key, "uniform", dim)

#' @rdname prng_key
#' @export
prng_jax <- function(key) call_core("jax_key", check_key(key))

drawn <- function(key, kind, dim, call = rlang::caller_env()) {
  key <- check_key(key, call)
  if (!is.numeric(dim) || !length(dim)) abort_argument("dim", "whole numbers", dim, call = call)
  dim <- vapply(dim, check_whole, 1L, arg = "dim", call = call)
  values <- call_core("draw", key, kind, as.list(dim), .call = call)
  if (length(dim) == 1) as.vector(values) else values
}

new_key <- function(words) structure(as.double(words), class = "prng_key")

# The two words of a key, each a whole number below 2^32.
check_key <- function(key, call = rlang::caller_env()) {
  if (!inherits(key, "prng_key")) abort_argument("key", "made by {.fn prng_key}", key, call = call)
  as_python_numbers(unclass(key))
}

#' @export
print.prng_key <- function(x, ...) {
  cat_text("Random key {paste(format(unclass(x), scientific = FALSE, trim = TRUE), collapse = ' ')}")
  invisible(x)
}
