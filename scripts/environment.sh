# To be sourced, after again.sh.
#
# environment DIR LIST [MODULE]: makes the Python environment DIR with the packages of LIST. It is up
# to date if and only if its stamp DIR.built, which is written last, names the same list and Python.
# With MODULE, this module must be importable.
environment() {
  local stamp
  stamp="$(python3 -c 'import sys; print(sys.version)') $(cksum <"$2")"
  [ "$(cat "$1.built" 2>/dev/null)" != "$stamp" ] || return 0
  rm -rf "$1" "$1.built"
  python3 -m venv "$1"
  again "$1/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: -r "$2"
  [ -z "${3:-}" ] || "$1/bin/python" -c "import $3" >/dev/null
  echo "$stamp" >"$1.built"
}
