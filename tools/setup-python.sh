# The project's Python environment, .venv/. Sourced by setup.sh.

# rpy2 (extra "r", for one test) compiles against R and Python's headers; all else is wheels.
PYTHON_EXTRAS="dev,report,theory"

setup_python() {
  make_venv
  local wanted
  wanted="$(hash_of python/pyproject.toml) $("$VENV/bin/python" -VV | tr '\n' ' ')"
  if stamp_is venv "$wanted" && environment_is_whole; then
    say "the Python environment is current"
    return
  fi
  say "installing the Python package and what it needs into .venv/"
  logged pip-upgrade "$VENV/bin/python" -m pip install --quiet --upgrade pip
  local extras="$PYTHON_EXTRAS"
  if ensure_python_headers; then
    extras="$extras,r"
  else
    say "no Python headers for $("$VENV/bin/python" -V): rpy2 is left out, and its test will be skipped"
  fi
  logged pip-install "$VENV/bin/python" -m pip install --editable "$ROOT/python[$extras]"
  stamp_set venv "$wanted"
}

environment_is_whole() {
  "$VENV/bin/python" -c '
import importlib.util, sys
sys.exit(any(importlib.util.find_spec(name) is None for name in ("jax", "keras", "pytest", "partonfit")))'
}

python_headers_found() {
  "$VENV/bin/python" -c '
import pathlib, sys, sysconfig
sys.exit(not (pathlib.Path(sysconfig.get_paths()["include"]) / "Python.h").exists())'
}

# Debian keeps the headers of its own Python in a package apart.
ensure_python_headers() {
  python_headers_found && return 0
  is_debian_root || return 1
  local name
  name="python$("$VENV/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-dev"
  say "installing with apt: $name"
  DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$name" \
    >"$STATE/logs/apt-headers.log" 2>&1 || return 1
  python_headers_found
}

# Keep an environment that works; replace one that does not (a moved interpreter, say).
make_venv() {
  if [ -x "$VENV/bin/python" ] && python_is_good "$VENV/bin/python"; then return; fi
  local python
  python=$(newest_python) || fail "no Python 3.11, 3.12 or 3.13 was found" \
    "install one (on Debian: apt-get install python3 python3-venv), then run this again"
  say "making .venv/ with $("$python" -V)"
  rm -rf "$VENV"
  if ! "$python" -m venv "$VENV" >/dev/null 2>&1; then
    # Debian splits the venv module off; as root we may add it.
    is_debian_root || fail "$python has no venv module" "on Debian: apt-get install python3-venv"
    logged apt-venv apt-get update
    DEBIAN_FRONTEND=noninteractive logged apt-venv \
      apt-get install --yes --no-install-recommends python3-venv
    rm -rf "$VENV"
    logged venv "$python" -m venv "$VENV"
  fi
}

python_is_good() {
  "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

# The newest suitable interpreter, pyenv's included; prints its real path.
newest_python() {
  local minor candidate
  for minor in 13 12 11; do
    for candidate in "$HOME"/.pyenv/versions/3."$minor".*/bin/python3 "python3.$minor" python3; do
      if { [ -x "$candidate" ] || have "$candidate"; } && is_minor "$candidate" "$minor"; then
        "$candidate" -c 'import sys; print(sys.executable)'
        return 0
      fi
    done
  done
  return 1
}

is_minor() { "$1" -c "import sys; sys.exit(sys.version_info[:2] != (3, $2))" 2>/dev/null; }
