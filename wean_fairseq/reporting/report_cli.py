"""``wean-report``: write a report on run directories as an HTML page and as Markdown, with figures as PNG and SVG."""

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from ..console import command, command_parser, configure_logging, whole_number
from ..errors import UserError, printable
from ..evaluation.text_files import read_bytes, write_atomically
from .build import Report
from .pages import html_page, markdown_page
from .runs import Run, find_runs, read_recorded, read_run

_EXAMPLES = """examples:
  wean-report runs/quickstart --output runs/quickstart/report
  wean-report runs/granularity_transformer/table2 runs/copy_transformer/quora --output quora
  wean-report runs/copy_transformer/quora results/wean_quora_gpu.json --output quora

A run is a directory that a recipe wrote. Runs that differ only in their seed become one experiment, with means and
deviations; experiments that were scored on the same sentences are put side by side. Reports are
deterministic and use only files in the run directories.
"""
_MADE_BY = re.compile(rb"Made by (`|<code>)wean-report")  # in the head of a report


def _relative_argument(argument: str) -> str:
    """Return an argument of the command. A path below the working directory becomes relative to it."""
    path = Path(argument)
    return str(path.relative_to(Path.cwd())) if path.is_absolute() and path.is_relative_to(Path.cwd()) else argument


def read_all(folders: Sequence[str]) -> list[Run]:
    """Read every run at or below the folders, each once.

    Raises:
        UserError: if a folder is missing or holds no run.
    """
    paths = {path.resolve(): path for folder in folders for path in find_runs(Path(folder))}
    return [read_recorded(path) if path.is_file() else read_run(path) for path in paths.values()]


def _check_folder(folder: Path) -> bool:
    """Return whether a folder has a report already.

    Raises:
        UserError: if a file to write is a link, or was not written by wean-report.
    """
    figures, pages = folder / "figures", [folder / "report.md", folder / "report.html"]
    there = [path for path in (*pages, figures) if os.path.lexists(path)]
    ours = [path for path in there if path.is_file() and _MADE_BY.search(read_bytes(path))]
    foreign = [path for path in (*there, *figures.glob("*")) if path.is_symlink()]
    foreign += [path for path in there if path not in ours and not (ours and path == figures and figures.is_dir())]
    if foreign:
        raise UserError(f"{foreign[0]} is a link, or was not written by wean-report: choose another --output.")
    return bool(ours)


@command("wean-report")
def main(arguments: list[str]) -> str:
    """Run the command line."""
    description = "Write a report on one or many experiments: report.html, report.md and figures/."
    parser = command_parser("wean-report", description, _EXAMPLES)
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="run directory, one that holds several, or a file of wean-evaluate record",
    )
    parser.add_argument("--output", default="report", metavar="DIR", help="where to write it (default: %(default)s)")
    parser.add_argument(
        "--samples",
        type=whole_number(0),
        default=12,
        metavar="N",
        help="sentences shown of each test set (default: %(default)s)",
    )
    parser.add_argument(
        "--no-checkpoints", action="store_true", help="leave out attention, neighbours and BERT's layers"
    )
    args = parser.parse_args(arguments)
    configure_logging("wean-report")
    folder = Path(args.output)
    is_report = _check_folder(folder)
    report = Report(folder / "figures", args.samples, checkpoints=not args.no_checkpoints)
    runs = read_all(args.runs)
    if not is_report:  # mark it before the figures, so that the next run continues after a kill
        write_atomically(folder / "report.md", "Made by `wean-report`, which has not finished.\n")
    document = report.document(runs, shlex.join(["wean-report", *map(_relative_argument, arguments)]), __version__)
    write_atomically(folder / "report.md", markdown_page(document, folder))
    write_atomically(folder / "report.html", html_page(document))
    return "".join(f"{printable(str(folder / name))}\n" for name in ("report.html", "report.md"))
