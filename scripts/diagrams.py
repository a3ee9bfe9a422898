#!/usr/bin/env python3
"""Draw the small SVG figures of the documents into docs/images/. With --check, only compare the figures with the files.

The query of WEAN, the data flow and the page of wean-inspect are sketches. Scores, learning curves, times, verdicts and
layers are read from results/, benchmarks/results/, docs/replication.toml and the imports of the package.
"""

import argparse
import csv
import math
import sys
import tomllib
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import imports
import replication
from page_block import read_record

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
INK, PALE, TEAL, GREY = "#222", "#d9d9d9", "#00796b", "#8a8a8a"
COPY = "copy-source"
CURVES = "all_systems_quora_20000"
COLOURS = (
    "#000",
    "#e69f00",
    "#56b4e9",
    "#009e73",
    "#8a8a8a",
    "#0072b2",
    "#d55e00",
    "#cc79a7",
)  # colours that can be distinguished with colour blindness
# Number of pairs, results and systems of the learning curve. All results have the same test set.
SIZES = (
    (5_000, "all_systems_quora_5000", {}),
    (20_000, "all_systems_quora_20000", {}),
    (99_854, "wean_quora_gpu", {}),
    (99_854, "cdnpg_quora_gpu", {"transformer": "paraphrase_transformer"}),
)
LEARNERS = ("copynet", "wean_lstm", "copy_transformer", "paraphrase_transformer", "seq2seq_lstm")
RANGES = {"bleu": ("BLEU", 20.0, 36.0), "sari": ("SARI", 14.0, 48.0)}
LEARNING_RANGES = {"bleu": ("BLEU", 4.0, 32.0), "sari": ("SARI", 36.0, 48.0)}


def text(x: float, y: float, words: str, anchor: str = "start", color: str = INK, size: int = 12) -> str:
    """Return a line of text as SVG. ``anchor`` is start, middle or end."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}" font-size="{size}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, fill: str, edge: str = "none") -> str:
    """Return a rectangle as SVG."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" stroke="{edge}"/>'


def line(x: float, y: float, to_x: float, to_y: float, color: str = INK, style: str = "") -> str:
    """Return a straight line as SVG."""
    return f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" stroke="{color}"{style}/>'


def picture(width: int, height: int, title: str, description: str, parts: Iterable[str]) -> str:
    """Return a whole SVG file. Its white background makes it readable on dark pages, too."""
    body = "\n".join([box(0, 0, width, height, "#fff"), *parts])
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" role="img">'
    )
    return f"{head}\n<title>{escape(title)}</title>\n<desc>{escape(description)}</desc>\n{body}\n</svg>\n"


def query() -> str:
    """Return a sketch of a query that is compared with each row of the embedding matrix."""
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
    description = (
        "The decoder state and the attention give a query vector. It is compared with the embedding of each word. "
        "The embedding of doctor fits best, so doctor has the highest probability."
    )
    return picture(640, 244, "WEAN's query against the embedding matrix (sketch)", description, parts)


