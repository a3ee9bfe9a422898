"""Generate the quickstart's synthetic paraphrase pairs: wordy, formal English -> plain English, from a grammar of ours.

    python preprocess/synthetic_paraphrase.py --output data/synthetic

writes {train,valid,test}.{src,tgt} and manifest.json. The same options give the same bytes on every machine.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from paraphrase_grammar import CUES, PARSED_TEMPLATES
from paraphrase_lexicon import surface_sets
from paraphrase_scene import Scene, Unsuitable, pick
from tqdm import tqdm

GENERATOR_VERSION = "1.0"  # raise it with every change that changes the bytes
SPLITS = ("train", "valid", "test")
FILES = tuple(f"{split}.{side}" for split in SPLITS for side in ("src", "tgt"))
MANIFEST = "manifest.json"
REMARK = (
    "Synthetic text, written by a grammar and not by people; nothing that it says is true. "
    "A score on it shows that a model learns, not how good it is on real paraphrases; "
    "compare it with the score of copying the source."
)

PADDING_RATE = 0.12  # how often a source starts with words that say nothing
MIN_SOURCE_TOKENS, MAX_SOURCE_TOKENS = 8, 30
MAX_MISSES = 2000  # repeated sentences in a row after which the grammar counts as exhausted

_SLOT = re.compile(r"\{(~?\w+)(?:\.(\w+))?\}")
_DRAWN_FIRST = re.compile(r"\{([XGK])\b")  # parts that bring their own verb, which the pattern names earlier
# Beginnings of words that sound otherwise than their first letter.
_CONSONANT_SOUND = ("us", "uni", "eu", "one")
_VOWEL_SOUND = ("honest", "hour")

Pair = tuple[str, str]


class GrammarExhausted(Exception):
    """The grammar has no more distinct pairs."""


def fix_articles(tokens: Sequence[str]) -> list[str]:
    """Return the tokens with "an" for "a" where a vowel sound follows."""
    fixed = list(tokens)
    for index, following in enumerate(tokens[1:]):
        if tokens[index] == "a":
            vowel = following[0] in "aeiou" and not following.startswith(_CONSONANT_SOUND)
            fixed[index] = "an" if vowel or following.startswith(_VOWEL_SOUND) else "a"
    return fixed


def draw_template(rng: Random) -> Pair:
    """Draw the source and target pattern of one construction by its weight."""
    point = rng.random() * sum(weight for weight, _, _ in PARSED_TEMPLATES)
    for weight, source, target in PARSED_TEMPLATES:
        point -= weight
        if point < 0:
            return source, target
    return PARSED_TEMPLATES[-1][1:]


def write_patterns(patterns: Pair, scene: Scene) -> Pair:
    """Fill both patterns from one scene."""
    for name in _DRAWN_FIRST.findall(patterns[0]):
        scene.part(name)
    source, target = (
        _SLOT.sub(lambda slot, side=side: scene.part(slot[1]).write(side, slot[2] or ""), pattern)  # type: ignore[misc]
        for side, pattern in enumerate(patterns)
    )
    return source, target


def draw_pair(rng: Random) -> Pair:
    """Return one source sentence and its paraphrase, tokens separated by single spaces."""
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


def collect_splits(
    counts: dict[str, int], seed: int, draw: Callable[[Random], Pair] = draw_pair, quiet: bool = False
) -> dict[str, list[Pair]]:
    """Return so many pairs a split; no source and no target sentence occurs twice in the whole.

    The test and validation pairs are drawn first: they stay the same when only the training size changes.
    """
    rng = Random(seed)
    sources: set[str] = set()
    targets: set[str] = set()
    splits: dict[str, list[Pair]] = {}
    total, misses = sum(counts.values()), 0
    with tqdm(total=total, desc="generating", unit=" pairs", file=sys.stderr, disable=True if quiet else None) as bar:
        for split in reversed(SPLITS):
            pairs: list[Pair] = []
            while len(pairs) < counts[split]:
                source, target = draw(rng)
                if source in sources or target in targets:
                    misses += 1
                    if misses > MAX_MISSES:
                        raise GrammarExhausted(
                            f"the grammar gave only {len(sources):,} distinct pairs of the {total:,} asked for; "
                            "ask for fewer with --train, --valid, --test"
                        )
                    continue
                misses = 0
                sources.add(source)
                targets.add(target)
                pairs.append((source, target))
                bar.update()
            splits[split] = pairs
    return splits


def build_manifest(splits: dict[str, list[Pair]], seed: int, checksums: dict[str, str]) -> dict[str, object]:
    """Return what manifest.json records: nothing in it depends on the machine or the time."""
    pairs = [pair for split in SPLITS for pair in splits[split]]
    vocabulary = [{word for pair in pairs for word in pair[side].split()} for side in (0, 1)]
    sets = [[word for word in words if word in vocabulary[0] | vocabulary[1]] for words in surface_sets()]
    counts = {split: len(splits[split]) for split in SPLITS}
    return {
        "generator": "preprocess/synthetic_paraphrase.py",
        "version": GENERATOR_VERSION,
        "remark": REMARK,
        "options": {**counts, "seed": seed},
        "pairs": counts,
        "vocabulary": {
            "source": len(vocabulary[0]),
            "target": len(vocabulary[1]),
            "joint": len(vocabulary[0] | vocabulary[1]),
        },
        "sha256": checksums,
        "synonym_sets": [" ".join(words) for words in sets if len(words) > 1],
    }


def write_output(output: Path, splits: dict[str, list[Pair]], seed: int) -> dict[str, object]:
    """Write all files beside their places, then move them there, the manifest last; return the manifest."""
    output.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".synthetic_paraphrase-", dir=output))
    try:
        checksums = {}
        for name in FILES:
            split, side = name.split(".")
            text = "".join(pair[side == "tgt"] + "\n" for pair in splits[split]).encode("utf-8")
            (work / name).write_bytes(text)
            checksums[name] = hashlib.sha256(text).hexdigest()
        manifest = build_manifest(splits, seed, checksums)
        (work / MANIFEST).write_bytes((json.dumps(manifest, indent=2) + "\n").encode("utf-8"))
        (output / MANIFEST).unlink(missing_ok=True)  # a manifest stands only beside its own, complete files
        for name in (*FILES, MANIFEST):
            os.replace(work / name, output / name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return manifest


def _at_least(minimum: int) -> Callable[[str], int]:
    """Return an argparse type: a whole number not below `minimum`."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < minimum:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {minimum}, but is {text!r} instead")
        return int(text)

    return parse


