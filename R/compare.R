#' Two fits side by side
#'
#' Squared distances of means and of variances, in units of their statistical errors (arXiv:1002.4407,
#' appendix A): 1 on average for two sets of replicas of the same distribution; with 100 replicas each, means
#' that lie one standard deviation apart have 50. And chi2 of every dataset.
#'
#' @param fit A fit made by [fit_pdf()].
#' @param other Another fit, an LHAPDF set (read by [read_lhapdf()], or its folder), `"toy"`, or a function as
#'   in [chi2()]. A function has no replicas and so no distances.
#' @param ... No further arguments; a misspelt one is an error.
#' @param flavours Names of PDFs; `NULL`: gluon, light quarks and c_plus.
#' @param x Momentum fractions, above 0 and up to 1; `NULL`: fifty from 1e-5 to 0.9.
#' @param Q Scale \[GeV\]; `NULL`: Q0.
#' @param labels Names of the two.
#'
#' @return An object of class `fit_comparison`, plain R values: `distances` (a tibble: `flavour`, `x`, `Q`
#'   \[GeV\], `distance2_central`, `distance2_variance`), `chi2` (a tibble: `dataset`, and for the first
#'   and the second fit the number of points and chi2 per point, `difference`), `bands` (a tibble:
#'   `label`, `flavour`, `x`, `mean`, `sd`, `lower`, `upper`), `labels`, `replicas`, `Q`. [report()]
#'   writes it as a page.
#' @section Errors: Wrong arguments are errors of class `partonfit_error_argument`; an unknown flavour, or a
#'   scale that cannot be reached, `partonfit_error_setting`.
#' @examples
#' \dontrun{
#' both <- compare(fit, fit2, labels = c("all", "high Q2"))
#' both
#' plot(both, type = "ratio")
#' }
#' @export
compare <- function(fit, other, ..., flavours = NULL, x = NULL, Q = NULL, labels = c("first", "second")) {
  check_dots(...)
  call <- rlang::current_env()
  fit <- check_fit(fit)
  other <- check_other(other)
  asked <- list(
    flavours = if (!is.null(flavours)) check_names(flavours, "flavours"),
    x = if (!is.null(x)) {
      check_numbers(x, min = .Machine$double.xmin, max = 1, must = "numbers above 0 and up to 1")
    },
    Q = if (!is.null(Q)) check_number(Q, min = 1, max = 1e5), labels = check_labels(labels)
  )
  parts <- do.call(call_core, c(list("compare"), comparison_for_core(fit, other, asked), list(.call = call)))
  chi2 <- c(dataset = "character", n_data_first = "integer", chi2_per_point_first = "double",
    n_data_second = "integer", chi2_per_point_second = "double", difference = "double")
  structure(
    list(
      format_version = 1L, labels = as_column(parts$labels, "character"), Q = as.double(parts$Q),
      replicas = as_column(parts$replicas, "integer"), text = as_text(parts$text),
      distances = as_table(parts$distances, c(flavour = "character", x = "double", Q = "double",
        distance2_central = "double", distance2_variance = "double")),
      chi2 = as_table(parts$chi2, chi2),
      bands = as_table(parts$bands, c(label = "character", flavour = "character", x = "double",
        mean = "double", sd = "double", lower = "double", upper = "double")),
      fits = list(fit, other), asked = asked
    ),
    class = "fit_comparison"
  )
}

check_other <- function(other, call = rlang::caller_env()) {
  if (is.function(other) || identical(other, "toy")) return(other)
  if (!is.character(other) && !inherits(other, c("lhapdf_set", "pdf_fit"))) {
    abort_argument("other", "a fit, an LHAPDF set or its folder, or a function of x", other, call = call)
  }
  check_reference(other, call)
}

check_labels <- function(labels, call = rlang::caller_env()) {
  if (!is.character(labels) || length(labels) != 2 || anyNA(labels) || labels[[1]] == labels[[2]]) {
    abort_argument("labels", "two different names", labels, call = call)
  }
  labels
}