def score_rows() -> Iterable[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Return the README's score rows: the pairs, the system, its scores, and the scores of a copy of the source."""
    content = tomllib.loads((ROOT / "docs" / "systems.toml").read_text(encoding="utf-8"))
    for entry in content["score"]:
        found = read_record(f"results/{entry['result']}.json")["evaluation"]["systems"]
        for system, name in entry["systems"].items():
            yield entry["pairs"], name.replace("`", ""), found[system], found[COPY]


def scores() -> str:
    """Return a dot plot of scores with 95 % intervals, and dashed lines at the scores of a copy of the source."""
    parts: list[str] = []
    tops: list[tuple[float, float, dict[str, Any]]] = []  # top and bottom of each group, and the scores of the copy
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
    title = "BLEU and SARI on Quora, with 95 % intervals and the copy of the source"
    description = "One row per system and one panel per metric. A dashed line marks the score of a copy of the source."
    return picture(660, round(y) + 16, title, description, parts)


def curves() -> str:
    """Return a plot of validation losses by epoch. The legend lists the systems in the order of their best losses."""
    losses: dict[str, list[tuple[float, float]]] = {}
    with (ROOT / "results" / f"{CURVES}.curves.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            losses.setdefault(row["system"], []).append((float(row["epoch"]), float(row["nll_loss"])))
    title = "Validation loss with 20,000 Quora pairs"
    parts = [text(30, 24, title, size=13), text(30, 42, "bits per word (lower is better)", color=GREY)]
    for loss in range(3, 8):
        y = 290 - 58 * (loss - 3)
        parts += [line(50, y, 410, y, PALE), text(44, y + 4, str(loss), "end", size=11)]
    parts += [text(50 + 9 * epoch, 306, str(epoch), "middle", size=11) for epoch in range(0, 41, 10)]
    parts.append(text(230, 324, "epochs", "middle", GREY))
    best = {name: min(loss for _, loss in points) for name, points in losses.items()}
    for place, (name, color) in enumerate(zip(sorted(best, key=best.__getitem__), COLOURS, strict=True)):
        points = " ".join(f"{50 + 9 * epoch:g},{290 - 58 * (loss - 3):.1f}" for epoch, loss in losses[name])
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        y = 80 + 22 * place
        parts += [line(426, y - 4, 444, y - 4, color, ' stroke-width="3"')]
        parts += [text(450, y, f"{name} {best[name]:.3f}", size=11)]
    parts.append(text(426, 58, "best loss", color=GREY))
    description = f"One line per system. The best losses are {min(best.values()):.3f} to {max(best.values()):.3f}."
    return picture(700, 336, title, description, parts)


def learning() -> str:
    """Return a plot of BLEU and SARI by number of training pairs, with one line per system and 95 % intervals."""
    points: dict[str, list[tuple[int, dict[str, Any]]]] = {name: [] for name in LEARNERS}
    for pairs, result, names in SIZES:
        for system, scores in read_record(f"results/{result}.json")["evaluation"]["systems"].items():
            name = names.get(system, system)
            if name in points and all(pairs != other for other, _ in points[name]):
                points[name].append((pairs, scores))
    parts = []
    for panel, (metric, (label, low, high)) in enumerate(LEARNING_RANGES.items()):
        left = 40 + 260 * panel

        def across(pairs: int, left: int = left) -> float:
            return round(left + 20 + 150 * math.log10(pairs / 5_000), 1)

        def down(score: float, low: float = low, high: float = high) -> float:
            return round(270 - 220 * (score - low) / (high - low), 1)

        parts.append(text(left + 110, 30, label, "middle"))
        for score in range(round(low), round(high) + 1, 4):
            parts += [line(left, down(score), left + 225, down(score), PALE)]
            parts += [text(left - 5, down(score) + 4, str(score), "end", size=11)]
        for pairs in dict.fromkeys(size for size, _, _ in SIZES):
            parts.append(text(across(pairs), 288, f"{pairs:,}", "middle", size=11))
        for name, color in zip(LEARNERS, COLOURS, strict=False):
            known = [(across(pairs), scores[metric]) for pairs, scores in points[name]]
            path = " ".join(f"{x:g},{down(score['score']):g}" for x, score in known)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
            for x, score in known:
                parts += [line(x, down(score["ci"][0]), x, down(score["ci"][1]), color)]
                parts += [f'<circle cx="{x:g}" cy="{down(score["score"]):g}" r="3" fill="{color}"/>']
    for place, (name, color) in enumerate(zip(LEARNERS, COLOURS, strict=False)):
        y = 70 + 22 * place
        parts += [line(552, y - 4, 570, y - 4, color, ' stroke-width="3"'), text(576, y, name, size=11)]
    parts.append(text(270, 308, "training pairs (logarithmic)", "middle", GREY))
    title = "BLEU and SARI by number of Quora pairs, with 95 % intervals"
    description = "One line per system and one panel per metric. The last points are networks of the papers' sizes."
    return picture(740, 322, title, description, parts)


def speed_groups() -> Iterable[tuple[str, list[tuple[str, float]]]]:
    """Yield each benchmark's title and its CPU times relative to fairseq."""
    step = read_record("benchmarks/results/training_step.json")["time"]["1"]
    search = read_record("benchmarks/results/decoding.json")["time"]["1"]
    both = read_record("benchmarks/results/transformer_families.json")["search"]["32 sentences, threads: 1"][1]
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
                "Hugging Face Bart",
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
    """Return bars that show CPU times relative to fairseq's own models."""
    parts, y = [], 12.0
    groups = list(speed_groups())
    scale = 250 / max(ratio for _, bars in groups for _, ratio in bars)
    for title, bars in groups:
        y += 26
        parts.append(text(16, y - 4, f"{title}: CPU time, fairseq = 1 (shorter is faster)", color=GREY))
        for name, ratio in bars:
            y += 22
            parts += [text(330, y - 3, name, "end", size=11)]
            parts += [
                box(338, y - 15, scale * ratio, 15, PALE if name.startswith(("fairseq", "CT", "Hugging")) else TEAL)
            ]
            parts += [text(344 + scale * ratio, y - 3, f"{ratio:.2f}", size=11)]
    title = "CPU time of training steps and beam search relative to fairseq"
    description = (
        "Three groups of bars. In each group the first bar is fairseq with length 1, and shorter bars are faster."
    )
    return picture(640, round(y) + 16, title, description, parts)


#: Steps from raw text to scores. Each step has a title, parts of the package, and the files that it writes.
STEPS = (
    ("Raw text", ["a table,", "plain files"], "sentence pairs"),
    ("Prepare", ["preprocess/", "text"], "tokens, dictionary"),
    ("Train", ["tasks, data", "models, modules", "criterions, optim", "training"], "checkpoint"),
    ("Decode", ["search", "generation"], "outputs"),
    ("Score", ["evaluation"], "scores"),
    ("Show", ["reporting", "inspection"], "report, page"),
)
#: These packages can be imported without torch and fairseq.
LIGHT = {"storage", "text", "evaluation", "reporting"}


def architecture() -> str:
    """Return a figure of the data flow from raw text to scores, above the layers of the package."""
    parts = [text(14, 24, "From raw text to scores", size=13)]
    for place, (title, names, product) in enumerate(STEPS):
        x = 14 + 118 * place
        parts += [box(x, 36, 104, 74, "#e0f2f1" if place else "#eceff1", TEAL if place else GREY)]
        parts += [text(x + 52, 53, title, "middle", size=13)]
        parts += [text(x + 52, 68 + 12 * row, name, "middle", size=10) for row, name in enumerate(names)]
        parts += [text(x + 52, 126, product, "middle", GREY, 10)]
        if place:
            parts += [line(x - 14, 73, x - 1, 73), f'<path d="M{x - 6} 69 l6 4 l-6 4" fill="{INK}"/>']
    beside = "checkpoints and storage keep the files of every step whole, host adapts fairseq and torch"
    parts += [text(14, 150, beside, size=11), text(14, 186, "Layers: a part imports only parts below it", size=13)]
    layer_of = imports.layers(imports.part_graph(imports.file_graph(deferred=True)))
    y = 172
    for layer in range(max(layer_of.values()), -1, -1):
        y += 26
        parts.append(text(14, y + 14, f"layer {layer}", color=GREY, size=11))
        for place, name in enumerate(sorted(name for name in layer_of if layer_of[name] == layer and name[0] != "_")):
            x = 74 + 106 * place
            parts += [box(x, y, 96, 20, "#fff3e0" if name in LIGHT else "#e0f2f1", GREY if name in LIGHT else TEAL)]
            parts += [text(x + 48, y + 14, name, "middle", size=11)]
    parts += [box(510, y, 20, 20, "#fff3e0", GREY), text(538, y + 14, "runs without torch and fairseq", size=11)]
    description = (
        "Text is prepared, a model is trained, decodes and is scored, and reports show the results. "
        "Below, one row per layer names the parts of the package."
    )
    return picture(720, y + 34, "Architecture of wean_fairseq", description, parts)


#: Each verdict has a background colour, a text colour and a sign, in the order of the verdicts.
MARKS = (
    ("#00796b", "#fff", "✓"),
    ("#80cbc4", INK, "±"),
    ("#64b5f6", INK, "›"),
    ("#c62828", "#fff", "✗"),
    ("#e0e0e0", INK, "?"),
    ("#616161", "#fff", "–"),
    ("#fff", INK, ""),
)


def matrix() -> str:
    """Return a figure with one square for each claim of each paper, in the colour and with the sign of its verdict."""
    content, claims = replication.read_claims()
    kinds = replication.verdicts.VERDICTS
    drawn = [f"{box(0, 0, 18, 18, fill, GREY)}{text(9, 13, sign, 'middle', ink)}" for fill, ink, sign in MARKS]
    parts = ["<defs>", *(f'<g id="v{kind}">{square}</g>' for kind, square in enumerate(drawn)), "</defs>"]
    y = 14
    for name, label in [*((paper["name"],) * 2 for paper in content["paper"]), (replication.OWN, "our questions")]:
        judged = sorted(kinds.index(claim["verdict"]) for claim in claims if claim["paper"] == name)
        parts.append(text(16, y + 14, f"{label} ({len(judged)})"))
        parts += [f'<use href="#v{kind}" x="{150 + 21 * place}" y="{y}"/>' for place, kind in enumerate(judged)]
        y += 28
    for kind, verdict in enumerate(kinds):
        x, row = 16 + 165 * (kind % 4), y + 12 + 26 * (kind // 4)
        parts += [f'<use href="#v{kind}" x="{x}" y="{row}"/>', text(x + 25, row + 14, verdict)]
    description = f"One square per claim. {replication.counts(claims)}"
    return picture(680, y + 74, "Verdicts on the claims of the papers", description, parts)


def inspect() -> str:
    """Return a sketch of the page of wean-inspect with numbered notes."""
    source = "the famous physician purchased a car in 1969 .".split()
    output = "the famous doctor bought a car in 1969 .".split()
    notes = [
        "input tokens, with the attention of the selected word",
        "score of the output, to the base 2",
        "output as plain text, with a button that copies it",
        "tokens of the output; the frame marks the selected word",
        "probability of the selected word",
        "source words that it attends to",
        "nearest words in the embedding of the decoder",
    ]
    parts = [box(14, 12, 652, 118, "#fff", PALE), box(14, 130, 652, 104, "#f4f4f4", TEAL)]
    parts += [text(46, 32, "Input tokens", color=GREY, size=11), text(46, 80, "Outputs", color=GREY, size=11)]
    x = 46.0
    for word in source:
        width = 7.2 * len(word) + 10
        chosen = word == "physician"
        parts += [box(x - 4, 40, width, 24, "#f0c040" if chosen else "#fff"), text(x, 56, word)]
        x += width + 4
    parts += [
        text(46, 100, "-1.236", color=GREY, size=11),
        text(126, 100, "the famous doctor bought a car in 1969.", size=13),
    ]
    parts += [box(560, 86, 84, 20, "#fff", GREY), text(602, 100, "Copy text", "middle", size=11)]
    x = 126.0
    for word in output:
        width = 7.2 * len(word) + 10
        parts += [box(x - 4, 108, width, 19, "#fff", INK if word == "doctor" else "none"), text(x, 122, word)]
        x += width + 4
    parts += [
        text(46, 150, "doctor", size=13),
        text(46, 174, "Probability", color=GREY, size=11),
        text(46, 194, "86 %", size=14),
    ]
    parts += [text(230, 174, "Attention", color=GREY, size=11), text(230, 194, "physician"), box(300, 186, 60, 8, TEAL)]
    parts += [text(368, 194, "100 %"), text(460, 174, "Neighbours (cosine)", color=GREY, size=11)]
    for row, (word, cosine) in enumerate([("physician", 0.47), ("accepted", 0.37), ("worker", 0.34)]):
        y = 190 + 16 * row
        parts += [text(460, y, word), box(540, y - 8, 60, 8, PALE), box(540, y - 8, 60 * cosine, 8, TEAL)]
        parts += [text(608, y, f"{cosine:.2f}")]
    places = [(30, 52), (30, 97), (545, 96), (112, 118), (30, 190), (214, 190), (444, 190)]
    for number, ((x, y), note) in enumerate(zip(places, notes, strict=True), 1):
        at = 22 + 330 * (number > 4), 256 + 24 * ((number - 1) % 4)
        for cx, cy in ((x, y), at):
            parts += [
                f'<circle cx="{cx}" cy="{cy}" r="9" fill="#bf360c"/>',
                text(cx, cy + 4, str(number), "middle", "#fff", 11),
            ]
        parts.append(text(at[0] + 16, at[1] + 4, note, size=11))
    return picture(680, 346, "The page of wean-inspect, with notes (sketch)", "; ".join(notes), parts)


FIGURES = {
    "query": query,
    "scores": scores,
    "curves": curves,
    "learning": learning,
    "speed": speed,
    "architecture": architecture,
    "verdicts": matrix,
    "inspect_notes": inspect,
}


def main(arguments: list[str] | None = None) -> int:
    """Draw or compare the figures. Return the exit status."""
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
