#' Train any Keras model with a loss of your own
#'
#' Trains a Keras model, or an ensemble of it, in one compiled program on JAX: the weights are values
#' that the loss sees, not hidden state. The loss is one of Keras', or an R function: of `y_true` and
#' `y_pred`, as one writes it for Keras, or of `predict`, the model at the present weights, which may be
#' differentiated with JAX inside, and `batch`, the data. Such a function is written with `jax.numpy` or
#' `keras.ops`; it is called when the program is compiled, not at every step, on R's main thread.
#'
#' @param model A Keras model, made with keras3 or with `reticulate::import("keras")`. It ends with the
#'   trained weights of the first member.
#' @param loss The name of a Keras loss, a Keras loss, `function(y_true, y_pred)` that returns one number
#'   for each sample, or `function(predict, batch)` that returns one number; with a third argument,
#'   `function(predict, batch, key)`, it gets a random key of JAX for the member, epoch and batch.
#' @param data For a Keras loss `list(x, y)` or `list(x, y, weights)`; for a function any array or list of
#'   arrays. The first axis of each is the sample.
#' @param ... No further arguments; a misspelt one is an error.
#' @param members Size of the ensemble.
#' @param validation Data like `data`, or the share of the samples to hold out; `NULL` for none.
#' @param optimizer A Keras optimizer or its name.
#' @param metrics Names of Keras metrics, or Keras metrics; one or a list.
#' @param epochs,batch_size,patience As in [fit_surrogate()]; `batch_size = NULL` is all samples.
#' @param keep `"best"`: each member ends with the weights of its lowest validation; `"last"`: with those
#'   after the last epoch.
#' @param initial `"draw"`: weights are drawn by the layers' initializers; `"model"`: all members start
#'   from the weights that the model has.
#' @param seed A whole number; `NULL` draws one from R's random numbers.
#' @param precision `"float32"` or `"float64"`; `NULL` for that of the model's weights.
#' @param record_every Epochs between two rows of the history.
#' @param callbacks,checkpoint,resume,devices As in [fit_pdf()].
#' @param data_parallel `TRUE` to divide the samples over the devices, `FALSE` the members; `NULL`: the
#'   samples when [data_parallel()] was called and there is one member.
#' @param verbose Show progress? `NULL` means: in an interactive session.
#'
#' @return An object of class `partonfit_training`: `members` (a tibble: `member`, `status`, `epoch`,
#'   `best_epoch`, `loss`, `validation`), `history` (a tibble: `member`, `epoch`, `loss`, `validation`,
#'   metrics), `seed`. It belongs to this session; keep the model with Keras' `model$save()`.
#'   `predict()` gives an array (sample, output, member); `write_back(training, member)` gives the model the
#'   weights of another member.
#' @section Errors: Wrong arguments are errors of class `partonfit_error_argument`; a model, data and loss
#'   that do not fit together, `partonfit_error_setting`, always before the training.
#' @examples
#' \dontrun{
#' keras <- reticulate::import("keras")
#' model <- keras$Sequential(list(
#'   keras$Input(reticulate::tuple(1L)), keras$layers$Dense(16L, "tanh"), keras$layers$Dense(1L)
#' ))
#' x <- matrix(seq(-1, 1, length.out = 100))
#' trained <- train_stateless(model, "mse", list(x, sin(3 * x)), epochs = 200, seed = 1)
#' predict(trained, x)
#'
#' # A loss with a derivative of the model inside: y' = -y, y(0) = 1
#' jax <- reticulate::import("jax")
#' decay <- function(predict, t) {
#'   slope <- jax$jvp(predict, list(t), list(jax$numpy$ones_like(t)))[[2]]
#'   jax$numpy$mean((slope + predict(t))^2) + jax$numpy$mean((predict(t * 0) - 1)^2)
#' }
#' train_stateless(model, decay, matrix(seq(0, 1, length.out = 20)), epochs = 500, seed = 1)
#' }
#' @export
train_stateless <- function(model, loss, data, ..., members = 1, validation = NULL, optimizer = "adam",
                            metrics = character(), epochs = 100, batch_size = NULL, patience = NULL,
                            keep = c("best", "last"), initial = c("draw", "model"), seed = NULL,
                            precision = NULL, record_every = 1, callbacks = NULL, checkpoint = NULL,
                            resume = FALSE, devices = NULL, data_parallel = NULL, verbose = NULL) {
  check_dots(...)
  if (is.null(model)) abort_argument("model", "a Keras model", model, call = rlang::current_env())
  model <- check_keras(model)
  if (!is.function(loss) && !is_python(loss)) loss <- check_string(loss)
  form <- loss_form(loss)
  optimizer <- check_optimizer(optimizer)
  if (length(validation) == 1 && is.numeric(validation)) {
    validation <- check_number(validation, above = 0, max = 0.9)
  } else if (!is.null(validation)) {
    validation <- check_arrays(validation)
  }
  settings <- list(
    members = check_whole(members, min = 1), optimizer = optimizer, epochs = check_whole(epochs, min = 1),
    batch_size = if (!is.null(batch_size)) check_whole(batch_size, min = 1),
    patience = if (!is.null(patience)) check_whole(patience, min = 1),
    keep = check_choice(keep, c("best", "last")), initial = check_choice(initial, c("draw", "model")),
    precision = if (!is.null(precision)) check_choice(precision, c("float32", "float64")),
    record_every = check_whole(record_every, min = 1),
    checkpoint = if (!is.null(checkpoint)) check_writable(checkpoint), resume = check_flag(resume),
    devices = if (!is.null(devices)) check_whole(devices, min = 1),
    data_parallel = if (!is.null(data_parallel)) check_flag(data_parallel)
  )
  callbacks <- check_callbacks(callbacks)
  metrics <- check_metrics(metrics)
  data <- check_arrays(data)
  verbose <- wants_progress(verbose)
  settings$seed <- check_seed(seed)
  the$compiled <- TRUE
  parts <- call_core("train_stateless", model, loss, data, validation, settings, metrics,
    form = form, callbacks = callbacks, progress = progress_callback(verbose))
  history <- parts$history
  columns <- stats::setNames(rep("double", length(history)), names(history))
  columns[c("member", "epoch")] <- "integer"
  structure(
    list(
      handle = parts$handle, seed = as.integer(parts$seed), history = as_table(history, columns),
      members = as_table(parts$members, c(
        member = "integer", status = "character", epoch = "integer", best_epoch = "integer",
        loss = "double", validation = "double"
      ))
    ),
    class = "partonfit_training"
  )
}

