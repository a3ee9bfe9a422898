"""Two shortcuts for Hydra, made by importing this: a small command of fairseq spends half of its time there.

It parses the same three hundred ``name=value`` lines for every configuration, and copies the store of all structured
configurations, although it copies what it takes from there once more. Only tests import this.
"""

import copy
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser

_parse_anew = OverridesParser.parse_rule
_parsed: dict[tuple[str, str], Any] = {}


def _parse_once(parser: OverridesParser, text: str, rule: str) -> Any:
    if (text, rule) not in _parsed:
        _parsed[text, rule] = _parse_anew(parser, text, rule)
    return copy.copy(_parsed[text, rule])  # Hydra sets its ``config_loader``, nothing else


OverridesParser.parse_rule = _parse_once
ConfigStore.__deepcopy__ = lambda store, _: store
