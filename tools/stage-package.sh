#!/usr/bin/env bash
# Copy the files of the R package, links followed, into FOLDER/partonfit.
# R CMD build would first copy all of the working tree, environments included.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

folder=${1:?usage: stage-package.sh FOLDER}
rm -rf "$folder/partonfit"
mkdir -p "$folder/partonfit/tests"
for part in DESCRIPTION NAMESPACE NEWS.md LICENSE CITATION.cff README.md .Rbuildignore R man inst vignettes \
  tests/testthat tests/testthat.R tests/golden; do
  [ -e "$ROOT/$part" ] || continue
  cp -RL "$ROOT/$part" "$folder/partonfit/$(dirname "$part")/"
done
find "$folder/partonfit" \( -name __pycache__ -o -name '*.egg-info' -o -name '.pytest_cache' \) \
  -prune -exec rm -rf {} +
