test_that("an interpreter that is not there is named", {
  local_core(NULL)
  withr::local_options(partonfit.python = "/no/such/python")
  local_functions(import_bridge = function() stop("never reached"))
  skip_if(reticulate::py_available(), "a Python runs in this session already")
  expect_snapshot(error = TRUE, fit_pdf("hera", seed = 1))
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
  code <- "library(partonfit); stopifnot(!reticulate::py_available())"
  out <- system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote(code)), stdout = TRUE, stderr = TRUE)
  expect_null(attr(out, "status"))
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
