#!/usr/bin/env bash
# Test the installation as an ordinary user would do it. The script runs a plain `pip install` (no -e, with pip's build
# isolation) of the source distribution in an environment with torch and fairseq-fixed, and then uses `--user-dir
# wean_fairseq` in another folder. It takes no arguments, and needs the .venv of scripts/setup.sh.
#
# The second environment contains the package and fairseq-fixed, which looks for a --user-dir next to itself. Everything
# else, including torch, is used from .venv.
set -euo pipefail

ROOT=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd -- "$ROOT"
readonly ROOT

TEMPORARY=$(mktemp -d)
readonly TEMPORARY
trap 'rm -rf -- "$TEMPORARY" "$ROOT/build"' EXIT

say() { printf '[wheel-check] %s\n' "$*"; }

say "installing a copy of wean_fairseq in a second environment (about 20 seconds)"
readonly PYTHON=$ROOT/.venv/bin/python
readonly OTHER=$TEMPORARY/venv
"$PYTHON" -m venv --without-pip "$OTHER"
rm -rf -- "$ROOT/build" # old build files would be included in this build
pip_install() { "$PYTHON" -m pip --python "$OTHER/bin/python" install --quiet --no-deps "$@"; }
pip_install --no-index --find-links "$ROOT/.venv/.setup/wheels" fairseq-fixed
"$PYTHON" -c 'import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])' "$TEMPORARY" >"$TEMPORARY/sdist.log"
pip_install "$TEMPORARY"/wean_fairseq-*.tar.gz

site_of() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
SITE=$(site_of "$OTHER/bin/python")
readonly SITE
site_of "$PYTHON" >"$SITE/borrowed.pth"

[[ -f $SITE/wean_fairseq/py.typed ]] || {
  say "error: the installed package must contain py.typed, but does not; see package_data in setup.py" >&2
  exit 1
}
for name in tests preprocess examples benchmarks scripts; do
  if [[ -e $SITE/$name ]]; then
    say "error: only wean_fairseq must be installed, but \`$name\` is as well; see find_packages in setup.py" >&2
    exit 1
  fi
done

say "loading it through --user-dir in another folder"
cd -- "$TEMPORARY"
quietly() { # quietly WHAT COMMAND...: show the output of a command only if it fails
  local what=$1
  shift
  "$@" >log 2>&1 || {
    tail -n 20 log >&2
    say "error: $what must work in any folder after \`pip install .\`, but failed in $TEMPORARY" >&2
    exit 1
  }
}
quietly "--user-dir wean_fairseq" "$OTHER/bin/python" - "$SITE" <<'END'
import argparse
import sys
from pathlib import Path

from fairseq import utils
from fairseq.models import ARCH_MODEL_REGISTRY

utils.import_user_module(argparse.Namespace(user_dir="wean_fairseq"))
package = Path(sys.modules["wean_fairseq"].__file__).resolve().parent
expected = Path(sys.argv[1]).resolve() / "wean_fairseq"
if package != expected:
    sys.exit(f"--user-dir must find {expected}, but found {package} instead")
archs = sorted(arch for arch, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith("wean_fairseq."))
if not archs:
    sys.exit("--user-dir wean_fairseq must register at least one arch, but registered none")
Path("archs.txt").write_text("\n".join(archs) + "\n")
END

say "training one update there with fairseq's own commands"
for split in train valid; do
  for side in src tgt; do
    printf 'a b c d\nb c d\nc d e f g\nd a\n' >"$split.$side"
  done
done
fairseq() { quietly "fairseq-$1" "$OTHER/bin/fairseq-$1" "${@:2}" --user-dir wean_fairseq; }
fairseq preprocess --source-lang src --target-lang tgt --trainpref train --validpref valid --joined-dictionary \
  --destdir data
fairseq train data --task paraphrase --arch wean_lstm --criterion query_embedding --optimizer adam --lr 0.001 \
  --max-tokens 100 --max-update 1 --no-save --cpu --seed 1
quietly "wean-report" "$OTHER/bin/wean-report" --help
[[ -f $SITE/wean_fairseq/evaluation/published/wean.toml ]] || {
  say "error: the published tables evaluation/published/*.toml are missing in the installed package" >&2
  exit 1
}
[[ -f $SITE/wean_fairseq/reporting/templates/report.html.j2 ]] || {
  say "error: the page's template reporting/templates/report.html.j2 is missing in the installed package" >&2
  exit 1
}
say "ok: found $(paste -sd ' ' archs.txt)"
