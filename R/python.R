# The only file that starts Python and imports the core. Everything else calls call_core().

# What the core needs, in the words of pip; a test holds it against python/pyproject.toml.
core_requirements <- function() {
  c(
    "jax>=0.10", "keras>=3.10", "numpy>=2", "scipy>=1.14", "pandas>=2.2", "xarray>=2025.1",
    "pineappl>=1.2", "nnpdf-data>=4.1.4", "eko>=0.15.7", "orbax-checkpoint>=0.11.20",
    "pydantic>=2.10", "ruamel.yaml>=0.18", "threadpoolctl>=3.5", "pyyaml>=6", "typer>=0.15", "rich>=13.9",
    "matplotlib>=3.9", "jinja2>=3.1"
  )
}

core_python <- ">=3.11"
core_environment <- "r-partonfit"

# Call one function of the core's bridge; its errors come back as conditions of this package.
call_core <- function(name, ..., .call = rlang::caller_env()) {
  bridge <- core(call = .call)
  forget_python_error()
  tryCatch(
    bridge[[name]](...),
    error = function(e) {
      if (inherits(e, "partonfit_error")) rlang::cnd_signal(e)
      last <- last_python_error(e)
      abort_from_python(last$type, last$message, call = .call)
    }
  )
}

# The bridge module, imported on first use.
core <- function(call = rlang::caller_env()) {
  if (is.null(the$core)) {
    found <- "the Python that was found"
    the$core <- tryCatch(
      {
        found <- find_python(call = call)
        forget_python_error()
        import_bridge()
      },
      # Also what reticulate raises when it cannot start an interpreter.
      error = function(e) {
        if (inherits(e, "partonfit_error")) rlang::cnd_signal(e)
        abort_no_core(e, found, call)
      }
    )
    check_core_version(the$core, call)
  }
  the$core
}

has_core <- function() {
  tryCatch(!is.null(core()), partonfit_error = function(e) FALSE)
}

# Choose the interpreter, in this order: one that runs already; the option or environment variable;
# RETICULATE_PYTHON; the environment install_partonfit() makes; one that reticulate manages.
find_python <- function(call = rlang::caller_env()) {
  if (reticulate::py_available()) return("the Python that runs in this session")
  chosen <- chosen_python()
  if (nzchar(chosen)) {
    if (!file.exists(chosen)) {
      abort_partonfit("python", c(
        "There is no Python at {.path {chosen}}.",
        i = "It is set by the option {.code partonfit.python} or the environment variable
             {.envvar PARTONFIT_PYTHON}; correct it, or unset it to let the package look."
      ), call = call)
    }
    reticulate::use_python(chosen, required = TRUE)
    return(chosen)
  }
  if (nzchar(Sys.getenv("RETICULATE_PYTHON"))) return(Sys.getenv("RETICULATE_PYTHON"))
  if (reticulate::virtualenv_exists(core_environment)) {
    reticulate::use_virtualenv(core_environment, required = TRUE)
    return(paste("the environment", core_environment))
  }
  reticulate::py_require(core_requirements(), python_version = core_python)
  "an environment managed by reticulate"
}

chosen_python <- function() {
  path.expand(getOption("partonfit.python", Sys.getenv("PARTONFIT_PYTHON")))
}

# A core that is loaded already (Python started R, say) is used; else the one this package carries.
import_bridge <- function() {
  if (loaded_in_python("partonfit")) return(reticulate::import("partonfit.bridge"))
  reticulate::import_from_path("partonfit.bridge", path = bundled_core())
}

bundled_core <- function() system.file("python", package = "partonfit")

loaded_in_python <- function(module) {
  reticulate::py_available(initialize = TRUE) &&
    reticulate::py_eval(paste0("'", module, "' in __import__('sys').modules"))
}

# So that an error of R's is not taken for an old one of Python's.
forget_python_error <- function() {
  if (reticulate::py_available()) reticulate::py_clear_last_error()
}

# Python's own account of the last failure; the condition's text where there is none.
last_python_error <- function(condition) {
  last <- tryCatch(reticulate::py_last_error(), error = function(e) NULL)
  if (is.null(last)) {
    return(list(type = class(condition)[[1]], message = conditionMessage(condition)))
  }
  list(type = last$type, message = last$value %||% conditionMessage(condition))
}

abort_no_core <- function(error, found, call) {
  last <- last_python_error(error)
  missing <- regmatches(last$message, regexec("No module named '([^']+)'", last$message))[[1]]
  reason <- if (length(missing)) {
    paste0("The Python module ", missing[[2]], " is missing.")
  } else if (grepl("Error$", last$type) && last$type != "simpleError") {
    paste0(last$type, ": ", last$message)
  } else {
    last$message
  }
  reason <- escape_braces(reason)
  abort_partonfit("python", c(
    "The Python core could not be loaded from {found}.",
    x = reason,
    i = "Run {.run partonfit::install_partonfit()} in a new R session, or point the option
         {.code partonfit.python} to a Python that has what is missing.",
    i = "{.run partonfit::partonfit_sitrep()} shows what was found."
  ), call = call)
}

# The two halves are released together and know each other's functions by name.
check_core_version <- function(bridge, call) {
  ours <- as.character(utils::packageVersion("partonfit"))
  theirs <- as.character(bridge$version())
  if (!identical(ours, theirs)) {
    the$core <- NULL
    abort_partonfit("python", c(
      "The R package is version {ours}, but the Python core in this session is {theirs}.",
      i = "Restart R; if Python started R, install the same version of both."
    ), call = call)
  }
}
