# A stand-in for the core: the functions of its bridge, answering at once with invented numbers. What
# it was asked is kept in `calls`.

fake_parts <- function(replicas = 4L, seed = 1L, vetoed = 1L, interrupted = FALSE) {
  x <- c(0.001, 0.01, 0.1, 0.3, 0.6)
  flavours <- c("g", "u", "ubar", "u_v", "d_v", "sea", "Sigma", "T3")
  grid <- expand.grid(x = x, flavour = flavours, Q = c(1.65, 100), stringsAsFactors = FALSE)
  mean <- (1 - grid$x)^3 + 0.1 * match(grid$flavour, flavours)
  kept <- seq_len(replicas) <= replicas - vetoed
  list(
    id = paste0("fit-", seed, "-", replicas),
    state = charToRaw(paste("state", seed)),
    settings = '{"seed": 1}', provenance = '{"versions": {"jax": "0.12"}}',
    seed = seed, q0 = 1.65, interrupted = interrupted, summary = list(phi = 0.2),
    replicas = list(
      replica = seq_len(replicas) - 1L, kept = kept,
      status = ifelse(kept, "stopped", "vetoed"),
      sentence = ifelse(kept, "stopped at epoch 300", "arc length of Sigma beyond 4 sigma"),
      epoch = rep(300L, replicas), best_epoch = rep(250L, replicas),
      training = 1 + 0.01 * seq_len(replicas), validation = 1.1 + 0.01 * seq_len(replicas)
    ),
    chi2 = list(
      covariance = rep(c("experimental", "t0"), each = 3), dataset = rep(c("A", "B", "Total"), 2),
      n_data = rep(c(3L, 2L, 5L), 2), chi2 = c(3.3, 2.4, 5.6, 3.4, 2.5, 5.8)
    ),
    pdfs = list(
      Q = grid$Q, flavour = grid$flavour, x = grid$x, mean = mean, sd = 0.1 * mean,
      lower = 0.9 * mean, upper = 1.1 * mean
    ),
    points = list(
      dataset = c("A", "A", "A", "B", "B"), point = c(1:3, 1:2), x = seq(0.1, 0.5, 0.1),
      Q2 = c(4, 10, 100, 4, 10), y = rep(NaN, 5), value = c(1, 0.9, 0.8, 0.7, 0.6),
      error = rep(0.05, 5), prediction = c(1.02, 0.88, 0.81, 0.72, 0.59), prediction_sd = rep(0.01, 5)
    ),
    history = list(
      replica = rep(seq_len(replicas) - 1L, each = 3), epoch = rep(c(0L, 100L, 200L), replicas),
      training = rep(c(20, 2, 1), replicas), validation = rep(c(22, 2.2, 1.1), replicas)
    ),
    timings = list(step = c("loading", "training"), seconds = c(1.5, 20))
  )
}

fake_core <- function(...) {
  calls <- new.env(parent = emptyenv())
  record <- function(name, ...) assign(name, list(...), envir = calls)
  list(
    calls = calls,
    version = function() as.character(utils::packageVersion("partonfit")),
    fit = function(...) {
      record("fit", ...)
      args <- list(...)
      if (!is.null(args$progress)) args$progress(10L, 10L, list(training = 1.25))
      fake_parts(args$replicas, if (is.null(args$seed)) 77L else args$seed)
    },
    postfit = function(id, ...) {
      record("postfit", id, ...)
      fake_parts(vetoed = 2L)
    },
    is_loaded = function(id) !is.null(calls$load),
    load = function(id, state) record("load", id, state),
    predict = function(id, x, q, flavour, kind) {
      record("predict", id, x, q, flavour, kind)
      n <- length(x)
      if (kind == "replicas") return(list(replicas = matrix(as.double(seq_len(3 * n)), n, 3)))
      list(mean = array(x * q), sd = array(rep(0.1, n)), lower = array(x), upper = array(x + 1))
    },
    write_lhapdf = function(id, folder) {
      record("write_lhapdf", id, folder)
      folder
    },
    report = function(id, file) {
      record("report", id, file)
      file
    }
  )
}

# Put a core (or none) in place of the real one until the calling test ends.
local_core <- function(core = fake_core(), env = parent.frame()) {
  the <- partonfit:::the
  old <- the$core
  the$core <- core
  withr::defer(the$core <- old, envir = env)
  invisible(core)
}

# Replace functions of this package, never of another one, until the calling test ends.
local_functions <- function(..., env = parent.frame()) {
  namespace <- asNamespace("partonfit")
  replace <- function(values) {
    for (name in names(values)) {
      unlockBinding(name, namespace)
      assign(name, values[[name]], envir = namespace)
      lockBinding(name, namespace)
    }
  }
  new <- list(...)
  old <- mget(names(new), envir = namespace)
  replace(new)
  withr::defer(replace(old), envir = env)
}

fake_fit <- function(...) {
  local_core()
  fit_pdf("hera", ..., replicas = 4, seed = 1)
}

# Nothing may start Python while this is in force.
local_no_python <- function(env = parent.frame()) {
  local_core(NULL, env = env)
  local_functions(find_python = function(...) stop("Python was started"), env = env)
}
