#' The network that is fitted
#'
#' Describes a network with preprocessing and sum rules. The default is that of the NNPDF4.0
#' methodology: two hidden layers of 25 and 20 nodes with tanh, preprocessing exponents drawn for each
#' replica, momentum and valence sum rules.
#'
#' The network takes x and ln x and gives Sigma, g, V, V3, V8, T3, T8 and T15 at Q0 = 1.65 GeV.
#'
#' @param ... No further arguments; a misspelt one is an error.
#' @param nodes Widths of the hidden layers, whole numbers.
#' @param activation,initializer Keras names of the hidden activation and the kernel initializer.
#' @param preprocessing `TRUE` to multiply by x^(1-alpha) (1-x)^beta.
#' @param trainable_exponents `TRUE` to train alpha and beta after they were drawn.
#' @param sum_rules `"all"`, `"momentum"`, `"valence"` or `"off"`.
#'
#' @return An object of class `pdf_model`, plain values.
#' @section Errors: A wrong value is an error of class `partonfit_error_argument`.
#' @examples
#' pdf_model(nodes = c(30, 30), activation = "swish")
#' @export
pdf_model <- function(..., nodes = c(25, 20), activation = "tanh", initializer = "glorot_normal",
                      preprocessing = TRUE, trainable_exponents = FALSE,
                      sum_rules = c("all", "momentum", "valence", "off")) {
  check_dots(...)
  if (!is.numeric(nodes) || !length(nodes)) {
    abort_argument("nodes", "whole numbers, one for each hidden layer", nodes,
      call = rlang::current_env())
  }
  structure(
    list(
      nodes = vapply(nodes, check_whole, 1L, arg = "nodes", min = 1, call = rlang::current_env()),
      activation = check_string(activation),
      initializer = check_string(initializer),
      preprocessing = check_flag(preprocessing),
      trainable_exponents = check_flag(trainable_exponents),
      sum_rules = check_choice(sum_rules, c("all", "momentum", "valence", "off"))
    ),
    class = "pdf_model"
  )
}

#' @export
print.pdf_model <- function(x, ...) {
  cat_text(
    "PDF model: network 2-{paste(x$nodes, collapse = '-')}-8, {x$activation}",
    "preprocessing {if (x$preprocessing) 'on' else 'off'}, sum rules {x$sum_rules}"
  )
  invisible(x)
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
