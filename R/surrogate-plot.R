#' Summary and figures of surrogates, operators and trainings
#'
#' None needs Python.
#'
#' @param object,x A surrogate made by [fit_surrogate()], an operator made by [operator()] or its kin, or a
#'   training made by [train_stateless()].
#' @param ... No further arguments; `plot()` passes its own on to `autoplot()`.
#' @param type For a surrogate: `"training"`, the losses against the epoch, or `"errors"`, the error on
#'   held-out states of each observation over its standard deviation.
#'
#' @return `summary()` of a surrogate an object with its errors, the quantiles of the errors of the
#'   observations, calls and training lengths; of an operator what it offers, as a list of class
#'   `summary.partonfit_operator`. `tidy()` of a surrogate a tibble `term`, `estimate` (the errors),
#'   `glance()` one row: `n_state`, `n_obs`, `members`, `values`, `epochs`, `calls`, `seed`. `autoplot()`
#'   a ggplot, `plot()` its `x`, invisibly. `as.data.frame()` of a training its history.
#' @section Errors: An unknown type is an error of class `partonfit_error_argument`.
#' @examples
#' summary(matrix_operator(matrix(1:6, 2)))
#' \dontrun{
#' summary(sur)
#' plot(sur, type = "errors")
#' }
#' @name surrogate_methods
NULL

#' @rdname surrogate_methods
#' @export
summary.partonfit_surrogate <- function(object, ...) {
  check_dots(...)
  object <- check_surrogate(object)
  lengths <- tapply(object$history$epoch, object$history$member, max)
  structure(
    list(
      name = object$name, n_state = object$n_state, n_obs = object$n_obs, n_members = object$n_members,
      errors = object$errors, quantiles = stats::quantile(object$observation_errors, c(0, 0.5, 0.9, 1)),
      calls = object$calls[object$calls > 0], statuses = table(object$statuses),
      epochs = range(lengths) + 1L, seed = object$seed
    ),
    class = "summary.partonfit_surrogate"
  )
}

#' @export
print.summary.partonfit_surrogate <- function(x, ...) {
  cat_text(
    "Surrogate '{x$name}': {x$n_state} -> {x$n_obs}, {x$n_members} member{?s}", "Errors on held-out states"
  )
  print_columns(x$errors)
  quantiles <- paste(signif(x$quantiles, 2), c("(least)", "(median)", "(90 %)", "(largest)"), collapse = ", ")
  cat_text(
    "Errors of the observations over their standard deviation: {quantiles}",
    "Statuses: {paste(x$statuses, names(x$statuses), collapse = ', ')}",
    "Epochs: {paste(unique(x$epochs), collapse = ' to ')}",
    "Calls of the operator: {paste(x$calls, gsub('_', ' ', names(x$calls)), collapse = ', ')}; seed {x$seed}"
  )
  invisible(x)
}

#' @rdname surrogate_methods
#' @export
tidy.partonfit_surrogate <- function(x, ...) {
  check_dots(...)
  x <- check_surrogate(x)
  tibble::tibble(term = x$errors$what, estimate = x$errors$error)
}

#' @rdname surrogate_methods
#' @export
glance.partonfit_surrogate <- function(x, ...) {
  check_dots(...)
  x <- check_surrogate(x)
  tibble::tibble(
    n_state = x$n_state, n_obs = x$n_obs, members = x$n_members,
    values = x$errors$error[[match("values", x$errors$what)]], epochs = max(x$history$epoch) + 1L,
    calls = sum(x$calls), seed = x$seed
  )
}

#' @rdname surrogate_methods
#' @export
autoplot.partonfit_surrogate <- function(object, ..., type = c("training", "errors")) {
  check_dots(...)
  object <- check_surrogate(object)
  if (check_choice(type, c("training", "errors")) == "training") {
    return(plot_history(object$history, paste0("Training of '", object$name, "'")))
  }
  rows <- as.data.frame(object, what = "observations")
  ggplot2::ggplot(rows, ggplot2::aes(.data$observation, .data$error)) +
    ggplot2::geom_segment(ggplot2::aes(xend = .data$observation, yend = 0), colour = blue, linewidth = 0.4) +
    ggplot2::geom_point(colour = blue, size = 1) +
    ggplot2::labs(x = "observation", y = "error over standard deviation", title = "Errors on held-out states",
      subtitle = paste0(object$name, ": 1 is as bad as the mean")) +
    theme_partonfit()
}

#' @rdname surrogate_methods
#' @export
plot.partonfit_surrogate <- function(x, ...) {
  print(ggplot2::autoplot(x, ...))
  invisible(x)
}

#' @rdname surrogate_methods
#' @export
summary.partonfit_operator <- function(object, ...) {
  check_dots(...)
  structure(
    c(object[c("name", "n_state", "n_obs", "linear", "batched", "lacks")], list(
      kind = object$recipe$kind, key = object$recipe$key
    )),
    class = "summary.partonfit_operator"
  )
}

#' @export
print.summary.partonfit_operator <- function(x, ...) {
  made <- c(
    functions = "R functions", matrix = "a matrix", theory = "theory tables", transport = "transport model"
  )
  derivatives <- if (length(x$lacks)) paste("no", x$lacks, collapse = ", ") else "tangent linear and adjoint"
  cat_text(
    "Operator '{x$name}' ({made[[x$kind]]}): a state of {x$n_state} to {x$n_obs} observation{?s}",
    "Derivatives: {derivatives}",
    paste0(
      "{if (x$linear) 'linear' else 'not linear'}; {if (x$batched) 'many states' else 'one state'} a call; ",
      "{if (is.null(x$key)) 'no key, so results are not kept' else paste('key', x$key)}"
    )
  )
  invisible(x)
}

#' @rdname surrogate_methods
#' @export
autoplot.partonfit_training <- function(object, ...) {
  check_dots(...)
  plot_history(object$history, "Training")
}

#' @rdname surrogate_methods
#' @export
plot.partonfit_training <- function(x, ...) {
  print(ggplot2::autoplot(x, ...))
  invisible(x)
}

#' @rdname surrogate_methods
#' @param row.names,optional As in [as.data.frame()]; not used.
#' @export
as.data.frame.partonfit_training <- function(x, row.names = NULL, optional = FALSE, ...) {
  check_dots(...)
  as.data.frame(x$history)
}

# Losses of all members against the epoch.
plot_history <- function(history, title) {
  kinds <- c("loss", "validation")
  long <- tibble::tibble(
    epoch = rep(history$epoch, 2), member = rep(history$member, 2),
    of = rep(kinds, each = nrow(history)), value = c(history$loss, history$validation)
  )
  # Without validation data both are the loss.
  if (identical(history$loss, history$validation)) long <- long[long$of == "loss", ]
  long <- long[is.finite(long$value) & long$value > 0, ]
  members <- length(unique(history$member))
  ggplot2::ggplot(long, ggplot2::aes(.data$epoch, .data$value, colour = .data$of)) +
    ggplot2::geom_line(ggplot2::aes(group = interaction(.data$member, .data$of)),
      alpha = if (members > 5) 0.4 else 0.8, linewidth = 0.5) +
    ggplot2::scale_colour_manual(NULL, values = c(loss = blue, validation = vermilion)) +
    ggplot2::scale_y_log10() +
    ggplot2::labs(x = "epoch", y = "loss", title = title,
      subtitle = paste(members, if (members == 1) "member" else "members")) +
    theme_partonfit()
}
