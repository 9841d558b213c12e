#' Figures of a fit
#'
#' `plot()` draws the figure that `autoplot()` makes; change the latter with ggplot2 as you like.
#'
#' @param object,x A fit made by [fit_pdf()].
#' @param ... For `autoplot()` no further arguments; `plot()` passes its own on to `autoplot()`.
#' @param flavours Names of PDFs, each with a panel of its own: `"g"`, `"u"`, `"ubar"`, `"u_v"`,
#'   `"sea"`, `"s_plus"`, `"Sigma"`, `"T8"`, ...
#' @param Q Scale \[GeV\]; Q0 unless given. At Q0 and 100 GeV no Python is needed.
#' @param type What to draw:
#'   * `"pdfs"`: x f(x, Q), the 68 % interval as a band, mean plus and minus one standard deviation
#'     as dashed lines;
#'   * `"ratio"`: the same, divided by the mean of `to`;
#'   * `"replicas"`: every kept replica as a line (needs Python);
#'   * `"chi2"`: chi2 per point of every dataset, with the experimental covariance;
#'   * `"data"`: data over prediction against Q2, for every dataset;
#'   * `"training"`: chi2 per point of training and validation points against the epoch;
#'   * `"correlations"`: correlation over the replicas of x f(x, Q) between all pairs of flavours and x
#'     (needs Python).
#' @param to For `"ratio"`: another fit, an LHAPDF set (read by [read_lhapdf()], or its folder); `NULL`
#'   for the fit itself, which shows its relative uncertainty.
#' @param xscale `"log"` or `"linear"`.
#'
#' @return `autoplot()` a ggplot, `plot()` its `x`, invisibly.
#' @section Errors: An unknown flavour is an error of class `partonfit_error_argument` that suggests
#'   the nearest name.
#' @examples
#' \dontrun{
#' plot(fit, flavours = c("g", "u_v", "d_v", "sea"), Q = 100)
#' autoplot(fit, type = "chi2") + ggplot2::ggtitle("My fit")
#' }
#' @importFrom ggplot2 autoplot
#' @export
autoplot.pdf_fit <- function(object, ..., flavours = c("g", "u_v", "d_v", "sea"), Q = NULL,
                             type = c(
                               "pdfs", "ratio", "replicas", "chi2", "data", "training", "correlations"
                             ), to = NULL, xscale = c("log", "linear")) {
  check_dots(...)
  object <- upgrade_fit(object)
  type <- check_choice(type, eval(formals(autoplot.pdf_fit)$type))
  xscale <- check_choice(xscale, c("log", "linear"))
  if (type != "training" && !any(object$replicas$kept)) {
    abort_partonfit("fit", c(
      "No replica of this fit was kept, so there is nothing to plot.",
      i = "{.code plot(fit, type = \"training\")} shows how the replicas trained."
    ))
  }
  if (type %in% c("chi2", "data", "training")) {
    return(switch(type,
      chi2 = plot_chi2(object),
      data = plot_data(object),
      training = plot_training(object)
    ))
  }
  flavours <- check_flavours(flavours, object)
  q <- if (is.null(Q)) object$q0 else check_number(Q, min = 1, max = 1e5)
  if (!is.null(to)) to <- check_reference(to)
  switch(type,
    pdfs = plot_pdfs(object, flavours, q, xscale),
    ratio = plot_ratio(object, to %||% object, flavours, q, xscale),
    replicas = plot_replicas(object, flavours, q, xscale),
    correlations = plot_correlations(object, flavours, q)
  )
}

check_reference <- function(to, call = rlang::caller_env()) {
  if (is.character(to)) return(read_lhapdf(to))
  if (inherits(to, "lhapdf_set")) return(to)
  check_fit(to, "to", call)
}

#' @rdname autoplot.pdf_fit
#' @export
plot.pdf_fit <- function(x, ...) {
  print(ggplot2::autoplot(x, ...))
  invisible(x)
}

#' @importFrom ggplot2 autoplot
#' @export
ggplot2::autoplot

check_flavours <- function(flavours, fit, call = rlang::caller_env()) {
  flavours <- check_names(flavours, "flavours", call = call)
  known <- unique(fit$pdfs$flavour)
  wrong <- setdiff(flavours, known)
  if (length(wrong)) {
    near <- nearest_flavour(wrong[[1]], known)
    abort_partonfit("argument", c(
      "Unknown flavour{?s} {.val {wrong}} in {.arg flavours}.",
      i = "Did you mean {.val {near}}?"
    ), arg = "flavours", call = call)
  }
  unique(flavours)
}

# A slip of the pen ("Sigm", "uv"), else a word that begins with a name ("gluon").
nearest_flavour <- function(name, known) {
  distance <- utils::adist(name, gsub("_", "", known), ignore.case = TRUE)[1, ]
  begins <- known[startsWith(tolower(name), tolower(known))]
  if (min(distance) > 1 && length(begins)) return(begins[which.max(nchar(begins))])
  known[which.min(distance)]
}

# The stored grid where the scale is stored, else the core.
bands <- function(fit, flavours, q, x = fit$pdfs$x) {
  stored <- fit$pdfs[abs(fit$pdfs$Q - q) < 1e-9 & fit$pdfs$flavour %in% flavours, ]
  if (!NROW(stored)) {
    answer <- stats::predict(fit, x = unique(x), Q = q, flavour = flavours)
    stored <- tibble::tibble(
      Q = answer$Q, flavour = answer$flavour, x = answer$x,
      mean = answer$.pred, sd = answer$.sd, lower = answer$.lower, upper = answer$.upper
    )
  }
  stored$below <- stored$mean - stored$sd
  stored$above <- stored$mean + stored$sd
  stored$panel <- panel_labels(stored$flavour, flavours)
  stored
}

# Plotmath for a name: "u_v" is u[v], "ubar" is bar(u), "T3" is T[3].
symbol <- function(name) {
  special <- c(
    Sigma = "Sigma", photon = "gamma", u_v = "u[v]", d_v = "d[v]",
    sea = "2*(bar(u)+bar(d)+bar(s)+bar(c))", dbar_minus_ubar = "(bar(d)-bar(u))"
  )
  if (name %in% names(special)) return(special[[name]])
  name <- sub("^(.)bar$", "bar(\\1)", name)
  name <- sub("^(.)_plus$", "\\1^{'+'}", name)
  name <- sub("^(.)_minus$", "\\1^{'-'}", name)
  sub("^([VT])(\\d+)$", "\\1[\\2]", name)
}

panel_labels <- function(flavour, order) {
  labels <- vapply(order, function(name) paste0("x*' '*", symbol(name)), "")
  factor(labels[flavour], levels = labels)
}
