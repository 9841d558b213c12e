in_new_session <- function(code, ...) {
  withr::local_envvar(...)
  out <- suppressWarnings(system2(
    file.path(R.home("bin"), "Rscript"), c("-e", shQuote(code)), stdout = TRUE, stderr = TRUE
  ))
  paste(out, collapse = "\n")
}

test_that("an interpreter that is not there is named", {
  out <- in_new_session(
    "tryCatch(partonfit::fit_pdf('hera', seed = 1), partonfit_error_python = function(e) cat(e$message))",
    PARTONFIT_PYTHON = "/no/such/python"
  )
  expect_match(out, "There is no Python at '/no/such/python'", fixed = TRUE)
})

test_that("a Python without the libraries is named, with what to run", {
  skip_if_not(nzchar(Sys.which("python3")), "there is no other Python")
  out <- in_new_session(
    "partonfit::partonfit_sitrep(verbosity = 'minimal')",
    PARTONFIT_PYTHON = Sys.which("python3")[[1]], PYTHONNOUSERSITE = "1"
  )
  expect_match(out, "install_partonfit|everything", ignore.case = TRUE)
})

test_that("what is missing in Python is said, with what to run", {
  local_core(NULL)
  local_functions(
    find_python = function(...) "/usr/bin/python3",
    import_bridge = function() stop("ImportError"),
    last_python_error = function(condition) {
      list(type = "ModuleNotFoundError", message = "No module named 'jax'")
    }
  )
  expect_snapshot(error = TRUE, fit_pdf("hera", seed = 1))
  expect_false(has_core())
})

test_that("another version of the core is refused", {
  core <- fake_core()
  core$version <- function() "9.9.9"
  local_core(NULL)
  local_functions(find_python = function(...) "python", import_bridge = function() core)
  expect_error(fit_pdf("hera", seed = 1), "9.9.9", class = "partonfit_error_python")
})

test_that("nothing is imported when the package is loaded", {
  out <- in_new_session("library(partonfit); cat('running:', reticulate::py_available())")
  expect_match(out, "running: FALSE")
})

test_that("the libraries asked for are those of pyproject.toml", {
  file <- test_path("..", "..", "python", "pyproject.toml")
  skip_if_not(file.exists(file), "not run in the repository")
  text <- paste(readLines(file), collapse = "\n")
  section <- sub("(?s).*\\ndependencies = \\[(.*?)\\n\\].*", "\\1", text, perl = TRUE)
  listed <- gsub("\"", "", regmatches(section, gregexpr("\"[^\"]+\"", section))[[1]])
  report <- sub("(?s).*\\nreport = \\[(.*?)\\].*", "\\1", text, perl = TRUE)
  extra <- gsub("\"", "", regmatches(report, gregexpr("\"[^\"]+\"", report))[[1]])
  expect_setequal(core_requirements(), c(listed, extra))
})
