# How each kind of figure is drawn. Colours: Okabe and Ito's, made for all kinds of colour vision.

blue <- "#0072B2"
vermilion <- "#D55E00"
grey <- "#6b6b6b"

theme_partonfit <- function() {
  ggplot2::theme_bw(base_size = 12) +
    ggplot2::theme(
      panel.grid.minor = ggplot2::element_blank(),
      strip.background = ggplot2::element_blank(),
      strip.text = ggplot2::element_text(hjust = 0, size = 12),
      legend.position = "bottom",
      plot.subtitle = ggplot2::element_text(colour = grey)
    )
}

scale_x_momentum <- function(xscale) {
  if (xscale == "linear") return(ggplot2::scale_x_continuous("x"))
  ggplot2::scale_x_log10("x", breaks = 10^(-5:0), labels = function(b) {
    parse(text = ifelse(b >= 0.1, format(b, drop0trailing = TRUE), paste0("10^", round(log10(b)))))
  })
}

band_layers <- function(colour = blue) {
  list(
    ggplot2::geom_ribbon(
      ggplot2::aes(ymin = .data$lower, ymax = .data$upper), fill = colour, alpha = 0.28
    ),
    ggplot2::geom_line(ggplot2::aes(y = .data$below),
      colour = colour, linetype = "22", linewidth = 0.35),
    ggplot2::geom_line(ggplot2::aes(y = .data$above),
      colour = colour, linetype = "22", linewidth = 0.35),
    ggplot2::geom_line(ggplot2::aes(y = .data$mean), colour = colour, linewidth = 0.7)
  )
}

scale_words <- function(q) paste0("Q = ", format(q), " GeV")

panels <- function(free = "free_y") {
  ggplot2::facet_wrap(ggplot2::vars(.data$panel), scales = free, labeller = "label_parsed")
}

# In linear x the steep rise below 0.01 would flatten everything else.
in_view <- function(table, xscale) if (xscale == "linear") table[table$x >= 0.01, ] else table

plot_pdfs <- function(fit, flavours, q, xscale) {
  ggplot2::ggplot(in_view(bands(fit, flavours, q), xscale), ggplot2::aes(x = .data$x)) +
    ggplot2::geom_hline(yintercept = 0, colour = grey, linewidth = 0.3) +
    band_layers() +
    panels() +
    scale_x_momentum(xscale) +
    ggplot2::labs(
      y = "x f(x, Q)", title = paste("PDFs at", scale_words(q)),
      subtitle = "band: 68 % interval; dashed: mean \u00b1 1 standard deviation"
    ) +
    theme_partonfit()
}

plot_ratio <- function(fit, to, flavours, q, xscale) {
  ours <- bands(fit, flavours, q)
  theirs <- if (identical(fit, to)) ours else bands(to, flavours, q, ours$x)
  # Both grids are the stored one unless the fits are of different versions.
  by <- match(paste(ours$flavour, signif(ours$x, 10)), paste(theirs$flavour, signif(theirs$x, 10)))
  reference <- theirs$mean[by]
  columns <- c("mean", "lower", "upper")
  ours[columns] <- ours[columns] / reference
  ours$sd <- ours$sd / abs(reference)
  ours <- ours[is.finite(ours$mean) & ours$x < 0.8 & ours$x > 1e-4, ]
  ours <- do.call(rbind, lapply(split(ours, ours$panel), keep_in_reach))
  name <- if (identical(fit, to)) "its mean" else to$name %||% "the other fit"
  ggplot2::ggplot(in_view(ours, xscale), ggplot2::aes(x = .data$x)) +
    ggplot2::geom_hline(yintercept = 1, colour = grey, linewidth = 0.3) +
    band_layers() +
    panels() +
    scale_x_momentum(xscale) +
    ggplot2::labs(
      y = paste("ratio to", name), title = paste("PDFs at", scale_words(q)),
      subtitle = "band: 68 % interval; dashed: mean \u00b1 1 standard deviation"
    ) +
    theme_partonfit()
}