def build_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        description="Write synthetic English paraphrase pairs (wordy and formal -> plain) from a grammar: "
        "{train,valid,test}.{src,tgt}, tokenised and lower-cased, one sentence a line, and manifest.json. "
        "The same options give the same bytes on every machine.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="directory to write; made if missing")
    parser.add_argument("--train", type=_at_least(1), default=24000, metavar="N", help="number of training pairs")
    parser.add_argument("--valid", type=_at_least(1), default=1000, metavar="N", help="number of validation pairs")
    parser.add_argument("--test", type=_at_least(1), default=1000, metavar="N", help="number of test pairs")
    parser.add_argument("--seed", type=_at_least(0), default=1, metavar="S", help="seed of the drawing")
    parser.add_argument("--overwrite", action="store_true", help="replace the files of an earlier run in DIR")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    options = build_parser().parse_args(arguments)
    existing = [name for name in (*FILES, MANIFEST) if os.path.lexists(options.output / name)]
    if existing and not options.overwrite:
        message = f"{options.output} already holds {', '.join(existing)}; pass --overwrite to replace them"
        print(f"error: {message}", file=sys.stderr)
        return 1
    try:
        splits = collect_splits({split: getattr(options, split) for split in SPLITS}, options.seed)
        manifest = write_output(options.output, splits, options.seed)
    except (GrammarExhausted, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return 130
    sizes = " + ".join(f"{len(splits[split]):,} {split}" for split in SPLITS)
    print(f"wrote {sizes} synthetic pairs to {options.output} (vocabulary: {manifest['vocabulary']})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
