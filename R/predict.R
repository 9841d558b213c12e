#' PDFs of a fit at any x and Q
#'
#' x f(x, Q) with its uncertainty. Scales other than Q0 are reached by DGLAP evolution of every
#' replica. This starts Python, also for a fit that comes from [readRDS()].
#'
#' @param object A fit made by [fit_pdf()], or an LHAPDF set read by [read_lhapdf()].
#' @param new_data A data frame with a column `x` and, where wanted, `Q` \[GeV\] (else Q0) and
#'   `flavour` (else `"g"`).
#' @param ... No further arguments; a misspelt one is an error.
#' @param x,Q,flavour Instead of `new_data`: vectors whose combinations are predicted. `x` lies above
#'   0 and up to 1, `Q` is in GeV.
#' @param type `"interval"` for `.pred` (the mean over replicas), `.lower` and `.upper` (the central
#'   68 % interval) and `.sd`; `"replicas"` for the list column `.replicas`, in each row a vector with
#'   one value per kept replica.
#'
#' @return A tibble with one row per row of `new_data`, in its order, and the columns `x`, `Q`,
#'   `flavour` followed by those of `type`. All PDFs are x f(x, Q), without dimension.
#' @section Errors:
#' Values out of range, missing values and columns that misspell `Q` or `flavour` (`q`, `flavor`) are errors
#' of class `partonfit_error_argument`, other columns are not read; an unknown flavour is one of class
#' `partonfit_error_setting` that suggests the nearest name; without Python, `partonfit_error_python`.
#' @examples
#' \dontrun{
#' predict(fit, expand.grid(x = c(0.001, 0.01, 0.1), Q = c(1.65, 91.2), flavour = "g"))
#' predict(fit, x = 0.1, Q = 100, flavour = c("u_v", "d_v"))
#' }
#' @importFrom stats predict
#' @export
predict.pdf_fit <- function(object, new_data = NULL, ..., x = NULL, Q = NULL, flavour = NULL,
                            type = c("interval", "replicas")) {
  check_dots(...)
  object <- upgrade_fit(object)
  type <- check_choice(type, c("interval", "replicas"))
  rows <- prediction_rows(new_data, x, Q, flavour, object$q0)
  predict_rows(load_in_core(object), rows, type)
}

#' @rdname predict.pdf_fit
#' @export
predict.lhapdf_set <- function(object, new_data = NULL, ..., x = NULL, Q = NULL, flavour = NULL,
                               type = c("interval", "replicas")) {
  check_dots(...)
  type <- check_choice(type, c("interval", "replicas"))
  rows <- prediction_rows(new_data, x, Q, flavour, object$q0)
  predict_rows(object$id, rows, type)
}

predict_rows <- function(id, rows, type, call = rlang::caller_env()) {
  answer <- call_core(
    "predict", id,
    as_python_numbers(rows$x), as_python_numbers(rows$Q), as_python_strings(rows$flavour),
    type,
    .call = call
  )
  if (type == "replicas") {
    values <- as_matrix(answer$replicas)
    rows$.replicas <- lapply(seq_len(nrow(values)), function(i) values[i, ])
    return(rows)
  }
  bands <- as_table(answer, c(mean = "double", lower = "double", upper = "double", sd = "double"))
  names(bands) <- c(".pred", ".lower", ".upper", ".sd")
  tibble::as_tibble(cbind(rows, bands))
}

prediction_rows <- function(new_data, x, Q, flavour, q0, call = rlang::caller_env()) {
  if (is.null(new_data)) {
    new_data <- expand.grid(
      x = x %||% default_x(), Q = Q %||% q0, flavour = flavour %||% "g", stringsAsFactors = FALSE
    )
  } else {
    check_new_data(new_data, x, Q, flavour, call)
  }
  n <- nrow(new_data)
  tibble::tibble(
    x = check_x(new_data$x, call),
    Q = check_q(new_data$Q %||% rep(q0, n), call),
    flavour = check_names(new_data$flavour %||% rep("g", n), "flavour", call = call)
  )
}

# Half of the points below x = 0.1 in log x, half above in x.
default_x <- function(n = 100) {
  c(10^seq(-5, -1, length.out = n / 2), seq(0.1, 0.99, length.out = n / 2 + 1)[-1])
}

check_new_data <- function(new_data, x, Q, flavour, call) {
  if (!is.data.frame(new_data)) {
    abort_argument("new_data", "a data frame with the columns x, Q and flavour", new_data,
      hint = "Or name vectors: {.code predict(fit, x = 0.1, Q = 100)}.", call = call)
  }
  if (!is.null(x) || !is.null(Q) || !is.null(flavour)) {
    abort_partonfit("argument",
      "Give either {.arg new_data} or {.arg x}, {.arg Q} and {.arg flavour}, not both.",
      arg = "new_data", call = call)
  }
  if (!"x" %in% names(new_data) || nrow(new_data) == 0) {
    columns <- if (ncol(new_data) == 0) "no columns" else "the columns {.field {names(new_data)}}"
    abort_partonfit("argument", c(
      "{.arg new_data} must have a column {.field x} and at least one row.",
      x = paste0("It has {nrow(new_data)} row{?s} and ", columns, ".")
    ), arg = "new_data", call = call)
  }
  check_spelling(names(new_data), call)
}

# Other columns may be there, but one that is meant and spelt otherwise would give Q0 or the gluon unnoticed.
check_spelling <- function(given, call) {
  wanted <- c(q = "Q", flavor = "flavour", flavour = "flavour")
  wrong <- intersect(names(wanted), tolower(setdiff(given, wanted)))
  wrong <- wrong[!wanted[wrong] %in% given]
  if (length(wrong) > 0) {
    found <- given[tolower(given) == wrong[[1]]][[1]]
    abort_partonfit("argument", c(
      "{.arg new_data} has a column {.field {found}}, which is not read.",
      i = "Name it {.field {wanted[[wrong[[1]]]]}}."
    ), arg = "new_data", call = call)
  }
}

check_x <- function(x, call) {
  check_numbers(x, "x", min = .Machine$double.xmin, max = 1, must = "numbers above 0 and up to 1",
    call = call)
}

check_q <- function(q, call) {
  check_numbers(q, "Q", min = 1, max = 1e5, must = "scales in GeV between 1 and 1e5", call = call)
}
