# What Python offers and what R does, held against one another: a new argument or function on either
# side fails here until it exists on the other side, or is listed with the reason.

# R says it differently on purpose.
python_only <- c(
  Chi2Table = "a tibble", Data = "pdf_data()", DataError = "condition class", FitError = "condition class",
  MissingDependencyError = "condition class", ObservationOperator = "operator()",
  OperatorError = "condition class", PDFFit = "class pdf_fit", PartonfitError = "condition class",
  SettingError = "condition class", StorageError = "condition class", Surrogate = "class partonfit_surrogate",
  TheoryError = "condition class", Theory = "named by fit_pdf(theory = )",
  ClosureTest = "class closure_test", FitComparison = "class fit_comparison", StateFit = "class state_fit",
  CSVLogger = "a path in callbacks", TensorBoard = "needs a Python object",
  SurrogateDesign = "made within fit_surrogate()", surrogate_design = "made within fit_surrogate()",
  load_data = "pdf_data()", load_theory = "named by fit_pdf(theory = )", load_fit = "readRDS()",
  TheoryCovariance = "not in R yet", load_theory_covariance = "not in R yet",
  scale_covariance = "not in R yet",
  toy_pdf = "the name 'toy'", predictions = "fitted()", train = "train_stateless()"
)

# Arguments that differ, with the reason; `*` holds for every function.
differing <- list(
  `*` = c(`...` = "arguments after it are named", progress = "verbose", verbose = "progress"),
  chi2 = c(object = "generic: a fit or data", data = "object"),
  operator = c(
    instance = "an object of Python's", thread_safe = "R never is"
  ),
  finite_difference_operator = c(),
  fit_pdf = c(theory_covariance = "not in R yet"),
  pdf_model = c(precision = "that of fit_control()"),
  load_constraints = c(data_dir = "folders of Python's only"),
  fit_surrogate = c(
    live = "never with R functions", training = "settings of train()", callbacks = "one of training"
  ),
  export_stablehlo = c(platforms = "the default"),
  fit_control = c(),
  read_lhapdf = c(directory = "path", path = "directory", members = "all")
)

signatures <- function() {
  reticulate::py_run_string(paste(
    "import inspect, partonfit as pf",
    "def listed():",
    "    out = {}",
    "    for name in pf.__all__:",
    "        thing = getattr(pf, name)",
    "        target = pf.fit_control().__class__ if name == 'fit_control' else thing",
    "        out[name] = list(inspect.signature(target).parameters) if inspect.isfunction(thing) else []",
    "    return out",
    sep = "\n"
  ))$listed()
}

# The generic chi2() has its arguments in its method.
exported <- function(name) {
  if (name == "chi2") partonfit:::chi2.pdf_data else getExportedValue("partonfit", name)
}

test_that("every public name of Python is there in R, or listed with a reason", {
  skip_without_core()
  theirs <- names(signatures())
  ours <- getNamespaceExports("partonfit")
  expect_identical(setdiff(theirs, c(ours, names(python_only))), character())
  expect_identical(intersect(names(python_only), ours), character())
  expect_identical(setdiff(names(python_only), theirs), character())
})

test_that("arguments have the same names on both sides, or are listed with a reason", {
  skip_without_core()
  theirs <- signatures()
  for (name in intersect(names(theirs), getNamespaceExports("partonfit"))) {
    f <- exported(name)
    listed <- c(names(differing[["*"]]), names(differing[[name]]))
    expect_identical(setdiff(theirs[[name]], c(names(formals(f)), listed)), character(), info = name)
    expect_identical(setdiff(names(formals(f)), c(theirs[[name]], listed)), character(), info = name)
  }
})

test_that("train() and train_stateless() have the same arguments, but for those listed", {
  skip_without_core()
  theirs <- unlist(reticulate::py_run_string(paste(
    "import inspect, partonfit as pf", "listed = list(inspect.signature(pf.train).parameters)", sep = "\n"
  ))$listed)
  # Arrays for each member, and how epochs are shuffled and blocks are formed, have their defaults in R.
  python_only <- c("member_data", "shuffle", "min_delta", "block_size", "progress")
  expect_setequal(setdiff(theirs, python_only), setdiff(names(formals(train_stateless)), c("...", "verbose")))
})

test_that("defaults that both sides can write are equal", {
  skip_without_core()
  default <- reticulate::py_run_string(paste(
    "import inspect, partonfit as pf",
    "def default(name, argument):",
    "    value = inspect.signature(getattr(pf, name)).parameters[argument].default",
    "    return value if isinstance(value, (bool, int, float, str)) else None",
    sep = "\n"
  ))$default
  theirs <- signatures()
  compared <- 0
  for (name in setdiff(intersect(names(theirs), getNamespaceExports("partonfit")), "fit_control")) {
    ours <- formals(exported(name))
    for (argument in intersect(theirs[[name]], names(ours))) {
      value <- ours[[argument]]
      their <- default(name, argument)
      if (!is.null(their) && is.atomic(value) && !is.null(value)) {
        expect_equal(value, their, info = paste(name, argument))
        compared <- compared + 1
      }
    }
  }
  expect_gt(compared, 30)
})
