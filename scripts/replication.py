#!/usr/bin/env python3
"""Writes docs/replication.md: a verdict on every claim of docs/replication.toml, from results/ and benchmarks/results/.

python scripts/replication.py             # after a new result
python scripts/replication.py --check     # changes nothing, fails if the page is out of date; `make lint` runs it
"""

import argparse
import csv
import json
import math
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from wean_fairseq.evaluation.evaluate import SIGNIFICANT  # noqa: E402 - the root of the project comes first
from wean_fairseq.evaluation.parameters import count_parameters  # noqa: E402

CLAIMS = ROOT / "docs" / "replication.toml"
PAGE = ROOT / "docs" / "replication.md"
HOLDS, IN_PART, NOT, CANNOT, NOT_RUN = VERDICTS = (
    "holds",
    "holds in part",
    "does not hold here",
    "cannot be tested here",
    "not run yet",
)
SIGNS = dict(zip(VERDICTS, "🟩🟨🟥⬛⬜", strict=True))

HEAD = f"""\
# Replication: what the papers claim, and what came out here

Written by `scripts/replication.py` from [replication.toml](replication.toml), which says how each claim is tested, from
[results](../results) and from [benchmarks/results](../benchmarks/results); never edited by hand.

A claim **holds** if every difference it states is there and significant, and the trainings behind it were complete,
those with other rates included: ended by `--patience`, or by a schedule whose rate falls to zero. It **holds in part**
if only some of the differences are there, or if trainings were cut or it is not known that they were complete. It
**does not hold here** if none of the differences is there, be it that they are the other way round or too small for so
small a test. A difference is significant if all paired tests of the scorer have p < {SIGNIFICANT}; where a result has
none of the two systems, if it is more than 1.96 standard errors, as their 95 % intervals give them, which leaves out
that both are scored on the same sentences and so misses small differences. Granularities differ by 1.96 standard
errors, words taken as independent, which makes small differences look surer than they are. Systems are much smaller
than the papers', and data often others: the commands and the notes of the result files say which. One seed unless
several are named.

Where a command names one of these directories, make it first. `data/quora` and `data/twitter_url` are the splits of
C-DNPG's authors, Quora's without its final "?" and with a union of public copies to train on: what
[preprocess](../preprocess/README.md) draws from the published files are other pairs.

| directory | made by, with the directory as `--output` |
|---|---|
| `data/quora5k` | `python preprocess/quora.py --data data/quora --train 5000 --valid 1000 --test 4000` |
| `data/quora20k` | the same with `--train 20000` |
| `data/quora5k_disjoint` | that of `data/quora5k` with `--question-disjoint --unit words`, of one table of all pairs |
| `data/quora5k_mark` | nothing: the files of `data/quora5k` with " ?" behind every line (`sed 's/$/ ?/'`) |

"""


@dataclass
class Outcome:
    """One check.

    Attributes:
        text: the two numbers.
        there: whether the stated difference is there and significant.
        experiment: name of the result file; empty for a count or a benchmark.
        complete: whether both trainings are known to have converged.
    """

    text: str
    there: bool
    experiment: str = ""
    complete: bool = True


