#!/usr/bin/env bash
# R CMD build and R CMD check on the package as it would be shipped; an error or a warning fails.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
use_project_environment
folder="$STATE/check"
bash "$ROOT/tools/stage-package.sh" "$folder"
cd "$folder"

# --as-cran asks a repository about other packages; an empty one on disk answers where there is no network.
Rscript --vanilla -e '
  dir.create("cran/src/contrib/Meta", recursive = TRUE, showWarnings = FALSE)
  dir.create("cran/web/packages", recursive = TRUE, showWarnings = FALSE)
  invisible(file.create("cran/src/contrib/PACKAGES"))
  fields <- c("Package", "Version", "Priority", "Depends", "Imports", "LinkingTo", "Suggests", "Enhances",
    "License", "Maintainer", "Title", "Published")
  nothing <- matrix(character(), 0, length(fields), dimnames = list(NULL, fields))
  saveRDS(nothing, "cran/web/packages/packages.rds")
  for (name in c("aliases", "rdxrefs", "current", "archive")) {
    saveRDS(list(), file.path("cran/src/contrib/Meta", paste0(name, ".rds")))
  }'
export R_CRAN_WEB="file://$folder/cran" R_CRAN_SRC="file://$folder/cran"
export _R_CHECK_FORCE_SUGGESTS_=false _R_CHECK_CRAN_INCOMING_=false _R_CHECK_SYSTEM_CLOCK_=false

R CMD build partonfit
R CMD check --as-cran --no-manual partonfit_*.tar.gz
if grep -qE '^Status: .*(ERROR|WARNING)' partonfit.Rcheck/00check.log; then exit 1; fi
