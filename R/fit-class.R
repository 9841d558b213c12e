# The fit object: plain R values only, so that saveRDS() works and printing never needs Python.
# Change `format_version` with the fields, and teach upgrade_fit() the old form.

format_version <- 1L

new_pdf_fit <- function(parts, arguments) {
  fit <- structure(
    list(
      format_version = format_version,
      id = as_text(parts$id),
      state = as.raw(parts$state),
      settings = as_text(parts$settings),
      provenance = as_text(parts$provenance),
      arguments = arguments,
      seed = as.integer(parts$seed),
      q0 = as.double(parts$q0),
      interrupted = isTRUE(parts$interrupted),
      summary = lapply(parts$summary, as.double),
      replicas = as_table(parts$replicas, replica_columns),
      chi2 = as_table(parts$chi2, chi2_columns),
      pdfs = as_table(parts$pdfs, pdf_columns),
      points = as_table(parts$points, point_columns),
      history = as_table(parts$history, history_columns),
      timings = as_table(parts$timings, c(step = "character", seconds = "double"))
    ),
    class = "pdf_fit"
  )
  validate_pdf_fit(fit)
}

replica_columns <- c(
  replica = "integer", kept = "logical", status = "character", sentence = "character",
  epoch = "integer", best_epoch = "integer", training = "double", validation = "double"
)
chi2_columns <- c(
  covariance = "character", dataset = "character", n_data = "integer", chi2 = "double"
)
pdf_columns <- c(
  Q = "double", flavour = "character", x = "double", mean = "double", sd = "double",
  lower = "double", upper = "double"
)
point_columns <- c(
  dataset = "character", point = "integer", x = "double", Q2 = "double", y = "double",
  value = "double", error = "double", prediction = "double", prediction_sd = "double"
)
history_columns <- c(
  replica = "integer", epoch = "integer", training = "double", validation = "double"
)

# Asserts what the methods rely on; a failure here is a fault of the package.
validate_pdf_fit <- function(fit) {
  stopifnot(
    is.raw(fit$state), length(fit$state) > 0, nzchar(fit$id),
    length(fit$q0) == 1, is.finite(fit$q0),
    nrow(fit$replicas) >= 1, nrow(fit$chi2) >= 1, nrow(fit$pdfs) >= 1,
    !anyNA(fit$replicas$kept)
  )
  fit
}

# A fit that was saved by another version: refuse a newer form in words, lift an older one.
upgrade_fit <- function(fit, call = rlang::caller_env()) {
  version <- fit$format_version %||% 0L
  if (version > format_version) {
    abort_partonfit("storage", c(
      "This fit was saved by a newer version of partonfit (format {version}, known up to
       {format_version}).",
      i = "Update the package."
    ), call = call)
  }
  fit
}

check_fit <- function(fit, arg = rlang::caller_arg(fit), call = rlang::caller_env()) {
  if (!inherits(fit, "pdf_fit")) {
    abort_argument(arg, "a fit made by {.fn fit_pdf}", fit, call = call)
  }
  upgrade_fit(fit, call)
}

# The core keeps a few fits in memory by their id; after readRDS() or in a new session it gets the
# bytes first. Returns the id.
load_in_core <- function(fit, call = rlang::caller_env()) {
  if (!isTRUE(call_core("is_loaded", fit$id, .call = call))) {
    call_core("load", fit$id, as_python_bytes(fit$state), .call = call)
  }
  fit$id
}

total_chi2 <- function(fit, covariance = "experimental") {
  rows <- fit$chi2[fit$chi2$covariance == covariance & fit$chi2$dataset == "Total", ]
  list(chi2 = rows$chi2, n_data = rows$n_data)
}
