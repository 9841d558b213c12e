#' The network that is fitted
#'
#' Describes a network with preprocessing and sum rules. The default is that of the NNPDF4.0
#' methodology: two hidden layers of 25 and 20 nodes with tanh, preprocessing exponents drawn for each
#' replica, momentum and valence sum rules.
#'
#' The network takes x and ln x and gives Sigma, g, V, V3, V8, T3, T8 and T15 at Q0 = 1.65 GeV.
#'
#' @param network A Keras model (made with keras3 or reticulate) that takes two inputs, x and ln x, and gives
#'   eight outputs, one for each combination in the order above; `NULL` for layers of the next three
#'   arguments. Layers of your own need `get_config()`.
#' @param ... No further arguments; a misspelt one is an error.
#' @param nodes Widths of the hidden layers, whole numbers.
#' @param activation,initializer Keras names of the hidden activation (one, or one for each layer) and the
#'   kernel initializer.
#' @param layer_type `"dense"`, or `"dense_per_flavour"`: a network of its own for each output.
#' @param dropout Share of the last hidden layer's nodes that is dropped at random in training.
#' @param form A function with parameters in the place of a network: `"herapdf"` or `"les_houches"`.
#' @param parameters Parameters of the form: a list of ranges, from which each replica draws its start, or of
#'   numbers, which are held, such as `list(f_s = 0.5, C_g = c(4, 6))`.
#' @param basis What the network gives: `"evolution"` or `"flavour"` (u, ubar, d, dbar, s, sbar, c, g).
#'   `NULL`: flavours for a form, else the evolution basis.
#' @param charm_asymmetry `TRUE` to fit V15 (or cbar) too.
#' @param scaling Map x to -1 to 1 and give the network that in place of x and ln x: the number of knots, or
#'   their x.
#' @param subtract_one `TRUE` to subtract the network's value at x = 1; `NULL`: with `scaling`.
#' @param preprocessing `TRUE` to multiply by x^(1-alpha) (1-x)^beta; `NULL`: not for a form, nor with
#'   `scaling` unless `alpha` or `beta` are given.
#' @param alpha,beta Ranges from which the exponents are drawn, in place of those of NNPDF4.0: lists such as
#'   `list(g = c(0.7, 1.1))`, by output.
#' @param trainable_exponents `TRUE` to train alpha and beta after they were drawn.
#' @param sum_rules `"all"`, `"momentum"`, `"valence"` or `"off"`.
#'
#' @return An object of class `pdf_model`, plain values.
#' @section Errors: A wrong value is an error of class `partonfit_error_argument`; a network that Keras
#'   cannot describe, `partonfit_error_setting`, and so is one of the wrong size, when it is fitted.
#' @examples
#' pdf_model(nodes = c(30, 30), activation = "swish")
#' \dontrun{
#' keras <- reticulate::import("keras")
#' network <- keras$Sequential(list(
#'   keras$Input(reticulate::tuple(2L)), keras$layers$Dense(32L, "swish"), keras$layers$Dense(8L)
#' ))
#' pdf_model(network, preprocessing = FALSE)
#' }
#' @export
pdf_model <- function(network = NULL, ..., nodes = c(25, 20), activation = "tanh",
                      initializer = "glorot_normal", layer_type = c("dense", "dense_per_flavour"),
                      dropout = 0, form = NULL, parameters = NULL, basis = NULL,
                      charm_asymmetry = FALSE, scaling = NULL, subtract_one = NULL,
                      preprocessing = NULL, alpha = NULL, beta = NULL, trainable_exponents = FALSE,
                      sum_rules = c("all", "momentum", "valence", "off")) {
  check_dots(...)
  if (!is.numeric(nodes) || !length(nodes)) {
    abort_argument("nodes", "whole numbers, one for each hidden layer", nodes,
      call = rlang::current_env())
  }
  network <- check_keras(network)
  structure(
    list(
      network = if (!is.null(network)) keras_text(network, rlang::current_env()),
      nodes = vapply(nodes, check_whole, 1L, arg = "nodes", min = 1, call = rlang::current_env()),
      activation = if (length(activation) > 1) {
        as.list(as.character(activation))
      } else {
        check_string(activation)
      },
      initializer = check_string(initializer),
      layer_type = check_choice(layer_type, c("dense", "dense_per_flavour")),
      dropout = check_number(dropout, min = 0, max = 1),
      form = if (!is.null(form)) check_choice(form, c("herapdf", "les_houches")),
      parameters = check_parameters(parameters),
      basis = if (!is.null(basis)) check_choice(basis, c("evolution", "flavour")),
      charm_asymmetry = check_flag(charm_asymmetry),
      scaling = check_scaling(scaling),
      subtract_one = if (!is.null(subtract_one)) check_flag(subtract_one),
      preprocessing = if (!is.null(preprocessing)) check_flag(preprocessing),
      alpha = check_ranges(alpha),
      beta = check_ranges(beta),
      trainable_exponents = check_flag(trainable_exponents),
      sum_rules = check_choice(sum_rules, c("all", "momentum", "valence", "off"))
    ),
    class = "pdf_model"
  )
}

