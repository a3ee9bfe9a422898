"""Check the configuration of a checkpoint: plain containers, with literals in all options that fairseq evaluates.

fairseq resolves all interpolations first, and then writes dictionaries, lists, tuples, strings, numbers and
``argparse.Namespace``. All other types are refused, so that no value can hide from the later checks.
"""

from argparse import Namespace
from typing import Any

from .literals import LONGEST_LITERAL, NoLiteral, read_literal

DEEPEST_OPTIONS = 20  # maximum depth of nested containers
# maximum number of values. A fairseq configuration has about 300 values, or about 1,500 with an old arch
MOST_VALUES = 10_000
MOST_IN_LIST = 1_000  # maximum length of a list. For an old arch, fairseq takes seconds to read a longer list
_LARGEST = 2**63  # whole numbers must be smaller in magnitude
# These options of archs, criterions, tasks and optimisers are texts that fairseq evaluates. A test compares this set
# with fairseq's source code.
EVALUATED = {
    *("adafactor_eps", "adam_betas", "adamax_betas", "lamb_betas", "adaptive_input_cutoff", "adaptive_softmax_cutoff"),
    *("character_filters", "conv_aggregator_layers", "conv_feature_layers", "feature_encoder_spec"),
    *("decoder_attention", "encoder_attention", "self_attention", "gated_attention", "xformers_att_config"),
    *("decoder_layers", "encoder_layers", "downsample", "pretrained", "project_input", "wer_args"),
    *("left_pad_source", "left_pad_target", "pipeline_balance", "pipeline_devices"),
    *("pipeline_encoder_balance", "pipeline_encoder_devices", "pipeline_decoder_balance", "pipeline_decoder_devices"),
}


class Refused(ValueError):
    """Error for options that fairseq does not write. The message names the option and the reason for the refusal."""


def plain(options: Any) -> Any:
    """Return a copy of the options that contains only plain containers.

    Raises:
        Refused: if a value is not plain or is too large, or if the text of an evaluated option is not a literal.
    """
    return _Copy().copy(options, "", 0)


class _Copy:
    def __init__(self) -> None:
        self.values = 0

    def copy(self, value: Any, name: str, depth: int) -> Any:
        """Return a copy of ``value``, which belongs to the option ``name`` and is nested in ``depth`` containers."""
        self.values += 1
        if depth > DEEPEST_OPTIONS or self.values > MOST_VALUES:
            raise Refused(f"has containers nested in each other without end, or more than {MOST_VALUES} values")
        if type(value) is str:
            return _text(value, name)
        if value is None or type(value) in (bool, float) or (type(value) is int and abs(value) < _LARGEST):
            return value
        if isinstance(value, Namespace):
            copied = Namespace()
            vars(copied).update(self._items(vars(value), depth))
            return copied
        if isinstance(value, dict):
            return self._items(value, depth)
        if type(value) in (list, tuple):
            if len(value) > MOST_IN_LIST:
                raise Refused(f"has a list of {len(value)} values as the option {name!r}")
            return type(value)(self.copy(item, name, depth + 1) for item in value)
        raise Refused(f"has the option {name!r} of a type that fairseq does not write ({type(value).__name__})")

    def _items(self, options: dict[Any, Any], depth: int) -> dict[Any, Any]:
        copied = {}
        for key, value in options.items():
            if type(key) is not str or key.startswith("__"):
                raise Refused(f"has an option of a name that fairseq does not write ({type(key).__name__})")
            copied[_text(key, "name")] = self.copy(value, key, depth + 1)
        return copied


def _text(text: str, name: str) -> str:
    shown = repr(text if len(text) < 60 else text[:60] + "...")
    if len(text) > LONGEST_LITERAL:
        raise Refused(f"has the option {name!r} of {len(text)} characters")
    if "${" in text:
        raise Refused(f"has the option {shown} ({name}), which refers to other options; fairseq writes no such option")
    if name in EVALUATED:
        try:
            read_literal(text)
        except NoLiteral:
            raise Refused(f"has the option {shown} ({name}), which is code that fairseq may run") from None
    return text
