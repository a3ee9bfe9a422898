#!/usr/bin/env python3
"""Draw the small SVG figures of the documents into docs/images/; with --check only compare.

The query of WEAN is a sketch. Scores and times are read from results/ and benchmarks/results/.
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
INK, PALE, TEAL, GREY = "#222", "#d9d9d9", "#00796b", "#8a8a8a"
COPY = "copy-source"
RANGES = {"bleu": ("BLEU", 20.0, 36.0), "sari": ("SARI", 14.0, 48.0)}


def read(path: str) -> dict[str, Any]:
    """Return a record of results/ or benchmarks/."""
    content: dict[str, Any] = json.loads((ROOT / path).read_text(encoding="utf-8"))
    return content


def text(x: float, y: float, words: str, anchor: str = "start", color: str = INK, size: int = 12) -> str:
    """Return a line of text. ``anchor`` is start, middle or end."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}" font-size="{size}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, fill: str, edge: str = "none") -> str:
    """Return a rectangle."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" stroke="{edge}"/>'


def line(x: float, y: float, to_x: float, to_y: float, color: str = INK, style: str = "") -> str:
    """Return a straight line."""
    return f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" stroke="{color}"{style}/>'


def picture(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """Return a whole SVG file on a white ground, which is readable in dark pages too."""
    body = "\n".join([box(0, 0, width, height, "#fff"), *parts])
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" role="img">'
    )
    return f"{head}\n<title>{escape(title)}</title>\n{body}\n</svg>\n"


def query() -> str:
    """Return the sketch of a query that is compared with each row of the embedding matrix."""
    words = ["the", "famous", "doctor", "bought", "car", "in", "..."]
    parts = [text(20, 30, "decoder state s_t"), text(20, 60, "attention c_t"), box(15, 80, 150, 34, "#e0f2f1", TEAL)]
    parts += [text(90, 101, "tanh(W_c [c_t; s_t] + b_c)", "middle", size=11)]
    parts += [line(90, 66, 90, 80), line(165, 97, 215, 97), text(240, 76, "query q_t", "middle")]
    parts += [box(215 + 10 * cell, 88, 10, 18, TEAL if cell % 2 else "#80cbc4", "#fff") for cell in range(5)]
    parts += [text(460, 26, "embedding matrix E, which encoder and decoder read", "middle")]
    for row, word in enumerate(words):
        y = 42 + 24 * row
        chosen = word == "doctor"
        parts += [line(265, 97, 330, y + 9, TEAL if chosen else PALE)]
        parts += [box(330 + 14 * cell, y, 14, 18, "#80cbc4" if chosen else "#eceff1", "#fff") for cell in range(5)]
        parts += [text(410, y + 13, word, color=TEAL if chosen else INK)]
        parts += [
            box(470, y + 3, (95, 22, 120, 40, 18, 12, 6)[row] * (1 if chosen else 0.6), 12, TEAL if chosen else PALE)
        ]
    parts += [text(470, 228, "p(y_t) = softmax of q_t W e_w over the words w", "middle")]
    return picture(640, 244, "WEAN's query against the embedding matrix (sketch)", parts)


def score_rows() -> Iterable[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Return the rows of the README's table of scores: pairs, system, its scores, those of a copy of the source."""
    content = tomllib.loads((ROOT / "docs" / "systems.toml").read_text(encoding="utf-8"))
    for entry in content["score"]:
        found = read(f"results/{entry['result']}.json")["evaluation"]["systems"]
        for system, name in entry["systems"].items():
            yield entry["pairs"], name.replace("`", ""), found[system], found[COPY]