check_metrics <- function(metrics, call = rlang::caller_env()) {
  if (is_python(metrics)) return(list(metrics))
  fits <- function(one) is_python(one) || (is_one(one) && is.character(one))
  if (!(is.character(metrics) || is.list(metrics)) || !all(vapply(metrics, fits, NA))) {
    abort_argument("metrics", "names of Keras metrics, or Keras metrics", metrics, call = call)
  }
  as.list(metrics)
}

# Arrays of doubles, alone or in lists, that stay arrays in Python.
check_arrays <- function(value, arg = rlang::caller_arg(value), call = rlang::caller_env()) {
  force(arg)
  if (is.data.frame(value)) value <- as.matrix(value)
  if (is.list(value)) return(lapply(value, check_arrays, arg = arg, call = call))
  check_numbers(value, arg, must = "numeric arrays without missing values, or a list of them", call = call)
  if (is.null(dim(value))) array(as.double(value)) else unname(value + 0)
}

training_handle <- function(object, call = rlang::caller_env()) {
  if (is_gone(object$handle)) {
    abort_partonfit("storage", c(
      "This training belongs to an R session that has ended.",
      i = "Keep a model with Keras' {.code model$save()}."
    ), call = call)
  }
  object$handle
}

#' @rdname train_stateless
#' @param object,training A result of `train_stateless()`.
#' @param new_data An array like the inputs of `data`.
#' @export
predict.partonfit_training <- function(object, new_data, ...) {
  check_dots(...)
  handle <- training_handle(object)
  new_data <- check_arrays(new_data)
  answer <- call_core("predict_stateless", handle, new_data)
  aperm(answer, c(seq_along(dim(answer))[-1], 1))
}

#' @rdname train_stateless
#' @param member Number of the member, from 0 as in `members`.
#' @export
write_back <- function(training, member = 0) {
  if (!inherits(training, "partonfit_training")) {
    abort_argument("training", "made by {.fn train_stateless}", training, call = rlang::current_env())
  }
  member <- check_whole(member)
  handle <- training_handle(training)
  call_core("write_back", handle, member)
  invisible(training)
}

#' @export
print.partonfit_training <- function(x, ...) {
  best <- range(x$members$validation)
  cat_text(
    "Training of {nrow(x$members)} member{?s}: {paste(unique(x$members$status), collapse = ', ')}",
    "validation {paste(unique(signif(best, 3)), collapse = ' to ')}; seed {x$seed}",
    "Next: predict(training, x), training$history, write_back(training, member = )"
  )
  invisible(x)
}
