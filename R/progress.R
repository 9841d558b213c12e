# Progress: the core calls back between chunks with (step, total, metrics); here that becomes a cli
# bar in a session somebody watches, a line now and then in a log.

# Returns the callback, or NULL when nobody wants to know.
progress_callback <- function(verbose, .envir = parent.frame()) {
  if (!verbose) return(NULL)
  if (cli::is_dynamic_tty()) progress_bar(.envir) else progress_lines()
}

progress_bar <- function(.envir) {
  state <- new.env(parent = emptyenv())
  state$metrics <- ""
  id <- NULL
  function(step, total, metrics) {
    state$metrics <- format_metrics(metrics)
    if (is.null(id)) {
      id <<- cli::cli_progress_bar(
        total = total, clear = TRUE, .envir = .envir, extra = list(state = state),
        format = paste0(
          "Fitting {cli::pb_bar} {cli::pb_percent} | {cli::pb_extra$state$metrics}",
          " | {cli::pb_eta_str}"
        )
      )
    }
    cli::cli_progress_update(set = step, id = id, .envir = .envir, force = TRUE)
    invisible()
  }
}

progress_lines <- function(every = 15) {
  started <- proc.time()[["elapsed"]]
  last <- started
  function(step, total, metrics) {
    now <- proc.time()[["elapsed"]]
    if (now - last >= every || step >= total) {
      last <<- now
      cli::cli_text("step {step} of {total}, {format_metrics(metrics)}, {round(now - started)} s")
    }
    invisible()
  }
}

# The core names its metrics; what it reports is shown, numbers to three digits.
format_metrics <- function(metrics) {
  if (!length(metrics)) return("")
  paste(gsub("_", " ", names(metrics)), vapply(metrics, format, "", digits = 3), collapse = ", ")
}

wants_progress <- function(verbose, call = rlang::caller_env()) {
  if (is.null(verbose)) return(isTRUE(getOption("partonfit.progress", interactive())))
  check_flag(verbose, "verbose", call = call)
}
