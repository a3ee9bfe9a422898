#!/usr/bin/env python3
"""Write docs/replication.md.

The verdict on every claim in docs/replication.toml follows from the numbers in results/ and benchmarks/results/.

python scripts/replication.py             # after a new result
python scripts/replication.py --check     # change nothing, fail if the page is out of date; `make lint` runs it
python scripts/replication.py --counts    # print the numbers of verdicts, write nothing
"""

import argparse
import csv
import html
import json
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import verdicts  # noqa: E402 - after adding the project's folders to the path
from verdicts import Measured, Outcome  # noqa: E402

from wean_fairseq.errors import UserError  # noqa: E402
from wean_fairseq.evaluation.parameters import count_parameters  # noqa: E402
from wean_fairseq.evaluation.score_file import SIGNIFICANT  # noqa: E402
from wean_fairseq.evaluation.significance import holm  # noqa: E402

CLAIMS = ROOT / "docs" / "replication.toml"
PAGE = ROOT / "docs" / "replication.md"
SIGNS = dict(zip(verdicts.VERDICTS, "🟩🟨🟦🟥⬜⬛🔲", strict=True))
OWN = "own"
_CLAIM_KEYS = ("paper", "text", "metrics", "why", "cannot", "run", "proxy", "margin", "compare")
_COMPARISON_KEYS = (
    *("result", "above", "below", "published", "published_percent", "group", "below_result", "below_published"),
    *("unequal", "metric", "than", "training", "times", "granularity", "benchmark", "value", "at_most"),
    *("words", "width"),
)


def check_claims(content: dict[str, Any]) -> None:
    """Reject a file of claims with a misspelt key, or with a name that is not defined in the file.

    Raises:
        UserError: if a claim is invalid. The message names the claim.
    """
    papers = [paper["name"] for paper in content["paper"]]
    for claim in [*content["claim"], *({"paper": OWN, **question} for question in content["question"])]:
        comparisons = claim.get("compare", [])
        used = [(claim, _CLAIM_KEYS), *((item, _COMPARISON_KEYS) for item in comparisons)]
        unknown = [key for entry, known in used for key in entry if key not in known]
        reason = f"unknown key {', '.join(unknown)}" if unknown else ""
        if claim["paper"] not in [*papers, OWN]:
            reason = f"unknown paper {claim['paper']}; choose from {', '.join(papers)}"
        if claim.get("metrics", "own") not in content["metrics"]:
            reason = f"unknown metrics {claim['metrics']}; choose from {', '.join(content['metrics'])}"
        if any(len(item.get("published", "ab")) != 2 for item in comparisons):
            reason = "published needs two numbers, of the system above and of the one below"
        if "cannot" in claim and comparisons:
            reason = "a claim that cannot be tested has no comparisons"
        if reason:
            raise UserError(f"{CLAIMS.name}, claim {claim['text']!r}: {reason}.")


def with_group(metric: str, comparison: dict[str, Any]) -> str:
    """Return the key of a metric for the group of test sentences that a comparison uses."""
    return f"{metric}[{comparison['group']}]" if "group" in comparison else metric


def measure_all(claims: list[dict[str, Any]], sets: dict[str, Any]) -> dict[int, tuple[Measured, float]]:
    """Measure the main metric of all comparisons, and correct the p-values within each paper.

    Returns:
        The measurement and the corrected p-value of each comparison, by the ``id`` of the comparison.
    """
    families: dict[str, list[tuple[int, Measured]]] = {}
    for claim in claims:
        for item in claim.get("compare", []):
            if "result" not in item or "granularity" in item or "training" in item:
                continue
            main = with_group(item.get("metric", sets[claim["metrics"]]["main"]), item)
            if (measured := verdicts.measure(item, main)) is not None:
                families.setdefault(claim["paper"], []).append((id(item), measured))
    return {
        key: (measured, p_value)
        for family in families.values()
        for (key, measured), p_value in zip(family, holm([pair[1].p_value for pair in family]), strict=True)
    }


