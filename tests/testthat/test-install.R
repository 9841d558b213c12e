test_that("the environment is made and filled", {
  asked <- list()
  local_functions(
    find_starter = function() "/usr/bin/python3",
    create_environment = function(python) {
      asked$python <<- python
      "/envs/r-partonfit"
    },
    install_packages = function(packages) asked$packages <<- packages
  )
  local_functions(python_runs = function() FALSE)
  expect_identical(install_partonfit(), "/envs/r-partonfit")
  expect_identical(asked$packages, core_requirements())
  install_partonfit(device = "cuda")
  expect_true("jax[cuda12]>=0.10" %in% asked$packages)
})

test_that("failures say what to do", {
  local_functions(
    find_starter = function() NULL,
    create_environment = function(python) stop("pip said {no}"),
    install_packages = function(packages) NULL
  )
  expect_snapshot(error = TRUE, {
    install_partonfit()
    install_partonfit(python = "/no/such/python")
    install_partonfit(python = file.path(R.home("bin"), "R"))
    install_partonfit(device = "tpu")
  }, transform = function(lines) gsub(R.home("bin"), "<R>", lines, fixed = TRUE))
})
