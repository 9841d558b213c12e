# Objects of Keras, made by the R package keras3 or through reticulate: Python objects either way.
# keras3 itself is never loaded here: what it makes is recognised by what it is.

check_keras <- function(model, arg = rlang::caller_arg(model), call = rlang::caller_env()) {
  force(arg)
  if (!is.null(model) && !is_python(model)) {
    abort_argument(arg, "{.code NULL} or a Keras model", model,
      hint = "Make one with {.pkg keras3}, or with {.code reticulate::import(\"keras\")}.", call = call)
  }
  if (!is.null(model)) check_alive(model, arg, "model", call)
  model
}

# The name of an optimizer, or one that Keras made.
check_optimizer <- function(optimizer, arg = rlang::caller_arg(optimizer), call = rlang::caller_env()) {
  force(arg)
  if (!is_python(optimizer)) {
    return(check_string(optimizer, arg,
      hint = "Or make one with {.pkg keras3}, or with {.code reticulate::import(\"keras\")}.", call = call))
  }
  check_alive(optimizer, arg, "optimizer", call)
}

# Python pointers do not survive saveRDS().
check_alive <- function(object, arg, what, call) {
  if (reticulate::py_is_null_xptr(object)) {
    abort_partonfit("argument", c(
      "{.arg {arg}} is a Keras {what} of an R session that has ended.",
      i = "Make it again; keep models in files with Keras' {.code model$save()}."
    ), arg = arg, call = call)
  }
  object
}

# What the core keeps of a model or an optimizer: its description as text.
keras_text <- function(object, call) as_text(call_core("keras_text", object, .call = call))

# Functions of (step, total, metrics), paths of CSV files, Keras callbacks; one or a list.
check_callbacks <- function(callbacks, call = rlang::caller_env()) {
  if (is_python(callbacks)) callbacks <- list(callbacks)
  if (is.function(callbacks) || is.character(callbacks)) callbacks <- as.list(c(callbacks))
  fits <- function(one) {
    is.function(one) || is_python(one) || (is_one(one) && is.character(one) && grepl("[.]csv$", one))
  }
  if (!(is.null(callbacks) || is.list(callbacks)) || !all(vapply(callbacks, fits, NA))) {
    abort_argument("callbacks",
      "functions of (step, total, metrics), Keras callbacks and paths ending in {.file .csv}", callbacks,
      call = call)
  }
  lapply(callbacks, function(one) if (is.character(one)) check_writable(one, "callbacks", call) else one)
}

# What an R function that is a loss takes: by the names of its arguments, as people write it for Keras;
# else by their number.
loss_form <- function(loss, call = rlang::caller_env()) {
  if (!is.function(loss) || is_python(loss)) return("keras")
  arguments <- names(formals(args(loss)))
  if (identical(utils::head(arguments, 2), c("y_true", "y_pred"))) return("keras")
  if (length(arguments) == 2) return("batch")
  if (length(arguments) == 3) return("key")
  abort_partonfit("argument", c(
    "A function as {.arg loss} must take (predict, batch), (predict, batch, key) or (y_true, y_pred).",
    x = "This one takes ({paste(arguments, collapse = ', ')})."
  ), arg = "loss", call = call)
}
