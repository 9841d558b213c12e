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
          "{cli::pb_bar} {cli::pb_percent} {cli::pb_eta_str} | chi2/N: ",
          "{cli::pb_extra$state$metrics}"
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

# "24 of 40 running, training 2.18, validation 2.23": what the core reports, numbers to three digits.
format_metrics <- function(metrics) {
  if (!length(metrics)) return("")
  counts <- c("running", "members")
  words <- if (all(counts %in% names(metrics))) {
    sprintf("%.0f of %.0f running", metrics$running, metrics$members)
  }
  rest <- metrics[setdiff(names(metrics), counts)]
  values <- vapply(rest, format, "", digits = 3)
  paste(c(words, if (length(rest)) paste(names(rest), values)), collapse = ", ")
}

wants_progress <- function(verbose, call = rlang::caller_env()) {
  if (is.null(verbose)) return(isTRUE(getOption("partonfit.progress", interactive())))
  check_flag(verbose, "verbose", call = call)
}
