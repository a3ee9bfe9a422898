"""Common command line of the scripts that change the outputs of a model.

They read the log of fairseq-generate, or plain text.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from corpus.reading import read_lines
from wean_fairseq.console import OneLineParser, exit_status
from wean_fairseq.evaluation.file_formats import check_no_json, read_json_lines
from wean_fairseq.evaluation.output_reader import check_no_log, read_generated
from wean_fairseq.evaluation.text_files import check_outputs, write_atomically


def outputs_parser(name: str, doc: str | None) -> ArgumentParser:
    """Return a parser with the options that name the outputs and the file to write.

    Args:
        name: name of the script, without its suffix.
        doc: docstring of the module. Its first line is the description.
    """
    parser = OneLineParser(prog=f"{name}.py", description=(doc or "").partition("\n")[0])
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--generated", type=Path, metavar="LOG", help="output of fairseq-generate")
    group.add_argument("--input", type=Path, metavar="FILE", help="plain text, one output per line")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an older file")
    return parser


def rewrite_outputs(
    name: str, options: Namespace, change: Callable[[list[str]], Iterable[str]], reads: Sequence[Path] = ()
) -> int:
    """Write the changed outputs in the order of the test set. Return the exit status.

    Args:
        name: name of the script.
        options: options of ``outputs_parser``.
        change: function that returns one line for each output.
        reads: other files that ``change`` reads. These must not be overwritten.
    """

    def work() -> None:
        inputs = [options.generated or options.input, *reads]
        check_outputs({"--output": options.output}, inputs, overwrite=options.overwrite)
        outputs = _read_outputs(options.generated, options.input)
        write_atomically(options.output, "".join(f"{line}\n" for line in change(outputs)))

    return exit_status(name, work)


def _read_outputs(generated: Path | None, text: Path | None) -> list[str]:
    if generated is not None:
        return list(read_generated("", generated).hypotheses)
    path = text or Path()
    lines = list(read_lines(path))
    from_generate = read_json_lines(lines, path)
    if from_generate is not None:
        return [texts[0] for texts in from_generate[0]]
    check_no_log(lines, path, f"--generated {path}{' after you have unpacked it' if path.suffix == '.gz' else ''}")
    check_no_json(lines, path)
    return lines
