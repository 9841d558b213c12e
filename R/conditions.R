# Every error and warning of the package. Errors carry the class `partonfit_error_<kind>` and the
# base class `partonfit_error`; the kinds are those of the core's exceptions plus "argument" (a
# value refused at the door) and "python" (Python or a library is missing, or failed unexpectedly).

# The core's exception classes and the kind each becomes; a test holds this against the core.
python_error_kinds <- c(
  DataError = "data",
  TheoryError = "theory",
  SettingError = "setting",
  OperatorError = "operator",
  FitError = "fit",
  StorageError = "storage",
  MissingDependencyError = "dependency",
  PartonfitError = "error"
)

# `message` is glued in the caller's frame; `...` are fields of the condition.
abort_partonfit <- function(kind, message, ..., call = rlang::caller_env(),
                            .envir = parent.frame()) {
  cli::cli_abort(
    message,
    class = c(paste0("partonfit_error_", kind), "partonfit_error"),
    ...,
    call = call,
    .envir = .envir
  )
}

warn_partonfit <- function(kind, message, ..., call = rlang::caller_env(),
                           .envir = parent.frame()) {
  cli::cli_warn(
    message,
    class = c(paste0("partonfit_warning_", kind), "partonfit_warning"),
    ...,
    call = call,
    .envir = .envir
  )
}

# Text that was written elsewhere may hold braces, which cli would read as code.
escape_braces <- function(text) {
  gsub("}", "}}", gsub("{", "{{", text, fixed = TRUE), fixed = TRUE)
}

# Turn a Python exception into a condition of this package. `type` is the name of its class.
abort_from_python <- function(type, message, call) {
  kind <- unname(python_error_kinds[type])
  message <- escape_braces(trimws(message))
  if (is.na(kind)) {
    bullets <- c(
      paste0("The Python core failed with {.cls ", type, "}: ", message),
      i = "{.code reticulate::py_last_error()} shows where; {.fn partonfit_sitrep} what is installed."
    )
    kind <- "python"
  } else {
    bullets <- as_bullets(message)
  }
  abort_partonfit(kind, bullets, python_type = type, call = call)
}

# The core writes its message as sentences, the remedy last or on lines of its own.
as_bullets <- function(message) {
  lines <- strsplit(message, "\n", fixed = TRUE)[[1]]
  lines <- lines[nzchar(trimws(lines))]
  stats::setNames(lines, c("", rep("i", length(lines) - 1)))
}
