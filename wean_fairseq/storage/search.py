"""The search options of a trained model: options of fairseq-generate in a file next to its checkpoint.

``search.txt`` contains these options in the form of a command line. Recipes write this file when they decode.
``wean_fairseq.load`` and the commands of this package read it, and ``wean-export`` stores its options.
"""

import argparse
import logging
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..console import number, whole_number
from ..errors import UserError, similar
from ..ranges import LARGEST, check_range, flag, values_of
from .files import read_regular
from .manifest import Manifest, check_file, write_recorded

logger = logging.getLogger(__name__)

SEARCH_FILE = "search.txt"
SEARCH_PRESETS = ("fairseq", "wean", "copynet", "cdnpg-sampling")
NO_UNKNOWN = 1000.0  # penalty that prevents the search from writing <unk>
_LONGEST = 10_000  # maximum number of characters of the stored options
TASK_OPTIONS = ("search_preset", "essay_length")  # all other options are generation options


# Generation options of fairseq that are stored with a model and that a call can change. Each value contains the type,
# the placeholder and the help text of the option.
GENERATION: dict[str, tuple[type, str, str]] = {
    "max_len_a": (float, "A", "factor A of the maximum output length, which is A times the source length plus B"),
    "max_len_b": (int, "B", "constant B of the maximum output length, which is A times the source length plus B"),
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

# Minimum and maximum of the numbers that a search accepts.
RANGES: dict[str, tuple[float, float]] = {
    "beam": (1, LARGEST),
    "nbest": (1, LARGEST),
    "max_len_a": (0, 100),  # with a larger factor, a search for millions of words would take days
    "max_len_b": (0, 10_000),
    "min_len": (0, 10_000),
    "no_repeat_ngram_size": (0, LARGEST),
    "prefix_size": (0, LARGEST),
    "lenpen": (-60, 60),  # even for a length of 100,000, the length to this power is finite
    "temperature": (1e-30, 1e30),  # outside this range, the divided scores overflow in float32
    "sampling_topk": (-1, LARGEST),  # in fairseq -1 means no limit
    "diverse_beam_groups": (-1, LARGEST),
    "diverse_beam_strength": (-1e30, 1e30),
    "diversity_rate": (-1, 1e30),
    "lm_weight": (-1e30, 1e30),
}
# Kinds of search, of which fairseq runs only one: each option, and its value without an effect.
_KINDS: dict[str, Any] = {"sampling": False, "diverse_beam_groups": -1, "match_source_len": False, "diversity_rate": -1}
_KINDS |= {"constraints": None, "score_reference": False}
# Options without an effect unless another one is set: the default, and the other option with its own default.
_NEEDS: dict[str, tuple[float | None, str, Any]] = {
    "sampling_topk": (-1, "sampling", False),
    "sampling_topp": (-1, "sampling", False),
    "diverse_beam_strength": (0.5, "diverse_beam_groups", -1),
    "lm_weight": (0, "lm_path", None),
    "retain_dropout_modules": (None, "retain_dropout", False),
}
# Options of fairseq's other tasks, which have no effect here, and their defaults.
_OF_OTHER_TASKS: dict[str, Any] = {"print_step": False, "retain_iter_history": False, "decoding_format": None}
_OF_OTHER_TASKS |= {"iter_decode_max_iter": 10, "iter_decode_with_beam": 1, "iter_decode_eos_penalty": 0}
_OF_OTHER_TASKS |= {"iter_decode_force_max_iter": False, "iter_decode_with_external_reranker": False}
_OF_OTHER_TASKS |= {"beam_mt": 0, "max_len_a_mt": 0, "max_len_b_mt": 200, "lenpen_mt": 1, "eos_token": None}
_COLDEST = 0.01  # lowest temperature of sampling. Below it, probabilities of words are 0 in float32
# Maximum values of a search that is stored with a model.
_MOST_STORED_WORDS = 400_000  # hypotheses times words
_STORED = {"beam": 200, "nbest": 200, "max_len_a": 10, "min_len": 2000}


def add_generation_options(group: argparse._ActionsContainer) -> None:
    """Add the options of ``GENERATION`` to a parser or one of its groups."""
    for name, (kind, metavar, text) in GENERATION.items():
        if kind is bool:
            group.add_argument(flag(name), action="store_true", help=text)
        else:
            read = number if kind is float else whole_number(*map(int, RANGES[name]))
            group.add_argument(flag(name), type=read, metavar=metavar, help=text)


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a search to a command. The parsed result contains only options that were given."""
    group = parser.add_argument_group(
        "search",
        "search settings saved with the model (default: those saved with the checkpoint)",
        argument_default=argparse.SUPPRESS,
    )
    add = group.add_argument
    add("--search-preset", choices=SEARCH_PRESETS, help="search of a paper, or fairseq's")
    add("--beam", type=whole_number(1), metavar="N", help="number of hypotheses per sentence")
    add("--essay-length", type=whole_number(0), metavar="N", help="words of an essay, for archs that plan its length")
    add(
        "--replace-unk",
        action=argparse.BooleanOptionalAction,
        help="replace <unk> by the source word with most attention (default: on, unless the model copies)",
    )
    add_generation_options(group)


def kinds_of(args: Any) -> list[str]:
    """Return the names of the options that select another kind of search than beam search."""
    return [name for name, default in _KINDS.items() if getattr(args, name, default) not in (default, None)]


def check_generation(args: Any, words: int, preset: str = "fairseq") -> None:
    """Check the options of a search. Raise ``UserError`` if one is invalid. The message names it.

    Args:
        args: generation options.
        words: size of the target dictionary.
        preset: value of ``--search-preset``.
    """
    for name, (least, most) in RANGES.items():
        check_range(name, values_of(getattr(args, name, None)), least, most)
    if math.isnan(getattr(args, "unkpen", 0)):
        raise UserError("--unkpen must be a number, but is nan.")
    if getattr(args, "min_len", 1) > getattr(args, "max_len_b", 200) and not getattr(args, "max_len_a", 0):
        raise UserError(f"--min-len {getattr(args, 'min_len', 1)} is longer than --max-len-b {args.max_len_b} allows.")
    for name, default in _OF_OTHER_TASKS.items():
        if getattr(args, name, default) != default:
            raise UserError(f"{flag(name)} is for models of other tasks and has no effect here: leave it out.")
    if preset != "fairseq":
        _check_preset(preset, args)
    kinds = kinds_of(args)
    if len(kinds) > 1:
        raise UserError(f"{' and '.join(map(flag, kinds))} are different kinds of search: give one of them.")
    if getattr(args, "constraints", None) and getattr(args, "print_alignment", None):
        raise UserError("--constraints may find fewer outputs than --print-alignment needs: leave one of them out.")
    for name, (default, other, off) in _NEEDS.items():
        if getattr(args, name, default) != default and getattr(args, other, off) == off:
            raise UserError(f"{flag(name)} is for {flag(other)}: give both, or leave it out.")
    _check_beam(args, words)
    _check_sampling(args, words)


def _check_beam(args: Any, words: int) -> None:
    """Refuse a beam that is too narrow or too wide for other options."""
    beam, groups = getattr(args, "beam", 5), getattr(args, "diverse_beam_groups", -1)
    if getattr(args, "nbest", 1) > beam:
        raise UserError(f"--nbest {args.nbest} is more than the {beam} hypotheses of --beam: raise --beam.")
    if getattr(args, "constraints", None) and 2 * beam > words:
        raise UserError(f"--beam {beam} is more than half of the {words} words of the model: lower it.")
    if groups != -1:
        check_range("diverse_beam_groups", [groups], 1)
        if min(beam, words - 1) % groups:  # fairseq limits the beam to this width
            raise UserError(f"--beam {beam} cannot be shared among --diverse-beam-groups {groups}: give a multiple.")


def _check_preset(preset: str, args: Any) -> None:
    """Refuse options that contradict the search of a paper."""
    if getattr(args, "unkpen", 0) < 0:
        raise UserError(f"--search-preset {preset} needs scores that only fall, so no negative --unkpen.")
    if preset == "wean" and getattr(args, "lenpen", 1) not in (0, 1):
        raise UserError(
            f"--search-preset wean sums log-probabilities, which --lenpen {args.lenpen} contradicts: "
            "leave --lenpen out, or use --search-preset fairseq."
        )
    others = kinds_of(args) + ["print_alignment"] * bool(getattr(args, "print_alignment", None))
    if others:
        raise UserError(f"--search-preset {preset} is plain beam search and does not go with {flag(others[0])}.")


def check_stored(search: Mapping[str, Any], advice: str = "") -> None:
    """Check a search that is stored with a model. Raise ``UserError`` if an option is invalid. The message names it.

    The JSON of an exported model contains only finite numbers. They are limited, because a model from elsewhere may
    store a search that takes hours or all memory for one sentence. A command that uses the model may pass larger
    numbers.
    """
    for name, value in search.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{flag(name)} must be a finite number, but is {value}{advice}.")
        most = _STORED.get(name, 1e29)  # the JSON of a model has numbers below 1e30
        if isinstance(value, int | float) and abs(value) > most:
            raise UserError(f"a stored {flag(name)} must be at most {most}, but is {value}{advice}.")
    numbers = {name: value for name, value in search.items() if isinstance(value, int | float)}
    beam, length = numbers.get("beam", 1), max(numbers.get("min_len", 1), numbers.get("max_len_b", 200))
    if beam * length > _MOST_STORED_WORDS:
        raise UserError(
            f"a stored --beam {beam} with outputs of {length} words can take hours{advice}: lower one of them until "
            f"their product is at most {_MOST_STORED_WORDS}."
        )


def _check_sampling(args: Any, words: int) -> None:
    """Refuse numbers that leave no word to sample."""
    topk, topp = getattr(args, "sampling_topk", -1), getattr(args, "sampling_topp", -1.0)
    if topk != -1:
        check_range("sampling_topk", values_of(topk), 1)
    if topk > words:
        raise UserError(f"--sampling-topk {topk} is more than the {words} words of the dictionary.")
    if topp != -1 and not 0 < topp <= 1:
        raise UserError(f"--sampling-topp must be above 0 and at most 1, but is {topp}.")
    if topk != -1 and topp != -1:
        raise UserError("--sampling-topk and --sampling-topp limit the words in different ways: give one of them.")
    if getattr(args, "sampling", False):
        check_range("temperature", values_of(getattr(args, "temperature", None)), _COLDEST, RANGES["temperature"][1])


def parse_search(text: str, name: str) -> dict[str, Any]:
    """Return the search options on a command line, by name.

    Args:
        text: a command line.
        name: name of the setting, for messages.

    Raises:
        UserError: if an option or a value is not valid.
    """
    try:
        found, others = read_search(_words(text))
    except (ValueError, argparse.ArgumentError) as error:
        raise UserError(f"{name} is {text!r}: {error}.") from error
    if others:
        known = sorted(_parser()._option_string_actions)
        raise UserError(f"{name} is {text!r}, and {others[0]} is not a search option: choose from {', '.join(known)}.")
    return found


def _words(text: str) -> list[str]:
    """Split a command line into words, and refuse a line that is too long.

    ``shlex`` would take minutes for a word of a million characters.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST:,} characters")
    return shlex.split(text)


