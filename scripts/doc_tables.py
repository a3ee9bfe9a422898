#!/usr/bin/env python3
"""Write the generated tables of the documents. With --check, only compare them with the documents.

docs/systems.toml lists the systems. Their scores are in results/, and the metrics and presets in
wean_fairseq.evaluation. All other tables are created from the code by doc_sources.py.
"""

import argparse
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import doc_sources
from page_block import table, update_block

from wean_fairseq.evaluation.metrics.registry import METRICS
from wean_fairseq.evaluation.presets import METRIC_PRESETS

ROOT = Path(__file__).resolve().parents[1]
COPY = "copy-source"
ARROWS = {"higher": "↑", "lower": "↓", None: ""}


def scores_of(result: str) -> dict[str, dict[str, Any]]:
    """Return the scores of a result file by system and metric."""
    content = json.loads((ROOT / "results" / f"{result}.json").read_text(encoding="utf-8"))
    scores: dict[str, dict[str, Any]] = content["evaluation"]["systems"]
    return scores


def score(scores: dict[str, Any], metric: str) -> float:
    """Return the score of a metric, which may belong to a preset of the paper."""
    names = [name for name in scores if name == metric or name.endswith(f"/{metric}")]
    return float(scores[names[0]]["score"])


def systems(content: dict[str, Any], examples: str) -> list[list[str]]:
    """Return the first cells of each system's row: its task, name, archs and recipe."""
    return [
        [
            system["task"],
            f"[{system['name']}]({system['url']})",
            ", ".join(f"`{arch}`" for arch in system["archs"]),
            f"[{Path(system['recipe']).name}]({examples}/{system['recipe']})",
        ]
        for system in content["system"]
    ]


def measured(entry: dict[str, Any]) -> list[str]:
    """Return a row of measured scores: data, metric, scores of the systems and of a copy of the source, and file."""
    scores, metric = scores_of(entry["result"]), entry["metric"]
    shown = [f"`{name}` {score(scores[name], metric):.2f}" for name in entry["systems"]]
    copy = f"{score(scores[COPY], metric):.2f}" if COPY in scores else ""
    label = METRICS[metric].label if metric in METRICS else metric.partition("/")[2]
    path = f"results/{entry['result']}.json"
    return [entry["on"], label, ", ".join(shown), copy, f"[`{path}`](../{path})"]


def readme_systems(content: dict[str, Any]) -> str:
    """Return the table of systems for the README."""
    return table(["Task", "System", "`--arch`", "Recipe"], systems(content, "examples"))


def page_of_systems(content: dict[str, Any]) -> str:
    """Return the tables of docs/systems.md: the systems of each task, and the scores that were measured."""
    rows: dict[str, list[list[str]]] = {}
    for (task, *cells), system in zip(systems(content, "../examples"), content["system"], strict=True):
        rows.setdefault(task, []).append([*cells, system["idea"], system["published"]])
    head = ["system", "`--arch`", "recipe", "idea", "published"]
    parts = [f"## {task}\n\n{table(head, found)}\n" for task, found in rows.items()]
    scores = [measured(entry) for system in content["system"] for entry in system["measured"]]
    return "".join([*parts, "## Measured here\n\n", table(["data", "metric", "scores", "copy", "file"], scores)])


def readme_scores(content: dict[str, Any]) -> str:
    """Return the table of scores for the README."""
    rows = []
    for entry in content["score"]:
        scores, file = scores_of(entry["result"]), f"[file](results/{entry['result']}.json)"
        for system, name in entry["systems"].items():
            numbers = [f"{score(scores[system], metric):.1f}" for metric in ("bleu", "sari", "copy-rate")]
            rows.append([entry["pairs"], name, *numbers, file])
    return table(["Pairs", "System", "BLEU ↑", "SARI ↑", "Copied %", "Source"], rows)


def metrics(_content: dict[str, Any]) -> str:
    """Return the table of all metrics."""
    rows = [
        [f"`{name}`", entry.label, ARROWS[entry.direction()], entry.help, "yes" if entry.standard else ""]
        for name, entry in METRICS.items()
    ]
    return table(["`--metric`", "column", "better", "definition", "in `standard`"], rows)


def presets(_content: dict[str, Any]) -> str:
    """Return the table of the papers' presets."""
    return table(
        ["`--preset`", "table", "protocol"],
        [[f"`{name}`", preset.source, preset.note] for name, preset in METRIC_PRESETS.items() if preset.source],
    )


BLOCKS = {
    ("README.md", "systems"): readme_systems,
    ("README.md", "scores"): readme_scores,
    ("docs/systems.md", "systems"): page_of_systems,
    ("docs/metrics.md", "metrics"): metrics,
    ("docs/metrics.md", "presets"): presets,
    ("docs/citation.md", "citations"): doc_sources.citations,
    ("docs/results.md", "speed"): doc_sources.speed,
    ("docs/commands.md", "commands"): doc_sources.commands,
    ("docs/options.md", "options"): doc_sources.options,
    ("docs/recipes.md", "recipes"): doc_sources.recipes,
    ("docs/architecture.md", "parts"): doc_sources.parts,
    ("docs/api.md", "api"): doc_sources.api,
    ("docs/own_pairs.md", "variables"): doc_sources.variables("own_pairs.sh"),
    ("benchmarks/README.md", "benchmarks"): doc_sources.benchmarks,
    ("preprocess/README.md", "scripts"): doc_sources.scripts,
    ("examples/README.md", "variables"): doc_sources.variables("lib/recipe.sh"),
    ("examples/granularity_transformer/README.md", "variables"): doc_sources.variables(
        "granularity_transformer/systems.sh"
    ),
    ("examples/nts/README.md", "variables"): doc_sources.variables("nts/systems.sh"),
    ("examples/pc_san/README.md", "variables"): doc_sources.variables("pc_san/essays.sh"),
}


def main(arguments: list[str] | None = None) -> int:
    """Write or check the tables. Return the exit status."""
    parser = argparse.ArgumentParser(description="Write the generated tables of the documents.")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if a page differs")
    args = parser.parse_args(arguments)
    content = tomllib.loads((ROOT / "docs" / "systems.toml").read_text(encoding="utf-8"))
    stale = []
    for (page, name), write in BLOCKS.items():
        markers = (f"<!-- {name}: scripts/doc_tables.py -->\n", f"<!-- end of {name} -->\n")
        if not update_block(ROOT / page, markers, f"\n{write(content)}\n", check=args.check):
            stale.append(page)
    if stale and args.check:
        print(f"doc_tables: {', '.join(stale)}: run python scripts/doc_tables.py", file=sys.stderr)
    return int(bool(stale) and args.check)


if __name__ == "__main__":
    sys.exit(main())
