#!/usr/bin/env bash
# Create or reuse .venv with everything that the quickstart, the tests and the linters need. The script takes no
# arguments.
#
#   PYTHON=/path/to/python3.11   the Python to use (default: the first supported one on PATH)
#   PIP_EXTRA_INDEX_URL, ...     pip's own variables and configuration are respected
#
# The script has four steps. Each step writes a stamp to .venv/.setup when it is complete, with a checksum of its
# inputs, so that a second run skips it. While a step changes .venv, the file .venv/.setup/unfinished exists. If it
# exists at the start, a step was interrupted, and .venv is created from scratch, including the download of torch.
set -euo pipefail
# Ctrl-C must end the script instead of continuing after a half-done step. The next run detects unfinished steps.
trap 'exit 130' INT
trap 'exit 143' TERM

ROOT=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd -- "$ROOT"
readonly ROOT
readonly VENV=.venv
readonly STATE=$VENV/.setup
LOG=$VENV/setup.log
readonly VENV_PYTHON=$VENV/bin/python
readonly EXTRAS=dev,meteor,zh,bert,vectors,inspect,fkgl,tensorboard
readonly SUPPORTED="3.11 3.12 3.13"

say() { printf '[setup%s] %s\n' "${STEP:+ $STEP/4}" "$*"; }

die() {
  printf '[setup] error: %s\n' "$*" >&2
  exit 1
}

# --- which Python, which tools --------------------------------------------------------------------------------------

