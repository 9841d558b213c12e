# Golden values that the tests of both languages read.

golden <- function(name) {
  file <- test_path("..", "golden", name)
  skip_if_not(file.exists(file), "the golden values are not here")
  jsonlite::fromJSON(file, simplifyDataFrame = FALSE)
}

reference_tables <- function() {
  shared <- Sys.getenv("PARTONFIT_SHARED", test_path("..", "..", "..", "shared"))
  folder <- file.path(shared, "theory", "dis_nnlo")
  skip_if_not(dir.exists(folder), "the reference tables (PARTONFIT_SHARED) are not here")
  normalizePath(folder)
}

test_that("the embedded data are the known ones", {
  known <- golden("hera_data.json")
  points <- real_fit()$points
  expect_identical(nrow(points), known$n_data)
  expect_true(all(points$Q2 >= 3.49), all(points$x > 0))
  for (dataset in known$datasets) {
    ours <- points[points$dataset == dataset$dataset, ]
    expect_identical(nrow(ours), dataset$n_data)
    expect_equal(ours$value[[1]], dataset$first_value, tolerance = 1e-12)
  }
})

test_that("chi2 on the reference tables is that of validphys, dataset by dataset", {
  tables <- reference_tables()
  skip_without_core()
  known <- golden("dis_reference.json")
  data <- pdf_data(lapply(known$datasets, function(d) {
    list(dataset = d$dataset, variant = if (!is.null(d$variant)) d$variant)
  }))
  table <- chi2(data, tables, "toy")
  expected <- vapply(known$datasets, function(d) d$chi2_per_point, 0)
  expect_equal(utils::head(table$chi2_per_point, -1), expected, tolerance = 1e-8)
  expect_equal(utils::tail(table$chi2, 1), known$total$chi2_exp, tolerance = 1e-8)
  expect_identical(utils::tail(table$n_data, 1), known$total$n_data)
  t0 <- chi2(data, tables, "toy", covariance = "t0", t0 = "toy")
  expect_equal(utils::tail(t0$chi2, 1), known$total$chi2_t0_with_toy_t0, tolerance = 1e-4)
})

test_that("a PDF written in R gives what the core's own gives", {
  tables <- reference_tables()
  skip_without_core()
  toy <- reticulate::import("partonfit")$toy_pdf
  data <- pdf_data("hera")
  expect_equal(chi2(data, tables, function(x) toy(array(x)))$chi2, chi2(data, tables, "toy")$chi2)
})

test_that("the known PDF is its formula", {
  skip_without_core()
  known <- golden("toy_pdf.json")
  values <- reticulate::import("partonfit")$toy_pdf(array(known$x))
  expect_equal(values[3, ], known$xf$g, tolerance = 1e-12)
})
