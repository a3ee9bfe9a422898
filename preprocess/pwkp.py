"""Prepare PWKP / WikiSmall or WikiLarge, anonymised or original, from DRESS's data as {train,valid,test}.{src,tgt}.

    python preprocess/pwkp.py --data path/to/wikismall --output data/pwkp --lowercase

DIR contains PWKP_108016.tag.80.aner.{train,valid,test}.{src,dst}, with placeholders such as PERSON@1 for named
entities, and PWKP_108016.tag.80.aner.ori.*, without placeholders (``--form original``). Missing splits are skipped. For
the anonymised form, a file ``<split>.entities`` is written. Each of its lines maps the placeholders of a pair to their
words, as JSON. The words come from the map in the released data (``.aner.map.t7``) if it exists. Otherwise, they are
found by comparing the anonymised form of the source with the original form. restore_entities.py restores the words in
outputs. Use ``--name wiki.full.aner`` for WikiLarge.
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from corpus import entities
from corpus.command import preparation_parser, run_preparation
from corpus.output import SIDES, SPLITS
from corpus.plain import complete_splits
from corpus.preparation import PairWriter, Preparation
from corpus.torch7 import read_torch7

from wean_fairseq.errors import UserError

ENDS = ("src", "dst")
ENTITIES = "entities"


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = preparation_parser("pwkp", __doc__)
    options.add_argument("--data", type=Path, required=True, metavar="DIR", help="wikismall or wikilarge of the bundle")
    options.add_argument("--name", default="PWKP_108016.tag.80.aner", help="prefix of the file names")
    options.add_argument("--form", choices=("anonymised", "original"), default="anonymised", help="of named entities")
    options.add_argument("--split", nargs="+", choices=SPLITS, default=list(SPLITS), help="write these alone")
    return options


def pairs_of(options: Namespace) -> dict[str, list[Path]]:
    """Return the files of each split in the chosen form. Held-out splits come first."""
    name = options.name + (".ori" if options.form == "original" else "")
    chosen = [split for split in reversed(SPLITS) if split in options.split]
    return complete_splits({split: [options.data / f"{name}.{split}.{end}" for end in ENDS] for split in chosen})


def originals_of(options: Namespace) -> dict[str, Path]:
    """Return the original source file of each split. Its words replace the placeholders of the anonymised form."""
    paths = {split: options.data / f"{options.name}.ori.{split}.{ENDS[0]}" for split in options.split}
    return {split: path for split, path in paths.items() if path.is_file()}


def map_of(options: Namespace) -> Path | None:
    """Return the entity map of the release, if it exists and is needed."""
    path = options.data / f"{options.name}.map.t7"
    return path if options.form == "anonymised" and path.is_file() else None


def inputs(options: Namespace) -> list[Path]:
    """Return the source files."""
    files_by_split = pairs_of(options)
    if not files_by_split:
        raise UserError(
            f"{options.data} has no {options.name}{'.ori' if options.form == 'original' else ''}"
            ".{train,valid,test}.{src,dst}: is it the wikismall directory of the DRESS data bundle?"
        )
    files = [path for paths in files_by_split.values() for path in paths]
    entity_map = map_of(options)
    if entity_map is not None:
        return [*files, entity_map]
    if options.form == "anonymised":
        files += [path for split, path in originals_of(options).items() if split in files_by_split]
    return files


def lua_list(table: Any, split: str, path: Path) -> list[Mapping[str, str]]:
    """Return the entity maps of the sentences of one split.

    Raises:
        UserError: if the table is not the entity map of the release.
    """
    rows = table.get(split) if isinstance(table, dict) else None
    if not isinstance(rows, dict) or set(rows) != set(range(1, len(rows) + 1)):
        raise UserError(f"{path} has no list {split!r}: is it the map of the DRESS bundle?")
    for row in {id(row): row for row in rows.values()}.values():  # the file can repeat a table without its content
        texts = [*row, *row.values()] if isinstance(row, dict) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise UserError(f"{path} has something else than words for placeholders in its list {split!r}.")
    return [rows[number] for number in range(1, len(rows) + 1)]


def maps(preparation: Preparation, split: str, paths: list[Path], table: Any) -> Iterator[Mapping[str, str] | None]:
    """Yield the words of the placeholders for each pair of a split, or None if they are unknown."""
    options = preparation.options
    path = map_of(options)
    original = originals_of(options).get(split)
    if path is not None:
        yield from lua_list(table, split, path)
    elif original is not None:
        for _, forms in preparation.aligned_lines([paths[0], original], count=False):
            yield entities.align(*forms)
    else:
        while True:
            yield None


def write_anonymised(preparation: Preparation, writer: PairWriter, paths: list[Path], table: Any) -> None:
    """Write one split with its entities."""
    known = maps(preparation, writer.split.name, paths, table)
    for where, (source, target) in preparation.aligned_lines(paths):
        if writer.full:
            break
        names = next(known, None)
        if names is None:
            preparation.left_out[f"{writer.split.name}_entities_unknown"] += 1
            names = {}
        words = {word for word in f"{source} {target}".split() if entities.is_placeholder(word)}
        clean_names = {
            preparation.clean(word): preparation.clean(names[word]) for word in sorted(words) if word in names
        }
        writer.add(source, target, beside=[json.dumps(clean_names, ensure_ascii=False)], where=_held_out(writer, where))
    else:
        if next(known, None) is not None:
            raise UserError(f"{map_of(preparation.options)} has entities for more lines than {paths[0]}.")


def _held_out(writer: PairWriter, where: str) -> str:
    """Return the place for the error message about an empty side, or an empty text if the pair may be dropped.

    Held-out files must stay aligned with the files of the other form.
    """
    return where if writer.held_out else ""


def build(options: Namespace, preparation: Preparation) -> None:
    """Write the splits whose files exist."""
    path = map_of(options)
    table = None if path is None else read_torch7(preparation.output.source(path))
    for split, paths in pairs_of(options).items():
        if options.form == "anonymised":
            with preparation.split(split, SIDES, [ENTITIES]) as writer:
                write_anonymised(preparation, writer, paths, table)
            continue
        with preparation.split(split) as writer:
            for where, (source, target) in writer.until_full(preparation.aligned_lines(paths)):
                writer.add(source, target, where=_held_out(writer, where))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_preparation(parser(), build, arguments, inputs=inputs)


if __name__ == "__main__":
    sys.exit(main())