python_version() { "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null; }

is_supported() { [[ " $SUPPORTED " == *" ${1%.*} "* ]]; }

find_python() {
  local candidate version seen=""
  if [[ -n "${PYTHON:-}" ]]; then
    version=$(python_version "$PYTHON") ||
      die "PYTHON must be a Python interpreter, but \`$PYTHON\` does not run; give the path of a Python 3.11."
    is_supported "$version" ||
      die "Python must be one of ${SUPPORTED// /, }, but PYTHON=$PYTHON is $version; give the path of a supported one."
    printf '%s\n' "$PYTHON"
    return
  fi
  for candidate in python3.11 python3.12 python3.13 python3 python; do
    # If a Python on PATH does not run, such as a shim of a version manager, the next one is tried.
    version=$(python_version "$candidate") || continue
    if is_supported "$version"; then
      printf '%s\n' "$candidate"
      return
    fi
    seen+="${seen:+, }$candidate is $version"
  done
  die "Python must be one of ${SUPPORTED// /, }, but ${seen:-there is no python3 on PATH}; install Python 3.11 or" \
    "give its path: make quickstart PYTHON=/path/to/python3.11"
}

check_tools() {
  local python=$1 compiler="" name
  "$python" -c 'import venv, ensurepip' 2>/dev/null ||
    die "\`$python\` must be able to make virtual environments, but its venv or ensurepip module is missing; install" \
      "it (Debian, Ubuntu: apt-get install python3-venv)."
  for name in "${CXX:-}" g++ c++ clang++; do
    # CXX may contain flags after the name of the compiler.
    if [[ -n "$name" ]] && command -v "${name%% *}" >/dev/null; then
      compiler=$name
      break
    fi
  done
  [[ -n "$compiler" ]] ||
    die "fairseq-fixed is built from source and needs a C++ compiler, but there is no g++, c++ or clang++ on PATH;" \
      "install one (Debian, Ubuntu: apt-get install g++) or name it in CXX."
  "$python" -c '
import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
    die "fairseq-fixed is built from source and needs the C headers of \`$python\`, but Python.h is missing; install" \
      "it (Debian, Ubuntu: apt-get install python3-dev)."
}

# --- stamps ---------------------------------------------------------------------------------------------------------

# The following functions print checksums of the inputs of a step. Torch and the build of fairseq-fixed depend only on
# their pins, and the last step depends on three files.
pins_key() { grep -E '^(pip|torch|numpy|cython|setuptools|wheel|fairseq-fixed)==' constraints.txt | cksum; }
full_key() { cat constraints.txt setup.py scripts/setup.sh | cksum; }

is_done() { [[ -f $STATE/$1.done && $(<"$STATE/$1.done") == "$2" ]]; } # is_done <step> <key>

mark_done() { printf '%s\n' "$2" >"$STATE/$1.done"; } # mark_done <step> <key>

# If a pin has changed, the packages are only updated. A new .venv is needed after an interrupted step, for a broken
# interpreter, or if the tree was moved, because the programs in .venv/bin contain its path.
discard_unusable_venv() {
  local reason="" made_with
  [[ -e $VENV ]] || return 0
  if [[ ! -d $STATE ]]; then
    if [[ -f $VENV/pyvenv.cfg ]] && is_supported "$(python_version "$VENV_PYTHON" || true)"; then
      return 0 # a usable .venv that was created by hand is kept
    fi
    die "$VENV must be a virtual environment of a supported Python (${SUPPORTED// /, }), but is not, and this script" \
      "did not make it; move it away and run again."
  fi
  if [[ -e $STATE/unfinished ]]; then
    reason="an earlier set-up was interrupted"
  elif [[ ! -e $STATE/venv.done ]]; then
    return 0 # no .venv yet
  elif ! is_done venv "$ROOT"; then
    reason="it was made in another folder"
  elif ! made_with=$(python_version "$VENV_PYTHON"); then
    reason="its Python does not run any more"
  elif [[ -n "${PYTHON:-}" && $(python_version "$PYTHON" || true) != "$made_with" ]]; then
    find_python >/dev/null # fail before a good .venv is removed if PYTHON is unusable
    reason="it has Python $made_with, and PYTHON names another version"
  fi
  if [[ -n "$reason" ]]; then
    say "making $VENV from scratch: $reason"
    rm -rf -- "$VENV"
  fi
}

# --- the steps ------------------------------------------------------------------------------------------------------

# run WHAT COMMAND...: run a command, and write its output to the log. If it fails, print one sentence and the end of
# the log.
run() {
  local what=$1 end
  shift
  printf '\n$ %s\n' "$*" >>"$LOG"
  "$@" >>"$LOG" 2>&1 && return
  end=$(tail -n 60 "$LOG")
  printf '%s\n' "--- the end of $LOG:" >&2
  tail -n 15 "$LOG" >&2
  case $end in
    *"No space left"*)
      die "$what failed: the disk is full; make room (about 3 GB, or 10 GB with CUDA) and run again (log: $LOG)."
      ;;
    *NewConnectionError* | *ConnectTimeout* | *"timed out"* | *"name resolution"* | *ProxyError* | \
      *"No matching distribution"*)
      die "$what failed: pip could not get a package from its index; check the connection, the proxy and what" \
        "\`pip config list\` says, then run again (log: $LOG)."
      ;;
    *)
      die "$what failed; the reason is in $LOG. Fix it and run again: complete steps are kept."
      ;;
  esac
}

# pip_install <what> <arguments...>: run pip, which must not be interrupted because it changes .venv. It writes no
# bytecode, because pip would compile five times as much as is ever imported.
pip_install() {
  local what=$1
  shift
  : >"$STATE/unfinished"
  run "$what" "$VENV_PYTHON" -m pip install --no-compile -c constraints.txt "$@"
  rm -f -- "$STATE/unfinished"
}

# Without an NVIDIA GPU the default Linux build of torch would download gigabytes of unused CUDA packages. If users have
# configured pip (an index, a mirror, a folder of wheels), their configuration is used.
cpu_index() {
  local configured
  [[ $(uname -s) == Linux ]] || return 0
  if command -v nvidia-smi >/dev/null; then return 0; fi
  configured=$("$VENV_PYTHON" -m pip config list 2>/dev/null) || configured=""
  case $configured in
    *index-url* | *find-links* | *no-index*) ;;
    *) printf '%s\n' "--extra-index-url=https://download.pytorch.org/whl/cpu" ;;
  esac
}

