#' Does an operator keep its promises?
#'
#' Runs the dot test (do tangent linear and adjoint belong together?) and the Taylor test (does the
#' tangent linear belong to the forward function?), looks at sizes, values that are not finite, errors,
#' and results that differ from call to call, and says in a sentence what is wrong.
#'
#' @param op An operator made by [operator()] or its kin, or a surrogate.
#' @param x States to test at: a vector, or a matrix with one row for each. Standard normal ones when
#'   `NULL`, so give some where the operator has a domain (positive emissions, ...).
#' @param ... No further arguments; a misspelt one is an error.
#' @param samples Number of states when `x` is `NULL` or is one state, which is then varied by 10 %.
#' @param tolerance Largest relative disagreement of the dot test.
#' @param seed Of states and directions.
#'
#' @return An object of class `operator_check`: `passed`, `problems` (a tibble: `test`, `problem`,
#'   `serious`), `measured` (a tibble: `test` and its largest relative disagreement, `value`).
#' @section Errors: Arguments that do not fit are errors of class `partonfit_error_argument`. What is
#'   wrong with the operator is in the result, also when its functions fail.
#' @examples
#' \dontrun{
#' wrong <- operator(
#'   forward = function(x) x^2, tangent_linear = function(x, dx) 2 * x * dx,
#'   adjoint = function(x, dy) -2 * x * dy, n_state = 3, n_obs = 3, name = "square"
#' )
#' check_operator(wrong)
#' }
#' @export
check_operator <- function(op, x = NULL, ..., samples = 3, tolerance = 1e-10, seed = 0) {
  check_dots(...)
  op <- check_operator_class(op)
  if (!is.null(x)) x <- check_states(x, op$n_state)
  call <- rlang::current_env()
  samples <- check_whole(samples, min = 2)
  tolerance <- check_number(tolerance, above = 0)
  seed <- check_whole(seed)
  handle <- operator_handle(op, call)
  if (!is.null(x) && !is.matrix(x)) x <- array(x)
  found <- call_with_operator(op, "check_operator", handle, x, samples, tolerance, seed)
  structure(
    list(
      passed = isTRUE(found$passed),
      problems = as_table(found$problems, c(test = "character", problem = "character", serious = "logical")),
      measured = as_table(found$measured, c(test = "character", value = "double")),
      text = as_text(found$text)
    ),
    class = "operator_check"
  )
}

#' @export
print.operator_check <- function(x, ...) {
  cat(x$text, sep = "\n")
  invisible(x)
}
