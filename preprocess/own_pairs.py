"""Sentence pairs of your own (CSV, TSV, JSON lines, or two text files) -> {train,valid,test}.{src,tgt}.

    python preprocess/own_pairs.py --data pairs.csv --columns original,rewritten --output data/mine --truecase

Pairs are drawn into the three splits by their sources, so that no source sentence is in two of them; the draw depends
on the seed and the pairs alone. The sentences are cut into tokens from which their text comes back exactly (``--unit
joiner``), unless ``--unit`` asks for others. Of a table with two columns the first is the source; ``--columns`` names
two of more, or says which is which.

    python preprocess/own_pairs.py --test new.txt --prepared data/mine --output data/new

Sources without targets, a line each, become test.src alone: tokens as an earlier run made them for its training.
"""

import csv
import json
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from corpus.command import build_parser, run, whole_number
from corpus.errors import InputError
from corpus.preparation import Preparation
from corpus.sampling import Draw

from wean_fairseq.text import Cleaner, prepared_text
from wean_fairseq.text.settings import MANIFEST

FEWEST = 10  # pairs
SHARE, MOST = 20, 1000  # valid and test: one pair of so many, and at most so many
LONGEST_FIELD = 1 << 17  # characters: a quotation mark that is never closed ends here, and not with the file
TABLES = {".csv": "a table", ".tsv": "a table", ".tab": "a table", ".jsonl": "JSON lines", ".ndjson": "JSON lines"}

Pair = tuple[str, str]


def parser() -> ArgumentParser:
    """The options."""
    options = build_parser("own_pairs", __doc__)
    options.set_defaults(unit="joiner")
    options.add_argument("--data", type=Path, nargs="+", metavar="FILE", help=".csv, .tsv or .jsonl; or two text files")
    options.add_argument("--columns", metavar="A,B", help="names of the source's and the target's column, or numbers")
    options.add_argument(
        "--valid", type=whole_number(1), metavar="N", help="validation pairs (default: 5%%, at most 1000)"
    )
    options.add_argument(
        "--test",
        type=_number_or_file,
        metavar="N",
        help="test pairs (default: 5%%, at most 1000), or a text file",
    )
    options.add_argument("--prepared", type=Path, metavar="DIR", help="what an earlier run wrote, for --test FILE")
    options.add_argument("--seed", type=whole_number(0), default=1, metavar="S", help="seed of the draw")
    return options


def _number_or_file(text: str) -> int | Path:
    return whole_number(1)(text) if text.isdigit() or not Path(text).is_file() else Path(text)


def inputs(options: Namespace) -> list[Path]:
    """The source files."""
    alone = isinstance(options.test, Path)
    if alone == bool(options.data) or alone != bool(options.prepared):
        raise InputError("give --data a file of pairs, or --test a file of sources with --prepared and no --data.")
    if alone:
        return [options.test, options.prepared / MANIFEST]
    if len(options.data) > 2:
        raise InputError("--data takes one file with both sides, or two text files, a sentence a line.")
    kinds = [TABLES.get(path.suffix.lower()) for path in options.data]
    if len(options.data) == 2 and any(kinds):
        table = options.data[0 if kinds[0] else 1]
        raise InputError(f"{table} is {kinds[0] or kinds[1]}, and holds both sides alone: give --data that file only.")
    if len(options.data) == 2 and options.columns:
        raise InputError("--columns is for one file with both sides: leave it out.")
    return list(options.data)


def read_pairs(preparation: Preparation, *, first: bool = False) -> Iterator[Pair]:
    """Yield the pairs.

    Args:
        preparation: reads and counts.
        first: whether it is the first pass over the data, in which is counted what is left out.

    Raises:
        InputError: if the file is none of those that are known, or its columns are not clear.
    """
    paths = preparation.options.data
    if len(paths) == 2:
        for where, (source, target) in preparation.aligned_lines(paths, count=first):
            if where.startswith("line 1 ") and "\t" in source and "\t" in target:
                raise InputError(f"{paths[0]} and {paths[1]} are tables: give --data one of them alone.")
            yield source, target
        return
    rows = _json_rows(preparation, paths[0], first) if _is_json(paths[0]) else _rows(preparation, paths[0], first)
    beginning = list(islice(rows, 20))
    columns, skipped = _columns(preparation.options, paths[0], beginning)
    left_out = preparation.left_out
    width = len(beginning[0])
    for row in chain(beginning[skipped:], rows):
        if len(row) == width:
            yield row[columns[0]], row[columns[1]]
        else:
            left_out["malformed_rows"] += first


def _is_json(path: Path) -> bool:
    return TABLES.get(path.suffix.lower()) == "JSON lines"


