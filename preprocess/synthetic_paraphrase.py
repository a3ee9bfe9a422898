"""Generate the quickstart's synthetic paraphrase pairs: wordy, formal English -> plain English.

    python preprocess/synthetic_paraphrase.py --output data/synthetic

The script writes {train,valid,test}.{src,tgt} and manifest.json. The same options give byte-identical files on every
machine.
"""

import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from random import Random
from typing import Any

from corpus.chance import pick
from corpus.command import output_parser, run_once, whole_number
from corpus.generator import add_sizes, draw_distinct, sizes_of, write_items
from corpus.output import SIDES, SPLITS, OutputFolder
from paraphrase_grammar import CUES, TEMPLATES
from paraphrase_lexicon import surface_sets
from paraphrase_scene import Scene, Unsuitable

from wean_fairseq.text.settings import TextSettings

VERSION = "1.0"  # must be raised whenever the written bytes change
REMARK = (
    "Synthetic text, written by a grammar and not by people; nothing that it says is true. "
    "A score on it shows that a model learns, not how good it is on real paraphrases; "
    "compare it with the score of copying the source."
)

# The grammar writes the tokens that these steps would produce from plain text. wean-generate and wean-inspect read the
# steps from the manifest, so that a model trained on this text accepts ordinary sentences.
TEXT = TextSettings(unit="moses", lowercase=True)

PADDING_RATE = 0.12  # share of sources that start with meaningless words
MIN_SOURCE_TOKENS, MAX_SOURCE_TOKENS = 8, 30

_SLOT = re.compile(r"\{(~?\w+)(?:\.(\w+))?\}")
# These slots also draw the verb, so they must be filled before a slot with the verb.
_DRAWN_FIRST = re.compile(r"\{([XGK])\b")
# Prefixes of words whose first sound, consonant or vowel, does not match their first letter.
_CONSONANT_SOUND = ("us", "uni", "eu", "one")
_VOWEL_SOUND = ("honest", "hour")

Pair = tuple[str, str]


def fix_articles(tokens: Sequence[str]) -> list[str]:
    """Return the tokens with "an" instead of "a" before a vowel sound."""
    fixed = list(tokens)
    for index, following in enumerate(tokens[1:]):
        if tokens[index] == "a":
            vowel = following[0] in "aeiou" and not following.startswith(_CONSONANT_SOUND)
            fixed[index] = "an" if vowel or following.startswith(_VOWEL_SOUND) else "a"
    return fixed


def draw_template(rng: Random) -> Pair:
    """Draw a construction by its weight, and return its source and target patterns."""
    point = rng.random() * sum(weight for weight, _, _ in TEMPLATES)
    for weight, source, target in TEMPLATES:
        point -= weight
        if point < 0:
            return source, target
    return TEMPLATES[-1][1:]


def write_patterns(patterns: Pair, scene: Scene) -> Pair:
    """Fill both patterns with the parts of a scene."""
    for name in _DRAWN_FIRST.findall(patterns[0]):
        scene.part(name)
    source, target = (
        _SLOT.sub(lambda slot, side=side: scene.part(slot[1]).write(side, slot[2] or ""), pattern)  # type: ignore[misc]
        for side, pattern in enumerate(patterns)
    )
    return source, target


def draw_pair(rng: Random) -> Pair:
    """Return a source sentence and its paraphrase, with single spaces between tokens."""
    while True:
        patterns = draw_template(rng)
        try:
            source, target = write_patterns(patterns, Scene(rng))
        except Unsuitable:
            continue
        if rng.random() < PADDING_RATE and not source.startswith("it "):
            source = f"{pick(rng, CUES['padding'].split('|'))} {source}"
        source_tokens, target_tokens = fix_articles(source.split()), fix_articles(target.split())
        if MIN_SOURCE_TOKENS <= len(source_tokens) <= MAX_SOURCE_TOKENS:
            return " ".join(source_tokens), " ".join(target_tokens)


def draw_splits(
    rng: Random, counts: dict[str, int], draw: Callable[[Random], Pair] = draw_pair
) -> Iterator[tuple[str, Pair]]:
    """Yield every pair with its split (see ``draw_distinct``). No sentence occurs twice on the same side."""
    return draw_distinct(counts, lambda *_: draw(rng), lambda pair: {*enumerate(pair)})


def measure(splits: dict[str, list[Pair]]) -> dict[str, Any]:
    """Return the facts about the text for the manifest, in addition to options, counts and checksums."""
    pairs = [pair for split in SPLITS for pair in splits[split]]
    vocabulary = [{word for pair in pairs for word in pair[side].split()} for side in (0, 1)]
    sets = [[word for word in words if word in vocabulary[0] | vocabulary[1]] for words in surface_sets()]
    return {
        "remark": REMARK,
        "text": asdict(TEXT),
        "vocabulary": {
            "source": len(vocabulary[0]),
            "target": len(vocabulary[1]),
            "joint": len(vocabulary[0] | vocabulary[1]),
        },
        "synonym_sets": [" ".join(words) for words in sets if len(words) > 1],
    }


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = output_parser("synthetic_paraphrase", __doc__)
    add_sizes(options, {"train": 24000, "valid": 1000, "test": 1000})
    options.add_argument("--seed", type=whole_number(0), default=1, metavar="S", help="seed of the drawing")
    return options


def write(options: Namespace, output: OutputFolder) -> str:
    """Write the pairs. Return a description of the directory."""
    splits = write_items(output, SIDES, draw_splits(Random(options.seed), sizes_of(options)), lambda pair: pair)
    output.facts.update(measure(splits))
    return f"wrote {output.sizes()} pairs (vocabulary: {output.facts['vocabulary']}) to {output.path}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_once(parser(), write, arguments, version=VERSION)


if __name__ == "__main__":
    sys.exit(main())