# Ratios explode where a PDF vanishes; a panel shows what its band does below x = 0.5.
keep_in_reach <- function(panel) {
  seen <- panel[panel$x < 0.5, ]
  reach <- stats::quantile(abs(c(seen$lower, seen$upper) - 1), 0.95, na.rm = TRUE)
  reach <- min(max(1.3 * reach, 0.05), 2)
  clamp <- function(y) pmin(pmax(y, 1 - reach), 1 + reach)
  panel$below <- clamp(panel$mean - panel$sd)
  panel$above <- clamp(panel$mean + panel$sd)
  columns <- c("mean", "lower", "upper")
  panel[columns] <- lapply(panel[columns], clamp)
  panel
}

plot_replicas <- function(fit, flavours, q, xscale) {
  x <- unique(fit$pdfs$x)
  answer <- stats::predict(fit, x = x, Q = q, flavour = flavours, type = "replicas")
  n <- length(answer$.replicas[[1]])
  lines <- tibble::tibble(
    x = rep(answer$x, each = n), flavour = rep(answer$flavour, each = n),
    replica = rep(seq_len(n), nrow(answer)), value = unlist(answer$.replicas)
  )
  lines$panel <- panel_labels(lines$flavour, flavours)
  ggplot2::ggplot(in_view(lines, xscale), ggplot2::aes(x = .data$x)) +
    ggplot2::geom_line(ggplot2::aes(y = .data$value, group = .data$replica),
      colour = grey, alpha = 0.4, linewidth = 0.25) +
    ggplot2::geom_line(ggplot2::aes(y = .data$mean),
      data = in_view(bands(fit, flavours, q), xscale), colour = blue, linewidth = 0.8) +
    panels() +
    scale_x_momentum(xscale) +
    ggplot2::labs(
      y = "x f(x, Q)", title = paste("Replicas at", scale_words(q)),
      subtitle = paste(n, "kept replicas; blue: their mean")
    ) +
    theme_partonfit()
}

plot_chi2 <- function(fit) {
  rows <- chi2(fit)
  rows$label <- paste0(rows$dataset, " (", rows$n_data, ")")
  rows$label <- factor(rows$label, levels = rev(rows$label))
  rows$total <- rows$dataset == "Total"
  ggplot2::ggplot(rows, ggplot2::aes(.data$chi2_per_point, .data$label, fill = .data$total)) +
    ggplot2::geom_col(width = 0.65, show.legend = FALSE) +
    ggplot2::geom_vline(xintercept = 1, colour = grey, linetype = "22") +
    ggplot2::geom_text(ggplot2::aes(label = two_digits(.data$chi2_per_point)),
      hjust = -0.2, size = 3.5) +
    ggplot2::scale_fill_manual(values = c("FALSE" = blue, "TRUE" = vermilion)) +
    ggplot2::scale_x_continuous(expand = ggplot2::expansion(c(0, 0.12))) +
    ggplot2::labs(
      x = expression(chi^2 / N), y = NULL, title = "Agreement with each dataset",
      subtitle = "experimental covariance (number of points)"
    ) +
    theme_partonfit()
}

plot_data <- function(fit) {
  points <- fit$points
  points$ratio <- points$value / points$prediction
  points$half <- points$error / abs(points$prediction)
  points$spread <- points$prediction_sd / abs(points$prediction)
  reach <- max(0.1, stats::quantile(abs(points$ratio - 1) + points$half, 0.95, na.rm = TRUE))
  points$along <- if (all(is.finite(points$Q2))) points$Q2 else as.double(points$point)
  ggplot2::ggplot(points, ggplot2::aes(.data$along, .data$ratio)) +
    ggplot2::geom_hline(yintercept = 1, colour = grey, linewidth = 0.3) +
    ggplot2::geom_linerange(
      ggplot2::aes(ymin = .data$ratio - .data$half, ymax = .data$ratio + .data$half),
      colour = blue, alpha = 0.35, linewidth = 0.3
    ) +
    ggplot2::geom_point(colour = blue, size = 0.6) +
    ggplot2::geom_linerange(
      ggplot2::aes(ymin = 1 - .data$spread, ymax = 1 + .data$spread),
      colour = vermilion, linewidth = 0.5
    ) +
    ggplot2::facet_wrap(ggplot2::vars(.data$dataset), scales = "free_x", ncol = 2) +
    ggplot2::scale_x_log10() +
    # The few points with huge errors would flatten all others; they leave the panel.
    ggplot2::coord_cartesian(ylim = 1 + c(-1, 1) * reach) +
    ggplot2::labs(
      x = if (all(is.finite(points$Q2))) expression(Q^2 ~ "[GeV"^2 * "]") else "point",
      y = "data / prediction", title = "Data and predictions",
      subtitle = "blue: data with total error; vermilion: 1 standard deviation of the replicas"
    ) +
    theme_partonfit()
}

