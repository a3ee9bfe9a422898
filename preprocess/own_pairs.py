"""Turn your own sentence pairs (a table, a saved `datasets` folder, or two files) into {train,valid,test}.{src,tgt}.

    python preprocess/own_pairs.py --data pairs.csv --columns original,rewritten --output data/mine --truecase

Format, delimiter, quotation marks and header are detected from the content of the file. The script prints the detected
format before it writes the splits. ``--columns`` names the columns of the source and the target. ``--header`` overrides
the guess about the first row. Pairs are drawn into the three splits by their sources, so that no source sentence is in
two splits. The draw depends only on the seed and the pairs. ``--valid`` and ``--test`` also accept files with your own
splits. Exact duplicates of a pair are dropped. The sentences are tokenised reversibly (``--unit joiner``), unless
``--unit`` selects another tokeniser. The text of valid and test is also written, unchanged except for harmful
characters, as ``test.raw.src``, ``test.raw.tgt`` and, for further columns in ``--columns``, ``test.raw.tgt.1``, ...

    python preprocess/own_pairs.py --test new.txt --prepared data/mine --output data/new

A file of sources without targets, with one source per line, becomes test.src. It is tokenised like the training text of
an earlier run. If --data is given as well, ``--prepared`` prepares new pairs like an earlier text, or like the text of
an exported model.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from corpus.command import preparation_parser, run_preparation, whole_number
from corpus.headers import parse_names
from corpus.messages import say
from corpus.plain import check_distinct, set_missing
from corpus.preparation import MOST_TOPICS, Preparation, items_of
from corpus.sampling import Draw
from corpus.tables import Pairs, PairTable, Texts, open_pairs

from wean_fairseq.console import counted, number_or_file
from wean_fairseq.errors import UserError
from wean_fairseq.ranges import flag
from wean_fairseq.storage.data_files import MANIFEST
from wean_fairseq.storage.saved_tables import find_splits, split_folders, table_files
from wean_fairseq.text import Cleaner, prepared_text, read_text_settings, small_splits
from wean_fairseq.text.settings import MODEL_TEXT

FEWEST = 10  # minimum number of pairs that the script accepts
SHARE, MOST = 20, 1000  # valid and test each get 1 of 20 pairs, but at most 1,000 pairs
HELD_OUT = ("test", "valid")
TEXT_DEFAULTS = {"unit": "joiner", "unicode": "NFC", "specials": "escape"}  # without --prepared
TEXT_OPTIONS = (*TEXT_DEFAULTS, "language", "wordpiece_vocab", "lowercase", "truecase", "bpe", "unknown", "topics")


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = preparation_parser("own_pairs", __doc__)
    options.set_defaults(**dict.fromkeys(TEXT_DEFAULTS))
    options.add_argument(
        "--data", type=Path, nargs="+", metavar="FILE", help="table with both sides; or two text files"
    )
    options.add_argument(
        "--columns",
        metavar="A,B[,C...]",
        help="names or numbers of the columns: source, target, and further references of valid and test; a path such "
        "as translation.en in nested JSON",
    )
    options.add_argument("--header", choices=("yes", "no"), help="whether the first row has the names of the columns")
    options.add_argument(
        "--topics",
        action="store_const",
        const=True,
        help="the sources are topic words, with spaces, commas or semicolons between them, and the targets are texts",
    )
    for split in ("valid", "test"):
        options.add_argument(
            f"--{split}",
            type=_number_or_file,
            nargs="+",
            metavar="N|FILE",
            help=f"number of {split} pairs (default: 5%%, at most 1000), or your own {split} pairs in one or two files",
        )
    options.add_argument(
        "--prepared",
        type=Path,
        metavar="DIR",
        help="earlier output or exported model, whose text steps are used; without --data, --test has only sources; "
        f"without this option, {', '.join(f'{flag(name)} is {value}' for name, value in TEXT_DEFAULTS.items())}",
    )
    options.add_argument("--seed", type=whole_number(0), default=1, metavar="S", help="seed of the draw")
    return options


def _number_or_file(text: str) -> int | Path:
    value = number_or_file(text)
    return value if isinstance(value, int) else Path(value)


def own_files(options: Namespace, split: str) -> list[Path]:
    """Return the user's own files for a split. If there are any, the split is not drawn."""
    return [value for value in getattr(options, split) or () if isinstance(value, Path)]


def use_saved_splits(options: Namespace) -> None:
    """If the data is a saved data set with splits, use its training split.

    Its other splits are used unless the user gives files for them.

    Raises:
        UserError: if the use of a split is not clear.
    """
    folders = split_folders(options.data[0]) if options.data and len(options.data) == 1 else {}
    if len(folders) > 1:
        table = options.data[0]
        found = find_splits(folders, str(table), f"give --data, --valid and --test folders in {table}")
        if "train" not in found:
            raise UserError(f"{table} has no split train: give --data a folder in it.")
        options.data = [folders[found["train"]]]
        for split in HELD_OUT:
            if split in found and getattr(options, split) is None:
                setattr(options, split, [folders[found[split]]])


