"""Adapt fairseq's command lines: explain a wrong or missing name in one sentence, and print help for an arch."""

import argparse
import logging
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from importlib.util import find_spec
from typing import Any, NoReturn

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

from ..capabilities import capabilities_of
from ..checkpoints.export import read_model
from ..console import OneLineParser, print_text
from ..errors import UserError, similar
from ..fields import unused_options
from ..ranges import flag
from .interruption import checked_outputs
from .options import check_command_line, check_decoding, check_subsets, unused_training_options
from .patches import Original
from .settings import escape_on_terminals

logger = logging.getLogger(__name__)
_PACKAGE = __name__.partition(".")[0]
# Options that need an additional module, and its name. If iopath is missing, fairseq trains nothing and exits with
# status 0. Without pyarrow.plasma, which new versions of pyarrow do not have, it prints a traceback.
_MODULES = {"write_checkpoints_asynchronously": "iopath", "use_plasma_view": "pyarrow.plasma"}
# fairseq's own criterions that can train any model of this package
_STOCK_CRITERIONS = ("cross_entropy", "label_smoothed_cross_entropy")


def parse_args_and_arch(
    original: Original, parser: ArgumentParser, input_args: list[str] | None = None, *args: Any, **kwargs: Any
) -> Any:
    """Parse a command line. ``--arch NAME --help`` lists the options of that arch. Outputs on a terminal are escaped.

    Raises:
        UserError: if a name is wrong or missing, an option lacks its package or the length of its schedule, or a number
            is out of range.
    """

    def error(message: str) -> NoReturn:
        message = message.replace("invalid <lambda> value", "invalid value")  # fairseq's parser of lists has no name
        parser.exit(2, f"{parser.prog}: error: {UserError(message)}; see --help.\n")

    if input_args is None:  # the command line of the process
        escape_on_terminals()
    parser.error = error  # type: ignore[method-assign]  # argparse prints pages of usage, and control characters
    parser.print_help = lambda: print_text(parser.format_help())  # type: ignore[misc,assignment]
    try:
        named = _names(sys.argv[1:] if input_args is None else input_args)
    except argparse.ArgumentError as missing:  # a name option without a value
        parser.error(str(missing))
    if named.help and named.arch in ARCH_MODEL_REGISTRY and "arch" in _actions(parser):
        _print_help(parser.prog, named)
        parser.exit()
    if not named.help:
        _check(parser, named)
    with nullcontext() if input_args is not None else checked_outputs():
        parsed = original(parser, input_args, *args, **kwargs)
    values = parsed[0] if isinstance(parsed, tuple) else parsed
    if getattr(values, "total_num_update", 0) is None:  # fairseq has no default for the length of the schedule
        raise UserError(f"--lr-scheduler {values.lr_scheduler} needs --total-num-update, the updates of its schedule.")
    for name, module in _MODULES.items():
        if getattr(values, name, False) and not (find_spec(module.partition(".")[0]) and find_spec(module)):
            raise UserError(
                f"{flag(name)} needs {module}, which is not installed: install it, or leave the option out."
            )
    if getattr(values, "task", None) in _ours(TASK_REGISTRY):
        check_subsets(values)
        if hasattr(values, "nbest"):
            check_decoding(values)
    check_command_line(values, parser)
    defaults = arch_defaults(values.arch) if hasattr(values, "arch") else None
    unused = [*(() if defaults is None else unused_options(values, defaults)), *unused_training_options(values, parser)]
    for sentence in unused:
        logger.warning(sentence)
    return parsed


def _names(arguments: Iterable[str]) -> Namespace:
    """Return the names (such as the arch) on a command line, before fairseq's parser knows their options.

    A missing name is ``None``. Raise ``argparse.ArgumentError`` for an option without its value.
    """
    reader = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for option in ("--task", "--criterion", "--path"):
        reader.add_argument(option)
    reader.add_argument("--arch", "-a")
    reader.add_argument("-h", "--help", action="store_true")
    return reader.parse_known_args(list(arguments))[0]


def _actions(parser: ArgumentParser) -> dict[str, argparse.Action]:
    return {action.dest: action for action in parser._actions}


