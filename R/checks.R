# Checks at the door: exported functions call these, internals trust what they get. Each returns the
# value in the form the core wants, so `replicas = 100` never reaches Python as a float.

# How a value is called in a message.
friendly <- function(value) {
  if (is.null(value)) return("{.code NULL}")
  if (length(value) == 1 && is.atomic(value)) return(friendly_one(value))
  if (is.data.frame(value)) return("a data frame")
  if (is.function(value)) return("a function")
  what <- if (is.list(value)) "list" else paste(class(value)[[1]], "vector")
  paste0(if (grepl("^[aeiou]", what)) "an " else "a ", what, " of length ", length(value))
}

friendly_one <- function(value) {
  if (is.na(value)) return(if (is.nan(value)) "{.code NaN}" else "{.code NA}")
  if (is.character(value)) return(paste0("the string ", encodeString(escape_braces(value), quote = '"')))
  if (is.factor(value)) return("a factor")
  paste0("{.code ", escape_braces(format(value, digits = 15)), "}")
}

abort_argument <- function(arg, must, value, hint = NULL, call) {
  text <- paste0("{.arg {arg}} must be ", must, ", not ", friendly(value), ".")
  abort_partonfit("argument", c(text, i = hint), arg = arg, call = call)
}

is_one <- function(value) length(value) == 1 && is.atomic(value) && !is.factor(value) && !is.na(value)

check_whole <- function(value, arg = rlang::caller_arg(value), min = 0L, hint = NULL,
                        call = rlang::caller_env()) {
  fits <- is_one(value) && is.numeric(value) && is.finite(value) && value == round(value) &&
    abs(value) <= .Machine$integer.max && value >= min
  if (!fits) abort_argument(arg, paste("a whole number, at least", min), value, hint, call)
  as.integer(value)
}

# Within [min, max], and above `above`.
check_number <- function(value, arg = rlang::caller_arg(value), min = -Inf, max = Inf,
                         above = -Inf, call = rlang::caller_env()) {
  fits <- is_one(value) && is.numeric(value) && is.finite(value) && value >= min &&
    value <= max && value > above
  if (!fits) {
    limits <- c(
      if (is.finite(above)) paste("above", above),
      if (is.finite(min)) paste("at least", min),
      if (is.finite(max)) paste("at most", max)
    )
    must <- paste(c("a number", paste(limits, collapse = " and ")), collapse = ", ")
    abort_argument(arg, must, value, call = call)
  }
  as.double(value)
}

check_flag <- function(value, arg = rlang::caller_arg(value), call = rlang::caller_env()) {
  if (!(is_one(value) && is.logical(value))) {
    abort_argument(arg, "{.code TRUE} or {.code FALSE}", value, call = call)
  }
  value
}

check_string <- function(value, arg = rlang::caller_arg(value), hint = NULL,
                         call = rlang::caller_env()) {
  if (!(is_one(value) && is.character(value) && nzchar(value))) {
    abort_argument(arg, "a string that is not empty", value, hint, call)
  }
  enc2utf8(value)
}

check_choice <- function(value, choices, arg = rlang::caller_arg(value),
                         call = rlang::caller_env()) {
  if (identical(value, choices)) return(choices[[1]])
  if (!(is_one(value) && is.character(value) && value %in% choices)) {
    listed <- paste0("{.val ", choices, "}", collapse = ", ")
    abort_argument(arg, paste("one of", listed), value, call = call)
  }
  value
}

check_numbers <- function(value, arg = rlang::caller_arg(value), min = -Inf, max = Inf, must,
                          call = rlang::caller_env()) {
  if (!is.numeric(value) || is.factor(value) || !length(value)) {
    abort_argument(arg, must, value, call = call)
  }
  wrong <- which(!is.finite(value) | value < min | value > max)
  if (length(wrong)) {
    at <- wrong[[1]]
    abort_partonfit("argument", c(
      "{.arg {arg}} must be {must}.",
      x = "Element {at} of {length(value)} is {.val {value[[at]]}}."
    ), arg = arg, call = call)
  }
  as.double(value)
}

check_names <- function(value, arg = rlang::caller_arg(value), call = rlang::caller_env()) {
  force(arg)
  if (is.factor(value)) value <- as.character(value)
  if (!is.character(value) || !length(value) || anyNA(value)) {
    abort_argument(arg, "names of flavours such as {.val g} or {.val u_v}, none missing", value,
      call = call)
  }
  enc2utf8(value)
}

# NULL draws one integer from R's stream, so that set.seed() governs; a number leaves it alone.
check_seed <- function(seed, call = rlang::caller_env()) {
  if (is.null(seed)) return(sample.int(.Machine$integer.max, 1L))
  check_whole(seed, "seed", hint = "Give for instance {.code seed = 1}.", call = call)
}

# A folder that can be made, or exists, and can be written to; nothing is created.
check_writable <- function(path, arg = rlang::caller_arg(path), call = rlang::caller_env()) {
  force(arg)
  path <- check_string(path, arg, call = call)
  path <- path.expand(path)
  nearest <- dirname(path)
  while (!file.exists(nearest) && nearest != dirname(nearest)) nearest <- dirname(nearest)
  if (!can_write_into(nearest)) {
    abort_partonfit("storage", c(
      "Can't write {.arg {arg}} = {.path {path}}.",
      x = if (dir.exists(nearest)) {
        "The folder {.path {nearest}} is not writable."
      } else {
        "{.path {nearest}} is not a folder."
      },
      i = "Choose a folder you may write to."
    ), arg = arg, call = call)
  }
  normalizePath(path, mustWork = FALSE)
}

# Permissions do not tell all (root, read-only file systems), so it is tried.
can_write_into <- function(folder) {
  if (!dir.exists(folder)) return(FALSE)
  probe <- tempfile(".partonfit-", tmpdir = folder)
  made <- suppressWarnings(file.create(probe))
  if (made) unlink(probe)
  made
}

# Options of a function after its dots must be named in full: `replica = 5` is a mistake.
check_dots <- function(..., call = rlang::caller_env()) {
  if (!...length()) return(invisible())
  extra <- names(rlang::enquos(...))
  known <- setdiff(names(formals(rlang::caller_fn())), "...")
  first <- extra[[1]]
  near <- if (nzchar(first)) nearest_name(first, known)
  abort_partonfit("argument", c(
    if (nzchar(first)) "Unknown argument {.arg {first}}." else "There is an argument too many.",
    i = if (length(near)) "Did you mean {.arg {near}}?" else "Arguments: {.arg {known}}."
  ), arg = first, call = call)
}

# The name that is spelt most alike, if any is at all.
nearest_name <- function(name, known) {
  alike <- known[agrep(name, known, max.distance = 0.3)]
  alike[order(utils::adist(name, alike))[seq_len(min(1, length(alike)))]]
}