def table_inputs(options: Namespace) -> list[Path]:
    """Return the files with pairs. Refuse a file that is given twice, and held-out tables with several splits."""
    tables = {"data": options.data, "test": own_files(options, "test"), "valid": own_files(options, "valid")}
    files: list[tuple[str, Path]] = []
    for name, paths in tables.items():
        for number, table in enumerate(paths, start=1):
            if name != "data" and len(split_folders(table)) > 1:
                raise UserError(f"{table} has several splits: give --{name} the folder of one of them.")
            files += [(f"file {number} of --{name}", path) for path in table_files(table)]
    check_distinct(files)
    if options.header and all(len(paths) != 1 for paths in tables.values()):
        raise UserError("--header is for tables, and text files with one side have no header: leave it out.")
    return [path for _, path in files]


def prepared_files(options: Namespace, test: list[Path]) -> list[Path]:
    """Return the file that contains the text settings of ``--prepared``, or none without this option."""
    if not options.prepared:
        return []
    if given := [flag(name) for name in TEXT_OPTIONS if getattr(options, name)]:
        raise UserError(f"--prepared has the steps of the text: leave out {' and '.join(given)}.")
    if not options.data and (len(test) != 1 or options.valid):
        raise UserError("--prepared without --data is for --test with one file of sources, without --valid.")
    return [options.prepared / (MODEL_TEXT if (options.prepared / MODEL_TEXT).is_file() else MANIFEST)]


def inputs(options: Namespace) -> list[Path]:
    """Check the options, and return the files that the run reads."""
    use_saved_splits(options)
    if options.topics and options.truecase:
        raise UserError("--topics have no first word of a sentence, which --truecase changes: leave it out.")
    for split in HELD_OUT:
        values = getattr(options, split) or []
        if len(values) > 2 or (len(values) == 2 and len(own_files(options, split)) < 2):
            raise UserError(f"--{split} takes one number, one file, or two text files.")
    files = own_files(options, "test")
    prepared = prepared_files(options, files)
    settings = read_text_settings(options.prepared) if options.prepared else None
    set_missing(options, {name: getattr(settings, name, value) for name, value in TEXT_DEFAULTS.items()})
    if prepared and not options.data:
        return [*files, *prepared]
    if not options.data:
        raise UserError("give --data a file of pairs, or --test a file of sources with --prepared and no --data.")
    if len(options.data) > 2:
        raise UserError("--data takes one file with both sides, or two text files, one sentence per line.")
    if len(options.data) == 2 and options.columns:
        raise UserError("--columns is for one file with both sides: leave it out.")
    if options.columns:
        parse_names(options.columns)
    return [*table_inputs(options), *prepared]


def open_all(options: Namespace, preparation: Preparation) -> dict[str, Pairs]:
    """Open and survey the pairs to draw from (``data``) and the splits that the user provides.

    In the user's valid and test sets, exact duplicates are kept. If there are such sets, a table may lack columns of
    further references that another table has. All tables have the same columns as the first one.
    """
    partly = any(own_files(options, split) for split in HELD_OUT)
    pairs_by_split: dict[str, Pairs] = {}
    for name in ("data", *HELD_OUT):
        paths = list(options.data) if name == "data" else own_files(options, name)
        if paths:
            is_table = len(paths) == 1
            earlier = (pairs for pairs in pairs_by_split.values() if isinstance(pairs, PairTable) == is_table)
            pairs_by_split[name] = pairs = open_pairs(
                preparation,
                paths,
                columns=options.columns if is_table else None,
                header=options.header,
                partly=partly,
                first=next(earlier, None),
            )
            pairs.survey(keep_duplicates=name != "data")
    tables = {name: pairs for name, pairs in pairs_by_split.items() if isinstance(pairs, PairTable)}
    for column in parse_names(options.columns)[2:] if partly and options.columns else ():
        if all(column in table.lacks for table in tables.values()):
            raise UserError(f"no table has a column {column}: take it out of --columns, or correct it.")
    preparation.output.facts["tables"] = {name: table.facts() for name, table in tables.items()}
    return pairs_by_split


