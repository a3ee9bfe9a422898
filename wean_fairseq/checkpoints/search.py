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


# Generation options of fairseq that a model keeps, and that a call can change: type, placeholder and help text.
GENERATION: dict[str, tuple[type, str, str]] = {
    "max_len_a": (float, "A", "A of the longest output, A times the source length plus B"),
    "max_len_b": (int, "B", "B of the longest output, A times the source length plus B"),
    "min_len": (int, "N", "shortest output in words"),
    "lenpen": (float, "X", "exponent of the length that divides the score of an output"),
    "unkpen": (float, "X", "penalty subtracted from the score of <unk>"),
    "no_repeat_ngram_size": (int, "N", "length of n-grams that an output may not repeat"),
    "temperature": (float, "X", "temperature that divides the scores of words"),
    "sampling": (bool, "", "draw the words of an output instead of searching for the best"),
    "sampling_topk": (int, "N", "draw from the N most probable words, with --sampling"),
    "sampling_topp": (float, "P", "draw from the most probable words whose probabilities sum to P, with --sampling"),
    "diverse_beam_groups": (int, "N", "groups of hypotheses in diverse beam search; N divides the beam size"),
    "diverse_beam_strength": (float, "X", "penalty of diverse beam search for words that other groups chose"),
}


def add_generation_options(group: argparse._ActionsContainer) -> None:
    """Add the options of ``GENERATION`` to a parser or a group of it."""
    for name, (kind, metavar, text) in GENERATION.items():
        flag = f"--{name.replace('_', '-')}"
        if kind is bool:
            group.add_argument(flag, action="store_true", help=text)
        else:
            group.add_argument(flag, type=kind, metavar=metavar, help=text)


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
    add("--essay-length", type=int, metavar="N", help="words of an essay, for archs that plan its length")
    add(
        "--replace-unk",
        action=argparse.BooleanOptionalAction,
        help="replace <unk> by the source word with most attention (default: on, unless the model copies)",
    )
    add_generation_options(group)


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