make_venv() {
  STEP=1
  if is_done venv "$ROOT"; then return; fi
  local python
  # discard_unusable_venv has kept an existing .venv, so its Python is used instead of a Python on PATH.
  if [[ -x $VENV_PYTHON ]]; then python=$VENV_PYTHON; else python=$(find_python); fi
  check_tools "$python"
  mkdir -p -- "$STATE"
  if [[ ! -x $VENV_PYTHON ]]; then
    say "making $VENV with Python $(python_version "$python") (a few seconds; log: $LOG)"
    : >"$STATE/unfinished"
    run "making $VENV" "$python" -m venv "$VENV"
    rm -f -- "$STATE/unfinished"
  fi
  mark_done venv "$ROOT"
}

install_torch() {
  STEP=2
  if is_done torch "$PINS"; then return; fi
  local index which
  which=torch$(sed -n 's/^torch==/ /p' constraints.txt)
  index=$(cpu_index)
  if [[ -n "$index" ]]; then which+=" without CUDA (no NVIDIA GPU found)"; fi
  say "installing $which and the build tools (about a minute, more on a slow line; log: $LOG)"
  pip_install "installing pip" pip # the pip bundled with Python takes twice as long for the rest
  pip_install "installing torch" ${index:+"$index"} torch numpy cython setuptools wheel
  mark_done torch "$PINS"
}

# Most of the build time is spent on three extensions of PyTorch that are never used here, so they are compiled without
# optimisation and debug symbols. The extensions in use (data_utils_fast, token_block_utils_fast, libbleu) set -O3
# themselves, later on the compiler's command line.
readonly BUILD_FLAGS="-DNDEBUG -fwrapv -O0 -g0"

# All extensions are built in parallel. PyTorch's builder must not find ninja in this case, because all extensions would
# overwrite the same build file in a shared folder.
fast_build() {
  rm -rf -- "$STATE/build"
  mkdir -p -- "$STATE/build"
  printf '[build_ext]\nparallel = 6\n' >"$STATE/build/setup.cfg"
  printf '#!/bin/sh\nexit 1\n' >"$STATE/build/ninja"
  chmod +x "$STATE/build/ninja"
}

build_fairseq() {
  local LOG=$VENV/build.log
  : >"$LOG"
  rm -rf -- "$STATE/wheels"
  fast_build
  # Build isolation is off, because it would download the newest torch with all CUDA packages only for the build.
  # CUDA_HOME is unset, because with it the build looks for CUDA sources that the release does not contain.
  run "building fairseq-fixed" env -u CUDA_HOME PATH="$PWD/$STATE/build:$PATH" \
    CFLAGS="$BUILD_FLAGS ${CFLAGS:-}" CXXFLAGS="$BUILD_FLAGS ${CXXFLAGS:-}" DIST_EXTRA_CONFIG="$PWD/$STATE/build/setup.cfg" \
    "$VENV_PYTHON" -m pip wheel --no-deps --no-build-isolation -c constraints.txt -w "$STATE/wheels" fairseq-fixed
}

# Write the requirements of setup.py, one per line, without fairseq-fixed.
readonly LIST_LIBRARIES='
import sys
import setuptools
from distutils.core import run_setup
from pathlib import Path

project, extras = run_setup("setup.py", stop_after="init"), sys.argv[1].split(",")
needed = [*project.install_requires, *(name for extra in extras for name in project.extras_require[extra])]
Path(sys.argv[2]).write_text("".join(f"{name}\n" for name in needed if not name.startswith("fairseq-fixed")))
'