def texts_of(preparation: Preparation, pairs: Pairs) -> Iterator[Texts]:
    """Yield the pairs, with spaces between topics. Raise ``UserError`` if the topics of a pair are a long text."""
    for source, *others in pairs.pairs():
        topics = preparation.text.source(source)
        if preparation.text.settings.topics and topics.count(" ") >= MOST_TOPICS:
            raise UserError(
                f"{pairs.name} has {topics.count(' ') + 1} topic words in one row ({topics[:40]!r} ...), and a row has "
                f"at most {MOST_TOPICS}: name the column of the topics first in --columns."
            )
        yield topics, *others


def write_held_out(preparation: Preparation, split: str, items: Iterable[Texts], references: int) -> None:
    """Write the valid or test split as tokens and as raw text.

    If a further reference is missing, its line is empty. wean-evaluate skips empty lines.
    """
    options = preparation.options
    raw = Cleaner("none" if options.unicode == "none" else "NFC", joiners=True)
    missing = 0
    endings = ["raw.src", "raw.tgt", *(f"raw.tgt.{number}" for number in range(1, references))]
    with preparation.split(split, beside=endings) as writer:
        for source, target, *others in writer.until_full(items):
            lines = [raw.clean(text) for text in (source, target, *others)]
            if writer.add(source, target, beside=lines, references=others):
                missing += lines.count("")
    if missing:
        say("own_pairs", f"{split}: {missing:,} further references are missing; their lines are empty")


def write_sources(options: Namespace, preparation: Preparation) -> None:
    """Write only sources, with the text steps of ``--prepared``."""
    text = preparation.text
    with preparation.split("test", ["src"]) as writer:
        for number, line in enumerate(preparation.lines(options.test[0]), start=1):
            tokens = text.prepare(line)
            if not tokens:
                raise UserError(f"line {number} of {options.test[0]} is empty: take it out.")
            writer.split.write(tokens)


def draw_splits(options: Namespace, pairs: Pairs, files: set[str]) -> list[str]:
    """Return the split of each pair.

    Args:
        options: options with the sizes, the seed and the comparison of sources.
        pairs: the pairs to draw from.
        files: names of the splits that are not drawn.

    Raises:
        UserError: if there are too few pairs.
    """
    if len(files) == len(HELD_OUT):
        return ["train"] * len(pairs)
    if len(pairs) < FEWEST:
        left_out = pairs.reasons().replace(":", "; left out:", 1)
        raise UserError(
            f"{pairs.name} has {counted(len(pairs), 'pair')}: there must be {FEWEST} at least to draw splits from"
            f"{left_out}."
        )
    draw = Draw(options.seed, disjoint=True, key=options.leak_key)
    uncounted = Cleaner(options.unicode)
    for source, *_ in pairs.pairs():
        clean = uncounted.clean(source)
        draw.add(clean, clean)  # pairs with the same source get the same split
    share = max(1, min(MOST, len(draw) // SHARE))
    sizes = {split: (getattr(options, split) or [share])[0] for split in HELD_OUT if split not in files}
    splits = draw.assign(sizes, rest="train")
    counts = Counter(splits)
    if sum(sizes.values()) >= len(pairs):
        asked = " and ".join(f"--{split} {size}" for split, size in sizes.items())
        raise UserError(
            f"{pairs.name} has {counted(len(pairs), 'pair')}, and {asked} leave none to train: ask for fewer."
        )
    if any(not counts[split] for split in ("train", *sizes)):
        raise UserError(
            f"the pairs of {pairs.name} cannot be drawn into {len(sizes) + 1} splits without a common source, because "
            f"too many share one: give {' and '.join(f'--{split}' for split in sizes)} separate files, or add pairs "
            "with other sources."
        )
    return splits


def build(options: Namespace, preparation: Preparation) -> None:
    """Survey the files, draw the splits, and write the held-out splits first."""
    if options.prepared:
        text = prepared_text(Path(), options.prepared)
        assert text is not None, "a directory without settings is rejected"
        preparation.use(text)
    if not options.data:
        write_sources(options, preparation)
        return
    pairs_by_split = open_all(options, preparation)
    data = pairs_by_split.pop("data")
    splits = draw_splits(options, data, set(pairs_by_split))
    for split in HELD_OUT:
        if split in pairs_by_split:
            pairs = pairs_by_split[split]
            write_held_out(preparation, split, texts_of(preparation, pairs), pairs.references)
        else:
            drawn = items_of(split, splits, texts_of(preparation, data))
            write_held_out(preparation, split, drawn, data.references)
    with preparation.split("train") as writer:
        writer.add_all(texts[:2] for texts in items_of("train", splits, texts_of(preparation, data)))
    for sentence in small_splits({name: split.kept for name, split in preparation.output.splits.items()}):
        say("own_pairs", f"warning: {sentence}: give more pairs, or your own files as test and valid")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_preparation(parser(), build, arguments, inputs=inputs, version="3")


if __name__ == "__main__":
    sys.exit(main())
