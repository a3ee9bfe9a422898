"""``wean-report``: write a report on run directories as an HTML page and as Markdown, with figures as PNG and SVG."""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .. import __version__
from ..console import command, command_parser, configure_logging, whole_number
from ..errors import UserError, printable
from ..evaluation.corpus import COPY_ROW
from ..evaluation.parameters import parameter_table
from ..evaluation.score_file import SIGNIFICANT, Evaluation
from ..evaluation.text_files import check_outputs, read_bytes, write_atomically
from ..evaluation.training_log import LOWER_IS_BETTER, TrainingLog
from . import comparison, context, dump_figures, figures, scores
from .document import Block, Document, FigureBlock, ListBlock, Section, html_page, markdown_page, slug
from .runs import Run, find_runs, read_recorded, read_run
from .samples import samples_block
from .scores import Entry, Experiment
from .style import draw_files

_EXAMPLES = """examples:
  wean-report runs/quickstart --output runs/quickstart/report
  wean-report runs/granularity_transformer/table2 runs/copy_transformer/quora --output quora
  wean-report runs/copy_transformer/quora results/wean_quora_gpu.json --output quora

A run is a directory that a recipe wrote. Runs that differ only in their seed become one experiment, with means and
deviations; experiments that were scored on the same sentences are put side by side. Reports are
deterministic and use only files in the run directories.
"""
# recognises pages that wean-report has written by one of their lines
_MADE_BY = re.compile(
    rb'^(- |<p class="note">)Made by (`|<code>)wean-report .*\(wean\\?_fairseq \S+\) from the files of the run dir',
    re.MULTILINE,
)
_CURVES = ("bleu", "nll_loss", "loss", "ppl")
_TITLES = 3  # maximum number of experiments in the page's title