plot_training <- function(fit) {
  kept <- fit$replicas$replica[fit$replicas$kept]
  history <- fit$history[fit$history$replica %in% kept, ]
  kinds <- c("training", "validation")
  long <- tibble::tibble(
    epoch = rep(history$epoch, 2), replica = rep(history$replica, 2),
    points = rep(kinds, each = nrow(history)), chi2 = c(history$training, history$validation)
  )
  long <- long[is.finite(long$chi2) & long$chi2 > 0, ]
  ggplot2::ggplot(long, ggplot2::aes(.data$epoch, .data$chi2, colour = .data$points)) +
    ggplot2::geom_line(
      ggplot2::aes(group = interaction(.data$replica, .data$points)), alpha = 0.3, linewidth = 0.3
    ) +
    ggplot2::scale_colour_manual(NULL, values = c(training = blue, validation = vermilion)) +
    ggplot2::scale_y_log10() +
    ggplot2::guides(colour = ggplot2::guide_legend(
      override.aes = list(alpha = 1, linewidth = 1)
    )) +
    ggplot2::labs(
      x = "epoch", y = expression(chi^2 / N), title = "Training",
      subtitle = paste(length(kept), "kept replicas, each with its own split of the points")
    ) +
    theme_partonfit()
}

# A coarse grid of x for each flavour: what is correlated with what shows already.
plot_correlations <- function(fit, flavours, q) {
  x <- c(10^seq(-4, -1, length.out = 13), seq(0.2, 0.8, by = 0.1))
  answer <- stats::predict(fit, x = x, Q = q, flavour = flavours, type = "replicas")
  if (sum(fit$replicas$kept) < 3) {
    abort_partonfit("fit", c(
      "Correlations need at least three kept replicas.",
      i = "This fit has {sum(fit$replicas$kept)}; fit with more {.arg replicas}."
    ), call = rlang::caller_env())
  }
  correlation <- stats::cor(do.call(cbind, answer$.replicas))
  at <- expand.grid(one = seq_along(answer$x), two = seq_along(answer$x))
  names <- vapply(flavours, symbol, "")
  label <- function(i) factor(names[answer$flavour[i]], levels = names)
  cells <- tibble::tibble(
    one = answer$x[at$one], two = answer$x[at$two], correlation = as.vector(correlation),
    row = label(at$two), column = label(at$one)
  )
  cells$one <- match(cells$one, x)
  cells$two <- match(cells$two, x)
  shown <- match(c(1e-4, 1e-2, 0.2, 0.6), signif(x, 3))
  words <- c("1e-4", "0.01", "0.2", "0.6")
  ggplot2::ggplot(cells, ggplot2::aes(.data$one, .data$two, fill = .data$correlation)) +
    ggplot2::geom_raster() +
    ggplot2::facet_grid(ggplot2::vars(.data$row), ggplot2::vars(.data$column), labeller = "label_parsed") +
    ggplot2::scale_fill_gradient2("correlation", low = vermilion, high = blue, limits = c(-1, 1)) +
    ggplot2::scale_x_continuous("x", breaks = shown, labels = words, expand = c(0, 0)) +
    ggplot2::scale_y_continuous("x", breaks = shown, labels = words, expand = c(0, 0)) +
    ggplot2::labs(
      title = paste("Correlations at", scale_words(q)),
      subtitle = paste("of x f(x, Q) over", sum(fit$replicas$kept), "kept replicas")
    ) +
    theme_partonfit()
}
