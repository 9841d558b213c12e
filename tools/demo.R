# Fit, look, write: what a physicist does first. Called by tools/demo.sh.
folder <- "demo"
replicas <- as.integer(Sys.getenv("PARTONFIT_DEMO_REPLICAS", "100"))
epochs <- as.integer(Sys.getenv("PARTONFIT_DEMO_EPOCHS", "17000"))

seconds <- c()
timed <- function(step, code) {
  started <- proc.time()[["elapsed"]]
  value <- force(code)
  seconds[[step]] <<- proc.time()[["elapsed"]] - started
  cat(sprintf("-- %s: %.1f s\n", step, seconds[[step]]))
  invisible(value)
}

save_figure <- function(name, figure, width = 9, height = 6.5) {
  file <- file.path(folder, paste0(name, ".png"))
  ggplot2::ggsave(file, figure, width = width, height = height, dpi = 130)
}

save_tables <- function(fit) {
  for (what in c("pdfs", "replicas", "points")) {
    utils::write.csv(as.data.frame(fit, what = what), file.path(folder, paste0(what, ".csv")),
      row.names = FALSE)
  }
  utils::write.csv(chi2(fit), file.path(folder, "chi2.csv"), row.names = FALSE)
}

save_figures <- function(fit) {
  flavours <- c("g", "u_v", "d_v", "sea", "s_plus", "c_plus")
  save_figure("pdfs-q0", ggplot2::autoplot(fit, flavours = flavours))
  save_figure("pdfs-100gev", ggplot2::autoplot(fit, flavours = flavours, Q = 100))
  save_figure("pdfs-100gev-linear",
    ggplot2::autoplot(fit, flavours = flavours, Q = 100, xscale = "linear"))
  save_figure("uncertainty-100gev",
    ggplot2::autoplot(fit, flavours = flavours, Q = 100, type = "ratio"))
  save_figure("replicas-q0", ggplot2::autoplot(fit, flavours = flavours, type = "replicas"))
  save_figure("chi2", ggplot2::autoplot(fit, type = "chi2"), height = 4.5)
  save_figure("data", ggplot2::autoplot(fit, type = "data"), width = 11, height = 11)
  save_figure("training", ggplot2::autoplot(fit, type = "training"), height = 5)
}

unlink(folder, recursive = TRUE)
dir.create(folder)
whole <- proc.time()[["elapsed"]]
timed("start", {
  library(partonfit)
  partonfit_sitrep(verbosity = "minimal")
})
fit <- timed("fit", fit_pdf("hera",
  replicas = replicas, seed = 1, control = fit_control(epochs = epochs), verbose = TRUE
))
timed("figures", save_figures(fit))
timed("tables", save_tables(fit))
timed("LHAPDF set", write_lhapdf(fit, file.path(folder, "partonfit_hera")))
timed("report", report(fit, file.path(folder, "report.html")))
timed("saving", saveRDS(fit, file.path(folder, "fit.rds")))

cat("\n")
print(fit)
cat("\n")
print(summary(fit))
cat("\nInside the fit [s]:\n")
print(as.data.frame(fit, what = "timings"), row.names = FALSE)
cat(sprintf("\nAll of it took %.0f s. Look at %s/:\n", proc.time()[["elapsed"]] - whole, folder))
cat(paste0("  ", list.files(folder)), sep = "\n")
