#' Estimate a state from observations
#'
#' Variational estimate through any operator H: the minimum of
#' 1/2 (x - b)' B^-1 (x - b) + 1/2 (y - H(x))' R^-1 (y - H(x)). Minimising again for perturbed observations
#' and priors gives draws from the posterior, exactly where H is linear.
#'
#' @param op An operator made by [operator()] or its kin, a surrogate, or a numeric matrix with one row for
#'   each observation.
#' @param y Observations, as many as the operator gives.
#' @param R Covariance of their errors: one variance, one for each observation, or a matrix.
#' @param ... No further arguments; a misspelt one is an error.
#' @param prior_mean b: numbers, as many as the state has.
#' @param prior_covariance B: one variance, one for each element of the state, or a matrix.
#' @param prior_factor Instead of B a matrix L with B = L L': for large states, with few columns.
#' @param members Size of the ensemble; 0 for the estimate alone.
#' @param seed A whole number for the perturbations; `NULL` draws one from R's random numbers.
#' @param minimiser `"optax"`: L-BFGS for all members in one compiled program, which cannot call functions of
#'   R's. `"scipy"`: one after the other, the operator on R's main thread. `NULL` for the one that fits.
#' @param iterations Most iterations of the minimiser.
#' @param tolerance Converged when the gradient has fallen by this factor, or has this length.
#'
#' @return An object of class `state_fit`, plain R values: `state`, `sd` (standard deviation of the members),
#'   `members` (a matrix with one row for each; `NaN` where one did not converge), `observations` (what the
#'   operator makes of the state), `y`, `errors` (standard deviations of the observations), `cost`, `chi2`,
#'   `iterations`, `converged`, `calls`, `seed`. `coef()` gives the state, `fitted()` and `residuals()` what
#'   belongs to the observations (`type = "pull"` divides by `errors`), `tidy()` a tibble with `estimate` and
#'   `std.error` for each element, `glance()` one row, `plot()` and `autoplot()` draw the state or, with
#'   `type = "observations"`, the observations.
#' @section Errors: Wrong arguments are errors of class `partonfit_error_argument`; covariances that are not
#'   positive definite, `partonfit_error_setting`; an operator that fails, `partonfit_error_operator`.
#' @examples
#' \dontrun{
#' H <- rbind(c(1, 0, 0), c(0, 1, 1))
#' found <- fit_state(H, y = c(1, 1), R = 0.5, prior_mean = c(0, 0, 0), prior_covariance = 0.5)
#' coef(found)   # 1/2, 1/3, 1/3
#' }
#' @export
fit_state <- function(op, y, R, ..., prior_mean, prior_covariance = NULL, prior_factor = NULL, members = 0,
                      seed = NULL, minimiser = NULL, iterations = 200, tolerance = 1e-6) {
  check_dots(...)
  call <- rlang::current_env()
  if (is.matrix(op)) op <- matrix_operator(op)
  op <- check_operator_class(op)
  y <- check_vector(y, op$n_obs)
  R <- check_covariance(R, op$n_obs)
  if (missing(prior_mean) || is.null(prior_covariance) == is.null(prior_factor)) {
    abort_partonfit("argument", c(
      "{.arg prior_mean} must be given, and one of {.arg prior_covariance} and {.arg prior_factor}.",
      i = "They say what is known of the state without the observations."
    ), arg = "prior_mean")
  }
  prior_mean <- check_vector(prior_mean, op$n_state)
  spread <- list(
    prior_covariance = if (!is.null(prior_covariance)) check_covariance(prior_covariance, op$n_state),
    prior_factor = if (!is.null(prior_factor)) check_factor(prior_factor, op$n_state)
  )
  minimiser <- if (is.null(minimiser)) {
    if (runs_in_r(op)) "scipy" else "optax"
  } else {
    check_choice(minimiser, c("optax", "scipy"))
  }
  settings <- list(members = check_whole(members), minimiser = minimiser,
    iterations = check_whole(iterations, min = 1), tolerance = check_number(tolerance, above = 0))
  settings$seed <- check_seed(seed)
  parts <- call_with_operator(op, "fit_state", operator_handle(op, call), as_python_numbers(y), R,
    as_python_numbers(prior_mean), Filter(Negate(is.null), spread), settings, .call = call)
  new_state_fit(parts, y, R, op$name)
}

new_state_fit <- function(parts, y, R, name) {
  errors <- if (is.matrix(R)) sqrt(diag(R)) else rep_len(sqrt(as.vector(R)), length(y))
  members <- as_matrix(parts$members)
  structure(
    list(
      format_version = 1L, state = as.double(parts$state), sd = as.double(parts$sd),
      members = matrix(members, ncol = length(parts$state)),
      observations = as.double(parts$observations), y = y, errors = errors,
      cost = as.double(parts$cost), chi2 = as.double(parts$chi2),
      iterations = as_column(parts$iterations, "integer"), converged = as_column(parts$converged, "logical"),
      calls = vapply(parts$calls, as.integer, 1L), seed = as.integer(parts$seed), name = name
    ),
    class = "state_fit"
  )
}

# One variance, one for each element, or a matrix; it stays what it is.
check_covariance <- function(value, size, arg = rlang::caller_arg(value), call = rlang::caller_env()) {
  force(arg)
  must <- paste("one variance,", size, "variances or a symmetric matrix of that size")
  if (is.matrix(value)) {
    if (!is.numeric(value) || !all(dim(value) == size) || !isSymmetric(unname(value))) {
      abort_argument(arg, must, value, call = call)
    }
    check_numbers(value, arg, must = must, call = call)
    return(unname(value + 0))
  }
  value <- check_numbers(value, arg, min = .Machine$double.xmin, must = must, call = call)
  if (!length(value) %in% c(1, size)) abort_argument(arg, must, value, call = call)
  if (length(value) == 1) value else array(value)
}

