test_that("a model is plain values, checked", {
  model <- pdf_model(nodes = 30)
  expect_identical(model$nodes, 30L)
  expect_identical(model_for_core(model)$nodes, list(30L))
  expect_snapshot(pdf_model(nodes = c(30, 30), sum_rules = "off"))
  expect_snapshot(error = TRUE, {
    pdf_model(nodes = 0)
    pdf_model(nodes = "many")
    pdf_model(nodes = c(5, NA))
    pdf_model(sum_rules = "none")
    pdf_model(node = 3)
  })
})

test_that("names and defaults are those of the core, but for what only Python can hold", {
  skip_without_core()
  theirs <- reticulate::py_eval(
    "list(__import__('inspect').signature(__import__('partonfit').pdf_model).parameters)"
  )
  python_only <- c("network", "alpha", "beta", "precision")
  expect_setequal(setdiff(theirs, python_only), setdiff(names(formals(pdf_model)), "..."))
})