class Report:
    """Builds the document of a report, experiment by experiment.

    Args:
        folder: directory of the figures.
        number: number of sample sentences for each test set.
        checkpoints: whether to draw figures that need a checkpoint.

    Attributes:
        files: content of the files of the figures.
    """

    def __init__(self, folder: Path, number: int, *, checkpoints: bool = True) -> None:
        self.folder = folder
        self.number = number
        self.checkpoints = checkpoints
        self.files: dict[Path, bytes] = {}
        # Names of the figures drawn so far. They are needed to create different file names for systems whose names
        # differ only in special characters.
        self._drawn: set[str] = set()
        self._compared: set[tuple[str, str]] = set()  # experiments and test sets that the overview already contains

    def document(self, runs: Sequence[Run], command: str) -> Document:
        experiments = scores.group_runs(runs)
        groups = comparison.shared_tests(experiments)
        sections = [self._overview(entries) for entries in groups]
        self._compared = {(entry.experiment.title, entry.name) for entries in groups for entry in entries}
        for experiment in experiments:
            # If there is a single experiment, the headings need not name it.
            prefix = f"{experiment.title}: " if len(experiments) > 1 else ""
            sections += self._experiment(experiment, prefix)
        anchors = {"content"}  # the page template already contains this anchor
        for section in sections:
            section.anchor = slug(section.title, anchors)
        summary = [context.summary(experiment) for experiment in experiments]
        days = context.dates(experiments)
        made = f"Made by `{command}` (wean_fairseq {__version__}) from the files of the run directories"
        origin = [f"{made}, last written {days}." if days else f"{made}."]
        titles = [context.title(experiment) for experiment in experiments]
        title = "; ".join(titles) if len(titles) <= _TITLES else f"{len(titles)} experiments"
        return Document(f"Report: {title}", summary, sections, origin)

    def _overview(self, entries: Sequence[Entry]) -> Section:
        """Return the section on experiments that were scored on the same sentences, with the published tables."""
        title = f"All systems on the same {entries[0].evaluation.data.sentences:,} sentences"
        blocks: list[Block] = [*comparison.copy_warning(entries), comparison.reading_notes(entries)]
        blocks.append(comparison.overview_table(entries))
        panels = comparison.panels(entries)
        if panels:
            blocks.append(self._write_figure(partial(figures.scores, panels), title, f"{title}: some scores"))
        return Section(title, [*blocks, *comparison.published_tables(entries)])

    def _experiment(self, experiment: Experiment, prefix: str) -> Iterator[Section]:
        """Yield the sections of one experiment: warnings, outputs and scores come first, data and settings last."""
        opening = Section(experiment.title, [])
        yield opening
        for name in experiment.sets:
            # The outputs of the first run with this test set are shown. Other seeds have different outputs for the same
            # sentences.
            run = next(run for run in experiment.runs if name in run.sets)
            block = samples_block(run, run.sets[name], self.number)
            if block is not None:
                block.caption += _seed_suffix(experiment, run)
                yield Section(f"{prefix}Outputs on {name}", [block], level=3)
        for entry in experiment.sets.values():
            yield Section(f"{prefix}Scores on {entry.name}", [*self._scores(entry)], level=3)
        for title, content in (
            ("Learning curves", self._curves(experiment)),
            ("Attention, granularities and neighbours", self._inside_blocks(experiment)),
            ("Size and speed", _costs(experiment)),
        ):
            if blocks := [*content]:
                yield Section(f"{prefix}{title}", blocks, level=3)
        details: list[Block] = [context.data_table(experiment), *context.settings(experiment)]
        yield Section(f"{prefix}Data and settings", details, level=3)
        opening.blocks += context.warnings(experiment)  # added last, because the functions above may report problems

    def _scores(self, entry: Entry) -> Iterator[Block]:
        evaluation = entry.evaluation
        copied = scores.copy_wins(entry)
        if copied:
            yield ListBlock(scores.COPY_WINS, copied, "warning")
        yield ListBlock("How to read the tables", [*_reading_notes(entry)])
        if (entry.experiment.title, entry.name) not in self._compared:
            yield from comparison.published_tables([entry])
        panels = comparison.panels([entry], scores.metrics_to_draw(evaluation))
        if panels:
            spans = "with bootstrap intervals" if _has_intervals(evaluation) else "without intervals"
            spans = f"mean, least and most of {entry.seeds} seeds" if entry.seeds > 1 else spans
            title = f"{entry.experiment.title} {entry.name} scores"
            yield self._write_figure(partial(figures.scores, panels), title, f"Scores on {entry.name}, {spans}")
        yield from scores.score_tables(entry)
        yield from scores.significance_table(evaluation)
        signatures = [f"{key}: {column.signature}" for key, column in entry.columns.items()]
        yield ListBlock("Signatures", signatures, folded=True)
        if evaluation.data.warnings:
            yield ListBlock("Warnings of the scorer, in full", evaluation.data.warnings, "warning", folded=True)

    def _curves(self, experiment: Experiment) -> Iterator[Block]:
        for run in experiment.runs:
            histories = [system.log for system in run.systems.values() if system.log.valid]
            metric = _common_metric(histories)
            having = [history for history in histories if metric and metric in history.valid[-1].values]
            if not having:
                continue
            block = self._write_figure(
                partial(figures.draw_curves, having, [metric]),
                f"{experiment.title} {run.seed} curves {metric}",
                f"Validation {metric}{_seed_suffix(experiment, run)}",
            )
            better = "lower" if metric in LOWER_IS_BETTER else "higher"
            summaries = [figures.summarise(history, metric) for history in having]
            block.notes = [f"{better.capitalize()} is better.", *summaries]
            yield block

    def _inside_blocks(self, experiment: Experiment) -> Iterator[Block]:
        """Yield figures from the dumps and checkpoints of the systems in the first run."""
        run = experiment.runs[0]
        seed = _seed_suffix(experiment, run)

        def write(draw: Callable[[], Any], name: str, caption: str) -> FigureBlock:
            return self._write_figure(draw, f"{experiment.title} {name}", caption + seed)

        for system in run.systems.values():
            yield from dump_figures.from_dumps(system, write, run.problems)
        if self.checkpoints and any(system.checkpoint for system in run.systems.values()):
            from . import checkpoint_figures  # noqa: PLC0415 - needs torch

            yield from checkpoint_figures.from_checkpoints(run, seed, write)

    def _write_figure(self, draw: Callable[[], Any], name: str, caption: str) -> FigureBlock:
        files = draw_files(draw, self.folder / slug(name, self._drawn))
        self.files |= files
        png, svg = files
        return FigureBlock(png, svg, caption, content=files[svg])


def _has_intervals(evaluation: Evaluation) -> bool:
    return any(score.interval for scores in evaluation.scores.values() for score in scores.values())


