# Lint the R code with the settings in .lintr; any lint fails.
options(lintr.error_on_lint = FALSE)
lints <- do.call(c, lapply(c("R", "tests/testthat", "tools"), lintr::lint_dir))
if (length(lints)) {
  for (lint in lints) {
    cat(sprintf("%s:%d:%d: %s\n", lint$filename, lint$line_number, lint$column_number, lint$message))
  }
}
cat(sprintf("lintr: %d lint%s\n", length(lints), if (length(lints) == 1) "" else "s"))
quit(status = as.integer(length(lints) > 0))
