#' Fit parton distribution functions to data
#'
#' Trains `replicas` neural networks, each on its own pseudodata and its own split into training and
#' validation points, all in one compiled program. The spread of the replicas is the uncertainty.
#'
#' The network gives the combinations Sigma, g, V, V3, V8, T3, T8 and T15 at Q0 = 1.65 GeV as
#' functions of x; preprocessing factors steer the limits of small and large x, and the sum rules fix
#' the normalisations. The chi2 of a replica uses the t0 covariance, so that multiplicative
#' uncertainties do not bias it. Nothing is trained before every argument has been checked and the
#' data have been matched with the tables.
#'
#' Esc or Ctrl-C ends the training: the best weights so far are returned, with a warning of class
#' `partonfit_warning_interrupted`.
#'
#' A replica that fails does not disturb the others. It is left out of averages and says why in the
#' column `sentence` of `as.data.frame(fit, what = "replicas")`.
#'
#' @param data A choice made by [pdf_data()], or what that function takes: `"hera"`, names of
#'   datasets, or a list of names and lists.
#' @param theory `"hera"` for the tables the package carries (NNLO), or a folder of
#'   `.pineappl.lz4` tables that belong to the datasets.
#' @param ... No further arguments; a misspelt one is an error.
#' @param model The network, by [pdf_model()]; `NULL` for the default.
#' @param replicas Number of replicas, a whole number.
#' @param seed A whole number from 0 on: the same seed gives the same fit. `NULL` draws one from R's
#'   random numbers, so that [set.seed()] governs; a number leaves R's stream alone. The seed that was
#'   used is stored in the fit.
#' @param t0 The PDF whose predictions define the t0 covariance: `"toy"` (a known parametrisation), an
#'   earlier fit made by this function, a function as in [chi2()], or `NULL` for the experimental
#'   covariance.
#' @param constraints Positivity and integrability observables that every replica has to satisfy:
#'   `"nnpdf40"` for those of NNPDF4.0, a choice made by [load_constraints()], or `NULL` for none.
#'   Their tables are looked for in the theory.
#' @param control Settings of the training, by [fit_control()].
#' @param callbacks What is called about once a second during the training: functions
#'   `function(step, total, metrics)`, paths ending in `.csv` of files that get a line each time, and
#'   callbacks of Keras (made with keras3 or reticulate), whose `on_epoch_end` is then called; one or a
#'   list. An error in one ends the fit with the best so far. Callbacks of Keras that change the weights or
#'   the rate are refused.
#' @param checkpoint A folder in which the state of all replicas is kept, about every ten seconds. A fit
#'   that was killed goes on from there with `resume = TRUE`, to the same result.
#' @param resume `TRUE` to go on from `checkpoint`, if there is one already; else begin.
#' @param devices How many of the devices to divide the replicas over; `NULL` for all, or as
#'   [data_parallel()] says.
#' @param operator,grid An operator (see [operator()]) instead of a `theory`, for what has no tables: from
#'   x f of the 14 combinations of the evolution basis (or of the 8 fitted ones) on the values of x in
#'   `grid`, x running fastest, to the predictions for the data. It is called at every epoch from compiled
#'   programs, so its functions must not be R's; a surrogate of such an operator will do.
#' @param verbose Show progress? `NULL` means: in an interactive session.
#'
#' @return An object of class `pdf_fit`: a list of plain R values that survives [saveRDS()]. Printing,
#'   summaries, [chi2()] and plots at the stored scales (Q0 and 100 GeV) need no Python.
#' @section Errors:
#' Wrong arguments are errors of class `partonfit_error_argument`; an unknown dataset or unsound data
#' `partonfit_error_data`; a missing or broken table `partonfit_error_theory`; Python or a library
#' that is missing `partonfit_error_python`. All have the class `partonfit_error` too.
#' @seealso [predict.pdf_fit()], [autoplot.pdf_fit()], [chi2()], [write_lhapdf()], [report()]
#' @examples
#' \dontrun{
#' fit <- fit_pdf("hera", replicas = 100, seed = 1)
#' fit
#' plot(fit, flavours = c("g", "u_v", "d_v", "sea"), Q = 100)
#' }
#' @export
fit_pdf <- function(data = "hera", theory = "hera", ..., model = NULL, replicas = 100, seed = NULL,
                    t0 = "toy", constraints = NULL, control = fit_control(), callbacks = NULL,
                    checkpoint = NULL, resume = FALSE, devices = NULL, operator = NULL, grid = NULL,
                    verbose = NULL) {
  check_dots(...)
  arguments <- list(
    data = as_pdf_data(data),
    theory = check_string(theory),
    model = check_model(model),
    replicas = check_whole(replicas, min = 1),
    t0 = if (!is.null(t0)) check_pdf(t0),
    constraints = check_constraints(constraints),
    control = check_control(control)
  )
  if (!is.null(operator) || !is.null(grid)) {
    arguments <- c(arguments, check_black_box(operator, grid))
  }
  session <- list(
    callbacks = check_callbacks(callbacks),
    checkpoint = if (!is.null(checkpoint)) check_writable(checkpoint),
    resume = check_flag(resume),
    devices = if (!is.null(devices)) check_whole(devices, min = 1) else the$devices,
    verbose = wants_progress(verbose)
  )
  if (session$resume && is.null(checkpoint)) {
    abort_partonfit("argument", c(
      "{.code resume = TRUE} needs a {.arg checkpoint}.",
      i = "Give the folder that the fit was started with."
    ), arg = "resume")
  }
  # A fit that is resumed has a seed already.
  arguments["seed"] <- list(if (!session$resume || !is.null(seed)) check_seed(seed))
  run_fit(arguments, session, call = rlang::current_env())
}

