#' Closure test: are the uncertainties of a fit faithful?
#'
#' Makes fake data from a PDF that is known, the law, and fits them many times. Every fit has data of its
#' own: the predictions of the law plus one draw of the experimental noise; every replica fluctuates them
#' once more, as in a fit to real data. Then each fit is laid beside the law. The bias says how far its
#' central value is off, the variance how far its replicas lie apart, both in units of the covariance and
#' per point; faithful uncertainties have equal ones. xi is how often the law lies inside one standard
#' deviation, 0.683 for faithful uncertainties and many replicas (arXiv:2111.05787).
#'
#' All fits times replicas train in one compiled program.
#'
#' @param data,theory,model,control,constraints,callbacks,devices,verbose As in [fit_pdf()]; of the data
#'   only kinematics and uncertainties matter. `devices` divides the replicas of all fits.
#' @param ... No further arguments; a misspelt one is an error.
#' @param pdf The law: `"toy"`, a fit, or a function as in [chi2()].
#' @param fits,replicas Number of fits, and of replicas in each (at least 2), whole numbers.
#' @param seed A whole number; `NULL` draws one from R's random numbers.
#'
#' @return An object of class `closure_test`, plain R values that survive [saveRDS()]: `statistics` (a tibble,
#'   one row for all data, each dataset, each decade of x and each PDF: `kind`, `name`, `n_data`; `bias`,
#'   `variance`, `ratio` (square root of mean bias over mean variance), `xi` (point by point),
#'   `xi_expected` (by the ratio), `xi_directions` (along eigen-directions of the covariance), each with its
#'   bootstrap error over fits in a column ending in `_error`), `fits` (a tibble: `fit`, `kept`, `bias`,
#'   `variance`, `chi2_per_point`), `replicas` (a tibble: `fit`, `replica`, `status`, `kept`), `pulls` (shifts
#'   of all fits along the directions, in standard deviations), `faithful` (`ratio` and `xi` of exact
#'   uncertainties with this number of replicas), `seed`.
#' @section Errors: Those of [fit_pdf()].
#' @seealso [autoplot.closure_test()], [save_closure()], [closure_data()]
#' @examples
#' \dontrun{
#' test <- closure_test("hera", fits = 25, replicas = 40, seed = 1)
#' test
#' plot(test)
#' as.data.frame(test)
#' }
#' @export
closure_test <- function(data = "hera", theory = "hera", ..., pdf = "toy", fits = 25, replicas = 40,
                         model = NULL, seed = NULL, control = fit_control(), constraints = NULL,
                         callbacks = NULL, devices = NULL, verbose = NULL) {
  check_dots(...)
  call <- rlang::current_env()
  data <- as_pdf_data(data)
  theory <- check_string(theory)
  pdf <- check_pdf(pdf)
  settings <- list(fits = check_whole(fits, min = 1), replicas = check_whole(replicas, min = 2),
    devices = if (!is.null(devices)) check_whole(devices, min = 1) else the$devices)
  model <- check_model(model)
  constraints <- check_constraints(constraints)
  control <- check_control(control)
  callbacks <- check_callbacks(callbacks)
  verbose <- wants_progress(verbose)
  settings$seed <- check_seed(seed)
  the$compiled <- TRUE
  new_closure_test(call_core(
    "closure_test", as_python_entries(data$entries), choice_for_core(data), theory, pdf_for_core(pdf),
    settings, control, constraints = constraints_for_core(constraints), callbacks = callbacks,
    progress = progress_callback(verbose), model = model_for_core(model), .call = call
  ))
}

closure_version <- 1L

closure_columns <- c(
  kind = "character", name = "character", n_data = "integer", bias = "double", bias_error = "double",
  variance = "double", variance_error = "double", ratio = "double", ratio_error = "double",
  xi = "double", xi_error = "double", xi_expected = "double", xi_expected_error = "double",
  xi_directions = "double", xi_directions_error = "double", n_directions = "integer"
)

new_closure_test <- function(parts) {
  structure(
    list(
      format_version = closure_version, id = as_text(parts$id), state = as.raw(parts$state),
      settings = as_text(parts$settings), provenance = as_text(parts$provenance),
      law = as_text(parts$law), seed = as.integer(parts$seed), n_fits = as.integer(parts$n_fits),
      n_replicas = as.integer(parts$n_replicas), n_data = as.integer(parts$n_data),
      faithful = c(ratio = as.double(parts$faithful_ratio), xi = as.double(parts$faithful_xi)),
      text = as_text(parts$text), statistics = as_table(parts$statistics, closure_columns),
      fits = as_table(parts$fits, c(fit = "integer", kept = "integer", bias = "double",
        variance = "double", chi2_per_point = "double")),
      replicas = as_table(parts$replicas, c(fit = "integer", replica = "integer", status = "character",
        kept = "logical")),
      pulls = as.double(parts$pulls)
    ),
    class = "closure_test"
  )
}

