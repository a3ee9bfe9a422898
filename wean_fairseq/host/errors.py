"""Recognise errors of fairseq, NumPy and torch that users can fix, and show them as one sentence.

The libraries have no special types for these errors, so they are recognised by their messages and by the functions that
raise them.
"""

import functools
import logging
import os
import re
import sys
from traceback import extract_tb, walk_tb
from types import TracebackType
from typing import Any

import torch
from fairseq.registry import REGISTRIES
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from ..console import discard_unwritable_output, open_standard_error
from ..errors import explanations, one_line, sentence_of

# torch's messages if the other process of a connection has ended or does not answer.
_LOST = ("closed by peer", "reset by peer", "Broken pipe", "imed out", "Connection refused")
_NO_GPU = re.compile(r"not compiled with CUDA|no NVIDIA driver|No CUDA GPUs")  # torch's messages about missing GPUs
# Packages whose errors report options that they do not accept. NumPy reports a seed from fairseq.
_REFUSING = {"fairseq", "fairseq_cli", "numpy"}
_OF_OPTIONS = re.compile(
    r"(?:^|[\s(])--[a-z]|Seed must be|min_len cannot|post_process option|Model file not found|world size is"
    "|Dataset not found|same number of examples"
)
_PACKAGE = __name__.partition(".")[0]
_CALLERS = {"fairseq", "fairseq_cli", _PACKAGE}  # packages whose code calls libraries


def show_errors_as_sentences() -> None:
    """Show an error that ``sentence_of`` can explain as a single sentence instead of a traceback.

    ``WEAN_TRACEBACK=1`` shows the traceback.
    """
    open_standard_error()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # otherwise Hydra prints a traceback of each error itself
    if explain not in explanations:
        explanations.append(explain)
    # If options cannot be composed, it logs all of them before it raises the error.
    logging.getLogger("fairseq.dataclass.utils").disabled = True
    if getattr(sys.excepthook, "func", None) is not _report:
        sys.excepthook = functools.partial(_report, sys.excepthook)


def _report(
    previous: Any, kind: type[BaseException], error: BaseException, traceback: TracebackType | None = None
) -> None:
    discard_unwritable_output()
    sentence = None if os.environ.get("WEAN_TRACEBACK") else sentence_of(error)
    if sentence is None:
        previous(kind, error, traceback)
    else:
        line = f"wean_fairseq: error: {sentence}"
        sys.stderr.write(f"{line}\n")
        for handler in logging.getLogger("fairseq_cli.train").handlers:
            if isinstance(handler, logging.FileHandler):  # the handler of --log-file
                handler.handle(logging.makeLogRecord({"msg": line}))


def explain(error: BaseException) -> str | None:
    """Return the sentence that is shown instead of a traceback, or ``None`` for an unknown error."""
    return _explain_part(error) or _explain_known(error) or _explain_other(error)


def _explain_part(error: BaseException) -> str | None:
    """Explain errors in fairseq's code of a tokenizer, BPE or scorer, and values that Hydra does not accept."""
    reason = one_line(error).lstrip("* ")[:200] or type(error).__name__
    kinds = {type(frame.f_locals.get("self")) for frame, _ in walk_tb(error.__traceback__)}
    for option in ("tokenizer", "bpe", "scoring"):
        for name, kind in REGISTRIES[option]["registry"].items():
            if kind in kinds and kind.__module__.startswith("fairseq."):
                return f"--{option} {name} cannot be used ({reason}): give the options, files and packages it needs."
    if isinstance(error, HydraException | OmegaConfBaseException):
        return f"an option has a wrong value or none ({reason}): see --help."
    return None


def _explain_known(error: BaseException) -> str | None:
    """Explain errors that are recognised by their messages and by the functions that raise them."""
    message = one_line(error)
    place, function = raised_by(error)
    module = place.partition(".")[0]
    is_no_package = module == "fairseq" and isinstance(error, ImportError) and "install" in message
    if is_no_package or (isinstance(error, RuntimeError | AssertionError) and _NO_GPU.search(message)):
        return f"an option, such as --profile for a GPU, needs what is not here: {message[:200]}."
    is_list = any(frame.f_code.co_name == "eval_str_list" for frame, _ in walk_tb(error.__traceback__))
    if module == "ast" and isinstance(error, ValueError | SyntaxError) and is_list:
        return f"an option of numbers, such as --lr, must be a list, such as 0.1,0.2 ({message[:200]})."
    if module == "fairseq_cli" and isinstance(error, ZeroDivisionError):
        return (
            "no sentence was decoded: the shard is empty, or all of its sentences are longer than the model or the "
            "options allow."
        )
    # fairseq raises errors of these types for invalid options. An OSError from the operating system has an error
    # number, so it is excluded.
    refuses = isinstance(error, AssertionError | ValueError | NotImplementedError | OSError)
    if refuses and place.startswith("fairseq.optim.lr_scheduler"):
        return f"the options of --lr-scheduler do not suit each other ({_reason(error)}): see fairseq-train --help."
    if refuses and getattr(error, "errno", None) is None and module in _REFUSING and _OF_OPTIONS.search(message):
        return f"{message.rstrip('.!')}."
    if isinstance(error, KeyError) and function in ("validate", "get_valid_stats"):
        return f"--best-checkpoint-metric {error.args[0]} is not a value of the validation: see its line in the log."
    # gloo and NCCL report the end of another process as a connection error.
    has_others = torch.distributed.is_available() and torch.distributed.is_initialized()
    if has_others and isinstance(error, RuntimeError) and any(words in str(error) for words in _LOST):
        reason = str(error).splitlines()[0].split(". ")[0]
        return (
            f"another process of this training has ended or cannot be reached ({reason}): see its own output for the "
            "reason, and start all of them again; training resumes from its last checkpoint."
        )
    return None


def _explain_other(error: BaseException) -> str | None:
    """Explain any other error that fairseq's own code raises, by the place where it was raised.

    Errors that torch raises are shown as tracebacks.
    """
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    roots = [module.partition(".")[0] for module in modules]
    last = max((number for number, root in enumerate(roots) if root in _CALLERS), default=None)
    if last is None or roots[last] == _PACKAGE or not isinstance(error, Exception):
        return None
    if "torch" in roots[last:] and not isinstance(error, AttributeError):  # for a method that a module does not have
        return None
    return (
        f"fairseq failed in {modules[last]} ({type(error).__name__}: {_reason(error)}): check the options with --help; "
        "WEAN_TRACEBACK=1 shows the traceback."
    )


def _reason(error: BaseException) -> str:
    """Return the message of an error, or the source line of an assertion without a message."""
    return one_line(error)[:200] or str(extract_tb(error.__traceback__)[-1].line)


def raised_by(error: BaseException) -> tuple[str, str]:
    """Return the names of the module and of the function that raised an error."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    if not frames:
        return "", ""
    return frames[-1].f_globals.get("__name__", ""), frames[-1].f_code.co_name
