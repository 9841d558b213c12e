#' Write a fit as an LHAPDF set
#'
#' Writes a folder with an `.info` file and one grid file per member, in the form LHAPDF reads:
#' member 0 is the mean over the kept replicas, the others are the replicas, all evolved in Q.
#'
#' @param fit A fit made by [fit_pdf()].
#' @param path The folder to write; its last part is the name of the set. It must not exist, or be
#'   empty.
#' @param ... No further arguments; a misspelt one is an error.
#'
#' @return The path of the folder, invisibly.
#' @section Errors: A folder that cannot be written is an error of class `partonfit_error_storage`,
#'   raised before any work; nothing half-written is left behind.
#' @examples
#' \dontrun{
#' write_lhapdf(fit, "myset")
#' }
#' @export
write_lhapdf <- function(fit, path, ...) {
  check_dots(...)
  fit <- check_fit(fit)
  path <- check_writable(path)
  invisible(as_text(call_core("write_lhapdf", load_in_core(fit), path)))
}

#' Read an LHAPDF set
#'
#' @param path The folder of the set.
#'
#' @return An object of class `lhapdf_set`: `name`, `members`, `error_type`, `q0` \[GeV\] and the `path`.
#'   [predict()][predict.lhapdf_set] gives its PDFs, `plot(fit, type = "ratio", to = )` compares.
#' @section Errors: A folder that holds no set is an error of class `partonfit_error_storage`.
#' @examples
#' \dontrun{
#' set <- read_lhapdf("myset")
#' predict(set, x = 0.1, Q = 100, flavour = "g")
#' }
#' @export
read_lhapdf <- function(path) {
  path <- normalizePath(check_string(path), mustWork = FALSE)
  found <- call_core("read_lhapdf", path)
  structure(
    list(
      id = as_text(found$id), path = path, name = as_text(found$name), members = as.integer(found$members),
      error_type = as_text(found$error_type), q0 = as.double(found$q0)
    ),
    class = "lhapdf_set"
  )
}

#' @export
print.lhapdf_set <- function(x, ...) {
  cat_text(
    "LHAPDF set {x$name}: {x$members} members ({x$error_type}), from Q = {signif(x$q0, 4)} GeV",
    "Next: predict(set, x = , Q = ), plot(fit, type = \"ratio\", to = set)"
  )
  invisible(x)
}
