"""Print the papers' tables in Markdown, with published numbers, our own numbers and the origin of each number.

All numbers in a line of a table have the same origin, which the last column names. There are five kinds of lines:

* *published*: printed by the paper, for a system that is also implemented here;
* *reported, not run*: printed by the paper, for a system that is not implemented here;
* *released outputs*: texts released by the system's authors, scored here;
* *ours*: measured here, from ``results/*.json``;
* *not run*: missing numbers, with the command that measures them.

The command ``wean-evaluate paper-tables`` neither trains nor decodes. It only scores released outputs that the user has
downloaded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from ..console import OneLineParser, counted, markdown, markdown_code, markdown_note, split_names
from ..errors import UserError, printable
from .corpus import COPY_ROW, Corpus, read_corpus
from .evaluate import Resampling, evaluate
from .metrics.registry import MetricSettings
from .output_reader import read_plain
from .parameters import SETTINGS, count_parameters
from .presets import columns_for
from .published import LEFT_OUT, PUBLISHED_TABLES, SCORERS, PublishedRow, PublishedTable, fits
from .results import Result, read_result
from .score_file import format_score
from .system_arguments import SEVERAL
from .tables import Table
from .text_files import PathLike, check_outputs, write_atomically

#: Keys of the tables whose numbers are computed from the model's sizes instead of being measured.
COUNTED = "wean-table5"
#: The results of measurements, by name.
Results = Mapping[str, Result]
_ABSENT = "–"
#: File name patterns of references and sources in the releases of DRESS and TurkCorpus.
_REFERENCES = ("Reference*", "test*.turk.*")
_SOURCES = ("Complex*", "test*.norm")


@dataclass
class Legend:
    """The origins of a table's numbers, and the mark of each origin, such as P1.

    Attributes:
        marks: mark of each origin, by the text that describes the origin.
        missing: text of an origin with the placeholder ``{system}`` -> the systems that replace the placeholder.
    """

    marks: dict[str, str] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)

    def mark(self, kind: str, text: str) -> str:
        """Return the mark of an origin, which is described by ``text``. A new origin gets the next mark of its kind."""
        if text not in self.marks:
            number = sum(mark.startswith(kind) for mark in self.marks.values()) + 1
            self.marks[text] = f"{kind}{number}"
        return self.marks[text]

    def lines(self) -> list[str]:
        ordered = sorted(self.marks.items(), key=lambda item: (item[1][0], int(item[1][1:])))
        return [f"- {mark}: {self._insert_systems(text)}" for text, mark in ordered]

    def _insert_systems(self, text: str) -> str:
        systems = " ".join(self.missing.get(text, ()))
        return text.replace("{system}", f"'{systems}'" if " " in systems else systems)


class Line(NamedTuple):
    """A line of a table.

    Attributes:
        kind: one of the kinds that the module docstring lists.
        cells: one text per column.
        origin: marks of the origins in the legend.
    """

    system: str
    kind: str
    cells: tuple[str, ...]
    origin: str


def read_results(folder: PathLike) -> Results:
    """Return all results of a folder by name.

    Raises:
        UserError: if the folder does not exist, or a file in it is not a result.
    """
    if not Path(folder).is_dir():
        raise UserError(f"{folder} is not a folder with results; give the one that wean-evaluate record writes.")
    return {path.stem: read_result(path) for path in sorted(Path(folder).glob("*.json"))}


def table_lines(
    table: PublishedTable, data: str, results: Results, legend: Legend, counted: bool = False
) -> Iterator[Line]:
    """Yield the lines of one data set: a copy of the source, and then the paper's rows in the paper's order."""
    if table.preset:
        fitting = _matching(table.experiments[data], results)
        yield from _measured_lines(COPY_ROW, (COPY_ROW,), "scored here", table, fitting, legend)
    for name, row in table.rows[data].items():
        yield _published_line(name, row, table, legend)
        fitting = _matching(row.experiments or table.experiments.get(data, ()), results)
        if row.outputs:
            yield from _measured_lines(name, (row.outputs,), "released outputs", table, fitting, legend)
        if not row.runs:
            continue
        ours = [_counted_line(name, row, table, legend)] if counted else []
        ours += _measured_lines(name, row.runs, "ours", table, fitting, legend)
        yield from ours or [_missing_line(name, row, table, data, legend)]


def _matching(patterns: Sequence[str], results: Results) -> Results:
    return {name: result for name, result in results.items() if fits(name, patterns)}


def _published_line(name: str, row: PublishedRow, table: PublishedTable, legend: Legend) -> Line:
    absent = "not read" if row.scorer == "unread" else "not printed"
    cells = tuple(column.shown(score, absent) for score, column in zip(row.scores, table.columns, strict=True))
    cells += (_ABSENT,) * len(table.beside)
    origin = legend.mark("P", f"printed in {table.source}; {row.origin}. Scorer: {SCORERS[row.scorer]}.")
    return Line(name, "published" if row.runs else "reported, not run", cells, origin)


def _measured_lines(
    name: str, systems: Sequence[str], kind: str, table: PublishedTable, results: Results, legend: Legend
) -> list[Line]:
    """Return one line for every result that contains scores of ``systems`` for a column. Equal lines are merged."""
    origins: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for result in results.values():
        evaluation = result.evaluation
        for system in (system for system in systems if system in evaluation.scores):
            scores = evaluation.scores[system]
            keys = [column.key_in(scores) for column in (*table.columns, *table.beside)]
            if not any(keys[: len(table.columns)]):
                continue
            cells = tuple(format_score(scores[key].score) if key else "not scored" for key in keys)
            signatures = dict.fromkeys(evaluation.columns[key].signature for key in keys if key)
            shown = f"ours ({markdown_code(system)})" if kind == "ours" else kind
            mark = legend.mark("R", _describe(result, list(signatures)))
            origins.setdefault((shown, cells), []).append(mark)
    return [Line(name, shown, cells, ", ".join(marks)) for (shown, cells), marks in origins.items()]


def _describe(result: Result, signatures: Sequence[str]) -> str:
    """Describe the origin of a measured number by file, data, seed, commit, command, signatures and note."""
    data = result.evaluation.data
    facts = [result.where or f"results/{result.experiment}.json", counted(data.sentences, "sentence")]
    facts += [counted(data.references, "reference")] if data.references else []
    if not result.where:
        facts += [f"seed {result.seed}", f"commit {(result.commit or 'unknown')[:12]}"]
    measured = markdown(", ".join(facts)) + f", {markdown_code(result.command)}"
    signed = "signature " + ", ".join(map(markdown_code, signatures))
    return f"{measured}; {signed}." + (f" {markdown_note(result.note)}" if result.note else "")


def _missing_line(name: str, row: PublishedRow, table: PublishedTable, data: str, legend: Legend) -> Line:
    """Return the line of a system that has no result. It names the command that would measure the result."""
    text = f"missing here: {row.command or table.commands[data]}"
    patterns = row.experiments or table.experiments.get(data, ())
    if patterns:
        fitting = " or ".join(f"`{pattern}`" for pattern in patterns)
        text += f", then `wean-evaluate record` under a name that fits {fitting}"
    text += "."
    systems = legend.missing.setdefault(text, [])
    if row.runs[0] not in systems:
        systems.append(row.runs[0])
    return Line(name, "not run", (_ABSENT,) * (len(table.columns) + len(table.beside)), legend.mark("M", text))


def _counted_line(name: str, row: PublishedRow, table: PublishedTable, legend: Legend) -> Line:
    cells = tuple(f"{count_parameters(row.runs[0], setting.words, setting.width) / 1e6:.2f}" for setting in SETTINGS)
    (command,) = table.commands.values()
    text = f"counted in layers that are built here, Seq2seq's with a bias and 4 special symbols: {command}"
    return Line(name, "ours", cells, legend.mark("C", f"{text}."))


def render_table(key: str, results: Results, released: Results) -> tuple[str, list[list[str]]]:
    """Return the Markdown of a published table, and one row of the overview for each of its data sets."""
    table = PUBLISHED_TABLES[key]
    blocks, overview = [f"## {table.source}: {table.title}", ""], []
    for data in table.rows:
        legend = Legend()
        available = dict(results)
        if table.preset and data in released:
            # the pattern itself is used as a name, because every pattern matches its own text
            available[table.experiments[data][0]] = released[data]
        lines = list(table_lines(table, data, available, legend, counted=key == COUNTED))
        blocks += [f"### {data}", ""] if len(table.rows) > 1 else []
        blocks += [_line_table(table, lines).as_markdown(), "", *legend.lines(), ""]
        overview.append([table.source, data, *_overview(lines)])
    blocks += [f"Note: {table.note}", ""] if table.note else []
    return "\n".join(blocks), overview


def _line_table(table: PublishedTable, lines: Sequence[Line]) -> Table:
    """Format lines as a table."""
    heads = [column.head for column in table.columns]
    heads += [f"{column.label} (ours alone)" for column in table.beside]
    rows = []
    for system, members in groupby(lines, key=lambda line: line.system):
        names = [system, *[""] * len(lines)]
        rows += [[name, line.kind, *line.cells, line.origin] for name, line in zip(names, members, strict=False)]
    return Table(["system", "numbers", *heads, "from"], rows, align=f"ll{'r' * len(heads)}l")


def _overview(lines: Sequence[Line]) -> list[str]:
    """Return the number of systems in the lines of a data set, and their names for each kind of line."""
    systems: dict[str, set[str]] = {}
    for line in lines:
        if line.system != COPY_ROW:
            systems.setdefault(line.system, set()).add(line.kind.split(" (")[0])
    groups = (
        [system for system, kinds in systems.items() if kind in kinds]
        for kind in ("ours", "released outputs", "not run", "reported, not run")
    )
    return [str(len(systems)), *(", ".join(group) or _ABSENT for group in groups)]


def read_released(arguments: Sequence[str]) -> dict[str, Result]:
    """Score the released outputs of every ``SET=FOLDER`` argument.

    Returns:
        The result of each data set, by its name.

    Raises:
        UserError: if a set has no released outputs, or a folder contains no output, no reference or no source.
    """
    sets = {
        data: table
        for table in PUBLISHED_TABLES.values()
        for data, rows in table.rows.items()
        if any(row.outputs for row in rows.values())
    }
    results = {}
    for data, folder in split_names(arguments, "--released"):
        if data not in sets:
            raise UserError(f"no outputs are released for {data!r}; choose from {', '.join(sets)}.")
        results[data] = score_released(data, Path(folder), sets[data])
    return results


def score_released(data: str, folder: Path, table: PublishedTable) -> Result:
    """Score those outputs in a folder that correspond to rows of a published table."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder with the released outputs of {data}; give one.")
    corpus = _corpus(data, folder, table.references)
    names = [row.outputs for row in table.rows[data].values() if row.outputs]
    systems = [read_plain(name, folder / name) for name in names if (folder / name).exists()]
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
    """Read the references and the source, whose file names follow the patterns of the releases.

    The number of references must equal the published number.
    """
    choices = _find_files(folder, _REFERENCES, "references")
    references = next((paths for paths in choices if len(paths) == number), choices[0])
    if len(references) != number:
        raise UserError(
            f"{folder} has {counted(len(references), 'reference')} but the published rows of {data} were scored "
            f"against {number}; put those there, named {' or '.join(_REFERENCES)}."
        )
    return read_corpus(references, _find_files(folder, _SOURCES, "source")[0][0])


