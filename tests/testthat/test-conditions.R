test_that("Python errors become conditions of the same kind, braces and all", {
  expect_snapshot(error = TRUE, {
    abort_from_python("DataError", "Unknown dataset 'herra'.\nDid you mean 'hera'?", call = NULL)
    abort_from_python("SettingError", "expected {x}, got {}", call = NULL)
    abort_from_python("ZeroDivisionError", "division by {zero}", call = NULL)
  })
  expect_error(abort_from_python("TheoryError", "m", NULL), class = "partonfit_error_theory")
  expect_error(abort_from_python("OSError", "m", NULL), class = "partonfit_error_python")
  condition <- rlang::catch_cnd(abort_from_python("StorageError", "m", NULL))
  expect_s3_class(condition, "partonfit_error")
  expect_identical(condition$python_type, "StorageError")
})

test_that("the kinds are those of the core", {
  skip_without_core()
  errors <- reticulate::import("partonfit._errors")
  for (name in names(python_error_kinds)) {
    expect_identical(errors[[name]]$kind, python_error_kinds[[name]])
  }
  classes <- reticulate::py_eval(paste(
    "[n for n, c in vars(__import__('partonfit._errors', fromlist=['x'])).items()",
    "if isinstance(c, type) and issubclass(c, Exception)]"
  ))
  expect_setequal(classes, names(python_error_kinds))
})
