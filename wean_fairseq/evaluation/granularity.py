"""The granularities of a trained C-DNPG: pictures of z for some sentences (the paper's figure 2), and a number.

    fairseq-generate ... --granularity-dump z.jsonl
    python -m wean_fairseq.evaluation.granularity z.jsonl --output z.png > z.tsv

Draws a row a layer of the encoder for sentences spread over the file, and prints, tab-separated, the mean z of function
words and of content words in every layer, with the standard error of their difference. Pieces of a word (``@@`` or
``##``) are joined, and the word has their mean. A function word is one of a fixed list of English articles,
prepositions, pronouns, auxiliaries, conjunctions and question words; numbers and punctuation are neither.
"""

import argparse
import sys
from collections.abc import Sequence
from math import sqrt
from statistics import mean, variance
from typing import Any, NamedTuple, TypeVar

from ..console import exit_status, whole_number
from ..errors import UserError
from .pictures import new_figure, save
from .text_files import check_outputs, read_described, read_table

#: English words that mean little by themselves.
FUNCTION_WORDS = frozenset(" ".join(read_table("function_words.toml").values()).split())
Item = TypeVar("Item")
SPECIAL = ("<s>", "</s>", "<pad>", "<unk>")


class Sentence(NamedTuple):
    """Words, and their z in each layer: ``granularity[layer][word]``.

    Attributes:
        number: of the sentence in its test set, from 1; 0 = unknown.
    """

    words: list[str]
    granularity: dict[str, list[float]]
    number: int = 0


def read_dump(path: str) -> list[Sentence]:
    """The sources of a dump, in the order of the test set.

    Raises:
        UserError: if the file is no dump.
    """
    found = read_described(
        path,
        lambda entry: sentence_of(entry["source"], entry["source_granularity"]),
        "has no granularities: give a file that --granularity-dump wrote",
    )
    sentences = [sentence._replace(number=place + 1) for place, sentence in found.items()]
    if not any(sentence.words and sentence.granularity for sentence in sentences):
        raise UserError(f"{path} has no words with granularities: was it dumped by another model?")
    return sentences


def sentence_of(pieces: list[str], granularity: dict[str, list[float]]) -> Sentence:
    """Whole words with the mean z of their pieces, special symbols left out."""
    words: list[str] = []
    members: list[list[int]] = []
    goes_on = False
    for place, piece in enumerate(pieces):
        if piece in SPECIAL:
            goes_on = False
            continue
        if (goes_on or piece.startswith("##")) and words:
            words[-1] += piece.removesuffix("@@").removeprefix("##")
            members[-1].append(place)
        else:
            words.append(piece.removesuffix("@@"))
            members.append([place])
        goes_on = piece.endswith("@@")
    joined = {
        str(int(layer)): [mean(values[place] for place in word) for word in members]
        for layer, values in granularity.items()
    }
    return Sentence(words, joined)


def layer_table(sentences: Sequence[Sentence]) -> list[list[str]]:
    """A row of heads, and one for every layer, from the bottom; empty cells where a layer has no such words.

    The standard error is that of the difference of the two means, words taken as independent.
    """
    head = (
        "layer function_words content_words difference standard_error number_of_function_words number_of_content_words"
    )
    rows = [head.split()]
    for layer in sorted({layer for sentence in sentences for layer in sentence.granularity}, key=int):
        function: list[float] = []
        content: list[float] = []
        for sentence in sentences:
            for word, z in zip(sentence.words, sentence.granularity.get(layer, []), strict=False):
                if word.lower() in FUNCTION_WORDS:
                    function.append(z)
                elif word.isalpha():
                    content.append(z)
        difference = mean(content) - mean(function) if function and content else None
        means = [mean(group) if group else None for group in (function, content)]
        numbers = [*means, difference, standard_error(function, content)]
        cells = ["" if number is None else f"{number:.4f}" for number in numbers]
        rows.append([layer, *cells, str(len(function)), str(len(content))])
    return rows


def standard_error(*groups: Sequence[float]) -> float | None:
    """Standard error of the difference of two means; ``None`` where a group has fewer than two numbers."""
    if min(map(len, groups)) < 2:
        return None
    return sqrt(sum(variance(group) / len(group) for group in groups))


def spread(items: Sequence[Item], number: int) -> list[Item]:
    """At most ``number`` of the items, spread evenly."""
    number = min(number, len(items))
    return [items[index * len(items) // number] for index in range(number)]


def plot(sentences: Sequence[Sentence]) -> Any:
    """A matplotlib figure of z, a sentence a panel and a layer a row, the lowest at the bottom."""
    longest = max((len(sentence.words) for sentence in sentences), default=0)
    size = (max(7.2, 1.5 + 0.32 * longest), 1.9 * len(sentences))  # readable at the width of a page
    figure, axes = new_figure(len(sentences), 1, size)
    image = None
    for panel, sentence in zip(axes[:, 0], sentences, strict=True):
        layers = sorted(sentence.granularity, key=int)
        # One hue from white on reads the same for the colour-blind, and in grey; one scale for all panels.
        values = [sentence.granularity[layer] for layer in layers]
        image = panel.imshow(values, aspect="auto", origin="lower", cmap="Blues", vmin=0, vmax=1)
        for row, of_layer in enumerate(values):
            for place, z in enumerate(of_layer):
                ink = "white" if z > 0.7 else "black"
                panel.text(place, row, f"{z:.2f}", ha="center", va="center", color=ink, fontsize=6)
        if sentence.number:
            panel.set_title(f"sentence {sentence.number}", loc="left", fontsize="small")
        panel.set_xticks(range(len(sentence.words)), sentence.words, rotation=40, ha="right", fontsize="small")
        panel.set_yticks(range(len(layers)), layers, fontsize="small")
        panel.set_ylabel("layer", fontsize="small")
    if image is not None:
        figure.colorbar(image, ax=axes, label="z: 0 = template, 1 = detail", shrink=0.6)
    return figure


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m wean_fairseq.evaluation.granularity",
        description="Draw and average the granularities that a trained C-DNPG gives to words.",
    )
    parser.add_argument("dump", help="file that --granularity-dump wrote")
    parser.add_argument("--output", metavar="FILE.png", help="picture to write")
    parser.add_argument("--sentences", type=whole_number(1), default=10, help="how many are drawn (default: 10)")
    args = parser.parse_args(arguments)

    def work() -> str:
        check_outputs({"--output": args.output}, [args.dump])
        sentences = read_dump(args.dump)
        if args.output:
            save(plot(spread(sentences, args.sentences)), args.output)
        return "".join("\t".join(row) + "\n" for row in layer_table(sentences))

    return exit_status("granularity", work)


if __name__ == "__main__":
    sys.exit(main())