def _check(parser: ArgumentParser, named: Namespace) -> None:
    actions = _actions(parser)
    trains = "arch" in actions and actions["arch"].choices is not None
    if trains and named.arch is None:
        raise UserError(f"{parser.prog} needs --arch: {_list(ARCH_MODEL_REGISTRY)}.")
    registries: dict[str, Mapping[str, Any]] = {"task": TASK_REGISTRY}
    registries |= {"arch": ARCH_MODEL_REGISTRY} if trains else {}
    registries |= {"criterion": REGISTRIES["criterion"]["registry"]}
    for option, registry in registries.items():
        name = getattr(named, option)
        if name is not None and name not in registry:
            hint = similar(name, _ours(registry)) or f": {_list(registry)}"
            raise UserError(f"there is no --{option} {name}{hint}.")
    if "path" in actions and named.task is None:
        _check_task(parser.prog, named.path, parser.get_default("task"))
    if trains and named.arch is not None:
        check_pairing(named.arch, named.criterion or REGISTRIES["criterion"]["default"])


def _check_task(command: str, path: str | None, default: str | None) -> None:
    """Refuse to use a model of a task of this package without that task, because fairseq's own task drops sentences."""
    task = default
    if path is not None:
        try:
            cfg = read_model(path.partition(":")[0])["cfg"] or {}
            task = (cfg.get("task") or {}).get("_name")
        except UserError:  # loading the model will report this error
            task = default
    if task in _ours(TASK_REGISTRY):
        raise UserError(f"{path} was trained with --task {task}: give {command} the same option.")
    if task is None or default is None:
        raise UserError(f"{command} needs --task: that of the training, such as --task paraphrase.")


def check_pairing(arch: str, criterion: str) -> None:
    """Refuse a criterion that cannot train an arch of this package, or that would drop its additional losses.

    Raises:
        UserError: if the pair is refused. The message names the criterion to use.
    """
    model = ARCH_MODEL_REGISTRY.get(arch)
    if not capabilities_of(model).computes_loss or criterion in _ours(REGISTRIES["criterion"]["registry"]):
        return
    if criterion not in _STOCK_CRITERIONS:
        raise UserError(f"--arch {arch} cannot be trained by --criterion {criterion}: use --criterion model_loss.")
    if capabilities_of(model).adds_losses:
        raise UserError(
            f"--arch {arch} has additional losses, which --criterion {criterion} omits: use --criterion model_loss."
        )


def _ours(registry: Mapping[str, Any]) -> list[str]:
    return sorted(name for name, kind in registry.items() if kind.__module__.partition(".")[0] == _PACKAGE)


def _list(registry: Mapping[str, Any]) -> str:
    return f"those of {_PACKAGE} are {', '.join(_ours(registry))}"


def _print_help(command: str, named: Namespace) -> None:
    """Print the options of an arch, and of the given task and criterion, with their defaults."""
    parser = OneLineParser(
        prog=command,
        usage=f"{command} DATA --user-dir {_PACKAGE} --arch {named.arch} ...",
        description="Options of the selected arch, task and criterion. "
        f"{command} --help without --arch lists the general options.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        conflict_handler="resolve",
        add_help=False,
        allow_abbrev=False,
    )
    criterions = REGISTRIES["criterion"]["dataclass_registry"]
    chosen = {
        f"--arch {named.arch}": arch_defaults(str(named.arch)),
        f"--task {named.task}": TASK_DATACLASS_REGISTRY.get(named.task),
        f"--criterion {named.criterion}": criterions.get(named.criterion),
    }
    for title, options in chosen.items():
        if options is not None:
            group = parser.add_argument_group(title)
            gen_parser_from_dataclass(group, options() if isinstance(options, type) else options)
            for action in group._group_actions:
                # a positional argument, or an option of fairseq with an interpolated default
                if str(action.default).startswith("${") or not action.option_strings:
                    action.help = argparse.SUPPRESS
    parser.print_help()


def arch_defaults(arch: str) -> Any:
    """Return the options of an arch with their defaults. Return ``None`` for an arch of fairseq without a dataclass."""
    kind = getattr(ARCH_MODEL_REGISTRY[arch], "__dataclass", None)
    if kind is None:
        return None
    defaults = kind()
    preset = Namespace()
    ARCH_CONFIG_REGISTRY.get(arch, lambda _: None)(preset)
    for name, value in vars(preset).items():
        setattr(defaults, name, value)
    return defaults
