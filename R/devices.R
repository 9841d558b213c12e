#' Divide the work over devices
#'
#' Sets Keras' `DataParallel` distribution on JAX, so that models trained with `fit()` of Keras divide
#' every batch over the devices, and divides the replicas of [fit_pdf()] over the same devices. Call it
#' at the start of a session: what is compiled or built already stays where it is.
#'
#' On a CPU, `devices` makes that many devices of its cores, when JAX has not started yet.
#'
#' @param devices How many, a whole number; `NULL` for all there are.
#' @param ... No further arguments; a misspelt one is an error.
#' @param verbose Say what was found?
#'
#' @return A character vector with the devices, invisibly.
#' @section Errors: More devices than there are, or too late a call on a CPU, is an error of class
#'   `partonfit_error_setting` that says what to do.
#' @examples
#' \dontrun{
#' data_parallel(devices = 4)
#' fit <- fit_pdf("hera", replicas = 100)
#' }
#' @export
data_parallel <- function(devices = NULL, ..., verbose = TRUE) {
  check_dots(...)
  if (!is.null(devices)) devices <- check_whole(devices, min = 1)
  verbose <- check_flag(verbose)
  if (the$compiled) {
    abort_partonfit("setting", c(
      "{.fn data_parallel} comes too late: something was fitted in this session already.",
      i = "Call it first in a new session; {.code fit_pdf(devices = )} divides the replicas of one fit."
    ))
  }
  if (!is.null(devices) && devices > 1) call_core("ask_for_cpu_devices", devices)
  found <- call_core("data_parallel", devices)
  names <- as_column(found$devices, "character")
  the$devices <- length(names)
  if (verbose) {
    cli::cli_inform(c(v = "Work is divided over {length(names)} device{?s}: {names}."))
  }
  invisible(names)
}
