"""The search of a trained model: options of fairseq-generate, kept in a file beside its checkpoint.

``search.txt`` holds the options by which the outputs of a training are searched, as they are typed. The recipes write
it when they decode; ``wean_fairseq.load`` and the commands of this package start from it; ``wean-export`` keeps it.
"""

import argparse
import shlex
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..storage.files import read_regular

NAME = "search.txt"
PRESETS = ("fairseq", "wean", "copynet", "cdnpg-sampling")
TASK_OPTIONS = ("search_preset", "essay_length")  # the others are generation options


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Let a command take the search of a model; options that are not given are not among what is parsed."""
    group = parser.add_argument_group(
        "search",
        "search settings saved with the model (default: those saved with the checkpoint)",
        argument_default=argparse.SUPPRESS,
    )
    add = group.add_argument
    add("--search-preset", choices=PRESETS, help="search of a paper, or fairseq's")
    add("--beam", type=int, metavar="N", help="number of hypotheses per sentence")
    add("--max-len-a", type=float, metavar="A", help="A of the longest output, A times the source length plus B")
    add("--max-len-b", type=int, metavar="B", help="B of the longest output, A times the source length plus B")
    add("--min-len", type=int, metavar="N", help="shortest output in words")
    add("--essay-length", type=int, metavar="N", help="words of an essay, for archs that plan its length")
    add("--lenpen", type=float, metavar="X", help="exponent of the length that divides the score of an output")
    add("--unkpen", type=float, metavar="X", help="penalty subtracted from the score of <unk>")
    add("--no-repeat-ngram-size", type=int, metavar="N", help="length of n-grams that an output may not repeat")
    add(
        "--replace-unk",
        action=argparse.BooleanOptionalAction,
        help="replace <unk> by the source word with most attention (default: on, unless the model copies)",
    )


def kept_search(checkpoint: str | Path) -> dict[str, Any]:
    """The search that was kept beside a checkpoint, by name; options that are not about the search are left out.

    Raises:
        UserError: if the file is nothing that fairseq-generate would take.
    """
    file = Path(checkpoint).parent / NAME
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_search_options(parser)
    try:
        found, _ = parser.parse_known_args(shlex.split(read_regular(file).decode("utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, argparse.ArgumentError) as error:
        raise UserError(f"{file} does not hold options of fairseq-generate ({error}): fix or delete it.") from error
    return vars(found)
