#!/usr/bin/env bash
# R CMD build and R CMD check on the package as it would be shipped.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
use_project_environment
folder="$STATE/check"
bash "$ROOT/tools/stage-package.sh" "$folder"
cd "$folder"
R CMD build partonfit
_R_CHECK_FORCE_SUGGESTS_=false R CMD check --no-manual partonfit_*.tar.gz
