#!/usr/bin/env bash
# The main job through R: 100 replicas on the HERA data. Results in demo/ (ignored by git).
# PARTONFIT_DEMO_REPLICAS and PARTONFIT_DEMO_EPOCHS make a quick trial.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
use_project_environment
cd "$ROOT"
exec Rscript --vanilla tools/demo.R