def compare(
    item: dict[str, Any], metrics: dict[str, Any], found: tuple[Measured, float] | None, margin: float
) -> Outcome:
    """Judge two systems by the metrics of a paper."""
    names = f"{item['above']} above {item['below']}"
    if found is None:
        reason = "not scored by the main metric, with an interval" if "result" in item else "not run"
        return Outcome(verdicts.NOT_RUN, names, [reason])
    measured, p_value = found
    keys = [] if "metric" in item else [with_group(key, item) for key in metrics["others"]]
    others = [verdicts.measure(item, key) for key in keys]
    published = verdicts.published_difference(item, measured)
    obstacles = verdicts.find_obstacles(item, metrics)
    for side, number in zip(("above", "below"), measured.runs, strict=True):
        if verdicts.is_trained(item, side) and number < verdicts.RUNS:
            obstacles.append(f"{item[side]}: {number} of {verdicts.RUNS} runs")
        elif verdicts.is_trained(item, side) and (recorded := len(verdicts.trainings_of(item, side))) < number:
            obstacles.append(f"{item[side]}: the trainings of {recorded} of {number} runs were recorded")
    obstacles += [f"not scored by {key}" for key, other in zip(keys, others, strict=True) if other is None]
    low, high = measured.interval
    size = f", published {published:+.2f}" if published else ""
    text = (
        f"{short(measured.metric)}: {named(item, measured)}; difference {measured.difference:+.2f} "
        f"[{low:+.2f}, {high:+.2f}], corrected {shown_p(p_value)}{size}"
    )
    beside = [f"{short(other.metric)} {other.scores[0]:.2f} and {other.scores[1]:.2f}" for other in others if other]
    text += f" ({', '.join(beside)})" if beside else ""
    results = list(dict.fromkeys([*verdicts.results_of(item, "above"), *verdicts.results_of(item, "below")]))
    if obstacles:
        return Outcome(verdicts.UNDECIDED, text, obstacles, results)
    judged = verdicts.judge(measured, p_value, published, margin)
    against = verdicts.contradictions([other for other in others if other])
    if against and judged in (verdicts.HOLDS, verdicts.DIRECTION):
        judged = verdicts.IN_PART
    return Outcome(judged, text, against, results)


def shown_p(p_value: float) -> str:
    """Return a p-value as the page prints it."""
    return f"p = {p_value:.3f}" if p_value >= 0.001 else "p < 0.001"


def short(metric: str) -> str:
    """Return a metric's name without the prefix that all presets share."""
    return metric.removeprefix("paper:")


def named(item: dict[str, Any], measured: Measured) -> str:
    """Return the names of the two systems with their means and standard deviations over runs."""
    cells = zip((item["above"], item["below"]), measured.scores, measured.deviations, measured.runs, strict=True)
    return ", ".join(
        f"{name} {score:.2f}" + ("" if deviation is None else f" ± {deviation:.2f} ({runs} runs)")
        for name, score, deviation, runs in cells
    )


def compare_words(item: dict[str, Any]) -> Outcome:
    """Judge the mean granularities of two kinds of words in each layer, from the table of ``wean-plot granularity``."""
    table = ROOT / "results" / f"{item['result']}.{item['granularity']}.granularity.tsv"
    rows = list(csv.DictReader(table.open(encoding="utf-8"), delimiter="\t"))
    layers = [(float(row[item["above"]]), float(row[item["below"]])) for row in rows]
    texts = [f"layer {row['layer']}: {high:.3f} and {low:.3f}" for row, (high, low) in zip(rows, layers, strict=True)]
    names = f"{item['above']} and {item['below']}".replace("_", " ")
    text = f"z of {names} of {item['granularity']}: {'; '.join(texts)}"
    return Outcome(verdicts.UNDECIDED, text, [f"{item['granularity']}: 1 of {verdicts.RUNS} runs"], [item["result"]])