@cache
def read_result(name: str) -> dict[str, Any]:
    """The file of ``wean-evaluate record``."""
    return dict(json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8")))


def compare(check: dict[str, Any]) -> Outcome:
    """Two systems of a result, by a score or by a number of their trainings."""
    result, high, low = read_result(check["result"]), check["above"], check["below"]
    trainings = result.get("trainings", {})
    complete = are_complete(result, {high, low} - {"copy-source"})
    if "training" in check:
        more, less = (trainings[system][check["training"]] for system in (high, low))
        name = check["training"].replace("_", " ").replace("percent", "%")
        times = check.get("times", 1)
        wanted = f" (at least {times} times?)" if times > 1 else ""
        there = more > less and more >= times * less
        return Outcome(f"{name}: {high} {more:g}, {low} {less:g}{wanted}", there, check["result"], complete)
    metric, other = check["metric"], check.get("than", check["metric"])
    scores = result["evaluation"]["systems"]
    more, less = scores[high][metric], scores[low][other]
    ours, theirs = (high, low) if metric == other else (metric, other)
    name = metric.removeprefix("paper:") if metric == other else high
    text = f"{name}: {ours} {with_interval(more)}, {theirs} {with_interval(less)}"
    different, higher = differs(result, check), more["score"] > less["score"]
    if not different:
        text += " (no significant difference)"
    elif not higher:
        text += " (the other way round)"
    there = higher if different else "as_good" in check
    return Outcome(text, there, check["result"], complete)


def are_complete(result: dict[str, Any], systems: set[str]) -> bool:
    """Whether the trainings of systems converged, and those that they were chosen from."""
    trainings = [result.get("trainings", {}).get(system, {}) for system in systems]
    tries = [one for training in trainings for one in training.get("tries", {}).values()]
    return all(one.get("end") == "converged" for one in [*trainings, *tries])


def compare_words(check: dict[str, Any]) -> Outcome:
    """Mean granularities of two kinds of words, layer by layer, from the table of ``wean-plot granularity``."""
    table = ROOT / "results" / f"{check['result']}.{check['granularity']}.granularity.tsv"
    texts, there = [], []
    for row in csv.DictReader(table.open(encoding="utf-8"), delimiter="\t"):
        high, low = (float(row[check[side]]) for side in ("above", "below"))
        there.append(high - low > 1.96 * float(row["standard_error"]))
        texts.append(f"layer {row['layer']}: {high:.3f} and {low:.3f}")
    names = f"{check['above']} and {check['below']}".replace("_", " ")
    complete = are_complete(read_result(check["result"]), {check["granularity"]})
    return Outcome(f"z of {names} of {check['granularity']}: {'; '.join(texts)}", all(there), check["result"], complete)


def with_interval(cell: dict[str, Any]) -> str:
    """A score with its 95 % interval."""
    return f"{cell['score']:.2f} [{cell['ci'][0]:.2f}, {cell['ci'][1]:.2f}]"


def differs(result: dict[str, Any], check: dict[str, Any]) -> bool:
    """Whether two scores differ significantly: by the paired tests, or else by what their intervals say."""
    pair, evaluation = {check["above"], check["below"]}, result["evaluation"]
    for test in () if "than" in check else evaluation["pairwise"]:
        if "p_values" in test and test["metric"] == check["metric"] and {test["baseline"], test["system"]} == pair:
            return max(test["p_values"].values()) < SIGNIFICANT
    cells = (
        evaluation["systems"][check["above"]][check["metric"]],
        evaluation["systems"][check["below"]][check.get("than", check["metric"])],
    )
    # Half of a 95 % interval is 1.96 standard errors.
    error = math.hypot(*((cell["ci"][1] - cell["ci"][0]) / 2 for cell in cells))
    return bool(abs(cells[0]["score"] - cells[1]["score"]) > error)


def run_check(check: dict[str, Any]) -> Outcome:
    """Do one check of a claim."""
    if "granularity" in check:
        return compare_words(check)
    if "result" in check:
        return compare(check)
    if "benchmark" in check:
        found = json.loads((ROOT / "benchmarks" / "results" / f"{check['benchmark']}.json").read_text(encoding="utf-8"))
        bound = check["at_most"] if isinstance(check["at_most"], float) else at(found, check["at_most"])
        value = at(found, check["value"])
        *_, name, unit = check["value"]
        return Outcome(f"{name}: {unit.replace('_', ' ')} {value:.2f}, at most {bound:.2f}", value <= bound)
    high, low = (count_parameters(check[side], check["words"], check["width"]) for side in ("above", "below"))
    where = f"{check['words']:,} words, width {check['width']}"
    return Outcome(f"{where}: {check['above']} {high / 1e6:.2f} M, {check['below']} {low / 1e6:.2f} M", high > low)


def at(content: Any, keys: list[str]) -> Any:
    """A value within a JSON document."""
    for key in keys:
        content = content[key]
    return content


def verdict(claim: dict[str, Any], outcomes: list[Outcome]) -> str:
    """The verdict on a claim."""
    if "cannot" in claim:
        return CANNOT
    if not outcomes:
        return NOT_RUN
    if not any(outcome.there for outcome in outcomes):
        return NOT
    complete = ("complete" in claim or all(outcome.complete for outcome in outcomes)) and "doubt" not in claim
    return HOLDS if complete and all(outcome.there for outcome in outcomes) else IN_PART


def describe_runs(claim: dict[str, Any], outcomes: list[Outcome]) -> str:
    """The runs behind a claim, or those it would need."""
    if "run" in claim:
        return f"`{claim['run']}`"
    parts = []
    for name in dict.fromkeys(outcome.experiment for outcome in outcomes if outcome.experiment):
        result = read_result(name)
        hours = [one["hours"] for one in result.get("trainings", {}).values() if one.get("hours")]
        time = f", {sum(hours):.1f} h of training" if hours else ""
        sentences = f"{result['evaluation']['data']['sentences']:,} test sentences"
        parts.append(
            f"[{name}](../results/{name}.json): `{result['command']}`; {sentences}, seed {result['seed']}{time}"
        )
    parts += [
        f"`python benchmarks/{check['benchmark']}.py`" for check in claim.get("check", []) if "benchmark" in check
    ][:1]
    if any("words" in check for check in claim.get("check", [])):
        parts.append("`wean-evaluate parameters`")
    return "<br>".join(parts)


def row(claim: dict[str, Any], outcomes: list[Outcome]) -> str:
    """A row of the page."""
    judged = verdict(claim, outcomes)
    found = "<br>".join(outcome.text for outcome in outcomes)
    why = claim.get("cannot") or claim.get("why", "")
    if outcomes and "complete" not in claim:
        ended = all(outcome.complete for outcome in outcomes)
        why += (
            " Trainings ended by `--patience`." if ended else " Trainings were cut, or how they ended was not recorded."
        )
    elif "complete" in claim:
        why += f" Complete: {claim['complete']}."
    cells = (claim["text"], describe_runs(claim, outcomes), found, f"{SIGNS[judged]} **{judged}**", why)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def render() -> str:
    """The whole page."""
    claims = tomllib.loads(CLAIMS.read_text(encoding="utf-8"))["claim"]
    judged = [(claim, [run_check(check) for check in claim.get("check", [])]) for claim in claims]
    papers = list(dict.fromkeys(claim["paper"] for claim in claims))
    glance = ["| paper | claims, each a square | " + " | ".join(VERDICTS) + " |", "|---|---|" + "--:|" * len(VERDICTS)]
    sections = []
    for paper in papers:
        ours = [pair for pair in judged if pair[0]["paper"] == paper]
        found = sorted((verdict(*pair) for pair in ours), key=VERDICTS.index)
        counts = " | ".join(str(found.count(one)) for one in VERDICTS)
        glance.append(f"| {paper} | {''.join(SIGNS[one] for one in found)} | {counts} |")
        sections += ["", f"## {paper}", "", "| claim | run | what came out | verdict | why |", "|---|---|---|---|---|"]
        sections += [row(*pair) for pair in ours]
    return HEAD + "\n".join([*glance, *sections]) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, fail if the page is out of date")
    args = parser.parse_args(arguments)
    page = render()
    if not args.check:
        PAGE.write_text(page, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
        print("docs/replication.md is out of date: run python scripts/replication.py.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