check_closure <- function(object, arg = rlang::caller_arg(object), call = rlang::caller_env()) {
  force(arg)
  if (!inherits(object, "closure_test")) {
    abort_argument(arg, "made by {.fn closure_test}", object, call = call)
  }
  if (object$format_version > closure_version) {
    abort_partonfit("storage", c(
      "This closure test was saved by a newer version of partonfit.", i = "Update the package."
    ), call = call)
  }
  object
}

#' Keep a closure test in a folder
#'
#' `save_closure()` writes a folder that Python's `partonfit.load_closure()` reads too; `load_closure()`
#' reads it, wherever it was made. Within R, [saveRDS()] does as well.
#'
#' @param object A result of [closure_test()].
#' @param folder The folder.
#' @param ... No further arguments; a misspelt one is an error.
#' @param overwrite `TRUE` to replace what is there.
#'
#' @return `save_closure()` the path, invisibly; `load_closure()` the closure test.
#' @section Errors: A folder that cannot be written, exists already, or holds no closure test is an error
#'   of class `partonfit_error_storage`.
#' @examples
#' \dontrun{
#' save_closure(test, "closure")
#' load_closure("closure")
#' }
#' @export
save_closure <- function(object, folder, ..., overwrite = FALSE) {
  check_dots(...)
  object <- check_closure(object)
  folder <- check_writable(folder)
  overwrite <- check_flag(overwrite)
  invisible(as_text(call_core("save_closure", as_python_bytes(object$state), folder, overwrite)))
}

#' @rdname save_closure
#' @export
load_closure <- function(folder) {
  folder <- path.expand(check_string(folder))
  new_closure_test(call_core("read_closure", folder))
}

#' @export
print.closure_test <- function(x, ...) {
  cat(check_closure(x)$text, sep = "\n")
  cat_text("Next: summary(test), plot(test), as.data.frame(test, what = \"fits\")")
  invisible(x)
}

#' Tables of a closure test
#'
#' None needs Python.
#'
#' @param object,x A result of [closure_test()].
#' @param ... No further arguments; a misspelt one is an error.
#' @param row.names,optional As in [as.data.frame()]; not used.
#' @param what `"statistics"`, `"fits"` or `"replicas"`, as described in [closure_test()].
#'
#' @return `summary()` an object of class `summary.closure_test` that prints the statistics by dataset,
#'   decade of x and PDF; `tidy()` a tibble with one row for each and the columns `kind`, `name`, `n_data`,
#'   `term` (`"bias"`, `"variance"`, `"ratio"`, `"xi"`), `estimate` and `std.error`; `glance()` one row
#'   for all data: `law`, `fits`, `replicas`, `nobs`, `ratio`, `ratio_error`, `xi`, `xi_error` and the
#'   values of exact uncertainties, `faithful_ratio`, `faithful_xi`; `as.data.frame()` a data frame.
#' @examples
#' \dontrun{
#' summary(test)
#' tidy(test)
#' }
#' @export
summary.closure_test <- function(object, ...) {
  check_dots(...)
  object <- check_closure(object)
  rows <- object$statistics
  structure(
    list(
      head = object$text, faithful = object$faithful,
      statistics = rows[c("kind", "name", "n_data", "ratio", "ratio_error", "xi", "xi_error")],
      statuses = table(object$replicas$status)
    ),
    class = "summary.closure_test"
  )
}

#' @export
print.summary.closure_test <- function(x, ...) {
  cat(x$head, sep = "\n")
  print_columns(x$statistics)
  cat_text(
    "Statuses: {paste(x$statuses, names(x$statuses), collapse = ', ')}",
    paste0(
      "Faithful uncertainties would have ratio {signif(x$faithful[['ratio']], 4)}, ",
      "xi {signif(x$faithful[['xi']], 3)}"
    )
  )
  invisible(x)
}

#' @rdname summary.closure_test
#' @export
tidy.closure_test <- function(x, ...) {
  check_dots(...)
  rows <- check_closure(x)$statistics
  terms <- c("bias", "variance", "ratio", "xi")
  each <- lapply(terms, function(term) {
    values <- as.list(rows)[c(term, paste0(term, "_error"))]
    tibble::tibble(kind = rows$kind, name = rows$name, n_data = rows$n_data, term = term,
      estimate = values[[1]], std.error = values[[2]])
  })
  do.call(rbind, each)
}

#' @rdname summary.closure_test
#' @export
glance.closure_test <- function(x, ...) {
  check_dots(...)
  x <- check_closure(x)
  all <- x$statistics[1, ]
  tibble::tibble(
    law = x$law, fits = x$n_fits, replicas = x$n_replicas, nobs = x$n_data, ratio = all$ratio,
    ratio_error = all$ratio_error, xi = all$xi, xi_error = all$xi_error,
    faithful_ratio = x$faithful[["ratio"]], faithful_xi = x$faithful[["xi"]]
  )
}