def read_search(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the options of a search by name, and all other words."""
    found, others = _parser().parse_known_args(words)
    return vars(found), others


def options_line(search: Mapping[str, Any]) -> list[str]:
    """Return the options of a search as words of a command line."""
    words: list[str] = []
    for name, value in search.items():
        if isinstance(value, bool):
            words.append(flag(name if value else f"no_{name}"))
        else:
            words += [flag(name), str(value)]
    return words


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_search_options(parser)
    return parser


def write_search(folder: Path, words: Sequence[str]) -> None:
    """Store the options of a search next to the checkpoints in a folder, with their checksum."""
    text = "".join(f"{shlex.quote(word)}\n" for word in words)
    write_recorded(folder / SEARCH_FILE, lambda file: file.write(text.encode(errors="backslashreplace")))


def _check_others(others: Sequence[str], words: Sequence[str]) -> None:
    """Raise ``ValueError`` for a word that is neither an option of fairseq-generate nor the value of an option.

    An option that is none is recognised by its similarity to an option of the search.
    """
    known = [*_parser()._option_string_actions]
    for before, word in zip(["", *words], words, strict=False):
        if word in others:
            is_option = word.startswith("--")
            hint = similar(word.partition("=")[0], known) if is_option else ""
            if hint or not (is_option or before.startswith("--")):
                raise ValueError(f"{word!r:.40} is not an option{hint}")


def kept_search(checkpoint: str | Path) -> dict[str, Any]:
    """Return the stored search options of a checkpoint by name, without options that do not concern the search.

    Raises:
        UserError: if fairseq-generate would not accept the options in the file, or the file has changed. If it is
            missing although it has a checksum, a warning is logged.
    """
    file = Path(checkpoint).parent / SEARCH_FILE
    advice = "restore it, or, if the change is intended, run wean-checksum on it"
    manifest = Manifest(file.parent)
    if SEARCH_FILE in manifest.digests and not file.exists():
        logger.warning(f"{file} is missing, so the search is fairseq's: restore it, or give the options of the search")
    try:
        check_file(file, advice, manifest=manifest, alike=SEARCH_FILE.__eq__)
        words = _words(read_regular(file).decode("utf-8"))
        found, others = read_search(words)
        _check_others(others, words)
        return found
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, argparse.ArgumentError) as error:
        raise UserError(f"{file} does not hold options of fairseq-generate ({error}): fix or delete it.") from error
