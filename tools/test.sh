#!/usr/bin/env bash
# Run the parts named (lint, python, r), all of them even when one fails, and fail if any did.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
use_project_environment
cd "$ROOT" || exit 1
failed=()

step() {
  local name=$1 started=$SECONDS
  shift
  say "$name"
  "$@" || failed+=("$name")
  say "$name took $((SECONDS - started)) s"
}

lint() {
  step "ruff check" "$VENV/bin/ruff" check --config python/pyproject.toml python/src tests/python
  step "ruff format" "$VENV/bin/ruff" format --check --config python/pyproject.toml python/src tests/python
  step "pyright" "$VENV/bin/pyright" --project python/pyproject.toml
  step "lintr" Rscript --vanilla tools/lint.R
}

python_tests() {
  # -n: the engine compiles on one core while another test computes; results do not depend on it.
  step "pytest" "$VENV/bin/python" -m pytest -c python/pyproject.toml --rootdir "$ROOT" \
    -q -n "${PARTONFIT_TEST_WORKERS:-2}" --durations=15 tests/python
}

r_tests() {
  # Each in a process of its own, as R CMD build does: some set up devices, which comes first in a session.
  for page in vignettes/*.Rmd; do
    step "$page" Rscript --vanilla -e "rmarkdown::render('$page', quiet = TRUE, output_dir = '.setup/vignette',
      intermediates_dir = '.setup/vignette', envir = new.env())"
  done
  # Last, so that the log ends in its count.
  step "testthat" Rscript --vanilla tools/test.R
}

for part in "$@"; do
  case "$part" in
    lint) lint ;;
    python) python_tests ;;
    r) r_tests ;;
    *) fail "unknown part '$part'" "known: lint, python, r" ;;
  esac
done

if [ "${#failed[@]}" -gt 0 ]; then
  printf -v list '%s, ' "${failed[@]}"
  fail "failed: ${list%, }"
fi