#' @rdname summary.closure_test
#' @export
as.data.frame.closure_test <- function(x, row.names = NULL, optional = FALSE, ...,
                                       what = c("statistics", "fits", "replicas")) {
  check_dots(...)
  as.data.frame(check_closure(x)[[check_choice(what, c("statistics", "fits", "replicas"))]])
}

#' Figures of a closure test
#'
#' None needs Python.
#'
#' @param object,x A result of [closure_test()].
#' @param ... For `autoplot()` no further arguments; `plot()` passes its own on to `autoplot()`.
#' @param type What to draw:
#'   * `"ratio"`: square root of bias over variance, for all data, datasets and decades of x;
#'   * `"xi"`: how often the law lies inside one standard deviation;
#'   * `"pulls"`: shifts along the eigen-directions, in standard deviations, against a Gaussian;
#'   * `"fits"`: bias against variance, one point for each fit.
#'
#'   The dashed line is what exact uncertainties give with this number of replicas.
#'
#' @return `autoplot()` a ggplot, `plot()` its `x`, invisibly.
#' @section Errors: An unknown type is an error of class `partonfit_error_argument`.
#' @examples
#' \dontrun{
#' plot(test, type = "xi")
#' }
#' @export
autoplot.closure_test <- function(object, ..., type = c("ratio", "xi", "pulls", "fits")) {
  check_dots(...)
  object <- check_closure(object)
  type <- check_choice(type, c("ratio", "xi", "pulls", "fits"))
  switch(type,
    ratio = plot_closure_rows(object, "ratio", "square root of bias over variance"),
    xi = plot_closure_rows(object, "xi", "share of points inside one standard deviation"),
    pulls = plot_closure_pulls(object),
    fits = plot_closure_fits(object)
  )
}

#' @rdname autoplot.closure_test
#' @export
plot.closure_test <- function(x, ...) {
  print(ggplot2::autoplot(x, ...))
  invisible(x)
}

closure_title <- function(object) {
  paste0("law ", object$law, ", ", object$n_fits, " fits of ", object$n_replicas, " replicas, ",
    object$n_data, " points")
}

plot_closure_rows <- function(object, term, words) {
  rows <- object$statistics[object$statistics$kind != "pdf", ]
  heads <- c(data = "all", dataset = "dataset", x = "x")
  rows$group <- factor(heads[rows$kind], levels = heads)
  rows$label <- factor(paste0(rows$name, " (", rows$n_data, ")"), levels = rev(unique(paste0(
    rows$name, " (", rows$n_data, ")"
  ))))
  rows$value <- rows[[term]]
  rows$half <- rows[[paste0(term, "_error")]]
  rows$half[!is.finite(rows$half)] <- 0
  ggplot2::ggplot(rows, ggplot2::aes(.data$value, .data$label)) +
    ggplot2::geom_vline(xintercept = object$faithful[[term]], colour = grey, linetype = "22") +
    ggplot2::geom_linerange(
      ggplot2::aes(xmin = .data$value - .data$half, xmax = .data$value + .data$half),
      colour = blue, linewidth = 0.6
    ) +
    ggplot2::geom_point(colour = blue, size = 2) +
    ggplot2::facet_grid(ggplot2::vars(.data$group), scales = "free_y", space = "free_y") +
    ggplot2::expand_limits(x = if (term == "xi") c(0, 1) else c(0, object$faithful[[term]])) +
    ggplot2::labs(x = words, y = NULL, title = "Closure test", subtitle = closure_title(object)) +
    theme_partonfit()
}

plot_closure_pulls <- function(object) {
  # Shifts far out are counted in the last bin.
  shifts <- tibble::tibble(shift = pmax(-3.99, pmin(3.99, object$pulls)))
  ggplot2::ggplot(shifts, ggplot2::aes(.data$shift)) +
    ggplot2::geom_histogram(ggplot2::aes(y = ggplot2::after_stat(.data$density)),
      breaks = seq(-4, 4, by = 0.5), fill = blue, alpha = 0.5) +
    ggplot2::stat_function(fun = stats::dnorm, colour = vermilion, linewidth = 0.8) +
    ggplot2::labs(
      x = "shift of the central value, in standard deviations of the replicas", y = "density",
      title = "Shifts against a Gaussian", subtitle = closure_title(object)
    ) +
    theme_partonfit()
}

plot_closure_fits <- function(object) {
  ggplot2::ggplot(object$fits, ggplot2::aes(.data$variance, .data$bias)) +
    ggplot2::geom_abline(slope = object$faithful[["ratio"]]^2, colour = grey, linetype = "22") +
    ggplot2::geom_point(colour = blue, size = 2) +
    ggplot2::expand_limits(x = 0, y = 0) +
    ggplot2::labs(x = "variance per point", y = "bias per point", title = "Bias and variance of each fit",
      subtitle = closure_title(object)) +
    theme_partonfit()
}
