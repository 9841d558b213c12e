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
    pdf_model("dense")
    pdf_model(alpha = c(0.7, 1.1))
    pdf_model(alpha = list(g = c(1.1, 0.7)))
    pdf_model(beta = list(gluon = c(1, 2)))
  })
})

test_that("names and defaults are those of the core, but for what only Python can hold", {
  skip_without_core()
  theirs <- reticulate::py_eval(
    "list(__import__('inspect').signature(__import__('partonfit').pdf_model).parameters)"
  )
  python_only <- "precision"
  expect_setequal(setdiff(theirs, python_only), setdiff(names(formals(pdf_model)), "..."))
})

test_that("a network of one's own is fitted, and its description survives", {
  skip_without_core()
  keras <- reticulate::import("keras")
  network <- keras$Sequential(list(
    keras$Input(tuple_of(2L)), keras$layers$Dense(6L, "swish"), keras$layers$Dense(8L)
  ))
  model <- pdf_model(network, alpha = list(g = c(0.8, 0.9)))
  expect_output(print(model), "made with Keras")
  expect_type(model$network, "character")
  small <- fit_pdf("hera", model = model, replicas = 2, seed = 1, control = small_control())
  expect_identical(ncol(coef(small)), 3L * 6L + 7L * 8L)
  # Keras counts layers through the session; a fit does not say what was made before it.
  expect_identical(
    colnames(coef(small))[c(1, 13, 19)], c("dense/kernel[1]", "dense/bias[1]", "dense_1/kernel[1]")
  )
  wrong <- keras$Sequential(list(keras$Input(tuple_of(2L)), keras$layers$Dense(3L)))
  expect_error(fit_pdf("hera", model = pdf_model(wrong), replicas = 1), class = "partonfit_error_setting")
})

test_that("a layer defined in this session works, a function without a name is refused in words", {
  skip_without_core()
  reticulate::py_run_string(paste(
    "import keras",
    "class Scaled(keras.layers.Layer):",
    "    def __init__(self, factor=2.0, **options):",
    "        super().__init__(**options)",
    "        self.factor = factor",
    "    def call(self, x):",
    "        return x * self.factor",
    "    def get_config(self):",
    "        return super().get_config() | {'factor': self.factor}",
    "lost = keras.layers.Lambda(lambda x: 2 * x)",
    sep = "\n"
  ))
  keras <- reticulate::import("keras")
  main <- reticulate::import_main()
  with_layer <- function(layer) {
    keras$Sequential(list(keras$Input(tuple_of(2L)), layer, keras$layers$Dense(8L)))
  }
  small <- fit_pdf("hera", model = pdf_model(with_layer(main$Scaled(3))), replicas = 1, seed = 1,
    control = small_control())
  expect_true(all(is.finite(predict(small, x = c(0.01, 0.1))$.pred)))
  expect_error(pdf_model(with_layer(main$lost)), "make them a layer", class = "partonfit_error_setting")
})

test_that("an optimizer made with Keras trains a fit", {
  skip_without_core()
  adam <- reticulate::import("keras")$optimizers$Adam(learning_rate = 0.004, clipnorm = 1e-5)
  control <- fit_control(epochs = 300, threshold_chi2 = NULL, optimizer = adam)
  expect_output(print(control), "made with Keras")
  small <- fit_pdf("hera", replicas = 1, seed = 7, control = control)
  expect_lt(small$replicas$training, small$history$training[[1]] / 2)
  expect_identical(update(small)$replicas, small$replicas)
})