def scores() -> str:
    """Return the dot plot of scores with 95 % intervals, and a dashed line at the copy of the source."""
    parts: list[str] = []
    tops: list[tuple[float, float, dict[str, Any]]] = []  # of each group: top, bottom, scores of the copy
    y, group = 54.0, ""
    for pairs, name, values, copied in score_rows():
        if pairs != group:
            y, group = y + 26, pairs
            parts.append(text(16, y - 8, f"{pairs} Quora pairs", color=GREY))
            tops.append((y, y, copied))
        parts.append(text(16, y + 14, name))
        for panel, (metric, (_label, low, high)) in enumerate(RANGES.items()):
            left = 165 + 255 * panel

            def place(value: float, left: int = left, low: float = low, high: float = high) -> float:
                return left + 190 * (value - low) / (high - low)

            score, (least, most) = values[metric]["score"], values[metric]["ci"]
            color = GREY if values == copied else TEAL
            parts += [line(place(least), y + 10, place(most), y + 10, color, ' stroke-width="2"')]
            parts += [f'<circle cx="{place(score):g}" cy="{y + 10:g}" r="4" fill="{color}"/>']
            parts += [text(left + 196, y + 14, f"{score:.1f}", size=11)]
        y += 22
        tops[-1] = (tops[-1][0], y, tops[-1][2])
    for panel, (metric, (label, low, high)) in enumerate(RANGES.items()):
        left = 165 + 255 * panel
        parts.append(text(left + 95, 30, label, "middle"))
        for top, bottom, copied in tops:
            x = left + 190 * (copied[metric]["score"] - low) / (high - low)
            parts.append(line(x, top, x, bottom, GREY, ' stroke-dasharray="4 3"'))
    return picture(660, round(y) + 16, "BLEU and SARI on Quora, with 95 % intervals and the copy of the source", parts)


def speed_groups() -> Iterable[tuple[str, list[tuple[str, float]]]]:
    """Return the times relative to fairseq, by benchmark."""
    step = read("benchmarks/results/training_step.json")["time"]["1"]
    search = read("benchmarks/results/decoding.json")["time"]["1"]
    both = read("benchmarks/results/transformer_families.json")["search"]["32 sentences, threads: 1"][1]
    chosen = [
        (
            "Training step",
            step,
            ["fairseq lstm", "seq2seq_lstm --optimizer fused_adam", "wean_lstm --optimizer fused_adam"],
        ),
        ("Beam search", search, ["fairseq lstm", "seq2seq_lstm", "wean_lstm"]),
        (
            "Beam search, Transformers, 32 sentences",
            both,
            [
                "fairseq transformer",
                "CTranslate2 float32, weights of fairseq transformer",
                "paraphrase_transformer",
                "CTranslate2 int8, weights of fairseq transformer",
                "paraphrase_transformer --int8-scores",
            ],
        ),
    ]
    for title, times, names in chosen:
        yield title, [(name, float(times[name]["cpu_ratio"])) for name in names]


def speed() -> str:
    """Return the bars of CPU time relative to fairseq's own models."""
    parts, y = [], 12.0
    for title, bars in speed_groups():
        y += 26
        parts.append(text(16, y - 4, f"{title}: CPU time, fairseq = 1 (shorter is faster)", color=GREY))
        for name, ratio in bars:
            y += 22
            parts += [text(330, y - 3, name, "end", size=11)]
            parts += [box(338, y - 15, 240 * ratio, 15, PALE if name.startswith(("fairseq", "CT")) else TEAL)]
            parts += [text(344 + 240 * ratio, y - 3, f"{ratio:.2f}", size=11)]
    return picture(640, round(y) + 16, "CPU time of training steps and beam search relative to fairseq", parts)


FIGURES = {"query": query, "scores": scores, "speed": speed}


def main(arguments: list[str] | None = None) -> int:
    """Draw or compare the figures; return the exit status."""
    parser = argparse.ArgumentParser(description="Draw the SVG figures of the documents.")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if a figure differs")
    args = parser.parse_args(arguments)
    stale = []
    for name, draw in FIGURES.items():
        path, new = IMAGES / f"{name}.svg", draw()
        if not path.exists() or path.read_text(encoding="utf-8") != new:
            stale.append(path.name)
        if not args.check:
            path.write_text(new, encoding="utf-8")
    if stale and args.check:
        print(f"diagrams: {', '.join(stale)}: run python scripts/diagrams.py", file=sys.stderr)
    return int(bool(stale) and args.check)


if __name__ == "__main__":
    sys.exit(main())
