#!/usr/bin/env bash
# Set up everything that `make demo` and `make test` need, and nothing twice.
#
# As root on Debian: installs R and the R packages with apt, builds a current reticulate where
# Debian's is too old, makes .venv/ and .rlib/. Anywhere else: uses the R, reticulate and Python
# it finds, and says exactly what is missing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$ROOT/tools/setup-r.sh"
. "$ROOT/tools/setup-python.sh"

started=$SECONDS
mkdir -p "$STATE" "$RLIB"
setup_r
setup_python
use_project_environment
bash "$ROOT/tools/install-package.sh"
say "set-up done in $((SECONDS - started)) s"
