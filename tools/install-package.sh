#!/usr/bin/env bash
# Install the R package, with its bundled core, into .rlib/ when any of its files changed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

wanted=$(hash_of DESCRIPTION NAMESPACE R man python/src)
if stamp_is package "$wanted" && [ -f "$RLIB/partonfit/DESCRIPTION" ]; then
  say "the R package is current"
  exit 0
fi
say "installing the R package into .rlib/"
mkdir -p "$RLIB"
bash "$ROOT/tools/stage-package.sh" "$STATE/stage"
logged r-install R CMD INSTALL --no-test-load --library="$RLIB" "$STATE/stage/partonfit"
rm -rf "$STATE/stage"
stamp_set package "$wanted"
