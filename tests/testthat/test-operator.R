test_that("an operator is checked when it is made, without Python", {
  local_no_python()
  op <- tanh_operator()
  expect_identical(c(op$n_state, op$n_obs), c(4L, 3L))
  expect_snapshot({
    op
    tanh_operator(tangent_linear = NULL)
    matrix_operator(matrix(1:6, 2))
  })
  expect_snapshot(error = TRUE, {
    operator(forward = 3, n_state = 2, n_obs = 2)
    operator(forward = sum, n_state = 2.5, n_obs = 1)
    operator(forward = sum, n_state = 2)
    operator()
    operator(forward = sum, adjoint = "f", n_state = 2, n_obs = 1)
    operator(forward = sum, n_state = 2, n_obs = NA)
    operator(forward = sum, n_state = 2, n_obs = 1, ajoint = sum)
    matrix_operator(1:3)
    matrix_operator(matrix(c(1, NA), 1))
    matrix_operator(diag(2), offset = 1:3)
    finite_difference_operator(sum, 2, 1, step = 0)
    transport_model(nx = 0)
    theory_operator("hera", basis = "flavour")
    check_operator(list())
    check_operator(op, x = 1:3)
    check_operator(op, x = matrix(1, 2, 5))
    check_operator(op, x = c(1, 2, NA, 4))
    check_operator(op, samples = 1)
    forward(op, "one")
    adjoint(op, 1:4, dy = 1:4)
    tangent_linear(op, 1:4, dx = c(1, 2))
  })
})

test_that("the three functions are called with plain vectors and give plain vectors", {
  skip_without_core()
  seen <- NULL
  op <- tanh_operator(forward = function(x) {
    seen <<- x
    tanh_forward(x)
  })
  x <- c(0.1, -0.2, 0.3, 0.4)
  expect_equal(forward(op, x), as.vector(tanh_forward(x)), tolerance = 1e-15)
  expect_identical(seen, x)
  expect_equal(tangent_linear(op, x, 1:4), as.vector(tanh_tangent(x, 1:4)), tolerance = 1e-15)
  expect_equal(adjoint(op, x, 1:3), as.vector(tanh_adjoint(x, 1:3)), tolerance = 1e-15)
})

test_that("many states go in and come out as rows; one direction serves all", {
  skip_without_core()
  states <- rbind(c(0.1, -0.2, 0.3, 0.4), 1:4 / 5)
  each <- t(apply(states, 1, tanh_forward))
  expect_equal(forward(tanh_operator(), states), each)
  expect_equal(forward(tanh_operator(), as.data.frame(states)), each)
  expect_equal(dim(adjoint(tanh_operator(), states, c(1, 0, 0))), c(2L, 4L))
  calls <- 0
  batched <- tanh_operator(batched = TRUE, forward = function(x) {
    calls <<- calls + 1
    tanh(x %*% t(tanh_matrix))
  })
  expect_equal(forward(batched, states), each)
  expect_equal(forward(batched, states[1, ]), each[1, ])
  expect_identical(calls, 2)
})

test_that("one state and one observation work", {
  skip_without_core()
  op <- operator(sin, function(x, dx) cos(x) * dx, function(x, dy) cos(x) * dy, n_state = 1, n_obs = 1)
  expect_equal(forward(op, 0.5), sin(0.5))
  expect_equal(forward(op, matrix(c(0.5, 1))), matrix(sin(c(0.5, 1))))
  expect_true(check_operator(op)$passed)
})

test_that("check_operator() says in a sentence what is wrong", {
  skip_without_core()
  good <- check_operator(tanh_operator())
  expect_true(good$passed)
  expect_lt(good$measured$value[good$measured$test == "dot test"], 1e-12)
  n <- 0
  drifts <- function(x) {
    n <<- n + 1
    tanh_forward(x) + n
  }
  expect_snapshot({
    cat(check_operator(tanh_operator(adjoint = function(x, dy) -tanh_adjoint(x, dy)))$problems$problem)
    cat(check_operator(tanh_operator(adjoint = function(x, dy) 2 * tanh_adjoint(x, dy)))$problems$problem)
    cat(check_operator(tanh_operator(forward = function(x) NULL))$problems$problem)
    cat(check_operator(tanh_operator(forward = function(x) 1:4))$problems$problem)
    cat(check_operator(tanh_operator(forward = function(x) c(1, NA, 3)))$problems$problem)
    cat(check_operator(tanh_operator(forward = function(x) stop("no {data}")))$problems$problem)
    cat(check_operator(tanh_operator(forward = drifts))$problems$problem)
  })
  expect_match(good$text, "passed")
  expect_output(print(good), "dot test")
})

test_that("an error in an R function comes out as it was, with the name of the function", {
  skip_without_core()
  broken <- tanh_operator(forward = function(x) rlang::abort("no {data} here", class = "mine"))
  expect_snapshot(error = TRUE, forward(broken, 1:4))
  e <- rlang::catch_cnd(forward(broken, 1:4), "error")
  expect_s3_class(e, "partonfit_error_operator")
  expect_s3_class(e$parent, "mine")
  expect_snapshot(error = TRUE, {
    forward(tanh_operator(forward = function(x) "text"), 1:4)
    forward(tanh_operator(forward = function(x) 1:2), 1:4)
    forward(tanh_operator(forward = function(x) c(1, NaN, 2)), 1:4)
    adjoint(tanh_operator(adjoint = NULL), 1:4, 1:3)
  })
})

test_that("operators from a matrix, differences and the transport model have the right derivatives", {
  skip_without_core()
  m <- matrix(c(1, 2, 3, 4, 5, 6), 2)
  op <- matrix_operator(m, offset = c(1, -1))
  expect_equal(forward(op, 1:3), as.vector(m %*% 1:3) + c(1, -1))
  expect_equal(adjoint(op, 1:3, c(1, 2)), as.vector(t(m) %*% c(1, 2)))
  slow <- finite_difference_operator(tanh_forward, n_state = 4, n_obs = 3)
  expect_equal(adjoint(slow, 1:4 / 9, 1:3), as.vector(tanh_adjoint(1:4 / 9, 1:3)), tolerance = 1e-7)
  model <- transport_model(nx = 6, ny = 5, stations = 3, times = 2, steps = 2)
  expect_identical(c(model$n_state, model$n_obs), c(30L, 6L))
  expect_true(check_operator(model, x = abs(sin(1:30)))$passed)
})

test_that("an operator survives saveRDS()", {
  skip_without_core()
  m <- tanh_matrix
  op <- operator(function(x) tanh(m %*% x), n_state = 4, n_obs = 3)
  before <- forward(op, 1:4)
  file <- withr::local_tempfile(fileext = ".rds")
  saveRDS(op, file)
  expect_equal(forward(readRDS(file), 1:4), before)
})