def _rows(preparation: Preparation, path: Path, first: bool) -> Iterator[list[str]]:
    """The rows of a table; a comma, a semicolon or a tab parts its columns, as the first line has it."""
    lines = preparation.lines(path, count=first)
    head = next(lines, "")
    by_tabs = path.suffix.lower() in (".tsv", ".tab") or not {*",;"} & {*head}
    delimiter = "\t" if by_tabs else max(",;", key=head.count)
    if delimiter not in head:
        raise InputError(
            f"{path} has one column: give --data two text files, or a .csv, .tsv or .jsonl with both sides."
        )
    csv.field_size_limit(LONGEST_FIELD)
    quoting = csv.QUOTE_NONE if delimiter == "\t" and not head.startswith('"') else csv.QUOTE_MINIMAL
    rows = csv.reader((line + "\n" for line in chain([head], lines)), delimiter=delimiter, quoting=quoting)
    try:
        yield from (row for row in rows if row)
    except csv.Error as error:
        raise InputError(
            f"line {rows.line_num} of {path} is no row of the table ({error}): is a quotation mark not closed?"
        ) from error


def _json_rows(preparation: Preparation, path: Path, first: bool) -> Iterator[list[str]]:
    """The texts of JSON lines; the names of the first object come first, as the head of a table."""
    names: list[str] = []
    for number, line in enumerate(preparation.lines(path, count=first), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"line {number} of {path} is no JSON ({error}).") from error
        if isinstance(entry, list):
            entry = {str(place): value for place, value in enumerate(entry, start=1)}
        if not isinstance(entry, dict):
            raise InputError(f"line {number} of {path} is neither an object nor a list of JSON.")
        if not names:
            names = [name for name, value in entry.items() if isinstance(value, str)]
            yield names
        yield [entry[name] for name in names] if all(isinstance(entry.get(name), str) for name in names) else []


def _columns(options: Namespace, path: Path, beginning: list[list[str]]) -> tuple[tuple[int, int], int]:
    """The columns of source and target, and the number of rows of a head."""
    if not beginning:
        raise InputError(f"{path} is empty.")
    head = beginning[0]
    wanted = [name.strip() for name in options.columns.split(",")] if options.columns else []
    if options.columns and len(wanted) != 2:
        raise InputError("--columns takes two names or numbers with a comma between them, such as original,rewritten.")
    if wanted and all(name in head for name in wanted):
        return (head.index(wanted[0]), head.index(wanted[1])), 1
    named = _is_json(path) or _is_head(beginning)
    if wanted and all(name.isdecimal() and 1 <= int(name) <= len(head) for name in wanted):
        return (int(wanted[0]) - 1, int(wanted[1]) - 1), int(named)
    if wanted or len(head) != 2:
        columns = ", ".join(name[:40] for name in head) if named else f"{len(head)} columns without names"
        asked = f"has no columns {' and '.join(wanted)}" if wanted else "does not tell which columns are the sentences"
        raise InputError(
            f"{path} {asked}; it has {columns}: name two of them with --columns A,B, or number them from 1."
        )
    return (0, 1), int(named)


def _is_head(rows: list[list[str]]) -> bool:
    """Whether the first row names the columns: it has no sentences, and others have."""
    return not any(" " in cell.strip() for cell in rows[0]) and any(" " in cell for row in rows[1:] for cell in row)


def write_sources(options: Namespace, preparation: Preparation) -> None:
    """Write sources alone, with the steps that the text in ``--prepared`` has been through."""
    text = prepared_text(Path(), options.prepared)
    assert text is not None, "a directory that is given has settings, or is refused"
    preparation.text, preparation.cleaner = text, text.cleaner
    with preparation.split("test", ["src"]) as writer:
        for number, line in enumerate(preparation.lines(options.test), start=1):
            tokens = text.prepare(line)
            if not tokens:
                raise InputError(f"line {number} of {options.test} is empty: take it out.")
            writer.split.write(tokens)
    for file in text.files:
        shutil.copyfile(file, preparation.output.folder / file.name)


def build(options: Namespace, preparation: Preparation) -> None:
    """Draw the splits in a first pass over the data, and write one in each of three more, the training pairs last."""
    if options.prepared:
        write_sources(options, preparation)
        return
    draw = Draw(options.seed, disjoint=True, key=options.leak_key)
    uncounted = Cleaner(options.unicode)
    for source, _ in read_pairs(preparation, first=True):
        clean = uncounted.clean(source)
        draw.add(clean, clean)  # pairs with the same source stay together
    if len(draw) < FEWEST:
        raise InputError(
            f"{options.data[0]} has {len(draw)} pairs: there must be {FEWEST} at least to draw three splits."
        )
    share = max(1, min(MOST, len(draw) // SHARE))
    sizes = {"test": options.test or share, "valid": options.valid or share}
    splits = draw.assign(sizes, rest="train")
    sizes_found = Counter(splits)
    if any(not sizes_found[split] for split in ("train", *sizes)):
        raise InputError("the pairs cannot be drawn into three splits, as too many share a source: ask for fewer.")
    preparation.write_drawn((*sizes, "train"), splits, lambda: read_pairs(preparation))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    return run(parser(), build, arguments, inputs=inputs)


if __name__ == "__main__":
    sys.exit(main())
