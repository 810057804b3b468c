#!/usr/bin/env bash
# Makes a fresh TPU VM ready to train; scripts/tpu.sh setup runs it on every worker.
#
# The image has Python 3.10, and JAX needs 3.11. uv installs it, and pip installs uv: that needs
# neither root nor apt, which is locked for minutes on a VM that has just started. All workers get
# the same minor version, the one that constraints.txt was made for.
set -euo pipefail

uv_version=0.13.8
python_version=3.11
attempts=5

usage() {
  cat <<'END'
scripts/tpu_setup.sh
  Installs Python 3.11 and the packages pinned in constraints.txt into .venv of this checkout. It
  asks nothing and needs no root. A second run ends at once; after an interruption it starts over.
  Its last line has the versions, the git revision and the number of TPU devices of this host.
END
}

say() { echo "$HOSTNAME: $*"; }
fail() {
  echo "$HOSTNAME: $*" >&2
  exit 1
}

[[ ${1:-} != --help ]] || { usage && exit; }
(($# == 0)) || fail "tpu_setup.sh takes no arguments, not '$*'"
CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/.."

uv=.cache/uv/bin/uv
python=.venv/bin/python
stamp=.venv/.with-tpu # make's own stamp, so that `make train` installs nothing here

install_uv() {
  [[ $("$uv" --version 2>/dev/null) == "uv $uv_version"* ]] ||
    python3 -m pip install --quiet --disable-pip-version-check --no-input --upgrade \
      --target .cache/uv "uv==$uv_version"
}

make_environment() { "$uv" venv --quiet --clear --seed --python "$python_version" .venv; }

install_packages() {
  "$uv" pip install --quiet --python "$python" --constraint constraints.txt --editable '.[tpu,gcp]'
}

# Downloads fail now and then, and more often on many workers at once.
retry() {
  local attempt pause=2
  for ((attempt = 1; attempt < attempts; attempt++)); do
    ! "$@" || return 0
    say "$1 failed; trying again in $pause s"
    sleep "$pause"
    pause=$((pause * 3))
  done
  "$@" || fail "$1 failed $attempts times; the lines above say why"
}

versions() { "$python" -c 'import platform, sys
from importlib.metadata import version
found = [f"{name} {version(name)}" for name in sys.argv[1:]]
print(f"Python {platform.python_version()}", *found, sep=", ")' \
  jax jaxlib libtpu flax orbax-checkpoint; }

# Counts device files: JAX would wait for all workers, and cannot be asked while a run has the TPU.
tpu_devices() {
  { compgen -G "${TPU_ROOT:-}/dev/accel[0-9]*" || compgen -G "${TPU_ROOT:-}/dev/vfio/[0-9]*"; } |
    wc -l
}

wanted=$(sha256sum pyproject.toml constraints.txt scripts/tpu_setup.sh)
if [[ $(cat "$stamp" 2>/dev/null) != "$wanted" ]] || ! versions >/dev/null 2>&1; then
  rm -f "$stamp"
  say "installing uv $uv_version"
  retry install_uv
  say "installing Python $python_version"
  retry make_environment
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "uv made an environment of $("$python" --version), but 3.11 is needed"
  say "installing packages"
  retry install_packages
  echo "$wanted" >"$stamp"
fi

versions=$(versions)
say "$versions, revision $(git describe --always --dirty --exclude='*'), $(tpu_devices) TPU devices"
