"""Prepare LCSTS (Chinese short text summarisation) as {train,valid,test}.{src,tgt}, in characters or jieba words.

    python preprocess/lcsts.py --data DIR --output data/lcsts --setting wean

DIR contains the released PART_I.txt, PART_II.txt and PART_III.txt. The pairs in the last two files have scores from
human raters. As in all papers, pairs with a score below 3, or without a score, are dropped. DIR may also contain
{train,valid,test}.{src,tgt} instead. The settings are those of the papers. ``wean`` uses 4,000 characters,
``copynet-characters`` 3,000 characters, and ``copynet-words`` 10,000 words, segmented by jieba. ``--unit`` overrides
the unit of a setting, and ``--words`` its dictionary size.
"""

import re
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from corpus.command import preparation_parser, run_preparation, whole_number
from corpus.plain import plain_files, refuse_choices, set_missing, write_plain
from corpus.preparation import Preparation

PARTS = {"test": "PART_III.txt", "valid": "PART_II.txt", "train": "PART_I.txt"}
SETTINGS = {"wean": ("characters", 4000), "copynet-characters": ("characters", 3000), "copynet-words": ("jieba", 10000)}
LONGEST_FIELD = 1 << 20  # maximum number of characters, in case an end tag is missing
_TAG = re.compile(r"(</?(?:doc|summary|short_text|human_label)\b[^<>]*>)", re.IGNORECASE)
_FIELDS = ("human_label", "short_text", "summary")
Document = tuple[int | None, str, str]


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = preparation_parser("lcsts", __doc__)
    options.set_defaults(unit=None, words=None)
    options.add_argument("--data", type=Path, required=True, metavar="DIR", help="directory with the released files")
    options.add_argument("--setting", choices=tuple(SETTINGS), default="wean", help="tokens and size of the dictionary")
    options.add_argument("--score", type=whole_number(0), metavar="N", help="lowest score of a scored pair (3)")
    return options


def inputs(options: Namespace) -> list[Path]:
    """Return the source files. The setting is first expanded into options."""
    unit, words = SETTINGS[options.setting]
    options.unit = options.unit or unit
    options.words = words if options.words is None else options.words
    plain = {} if (options.data / PARTS["train"]).is_file() else plain_files(options.data)
    if plain:
        refuse_choices(options, "score")
        return [path for paths in plain.values() for path in paths]
    set_missing(options, {"score": 3})
    return [options.data / name for name in PARTS.values()]


def read_documents(lines: Iterable[str], broken: list[int]) -> Iterator[Document]:
    """Yield the score, the text and the summary of every document.

    Args:
        lines: lines of a released file, with the tags on separate lines or around the text on one line.
        broken: receives the number of each document whose end is missing.
    """
    fields: dict[str, list[str]] = {}
    lengths: Counter[str] = Counter()  # lengths of the fields, counting a space after each part
    opened: set[str] = set()
    field, inside, number = "", False, 0
    for line in lines:
        for index, part in enumerate(_TAG.split(line) if "<" in line else (line,)):
            if index % 2 == 0:
                if field and part and lengths[field] <= LONGEST_FIELD:
                    fields.setdefault(field, []).append(part)
                    lengths[field] += len(part) + 1
                continue
            closing, name = part[1] == "/", part.strip("</>").split(maxsplit=1)[0].lower()
            if name != "doc":
                field = "" if closing else name
                if inside and field in _FIELDS and field in opened:  # the end and the next start are lost
                    broken.append(number)
                    inside = False
                opened.add(field)
                continue
            if closing and inside:
                label, text, summary = (" ".join(fields.get(name, ())) for name in _FIELDS)
                yield _score(label), text, summary
            elif inside:
                broken.append(number)
            number += not closing
            fields, lengths, opened, field, inside = {}, Counter(), set(), "", not closing
    if inside:
        broken.append(number)


def _score(label: str) -> int | None:
    label = label.strip()
    return int(label) if label.isascii() and label.isdigit() and len(label) < 10 else None


def build(options: Namespace, preparation: Preparation) -> None:
    """Write the held-out splits, then the training pairs."""
    if not (options.data / PARTS["train"]).is_file():
        write_plain(preparation, plain_files(options.data))
        return
    for split, name in PARTS.items():
        broken: list[int] = []
        with preparation.split(split) as writer:
            documents = read_documents(preparation.lines(options.data / name), broken)
            for score, text, summary in writer.until_full(documents):
                if split != "train" and options.score and score is None:
                    writer.split.drop("no_score")
                elif score is not None and score < options.score:
                    writer.split.drop("low_score")
                else:
                    writer.add(text, summary)
            writer.split.dropped.update({"document_without_end": len(broken)} if broken else {})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_preparation(parser(), build, arguments, inputs=inputs)


if __name__ == "__main__":
    sys.exit(main())