def _find_files(folder: Path, patterns: Sequence[str], what: str) -> list[list[Path]]:
    """For each pattern that matches a file, return the matching files."""
    matches = [sorted(path for path in folder.glob(pattern) if not path.is_dir()) for pattern in patterns]
    if not any(matches):
        raise UserError(f"{folder} has no {what}; put them there, named {' or '.join(patterns)}.")
    return [paths for paths in matches if paths]


_HEAD = f"""# The papers' tables

Generated by `bash examples/paper_tables.sh`; never edited by hand. Each system has a line for the scores in its paper
(*published*; *reported, not run* where the system is not implemented here), the scores of its *released outputs* here,
*our* scores, or *not run*. The last column names the origin of the numbers in the line: P = a paper,
R = scores measured here, C = counted here, M = missing here. Our scores are often measured after training on other data
or at another size than the paper's: read the origin before comparing. {_ABSENT} = missing.

"""
_OVERVIEW = ["table", "data", "systems", "ours", "released outputs, scored here", "not run", "not implemented"]


def render_document(keys: Sequence[str], results: Results, released: Results) -> tuple[str, str]:
    """Return the whole document, and its overview as a separate text."""
    tables, rows = zip(*(render_table(key, results, released) for key in keys), strict=True)
    overview = Table(_OVERVIEW, [row for table_rows in rows for row in table_rows], align="llrllll").as_markdown()
    left_out = ["## Not among these tables", "", *(f"- {sentence}" for sentence in LEFT_OUT), ""]
    return f"{_HEAD}{overview}\n\n" + "\n".join([*tables, *left_out]), overview


def paper_tables_command(argv: list[str]) -> str:
    """Run ``wean-evaluate paper-tables``."""
    description = "Every table of the papers in Markdown: published numbers next to ours, each with its origin."
    parser = OneLineParser(prog="wean-evaluate paper-tables", description=description)
    parser.add_argument("--results", default="results", metavar="FOLDER", help="default: %(default)s")
    released = "released outputs to score again: pwkp=FOLDER or ew-sew=FOLDER, with Reference and Complex next to them"
    parser.add_argument("--released", metavar="SET=FOLDER", help=released, **SEVERAL)
    tables = list(PUBLISHED_TABLES)
    parser.add_argument("--table", nargs="+", choices=tables, default=tables, help="only these tables")
    parser.add_argument("--output", metavar="OUT", help="write the Markdown there, and print the overview alone")
    parser.add_argument("--overwrite", action="store_true", help="replace an older file")
    args = parser.parse_args(argv)
    check_outputs({"--output": args.output}, Path(args.results).glob("*.json"), overwrite=args.overwrite)
    text, overview = render_document(args.table, read_results(args.results), read_released(args.released))
    if not args.output:
        return text
    write_atomically(args.output, text)
    return f"{overview}\n{printable(args.output)} written: {len(args.table)} tables.\n"