def _seed_suffix(experiment: Experiment, run: Run) -> str:
    return f", seed {run.seed}" if len(experiment.runs) > 1 else ""


def _common_metric(histories: Sequence[TrainingLog]) -> str:
    counts = {metric: sum(metric in history.valid[-1].values for history in histories) for metric in _CURVES}
    return max(_CURVES, key=lambda metric: counts[metric]) if any(counts.values()) else ""


def _costs(experiment: Experiment) -> Iterator[Block]:
    run = experiment.runs[0]
    yield from context.cost_table(run)
    names = [name for system in run.systems.values() if system.folder for name in (system.name, system.folder.name)]
    if any(name.startswith("wean_lstm") for name in names) and not run.is_own_data:
        yield parameter_table()


def _reading_notes(entry: Entry) -> Iterator[str]:
    if entry.evaluation.comparisons:
        seeds = ", the same way with every seed" if entry.seeds > 1 else ""
        yield f"* = differs from {entry.baseline} in both paired tests (p < {SIGNIFICANT}){seeds}."
    if COPY_ROW in entry.evaluation.scores:
        copied = f"{COPY_ROW} is the source, scored as if a system had written it."
        yield f"{copied} ▽ = less than that, where more is better."
    if entry.seeds > 1:
        yield "Mean ± sample standard deviation over seeds."
    elif _has_intervals(entry.evaluation):
        yield "In small: 95% interval of bootstrap resamples of the test set."


def _relative_argument(argument: str) -> str:
    """Return an argument of the command for display.

    A path below the working directory is shortened to a relative path.
    """
    path = Path(argument)
    return str(path.relative_to(Path.cwd())) if path.is_absolute() and path.is_relative_to(Path.cwd()) else argument


def read_all(folders: Sequence[str]) -> list[Run]:
    """Read every run in the folders or below them, each only once.

    Raises:
        UserError: if a folder is missing or contains no run.
    """
    paths = {path.resolve(): path for folder in folders for path in find_runs(Path(folder))}
    return [read_recorded(path) if path.is_file() else read_run(path) for path in paths.values()]


def _check_folder(folder: Path) -> None:
    """Raise ``UserError`` if a file to write is a link, was not written by wean-report, or cannot be written."""
    figures, pages = folder / "figures", [folder / "report.md", folder / "report.html"]
    there = [path for path in (*pages, figures) if os.path.lexists(path)]
    ours = [path for path in there if path.is_file() and (_MADE_BY.search(content := read_bytes(path)) or not content)]
    foreign = [path for path in (*there, *figures.glob("*")) if path.is_symlink()]
    foreign += [path for path in there if path not in ours and not (ours and path == figures and figures.is_dir())]
    if foreign:
        raise UserError(f"{foreign[0]} is a link, or was not written by wean-report: choose another --output.")
    check_outputs({f"{page.name} of --output:": page for page in pages}, [], overwrite=True)


@command("wean-report")
def main(arguments: list[str]) -> str:
    """Run the command line."""
    description = "Write a report on one or many experiments: report.html, report.md and figures/."
    parser = command_parser("wean-report", description, _EXAMPLES)
    add = parser.add_argument
    places = "run directory, one that holds several, or a file of wean-evaluate record"
    add("runs", nargs="+", metavar="RUN", help=places)
    add("--output", default="report", metavar="DIR", help="where to write it (default: %(default)s)")
    samples = "sentences shown of each test set (default: %(default)s)"
    add("--samples", type=whole_number(0), default=12, metavar="N", help=samples)
    add("--no-checkpoints", action="store_true", help="leave out attention, neighbours and BERT's layers")
    args = parser.parse_args(arguments)
    configure_logging("wean-report")
    folder = Path(args.output)
    _check_folder(folder)
    report = Report(folder / "figures", args.samples, checkpoints=not args.no_checkpoints)
    runs = read_all(args.runs)
    document = report.document(runs, shlex.join(["wean-report", *map(_relative_argument, arguments)]))
    # An older report is replaced when all of the new one is in memory. The page that needs no other files comes first:
    # if this call is killed, a later call accepts the folder.
    files: dict[Path, str | bytes] = {folder / "report.html": html_page(document), **report.files}
    files[folder / "report.md"] = markdown_page(document, folder)
    for path, content in files.items():
        write_atomically(path, content)
    return "".join(f"{printable(str(folder / name))}\n" for name in ("report.html", "report.md"))
