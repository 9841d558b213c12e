#' partonfit: parton distribution functions from R
#'
#' One call, [fit_pdf()], fits parton distribution functions (PDFs) to data and returns a plain R
#' object with methods to look at it: [summary()][summary.pdf_fit], [predict()][predict.pdf_fit],
#' [plot()][autoplot.pdf_fit], [chi2()], [write_lhapdf()] and [report()]. [partonfit_sitrep()] says
#' whether everything is in place, [install_partonfit()] puts it there.
#'
#' Units and names, everywhere: `x` is the momentum fraction (no dimension, between 0 and 1), `Q` the
#' scale in GeV, PDFs are given as x f(x, Q) (no dimension), and flavours are named (`"g"`, `"u"`,
#' `"ubar"`, `"u_v"`, `"sea"`, `"Sigma"`, `"V"`, `"T3"`, ...).
#'
#' @section Options:
#' * `partonfit.python`: path of the Python interpreter to use (or the environment variable
#'   `PARTONFIT_PYTHON`). See [partonfit_sitrep()] for the order in which Python is looked for.
#' * `partonfit.progress`: `FALSE` silences progress everywhere.
#'
#' @keywords internal
#' @importFrom rlang %||% .data
"_PACKAGE"