def compare_trainings(item: dict[str, Any], metrics: dict[str, Any]) -> Outcome:
    """Judge whether a published ratio holds for a number in the training records of two systems.

    An example of such a number is ``epochs_to_95_percent``.
    """
    trainings, name = verdicts.read_result(item["result"])["trainings"], item["training"]
    values = [[run[name] for run in verdicts.runs_of(trainings[item[side]])] for side in ("above", "below")]
    high, low = (sum(side) / len(side) for side in values)
    text = f"{name.replace('_', ' ').replace('percent', '%')}: {item['above']} {high:g}, {item['below']} {low:g}"
    text += f", published {item['times']:g} times"
    obstacles = verdicts.find_obstacles(item, metrics)
    if min(map(len, values)) < verdicts.RUNS:
        obstacles.append(f"{min(map(len, values))} of {verdicts.RUNS} runs")
    if obstacles:
        return Outcome(verdicts.UNDECIDED, text, obstacles, [item["result"]])
    if min(values[0]) <= max(values[1]):  # the ranges of the runs overlap
        return Outcome(verdicts.UNDECIDED if high > low else verdicts.NOT, text, [], [item["result"]])
    large = high / low - 1 >= (item["times"] - 1) / 2
    return Outcome(verdicts.HOLDS if large else verdicts.DIRECTION, text, [], [item["result"]])


def compare_costs(item: dict[str, Any]) -> Outcome:
    """Compare a number of a benchmark with its bound."""
    path = ROOT / "benchmarks" / "results" / f"{item['benchmark']}.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    value = at(content, item["value"])
    bound = item["at_most"] if isinstance(item["at_most"], float) else at(content, item["at_most"])
    *_, name, unit = item["value"]
    text = f"{name}: {unit.replace('_', ' ')} {value:.2f}, at most {bound:.2f}"
    return Outcome(verdicts.HOLDS if value <= bound else verdicts.NOT, text)


def at(content: Any, keys: list[str]) -> Any:
    """Return the value at a path of keys in a JSON document."""
    for key in keys:
        content = content[key]
    return content


def compare_sizes(item: dict[str, Any]) -> Outcome:
    """Build two output layers, and compare their numbers of parameters with the published numbers, in millions."""
    high, low = (count_parameters(item[side], item["words"], item["width"]) for side in ("above", "below"))
    where = f"{item['words']:,} words, width {item['width']}"
    text = f"{where}: {item['above']} {high / 1e6:.2f} M, {item['below']} {low / 1e6:.2f} M"
    text += f", published {item['published'][0]:g} M and {item['published'][1]:g} M"
    enough = (high - low) / 1e6 >= (item["published"][0] - item["published"][1]) / 2
    return Outcome((verdicts.HOLDS if enough else verdicts.DIRECTION) if high > low else verdicts.NOT, text)


def judge_claim(
    claim: dict[str, Any], sets: dict[str, Any], measured: dict[int, tuple[Measured, float]]
) -> tuple[str, list[Outcome]]:
    """Return the verdict on a claim, and the outcomes of its comparisons."""
    if "cannot" in claim:
        return verdicts.CANNOT, []
    metrics, outcomes = sets.get(claim.get("metrics", ""), {}), []
    for item in claim.get("compare", []):
        if "granularity" in item:
            outcomes.append(compare_words(item))
        elif "training" in item:
            outcomes.append(compare_trainings(item, metrics))
        elif "benchmark" in item:
            outcomes.append(compare_costs(item))
        elif "words" in item:
            outcomes.append(compare_sizes(item))
        else:
            outcomes.append(compare(item, metrics, measured.get(id(item)), claim.get("margin", 0.0)))
    judged = verdicts.combine([outcome.verdict for outcome in outcomes])
    return verdicts.UNDECIDED if "proxy" in claim and judged != verdicts.NOT_RUN else judged, outcomes


def block(claim: dict[str, Any], judged: str, outcomes: list[Outcome]) -> str:
    """Return the collapsible block for a claim, with reasons, numbers and commands."""
    # A summary is HTML, so Markdown in it would not be interpreted.
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(claim["text"], quote=False))
    lines = [f'<details markdown="1"><summary>{SIGNS[judged]} {text}: <b>{judged}</b></summary>', ""]
    reasons = list(dict.fromkeys(reason for outcome in outcomes for reason in outcome.reasons))
    reasons += [claim["proxy"]] if "proxy" in claim else []
    if reasons:
        lines.append(f"- Reason: {'; '.join(reasons)}.")
    note = claim.get("cannot") or claim.get("why", "")
    lines += [f"- {note}"] if note else []
    lines += [f"- {outcome.text}: {outcome.verdict}" for outcome in outcomes]
    lines += [f"- Command: {command}" for command in commands(claim, outcomes)]
    return "\n".join([*lines, "", "</details>", ""])


