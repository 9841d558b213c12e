# Shared by every script in tools/: where things live, and how to say what happens.
# Source it; it changes nothing by itself.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
STATE="$ROOT/.setup"          # stamps, logs, the private apt state (ignored by git)
VENV="$ROOT/.venv"            # the project's Python
RLIB="$ROOT/.rlib"            # the project's R library
RETICULATE_MINIMUM="1.41"     # the first version that knows NumPy 2 and py_require()

say() { printf '%s\n' "-- $*"; }

fail() {
  printf '%s\n' "error: $1" >&2
  shift
  for line in "$@"; do printf '%s\n' "       $line" >&2; done
  exit 1
}

# One hash over the contents (and names) of the files and folders given.
hash_of() {
  (cd "$ROOT" && { find "$@" -type f ! -path '*/__pycache__/*' ! -path '*.egg-info/*' -print0 2>/dev/null || true; } |
    LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
}

# A step is skipped when its stamp holds the hash of what it was made from.
stamp_is() { [ -f "$STATE/$1.stamp" ] && [ "$(cat "$STATE/$1.stamp")" = "$2" ]; }

stamp_set() { mkdir -p "$STATE" && printf '%s\n' "$2" >"$STATE/$1.stamp"; }

# Run a noisy command with its output in a log; show the end of the log when it fails.
logged() {
  local log="$STATE/logs/$1.log"
  shift
  mkdir -p "$STATE/logs"
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    fail "'$*' failed; the whole log is in ${log#"$ROOT"/}"
  fi
}

have() { command -v "$1" >/dev/null 2>&1; }

is_debian_root() { [ "$(id -u)" = 0 ] && have apt-get && [ -f /etc/debian_version ]; }

# What R and Python need to find each other; every script that runs either calls this.
use_project_environment() {
  export R_LIBS="$RLIB${R_LIBS:+:$R_LIBS}"
  export RETICULATE_PYTHON="$VENV/bin/python"
  export PARTONFIT_PYTHON="$VENV/bin/python"
  export KERAS_BACKEND=jax
  # Debian's R and a pip NumPy each bring a BLAS; oversubscribing the cores helps neither.
  export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
}