# The build runs in the background, so that the libraries are installed while it leaves a processor idle. It has a
# separate process group, and ends with this script, unless the script is killed with -9. In that case, the build holds
# the lock until its end, and the next set-up waits for it.
build_and_install_libraries() {
  STEP=3
  if is_done fairseq "$PINS"; then return; fi
  say "building fairseq-fixed from source and installing libraries meanwhile (two minutes; logs: $LOG, $VENV/build.log)"
  local build
  set -m
  build_fairseq </dev/null &
  build=$!
  set +m
  trap 'kill -- -'"$build"' 2>/dev/null || true' EXIT
  run "reading setup.py" "$VENV_PYTHON" -W ignore -c "$LIST_LIBRARIES" "$EXTRAS" "$STATE/libraries"
  pip_install "installing the libraries" --no-build-isolation -r "$STATE/libraries"
  say "waiting for the build"
  wait "$build" || exit 1 # the build has already printed its error
  trap - EXIT
  mark_done fairseq "$PINS"
}

# fairseq looks for `--user-dir wean_fairseq` in the current folder, and then among the packages, where development mode
# creates no folder of that name. Therefore a link is added. pip finds it in its list of files, and removes it with the
# rest.
readonly LINK_PLUGIN='
import sys
from importlib.metadata import distribution
from pathlib import Path

plugin = distribution("wean-fairseq")
link = Path(plugin.locate_file("wean_fairseq"))
link.unlink(missing_ok=True)
link.symlink_to(sys.argv[1])
record = next(file for file in plugin.files if file.name == "RECORD")
with record.locate().open("a") as file:
    file.write("wean_fairseq,,\n")
'

readonly IMPORT_COMMANDS='
import torch._dynamo, fairseq_cli.preprocess, fairseq_cli.train, fairseq_cli.generate
import wean_fairseq.models, wean_fairseq.tasks, wean_fairseq.evaluation.cli, wean_fairseq.reporting.report_cli
'

# fairseq requires torchaudio and imports it only for speech. The torchaudio on PyPI needs the CUDA libraries. If
# torchaudio cannot be loaded with a torch without CUDA, its modules are removed, because transformers would import it
# for every sequence-to-sequence model and fail. The metadata stays for `pip check`.
readonly REMOVE_BROKEN_TORCHAUDIO='
import shutil
from importlib.metadata import distribution

try:
    import torchaudio
except (ImportError, OSError, RuntimeError):
    shutil.rmtree(distribution("torchaudio").locate_file("torchaudio"), ignore_errors=True)
'

install_plugin() {
  STEP=4
  if is_done plugin "$FULL"; then return; fi
  say "installing fairseq-fixed with what it needs, and wean_fairseq in development mode (half a minute; log: $LOG)"
  pip_install "installing wean_fairseq" --no-build-isolation --find-links "$STATE/wheels" -e ".[$EXTRAS]"
  run "linking wean_fairseq" "$VENV_PYTHON" -I -c "$LINK_PLUGIN" "$ROOT/wean_fairseq"
  run "checking torchaudio" "$VENV_PYTHON" -I -c "$REMOVE_BROKEN_TORCHAUDIO"
  # Compile bytecode of the imported modules even if the environment forbids to write bytecode.
  run "starting the installed commands" env -u PYTHONDONTWRITEBYTECODE "$VENV_PYTHON" -W ignore -c "$IMPORT_COMMANDS"
  mark_done plugin "$FULL"
}

main() {
  local PINS FULL STEP="" started=$SECONDS
  # Only one set-up runs at a time. A second one waits for this lock (if flock exists) and then finds everything done.
  exec 9<scripts/setup.sh
  if command -v flock >/dev/null && ! flock -n 9; then
    say "waiting for another set-up to finish"
    flock 9
  fi
  export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
  PINS=$(pins_key)
  FULL=$(full_key)
  discard_unusable_venv
  if is_done plugin "$FULL"; then return; fi
  make_venv
  install_torch
  build_and_install_libraries
  install_plugin
  STEP=""
  say "ready after $((SECONDS - started)) s"
}

main
