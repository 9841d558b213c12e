# An operator whose derivatives are known on paper, and what people get wrong.
tanh_matrix <- matrix(c(0.5, -1, 0.3, 0.8, -0.2, 1.1, 0.4, -0.6, 0.9, 0.1, -0.7, 0.2), 3)

tanh_forward <- function(x) tanh(tanh_matrix %*% x)
tanh_tangent <- function(x, dx) (1 - tanh_forward(x)^2) * (tanh_matrix %*% dx)
tanh_adjoint <- function(x, dy) t(tanh_matrix) %*% ((1 - tanh_forward(x)^2) * dy)

tanh_operator <- function(..., forward = tanh_forward, tangent_linear = tanh_tangent,
                          adjoint = tanh_adjoint) {
  operator(forward, tangent_linear, adjoint, n_state = 4, n_obs = 3, name = "tanh", ...)
}

# A Python tuple, which a shape must be.
tuple_of <- function(...) reticulate::tuple(...)

# One small surrogate serves every test that wants one.
surrogates <- new.env()

small_surrogate <- function() {
  skip_without_core()
  if (is.null(surrogates$small)) {
    set.seed(1)
    states <- matrix(rnorm(160), 40)
    surrogates$small <- fit_surrogate(
      tanh_operator(), states, loss = surrogate_loss(adjoint = 0.5, probes = 2), hidden = 16, members = 2,
      epochs = 600, seed = 3
    )
  }
  surrogates$small
}
