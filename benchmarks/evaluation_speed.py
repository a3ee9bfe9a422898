#!/usr/bin/env python3
"""Measure the time of evaluating a paraphrase test set on one core.

    python benchmarks/evaluation_speed.py                                  generated sentences
    python benchmarks/evaluation_speed.py --src test.src --ref test.tgt    a real test set, e.g. Quora

There are two measurements, and each may take at most 60 seconds:

* one system and the copy-the-source row, scored by every standard metric on all pairs, with 95% intervals;
* the paired bootstrap alone: 1,000 resamples of 5 systems for every standard metric on the same pairs, after n-grams
  have been counted.

The outputs of the systems are the references, in which a seeded generator has changed words. The script writes and
prints the results. The exit status is 1 if a limit is exceeded.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import logging
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import harness

from wean_fairseq.evaluation.corpus import Corpus
from wean_fairseq.evaluation.evaluate import Resampling, evaluate
from wean_fairseq.evaluation.metrics import MetricSettings
from wean_fairseq.evaluation.output_reader import SystemOutput
from wean_fairseq.evaluation.presets import STANDARD, columns_for
from wean_fairseq.evaluation.significance import Draws, bootstrap_p
from wean_fairseq.evaluation.text_files import read_lines

LIMIT_SECONDS = 60.0
RESAMPLES = 1000
SYSTEMS = 5
PACKAGES = ("sacrebleu", "rouge-score", "nltk", "numpy")
ROOT = Path(__file__).resolve().parents[1]


def generated_pairs(size: int) -> tuple[list[str], list[str]]:
    """Return sentences of 5 to 20 words with Zipf-like frequencies, and a noisy copy of each sentence."""
    generator = random.Random(1)
    words = [f"w{rank}" for rank in range(20000)]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    references = [" ".join(generator.choices(words, weights, k=generator.randint(5, 20))) for _ in range(size)]
    return noisy(references, 0.4, 2), references


def noisy(sentences: list[str], rate: float, seed: int) -> list[str]:
    """Return the sentences with some words replaced by random words from the first sentences."""
    generator = random.Random(seed)
    pool = [word for line in sentences[:2000] for word in line.split()] or ["x"]
    return [
        " ".join(word if generator.random() > rate else generator.choice(pool) for word in line.split())
        for line in sentences
    ]


def time_scoring(corpus: Corpus) -> float:
    """Return the CPU seconds for scoring one system with every standard metric."""
    system = SystemOutput("system", [[line] for line in noisy(corpus.references[0], 0.3, 3)], "")
    start = time.process_time()
    evaluate([system], corpus, columns_for([STANDARD], [], MetricSettings()), Resampling(RESAMPLES, 0))
    return time.process_time() - start


def time_bootstrap(corpus: Corpus) -> float:
    """Return the CPU seconds for the paired bootstrap of 5 systems, without the time for counting n-grams."""
    outputs = [noisy(corpus.references[0], 0.2 + 0.05 * number, number) for number in range(SYSTEMS)]
    rows = []
    for column in columns_for([STANDARD], [], MetricSettings()):
        column.metric.sources = corpus.sources
        column.metric.prepare(corpus.references)
        if column.metric.additive:
            rows.append((column.metric, [column.metric.rows(output) for output in outputs]))
    start = time.process_time()
    draws = Draws(len(corpus), RESAMPLES, 0)
    for metric, systems in rows:
        scores = [metric.scores_of(totals) for totals in draws.bootstrap(systems)]
        actual = [metric.score_of(system.sum(axis=0)) for system in systems]
        for other in range(1, SYSTEMS):
            bootstrap_p(scores[0], scores[other], actual[other] - actual[0])
    return time.process_time() - start


def report(data: dict[str, Any]) -> list[str]:
    """Return the results as Markdown."""
    rows = [[what, f"{seconds:.1f}", f"{LIMIT_SECONDS:.0f}"] for what, seconds in data["cpu_seconds"].items()]
    return [
        "# Evaluation speed",
        "",
        *harness.run_lines(data["run"]),
        f"* {data['pairs']:,} pairs, {data['words_per_reference']} words a reference; one thread",
        "",
        *harness.table(["what", "CPU seconds", "limit"], rows),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, help="source sentences")
    parser.add_argument("--ref", type=Path, help="reference sentences")
    parser.add_argument("--size", type=int, default=20000, help="pairs to use (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="200 pairs, to see that it runs")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks/results/evaluation_speed", help="where .json and .md go"
    )
    args = parser.parse_args(argv)
    if bool(args.src) != bool(args.ref):
        parser.error("--src and --ref belong together")
    size = 200 if args.quick else args.size
    command = "python benchmarks/evaluation_speed.py"
    if args.src:
        sources, references = read_lines(args.src)[:size], read_lines(args.ref)[:size]
        # Only file names are recorded, so that the result contains no folder of this machine.
        command += f" --src {args.src.name} --ref {args.ref.name}"
    else:
        sources, references = generated_pairs(size)
    corpus = Corpus([references], sources)
    data: dict[str, Any] = {
        "run": harness.describe_run(command, PACKAGES),
        "pairs": len(corpus),
        "words_per_reference": round(sum(len(line.split()) for line in references) / len(references), 1),
        "cpu_seconds": {
            "1 system and the copy row, all standard metrics, 95% intervals": time_scoring(corpus),
            f"paired bootstrap, {RESAMPLES} resamples of {SYSTEMS} systems, all standard metrics": time_bootstrap(
                corpus
            ),
        },
    }
    lines = report(data)
    harness.write_results(args.output, data, lines)
    print("\n".join(lines))
    return int(max(data["cpu_seconds"].values()) > LIMIT_SECONDS)


if __name__ == "__main__":
    logging.disable(logging.INFO)
    sys.exit(main())
