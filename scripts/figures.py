#!/usr/bin/env python3
"""Draw the validation curves of the documents: results/<experiment>.curves.tsv -> docs/images/<experiment>_curves.png.

python scripts/figures.py [EXPERIMENT...]     # default: all that have curves
"""

import argparse
import csv
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from wean_fairseq.errors import UserError  # noqa: E402 - after adding the project's root to the path
from wean_fairseq.evaluation.training_log import LogLine, TrainingLog  # noqa: E402
from wean_fairseq.reporting import curves  # noqa: E402

SUFFIX = ".curves.tsv"
_FIXED = ("seed", "system", "epoch", "updates")


def read_curves(path: Path) -> tuple[list[TrainingLog], list[str]]:
    """Return the trainings of a table of ``wean-evaluate record --curves``, and its metrics."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t")
        rows = list(reader)
    metrics = [name for name in reader.fieldnames or () if name not in _FIXED]
    seeds = {row["seed"] for row in rows}
    trainings: dict[str, TrainingLog] = {}
    for row in rows:
        name = row["system"] + (f", seed {row['seed']}" if len(seeds) > 1 else "")
        values = {metric: float(row[metric]) for metric in metrics if row[metric]}
        line = LogLine("valid", float(row["epoch"]), {**values, "num_updates": float(row["updates"])})
        trainings.setdefault(name, TrainingLog(name, str(path))).valid.append(line)
    return list(trainings.values()), metrics


def draw(root: Path, experiments: Iterable[str]) -> list[Path]:
    """Draw the curves of experiments. Return the pictures."""
    pictures = []
    for experiment in experiments:
        path = root / "results" / f"{experiment}{SUFFIX}"
        if not path.is_file():
            raise UserError(f"{path} does not exist; record it with wean-evaluate record --curves.")
        picture = root / "docs" / "images" / f"{experiment}_curves.png"
        picture.parent.mkdir(parents=True, exist_ok=True)
        figure = curves.draw_curves(*read_curves(path))
        figure.suptitle(experiment)
        figure.savefig(picture, dpi=100)
        pictures.append(picture)
    return pictures


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("experiments", nargs="*", help="names of result files (default: all that have curves)")
    args = parser.parse_args(arguments)
    known = sorted(path.name.removesuffix(SUFFIX) for path in (ROOT / "results").glob(f"*{SUFFIX}"))
    try:
        for picture in draw(ROOT, args.experiments or known):
            print(f"drew {picture.relative_to(ROOT)}")
    except UserError as error:
        print(f"figures: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