# Plain inputs in, one call of the core, the object out.
run_fit <- function(arguments, session, call) {
  the$compiled <- TRUE
  parts <- call_core(
    "fit",
    as_python_entries(arguments$data$entries),
    choice_for_core(arguments$data),
    arguments$theory,
    model = model_for_core(arguments$model),
    replicas = arguments$replicas,
    seed = arguments$seed,
    t0 = pdf_for_core(arguments$t0),
    control = arguments$control,
    constraints = constraints_for_core(arguments$constraints),
    callbacks = session$callbacks,
    checkpoint = session$checkpoint,
    resume = session$resume,
    devices = session$devices,
    operator = if (!is.null(arguments$operator)) operator_handle(own_cache(arguments$operator), call),
    grid = if (!is.null(arguments$grid)) as_python_numbers(arguments$grid),
    progress = progress_callback(session$verbose),
    .call = call
  )
  arguments$seed <- as.integer(parts$seed)
  fit <- new_pdf_fit(parts, arguments)
  if (nzchar(parts$callback_error %||% "")) warn_callback(parts$callback_error, call)
  if (fit$interrupted) warn_interrupted(fit, call)
  if (!any(fit$replicas$kept)) warn_none_kept(fit, call)
  fit
}

warn_callback <- function(reason, call) {
  reason <- escape_braces(reason)
  warn_partonfit("callback", c("A callback failed, which ended the fit.", x = reason), call = call)
}

# An operator that compiled programs may call, and the grid on which it takes x f.
check_black_box <- function(operator, grid, call = rlang::caller_env()) {
  if (is.null(operator) || is.null(grid)) {
    abort_partonfit("argument", c(
      "{.arg operator} and {.arg grid} belong together; one of them is missing.",
      i = "{.arg grid} holds the values of x at which the operator takes x f."
    ), arg = if (is.null(operator)) "operator" else "grid", call = call)
  }
  operator <- check_operator_class(operator, "operator", call)
  if (runs_in_r(operator)) {
    abort_partonfit("operator", c(
      "The functions of this operator are R's, and a fit calls them from compiled programs, which R cannot
       answer.",
      i = "Train a surrogate by {.fn fit_surrogate} and give that, or write the operator in Python."
    ), call = call)
  }
  grid <- check_numbers(grid, "grid", min = .Machine$double.xmin, max = 1,
    must = "numbers above 0 and up to 1", call = call)
  list(operator = own_cache(operator), grid = grid)
}

# What a fit keeps of an operator must hold no Python pointer.
own_cache <- function(operator) {
  if (inherits(operator, "partonfit_operator")) operator$cache <- new.env(parent = emptyenv())
  operator
}

runs_in_r <- function(operator) identical(operator$recipe$kind, "functions")

warn_interrupted <- function(fit, call) {
  warn_partonfit("interrupted", c(
    "The fit was interrupted; this is the best so far.",
    i = "{sum(fit$replicas$kept)} of {nrow(fit$replicas)} replicas can be used."
  ), call = call)
}

warn_none_kept <- function(fit, call) {
  statuses <- sort(table(fit$replicas$status), decreasing = TRUE)
  reasons <- paste(statuses, names(statuses))
  warn_partonfit("none_kept", c(
    "No replica can be used: {reasons}.",
    i = "{.code as.data.frame(fit, what = \"replicas\")} says why for each.",
    i = "Train longer ({.code epochs} of {.fn fit_control}) or accept worse replicas
         ({.code threshold_chi2})."
  ), call = call)
}

#' Fit again with something changed
#'
#' Repeats the call of [fit_pdf()] that made `object`, with the arguments given here in place of its
#' own.
#'
#' @param object A fit made by [fit_pdf()].
#' @param ... Arguments of [fit_pdf()] to change, by name. The seed stays the same unless it is given;
#'   callbacks and checkpoints are not repeated.
#'
#' @return A new fit.
#' @section Errors: Those of [fit_pdf()].
#' @examples
#' \dontrun{
#' fit2 <- update(fit, data = pdf_data("hera", q2min = 10))
#' }
#' @importFrom stats update
#' @export
update.pdf_fit <- function(object, ...) {
  changed <- list(...)
  if (length(changed) && (is.null(names(changed)) || any(names(changed) == ""))) {
    abort_partonfit("argument", c(
      "Arguments to change must be named.",
      i = "Write for instance {.code update(fit, replicas = 50)}."
    ))
  }
  arguments <- object$arguments
  arguments$control <- structure(arguments$control, class = "fit_control")
  do.call(fit_pdf, utils::modifyList(arguments, changed, keep.null = TRUE))
}