check_factor <- function(value, size, arg = rlang::caller_arg(value), call = rlang::caller_env()) {
  force(arg)
  must <- paste("a matrix with", size, "rows")
  if (!is.matrix(value) || nrow(value) != size) abort_argument(arg, must, value, call = call)
  check_numbers(value, arg, must = must, call = call)
  unname(value + 0)
}

check_state_fit <- function(object, call = rlang::caller_env()) {
  if (!inherits(object, "state_fit")) abort_argument("object", "made by {.fn fit_state}", object, call = call)
  object
}

#' @export
print.state_fit <- function(x, ...) {
  good <- sum(x$converged[-1])
  cat_text(
    paste0(
      "State of {length(x$state)} element{?s} from {length(x$y)} observation{?s} through '{x$name}': ",
      "{if (x$converged[[1]]) 'converged' else 'not converged'} after {x$iterations[[1]]} iteration{?s}"
    ),
    paste0(
      "chi2 = {signif(x$chi2, 4)}, twice the cost = {signif(2 * x$cost, 4)} ",
      "(about the number of observations where the covariances are right)"
    ),
    if (nrow(x$members)) "{good} of {nrow(x$members)} members converged; seed {x$seed}",
    "Next: coef(found), tidy(found), plot(found), plot(found, type = \"observations\")"
  )
  invisible(x)
}

#' @export
summary.state_fit <- function(object, ...) {
  check_dots(...)
  structure(c(unclass(glance(object)), list(state = summary(object$state), sd = summary(object$sd))),
    class = "summary.state_fit")
}

#' @export
print.summary.state_fit <- function(x, ...) {
  cat_text("{x$nobs} observations, {x$n_state} elements, chi2 {signif(x$chi2, 4)}, cost {signif(x$cost, 4)}",
    "State:")
  print(x$state)
  if (x$members > 0) {
    cat_text("Standard deviations:")
    print(x$sd)
  }
  invisible(x)
}

#' @export
coef.state_fit <- function(object, ...) {
  check_dots(...)
  object$state
}

#' @export
fitted.state_fit <- function(object, ...) {
  check_dots(...)
  object$observations
}

#' @rdname fit_state
#' @param object,x A result of `fit_state()`.
#' @param type For `residuals()`: as they are, or divided by their errors. For the figures: what to draw.
#' @export
residuals.state_fit <- function(object, ..., type = c("raw", "pull")) {
  check_dots(...)
  raw <- object$y - object$observations
  if (check_choice(type, c("raw", "pull")) == "raw") raw else raw / object$errors
}

#' @export
nobs.state_fit <- function(object, ...) length(object$y)

#' @export
tidy.state_fit <- function(x, ...) {
  check_dots(...)
  tibble::tibble(term = seq_along(x$state), estimate = x$state, std.error = x$sd)
}

#' @export
glance.state_fit <- function(x, ...) {
  check_dots(...)
  tibble::tibble(
    nobs = length(x$y), n_state = length(x$state), chi2 = x$chi2, cost = x$cost,
    iterations = x$iterations[[1]], converged = x$converged[[1]], members = nrow(x$members), seed = x$seed
  )
}

#' @export
as.data.frame.state_fit <- function(x, row.names = NULL, optional = FALSE, ...) {
  check_dots(...)
  as.data.frame(tidy(x))
}

#' @rdname fit_state
#' @export
autoplot.state_fit <- function(object, ..., type = c("state", "observations")) {
  check_dots(...)
  type <- check_choice(type, c("state", "observations"))
  if (type == "state") plot_state(object) else plot_observations(object)
}

#' @rdname fit_state
#' @export
plot.state_fit <- function(x, ...) {
  print(ggplot2::autoplot(x, ...))
  invisible(x)
}

plot_state <- function(object) {
  rows <- tibble::tibble(element = seq_along(object$state), value = object$state,
    half = ifelse(is.finite(object$sd), object$sd, 0))
  ggplot2::ggplot(rows, ggplot2::aes(.data$element, .data$value)) +
    ggplot2::geom_ribbon(ggplot2::aes(ymin = .data$value - .data$half, ymax = .data$value + .data$half),
      fill = blue, alpha = 0.28) +
    ggplot2::geom_line(colour = blue, linewidth = 0.7) +
    ggplot2::labs(x = "element of the state", y = "estimate", title = "Estimated state",
      subtitle = if (any(rows$half > 0)) "band: one standard deviation of the members") +
    theme_partonfit()
}

plot_observations <- function(object) {
  rows <- tibble::tibble(fitted = object$observations, y = object$y, half = object$errors)
  ggplot2::ggplot(rows, ggplot2::aes(.data$fitted, .data$y)) +
    ggplot2::geom_abline(colour = grey, linewidth = 0.3) +
    ggplot2::geom_linerange(ggplot2::aes(ymin = .data$y - .data$half, ymax = .data$y + .data$half),
      colour = blue, alpha = 0.4) +
    ggplot2::geom_point(colour = blue, size = 1.2) +
    ggplot2::labs(x = "operator at the estimate", y = "observation", title = "Observations",
      subtitle = paste("chi2 =", signif(object$chi2, 4), "for", length(object$y), "observations")) +
    theme_partonfit()
}