comparison_for_core <- function(fit, other, asked) {
  theirs <- if (inherits(other, "lhapdf_set")) list(fit = other$id) else pdf_for_core(other)
  list(
    pdf_for_core(fit), theirs, if (!is.null(asked$flavours)) as_python_strings(asked$flavours),
    if (!is.null(asked$x)) as_python_numbers(asked$x), asked$Q, as_python_strings(asked$labels)
  )
}

#' @export
print.fit_comparison <- function(x, ...) {
  cat(x$text, sep = "\n")
  cat_text("Next: plot(both), plot(both, type = \"ratio\"), report(both, \"comparison.html\")")
  invisible(x)
}

#' Tables and figures of a comparison
#'
#' None needs Python.
#'
#' @param object,x A comparison made by [compare()].
#' @param ... No further arguments; `plot()` passes its own on to `autoplot()`.
#' @param row.names,optional As in [as.data.frame()]; not used.
#' @param what `"distances"`, `"chi2"` or `"bands"`, as described in [compare()].
#' @param type What to draw: `"distances"` (square roots, against x), `"chi2"` (per point, by dataset), or
#'   `"ratio"` (68 % intervals of both divided by the mean of the first).
#' @param xscale `"log"` or `"linear"`.
#'
#' @return `as.data.frame()` a data frame; `tidy()` the distances as a tibble; `summary()` a tibble with
#'   one row for each flavour: means over x of `distance2_central` and `distance2_variance`; `autoplot()`
#'   a ggplot, `plot()` its `x`, invisibly.
#' @section Errors: An unknown type or table is an error of class `partonfit_error_argument`.
#' @examples
#' \dontrun{
#' summary(both)
#' plot(both, type = "chi2")
#' }
#' @export
as.data.frame.fit_comparison <- function(x, row.names = NULL, optional = FALSE, ...,
                                         what = c("distances", "chi2", "bands")) {
  check_dots(...)
  as.data.frame(x[[check_choice(what, c("distances", "chi2", "bands"))]])
}

#' @rdname as.data.frame.fit_comparison
#' @export
tidy.fit_comparison <- function(x, ...) {
  check_dots(...)
  x$distances
}

#' @rdname as.data.frame.fit_comparison
#' @export
summary.fit_comparison <- function(object, ...) {
  check_dots(...)
  rows <- object$distances
  flavours <- unique(rows$flavour)
  average <- function(column) {
    vapply(flavours, function(f) mean(rows[[column]][rows$flavour == f], na.rm = TRUE), 0)
  }
  tibble::tibble(flavour = flavours, distance2_central = unname(average("distance2_central")),
    distance2_variance = unname(average("distance2_variance")))
}

#' @rdname as.data.frame.fit_comparison
#' @export
autoplot.fit_comparison <- function(object, ..., type = c("distances", "chi2", "ratio"),
                                    xscale = c("log", "linear")) {
  check_dots(...)
  type <- check_choice(type, c("distances", "chi2", "ratio"))
  xscale <- check_choice(xscale, c("log", "linear"))
  switch(type,
    distances = plot_distances(object, xscale),
    chi2 = plot_two_chi2(object),
    ratio = plot_two_bands(object, xscale)
  )
}

#' @rdname as.data.frame.fit_comparison
#' @export
plot.fit_comparison <- function(x, ...) {
  print(ggplot2::autoplot(x, ...))
  invisible(x)
}

