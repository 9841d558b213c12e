# Save a small fit in the present format, for the test that saved fits load forever:
#   Rscript tools/make-fixture.R        (with the environment that tools/common.sh sets)
# Run it once for each new format; never replace the fixture of an old one.
library(partonfit)
fit <- fit_pdf("hera", replicas = 2, seed = 1, control = fit_control(epochs = 300, threshold_chi2 = NULL))
file <- sprintf("tests/testthat/fixtures/fit-format-%d.rds", fit$format_version)
if (file.exists(file)) stop(file, " exists already")
saveRDS(fit, file, compress = "xz")
cat(file, file.size(file), "bytes\n")
