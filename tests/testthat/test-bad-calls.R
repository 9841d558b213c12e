# Bad calls as they happen over a session: tables read as factors, pointers of a session that has ended, a
# file system that is full. Each stops in words, with a class, before it costs anything.

test_that("factors, empty tables and missing names are refused at the door", {
  fit <- fake_fit()
  local_no_python()
  expect_snapshot(error = TRUE, {
    fit_pdf(NULL, replicas = 1)
    fit_pdf(data.frame(), replicas = 1)
    fit_pdf(NA, replicas = 1)
    fit_pdf("hera", replicas = factor("3"))
    fit_pdf("hera", seed = NA_integer_)
    fit_control(epochs = factor("100"))
    fit_control(patience = NA)
    predict(fit, data.frame(x = factor("0.1")))
    predict(fit, data.frame(x = NA))
    predict(fit, data.frame(x = 0.1, flavour = NA))
    predict(fit, x = list(0.1))
    simulate(fit, nsim = NA)
    simulate(fit, seed = factor("1"))
  })
})

# What readRDS() gives of a Python object that an earlier session saved.
from_another_session <- function(object) {
  file <- withr::local_tempfile()
  saveRDS(object, file)
  readRDS(file)
}

test_that("Python objects of a session that has ended are recognized", {
  skip_without_core()
  keras <- reticulate::import("keras")
  model <- from_another_session(keras$Sequential(list(keras$Input(tuple_of(2L)), keras$layers$Dense(8L))))
  optimizer <- from_another_session(keras$optimizers$Adam())
  expect_snapshot(error = TRUE, {
    pdf_model(model)
    train_stateless(model, "mse", list(matrix(1:3), 1:3))
    fit_control(optimizer = optimizer)
    train_stateless(keras$Sequential(list(keras$layers$Dense(1L))), "mse", list(matrix(1:3), 1:3),
      optimizer = optimizer)
  })
})

test_that("a full disk is said in words, and nothing half-written stays", {
  fit <- real_fit()
  folder <- withr::local_tempdir()
  disk <- reticulate::py_run_string(paste(
    "import errno, os, pathlib",
    "kept_paths = pathlib.Path.write_text, pathlib.Path.replace",
    "def no_space_left(*a, **k):",
    "    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))",
    "def fill_disk():",
    "    pathlib.Path.write_text = pathlib.Path.replace = no_space_left",
    "def empty_disk():",
    "    pathlib.Path.write_text, pathlib.Path.replace = kept_paths",
    sep = "\n"
  ))
  disk$fill_disk()
  withr::defer(disk$empty_disk())
  expect_snapshot(error = TRUE, transform = function(lines) gsub(folder, "<folder>", lines, fixed = TRUE), {
    write_lhapdf(fit, file.path(folder, "set"))
    report(fit, file.path(folder, "page.html"))
  })
  expect_identical(list.files(folder, all.files = TRUE, no.. = TRUE), character())
})
