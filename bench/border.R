# What the border between R and Python costs: the same fit from both sides, a million doubles across
# and back, and library(partonfit). Run it on a quiet machine, with the environment of tools/common.sh:
#   Rscript bench/border.R [replicas] [epochs] [rounds]
# Fits take turns, so that a slow moment of the machine meets both. Beside the wall seconds stand the
# processor's seconds of this process: they tell the cost of the border also where others compute too.

given <- as.integer(commandArgs(trailingOnly = TRUE))
setting <- function(i, default) if (length(given) >= i) given[[i]] else default
replicas <- setting(1, 20L)
epochs <- setting(2, 4000L)
rounds <- setting(3, 5L)

loading <- system.time(library(partonfit))[["elapsed"]]

# Both languages share a process, so one clock measures both.
timed <- function(f) {
  times <- system.time(f())
  c(wall = times[["elapsed"]], processor = times[["user.self"]] + times[["sys.self"]])
}
control <- fit_control(epochs = epochs, patience = 1, threshold_chi2 = NULL)
from_r <- function() {
  timed(function() fit_pdf("hera", replicas = replicas, seed = 1, control = control, verbose = FALSE))
}
invisible(partonfit:::core())
python <- reticulate::py_run_string(sprintf(paste(
  "import partonfit as pf",
  "def fit():",
  "    pf.fit_pdf('hera', replicas=%d, seed=1,",
  "        control=pf.fit_control(epochs=%d, patience=1.0, threshold_chi2=None))",
  sep = "\n"
), replicas, epochs))
from_python <- function() timed(python$fit)

invisible(from_r())
invisible(from_python()) # compiled now, and not in the times
times <- vapply(seq_len(rounds), function(i) {
  first_r <- i %% 2 == 1
  if (first_r) r <- from_r()
  python <- from_python()
  if (!first_r) r <- from_r()
  c(r = r, python = python)
}, c(r.wall = 0, r.processor = 0, python.wall = 0, python.processor = 0))

numpy <- reticulate::import("numpy", convert = FALSE)
million <- stats::rnorm(1e6)
back <- function() as.vector(reticulate::py_to_r(numpy$ascontiguousarray(partonfit:::as_python_numbers(million))))
stopifnot(identical(back(), million))
crossing <- 1e3 * vapply(1:20, function(i) system.time(back())[["elapsed"]], 0)

medians <- apply(times, 1, stats::median)
cat(sprintf("fits: %d replicas, %d epochs, %d rounds; seconds\n", replicas, epochs, rounds))
print(round(t(times), 3))
for (clock in c("wall", "processor")) {
  r <- medians[[paste0("r.", clock)]]
  p <- medians[[paste0("python.", clock)]]
  cat(sprintf("fit_pdf(), %s: from R %.3f s, from Python %.3f s, ratio %.3f\n", clock, r, p, r / p))
}
cat(sprintf("10^6 doubles to NumPy and back: median %.1f ms, slowest %.1f ms\n", stats::median(crossing), max(crossing)))
cat(sprintf("library(partonfit): %.3f s\n", loading))
