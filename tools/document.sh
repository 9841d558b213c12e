#!/usr/bin/env bash
# Write NAMESPACE and man/ from the comments in R/, then install the package anew.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
use_project_environment
cd "$ROOT"
Rscript --vanilla -e 'suppressMessages(roxygen2::roxygenise(".", load_code = roxygen2::load_source))'
bash tools/install-package.sh
