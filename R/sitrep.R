#' What is installed, and does it work?
#'
#' Prints one page to read, or to paste into a report of a problem: R, reticulate, which Python was
#' found and why, the versions of the core and of every library, the devices, and a verdict.
#'
#' Python is looked for in this order: one that runs in this session already; the option
#' `partonfit.python` or the environment variable `PARTONFIT_PYTHON`; `RETICULATE_PYTHON`; the
#' environment that [install_partonfit()] makes; one that reticulate manages.
#'
#' @param ... No further arguments; a misspelt one is an error.
#' @param verbosity `"detailed"`, `"minimal"` (only the verdict) or `"quiet"` (prints nothing).
#'
#' @return A list, invisibly: `ok` (`TRUE` when a fit can be made), `reason`, and what was found.
#' @examples
#' \dontrun{
#' partonfit_sitrep()
#' }
#' @export
partonfit_sitrep <- function(..., verbosity = c("detailed", "minimal", "quiet")) {
  check_dots(...)
  verbosity <- check_choice(verbosity, c("detailed", "minimal", "quiet"))
  found <- collect_sitrep()
  if (verbosity == "detailed") print_sitrep(found)
  if (verbosity != "quiet") {
    if (found$ok) {
      cli::cli_alert_success("Everything that a fit needs is in place.")
    } else {
      cli::cli_alert_danger("partonfit cannot fit here: {found$reason}")
      cli::cli_alert_info("Run {.run partonfit::install_partonfit()} in a new R session.")
    }
  }
  invisible(found)
}

collect_sitrep <- function() {
  found <- list(
    r = as.character(getRversion()),
    reticulate = as.character(utils::packageVersion("reticulate")),
    partonfit = as.character(utils::packageVersion("partonfit"))
  )
  core <- tryCatch(call_core("sitrep"), partonfit_error = function(e) e)
  if (inherits(core, "error")) {
    # The message and what is wrong; what to run is said below anyway.
    lines <- c(core$message, core$body[names(core$body) == "x"])
    reason <- gsub("\\s+", " ", cli::ansi_strip(paste(lines, collapse = " ")))
    return(c(found, list(ok = FALSE, reason = reason)))
  }
  found$python <- as_text(core$python)
  found$executable <- as_text(core$executable)
  found$core <- as_text(core$core)
  found$core_path <- as_text(core$core_path)
  found$keras_backend <- as_text(core$keras_backend)
  found$devices <- as_column(core$devices, "character")
  found$libraries <- as_table(core, c(library = "character", version = "character"))
  c(found, verdict(found))
}

# Only jax is supported: Keras chooses its backend once, when it is first imported.
verdict <- function(found) {
  needed <- c("jax", "keras", "numpy", "pineappl")
  absent <- intersect(needed, found$libraries$library[found$libraries$version == ""])
  reason <- if (length(absent)) {
    paste("missing in Python:", paste(absent, collapse = ", "))
  } else if (found$keras_backend != "jax") {
    paste0("Keras was started with the backend ", found$keras_backend, "; it must be jax")
  } else {
    ""
  }
  list(ok = !nzchar(reason), reason = reason)
}

print_sitrep <- function(found) {
  line <- function(name, value) cli::cat_line("  ", formatC(name, width = -14), value)
  cli::cat_line("partonfit ", found$partonfit)
  line("R", found$r)
  line("reticulate", found$reticulate)
  if (is.null(found$python)) return(invisible())
  line("Python", paste0(found$python, " (", found$executable, ")"))
  line("core", paste0(found$core, " (", found$core_path, ")"))
  line("Keras backend", found$keras_backend)
  line("devices", paste(found$devices, collapse = ", "))
  libraries <- found$libraries
  versions <- ifelse(libraries$version == "", "not installed", libraries$version)
  for (i in seq_len(nrow(libraries))) line(libraries$library[[i]], versions[[i]])
  invisible()
}
