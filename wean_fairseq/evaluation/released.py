"""Score released outputs of published systems, as results like those in ``results/``."""

from collections.abc import Sequence
from pathlib import Path

from ..console import counted, split_name
from ..errors import UserError
from .corpus import Corpus, read_corpus
from .evaluate import Resampling, evaluate
from .metrics.registry import MetricSettings
from .output_reader import read_plain
from .presets import columns_for
from .published import PUBLISHED_TABLES, PublishedTable
from .results import Result

#: Patterns of references and sources in the releases: DRESS, then TurkCorpus.
REFERENCES = ("Reference*", "test*.turk.*")
SOURCES = ("Complex*", "test*.norm")


def read_released(arguments: Sequence[str]) -> dict[str, Result]:
    """Score the outputs of every ``SET=FOLDER``.

    Returns:
        Data set -> result.

    Raises:
        UserError: if a set has no released outputs, or a folder has no output, no reference or no source.
    """
    sets = {
        data: table
        for table in PUBLISHED_TABLES.values()
        for data, rows in table.rows.items()
        if any(row.outputs for row in rows.values())
    }
    results = {}
    for argument in arguments:
        data, folder = split_name(argument, "--released")
        if data not in sets:
            raise UserError(f"no outputs are released for {data!r}; choose from {', '.join(sets)}.")
        results[data] = score_released(data, Path(folder), sets[data])
    return results


def score_released(data: str, folder: Path, table: PublishedTable) -> Result:
    """Score the outputs in a folder that have rows in the table."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder with the released outputs of {data}; give one.")
    corpus = _corpus(data, folder, table.references)
    names = [row.outputs for row in table.rows[data].values() if row.outputs]
    systems = [read_plain(name, folder / name) for name in names if (folder / name).is_file()]
    if not systems:
        raise UserError(f"{folder} has no output of {data}; name the files {', '.join(names)}.")
    keys = {key for column in (*table.columns, *table.beside) for key in column.keys}
    columns = [column for column in columns_for([table.preset], [], MetricSettings()) if column.key in keys]
    evaluation = evaluate(systems, corpus, columns, Resampling(0, 0))
    files = [file for role in evaluation.data.files.values() for file in role]
    return Result(
        experiment="",
        command=f"wean-evaluate paper-tables --released {data}=...",
        seed=0,
        evaluation=evaluation,
        note="Files: " + ", ".join(f"{file.name} {file.sha256[:8]}" for file in files) + ".",
        where=f"released outputs of {data} scored now",
    )


def _corpus(data: str, folder: Path, number: int) -> Corpus:
    """Read references and source by their names in the releases. The number of references must be the published one."""
    choices = _find_files(folder, REFERENCES, "references")
    references = next((paths for paths in choices if len(paths) == number), choices[0])
    if len(references) != number:
        raise UserError(
            f"{folder} has {counted(len(references), 'reference')} but the published rows of {data} were scored "
            f"against {number}; put those there, named {' or '.join(REFERENCES)}."
        )
    return read_corpus(references, _find_files(folder, SOURCES, "source")[0][0])


def _find_files(folder: Path, patterns: Sequence[str], what: str) -> list[list[Path]]:
    """Return the matching files of every pattern that matches any."""
    matches = [sorted(path for path in folder.glob(pattern) if path.is_file()) for pattern in patterns]
    if not any(matches):
        raise UserError(f"{folder} has no {what}; put them there, named {' or '.join(patterns)}.")
    return [paths for paths in matches if paths]