plot_distances <- function(object, xscale) {
  rows <- object$distances
  kinds <- c("means", "variances")
  long <- tibble::tibble(
    x = rep(rows$x, 2), flavour = rep(rows$flavour, 2), of = rep(kinds, each = nrow(rows)),
    distance = sqrt(c(rows$distance2_central, rows$distance2_variance))
  )
  long$panel <- panel_labels(long$flavour, unique(rows$flavour))
  long <- in_view(long[is.finite(long$distance), ], xscale)
  ggplot2::ggplot(long, ggplot2::aes(.data$x, .data$distance, colour = .data$of)) +
    ggplot2::geom_hline(yintercept = 1, colour = grey, linetype = "22") +
    ggplot2::geom_line(linewidth = 0.7) +
    panels("fixed") +
    scale_x_momentum(xscale) +
    ggplot2::scale_colour_manual(NULL, values = c(means = blue, variances = vermilion)) +
    ggplot2::labs(
      y = "distance in units of its error", title = paste("Distances at", scale_words(signif(object$Q, 4))),
      subtitle = paste0(paste(object$labels, collapse = " and "), "; dashed: same distribution")
    ) +
    theme_partonfit()
}

plot_two_chi2 <- function(object) {
  rows <- object$chi2
  long <- tibble::tibble(
    dataset = rep(factor(rows$dataset, levels = rev(rows$dataset)), 2),
    label = factor(rep(object$labels, each = nrow(rows)), levels = object$labels),
    chi2 = c(rows$chi2_per_point_first, rows$chi2_per_point_second)
  )
  long <- long[is.finite(long$chi2), ]
  ggplot2::ggplot(long, ggplot2::aes(.data$chi2, .data$dataset, colour = .data$label)) +
    ggplot2::geom_vline(xintercept = 1, colour = grey, linetype = "22") +
    ggplot2::geom_point(size = 2.5, position = ggplot2::position_dodge(0.4)) +
    ggplot2::expand_limits(x = 0) +
    ggplot2::scale_colour_manual(NULL, values = stats::setNames(c(blue, vermilion), object$labels)) +
    ggplot2::labs(x = expression(chi^2 / N), y = NULL, title = "Agreement with each dataset",
      subtitle = "experimental covariance") +
    theme_partonfit()
}

plot_two_bands <- function(object, xscale) {
  rows <- object$bands
  first <- rows[rows$label == object$labels[[1]], ]
  reference <- first$mean[match(paste(rows$flavour, rows$x), paste(first$flavour, first$x))]
  rows[c("mean", "lower", "upper")] <- rows[c("mean", "lower", "upper")] / reference
  rows$sd <- rows$sd / abs(reference)
  rows <- rows[is.finite(rows$mean) & rows$x < 0.8 & rows$x > 1e-4, ]
  rows$panel <- panel_labels(rows$flavour, unique(object$bands$flavour))
  rows$whole <- rows$mean
  rows <- do.call(rbind, lapply(split(rows, rows$panel), keep_in_reach))
  # A line ends where it leaves its panel.
  rows$mean[which(rows$mean != rows$whole)] <- NA
  rows$label <- factor(rows$label, levels = object$labels)
  colours <- stats::setNames(c(blue, vermilion), object$labels)
  ggplot2::ggplot(in_view(rows, xscale), ggplot2::aes(.data$x)) +
    ggplot2::geom_hline(yintercept = 1, colour = grey, linewidth = 0.3) +
    # A function has no interval.
    ggplot2::geom_ribbon(ggplot2::aes(ymin = .data$lower, ymax = .data$upper, fill = .data$label),
      data = in_view(rows[is.finite(rows$lower), ], xscale), alpha = 0.28) +
    ggplot2::geom_line(ggplot2::aes(y = .data$mean, colour = .data$label), linewidth = 0.7, na.rm = TRUE) +
    panels() +
    scale_x_momentum(xscale) +
    ggplot2::scale_colour_manual(NULL, values = colours, aesthetics = c("colour", "fill")) +
    ggplot2::labs(
      y = paste("ratio to", object$labels[[1]]), title = paste("PDFs at", scale_words(signif(object$Q, 4))),
      subtitle = "bands: 68 % intervals"
    ) +
    theme_partonfit()
}