#' @export
print.pdf_model <- function(x, ...) {
  outputs <- if (x$charm_asymmetry) 9 else 8
  ranged <- !is.null(x$alpha) || !is.null(x$beta)
  factor <- x$preprocessing %||% (is.null(x$form) && (is.null(x$scaling) || ranged))
  cat_text(
    if (!is.null(x$form)) {
      "PDF model: the form {x$form}"
    } else if (is.null(x$network)) {
      paste0(
        "PDF model: network {if (is.null(x$scaling)) 2 else 1}-{paste(x$nodes, collapse = '-')}-{outputs}, ",
        "{paste(x$activation, collapse = ', ')}"
      )
    } else {
      "PDF model: a network made with Keras"
    },
    "preprocessing {if (factor) 'on' else 'off'}, sum rules {x$sum_rules}"
  )
  invisible(x)
}

fitted_names <- c(
  "Sigma", "g", "V", "V3", "V8", "V15", "T3", "T8", "T15", "u", "ubar", "d", "dbar", "s", "sbar", "c", "cbar"
)

check_parameters <- function(parameters, call = rlang::caller_env()) {
  if (is.null(parameters)) return(NULL)
  fits <- function(value) is.numeric(value) && length(value) %in% 1:2 && !anyNA(value)
  if (!is.list(parameters) || is.null(names(parameters)) || !all(vapply(parameters, fits, NA))) {
    abort_argument("parameters", "a list of ranges or numbers such as {.code list(f_s = 0.5, C_g = c(4, 6))}",
      parameters, call = call)
  }
  lapply(parameters, function(value) if (length(value) == 2) as.list(as.double(value)) else as.double(value))
}

check_scaling <- function(scaling, call = rlang::caller_env()) {
  if (is.null(scaling)) return(NULL)
  if (length(scaling) == 1) return(check_whole(scaling, arg = "scaling", min = 3, call = call))
  if (!is.numeric(scaling) || anyNA(scaling)) {
    abort_argument("scaling", "a number of knots, or increasing values of x", scaling, call = call)
  }
  as.list(as.double(scaling))
}

check_ranges <- function(ranges, arg = rlang::caller_arg(ranges), call = rlang::caller_env()) {
  force(arg)
  if (is.null(ranges)) return(NULL)
  fits <- function(range) is.numeric(range) && length(range) == 2 && !anyNA(range) && range[[1]] <= range[[2]]
  if (!is.list(ranges) || is.null(names(ranges)) || !all(vapply(ranges, fits, NA))) {
    abort_argument(arg, "a list of ranges such as {.code list(g = c(0.7, 1.1))}", ranges, call = call)
  }
  wrong <- setdiff(names(ranges), fitted_names)
  if (length(wrong)) {
    abort_partonfit("argument", c(
      "{.arg {arg}} must name combinations of a fit, not {.val {wrong}}.", i = "Known: {.val {fitted_names}}."
    ), arg = arg, call = call)
  }
  lapply(ranges, function(range) as.list(as.double(range)))
}

check_model <- function(model, call = rlang::caller_env()) {
  if (is.null(model)) return(NULL)
  if (!inherits(model, "pdf_model")) {
    abort_argument("model", "{.code NULL} or made by {.fn pdf_model}", model, call = call)
  }
  model
}

# The widths must arrive as a list, also when there is one.
model_for_core <- function(model) {
  if (is.null(model)) return(NULL)
  model <- unclass(model)
  model$nodes <- as.list(model$nodes)
  model
}
