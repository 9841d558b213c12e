# The project's Python environment, .venv/. Sourced by setup.sh.

PYTHON_EXTRAS="dev,report,theory,r"

setup_python() {
  make_venv
  local wanted
  wanted="$(hash_of python/pyproject.toml) $("$VENV/bin/python" -VV | tr '\n' ' ')"
  if stamp_is venv "$wanted" && "$VENV/bin/python" -c 'import jax, keras, partonfit' 2>/dev/null; then
    say "the Python environment is current"
    return
  fi
  say "installing the Python package and what it needs into .venv/"
  logged pip-upgrade "$VENV/bin/python" -m pip install --quiet --upgrade pip
  # rpy2 compiles against R and wants it on the path; everything else is wheels.
  logged pip-install "$VENV/bin/python" -m pip install --editable "$ROOT/python[$PYTHON_EXTRAS]"
  stamp_set venv "$wanted"
}

# Keep an environment that works; replace one that does not (a moved interpreter, say).
make_venv() {
  if [ -x "$VENV/bin/python" ] && python_is_good "$VENV/bin/python"; then return; fi
  local python
  python=$(newest_python) || fail "no Python 3.11, 3.12 or 3.13 was found" \
    "install one (on Debian: apt-get install python3 python3-venv), then run this again"
  say "making .venv/ with $("$python" -V)"
  rm -rf "$VENV"
  if ! "$python" -m venv "$VENV" 2>/dev/null; then
    # Debian splits the venv module off; as root we may add it.
    is_debian_root || fail "$python has no venv module" "on Debian: apt-get install python3-venv"
    logged apt-venv apt-get update
    DEBIAN_FRONTEND=noninteractive logged apt-venv \
      apt-get install --yes --no-install-recommends python3-venv python3-dev
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
