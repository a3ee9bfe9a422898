"""Two shortcuts for Hydra, in which a small command of fairseq spends half of its time; active when imported.

Hydra parses the same three hundred ``name=value`` lines for every configuration. It copies the store of all structured
configurations, although it copies each entry again when it takes it. Only tests import this module.
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
    return copy.copy(_parsed[text, rule])  # Hydra sets only its ``config_loader``


OverridesParser.parse_rule = _parse_once
ConfigStore.__deepcopy__ = lambda store, _: store