def commands(claim: dict[str, Any], outcomes: list[Outcome]) -> list[str]:
    """Return the commands that measured the numbers for a claim, or the command that would test the claim."""
    lines = [f"`{claim['run']}`"] if "run" in claim else []
    for name in dict.fromkeys(name for outcome in outcomes for name in outcome.results):
        result = verdicts.read_result(name)
        seeds = ", ".join(map(str, result.get("seeds", [result["seed"]])))
        size = f"{result['evaluation']['data']['sentences']:,} test sentences, seed {seeds}"
        lines.append(f"`{result['command']}` ([{name}](../results/{name}.json); {size})")
    benchmarks = dict.fromkeys(item["benchmark"] for item in claim.get("compare", []) if "benchmark" in item)
    lines += [f"`python benchmarks/{name}.py`" for name in benchmarks]
    return lines + ["`wean-evaluate parameters`"] * any("words" in item for item in claim.get("compare", []))


def read_claims() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the content of the file of claims, and all claims and questions with their verdicts and outcomes."""
    content = tomllib.loads(CLAIMS.read_text(encoding="utf-8"))
    check_claims(content)
    claims = [*content["claim"], *({"paper": OWN, **question} for question in content["question"])]
    measured = measure_all(claims, content["metrics"])
    for claim in claims:
        claim["verdict"], claim["outcomes"] = judge_claim(claim, content["metrics"], measured)
    return content, claims


def counts(claims: list[dict[str, Any]]) -> str:
    """Return a sentence with the numbers of verdicts on the papers' claims."""
    numbers = Counter(claim["verdict"] for claim in claims if claim["paper"] != OWN)
    parts = [f"{numbers[verdict]} {verdict}" for verdict in verdicts.VERDICTS if numbers[verdict]]
    return f"Of {numbers.total()} claims: {', '.join(parts)}."


def render_rules(content: dict[str, Any]) -> str:
    """Return the first part of the page, which lists the verdicts and their conditions."""
    rows = [f"| {SIGNS[name]} {name} | {meaning} |" for name, meaning in content["verdicts"].items()]
    numbers = {
        "patience": verdicts.PATIENCE,
        "schedule": f"{verdicts.SCHEDULE:.0%}",
        "runs": verdicts.RUNS,
        "significant": SIGNIFICANT,
        "errors": f"{verdicts.RUN_ERRORS:g}",
    }
    head: str = content["head"]
    return head.format(verdicts="\n".join(rows), **numbers)


def render() -> str:
    """Return the whole page."""
    content, claims = read_claims()
    heads = " | ".join(f"{sign} {name}" for name, sign in SIGNS.items())
    matrix = ["## The claims at a glance", "", f"| paper | claims | {heads} |", f"|---|---|{'--:|' * len(SIGNS)}"]
    sections = []
    for paper in content["paper"]:
        ours = [claim for claim in claims if claim["paper"] == paper["name"]]
        judged = sorted((claim["verdict"] for claim in ours), key=verdicts.VERDICTS.index)
        numbers = " | ".join(str(judged.count(verdict)) for verdict in verdicts.VERDICTS)
        matrix.append(f"| {paper['name']} | {''.join(SIGNS[verdict] for verdict in judged)} | {numbers} |")
        sections += ["", f"## {paper['name']}", "", paper["summary"], ""]
        sections += [block(claim, claim["verdict"], claim["outcomes"]) for claim in ours]
    sections += ["## Our own questions", "", "No paper claims these.", ""]
    sections += [block(claim, claim["verdict"], claim["outcomes"]) for claim in claims if claim["paper"] == OWN]
    page = "\n".join([*matrix, "", counts(claims), *sections]).rstrip("\n")
    return f"{render_rules(content)}\n{page}\n\n{content['directories']}"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing, fail if the page is out of date")
    parser.add_argument("--counts", action="store_true", help="print the numbers of verdicts, write nothing")
    args = parser.parse_args(arguments)
    try:
        if args.counts:
            print(counts(read_claims()[1]))
            return 0
        page = render()
    except UserError as error:
        print(f"replication: error: {error}", file=sys.stderr)
        return 2
    if not args.check:
        PAGE.write_text(page, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
        print("docs/replication.md is out of date: run python scripts/replication.py.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
