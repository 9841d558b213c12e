#' Install the Python libraries that partonfit needs
#'
#' Makes a virtual environment of its own, named `r-partonfit`, and installs JAX, Keras and the
#' other libraries into it. The core itself comes with the R package. Needs the network.
#'
#' @param ... No further arguments; a misspelt one is an error.
#' @param device `"cpu"`, or `"cuda"` for JAX with NVIDIA's CUDA 12 libraries.
#' @param python A Python interpreter (3.11 or later) to build on; `NULL` lets reticulate choose.
#'
#' @return The path of the environment, invisibly.
#' @section Errors: A Python that is missing or too old is an error of class
#'   `partonfit_error_python`; so is a failed installation, with pip's own words above it.
#' @examples
#' \dontrun{
#' install_partonfit()
#' }
#' @export
install_partonfit <- function(..., device = c("cpu", "cuda"), python = NULL) {
  check_dots(...)
  device <- check_choice(device, c("cpu", "cuda"))
  python <- python_to_build_on(python)
  packages <- core_requirements()
  if (device == "cuda") packages <- sub("^jax>=", "jax[cuda12]>=", packages)
  path <- tryCatch(
    {
      path <- create_environment(python)
      install_packages(packages)
      path
    },
    error = function(e) {
      if (inherits(e, "partonfit_error")) rlang::cnd_signal(e)
      reason <- escape_braces(conditionMessage(e))
      abort_partonfit("python", c(
        "The Python libraries could not be installed.",
        x = reason,
        i = "The network is needed; {.run partonfit::partonfit_sitrep()} shows what was found."
      ), call = rlang::caller_env(4))
    }
  )
  if (python_runs()) {
    cli::cli_inform(c("v" = "Installed.", i = "Restart R: this session runs another Python."))
  }
  invisible(path)
}

python_to_build_on <- function(python, call = rlang::caller_env()) {
  if (is.null(python)) {
    python <- find_starter()
    if (is.null(python)) {
      abort_partonfit("python", c(
        "No Python 3.11 or later was found.",
        i = "Install one with your system's package manager, or run
             {.code reticulate::install_python(\"3.12\")}, and give its path as {.arg python}."
      ), call = call)
    }
    return(python)
  }
  python <- path.expand(check_string(python, call = call))
  if (!file.exists(python)) {
    abort_partonfit("python", c(
      "There is no Python at {.path {python}}.",
      i = "Give the path of an interpreter, such as {.path /usr/bin/python3}."
    ), call = call)
  }
  python
}

# Thin wrappers, so that tests need not install anything.
python_runs <- function() reticulate::py_available()
find_starter <- function() reticulate::virtualenv_starter(version = core_python)
create_environment <- function(python) reticulate::virtualenv_create(core_environment, python)
install_packages <- function(packages) {
  reticulate::virtualenv_install(core_environment, packages, ignore_installed = FALSE)
}
