"""Domains of the synthetic topic essays, with their sentences and topic words.

Each domain in `grammars/essays.toml` has three kinds of sentences without a topic, and five roles of topics. A role has
sentences, and statements about each of its topic words. `{}` is replaced by the topic word, and `{more}` by a statement
about it. An essay follows the roles in the order of `ROLES`. If the essay has a topic of the first role, the sentence
about it replaces the opening. The sentence about a topic of the last role replaces the closing.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from corpus.grammar import read_grammar

PLAIN = ("opening", "more", "closing")
ROLES = ("scene", "people", "deed", "thing", "feeling")


class Role(NamedTuple):
    """A role that a topic can have: its sentences, and its topic words with statements about each word."""

    sentences: list[str]
    words: dict[str, list[str]]


class Domain(NamedTuple):
    """The sentences and topic words for essays about one subject."""

    plain: dict[str, list[str]]
    roles: dict[str, Role]


def build_domains(grammar: Mapping[str, Mapping[str, Any]]) -> dict[str, Domain]:
    """Return the domains of a language.

    Raises:
        ValueError: if a part of a domain is missing. The message gives the name of the domain.
    """
    domains = {}
    for name, parts in grammar.items():
        if tuple(parts) != (*PLAIN, *ROLES):
            raise ValueError(f"the domain {name} has the parts {list(parts)}, not {[*PLAIN, *ROLES]} in this order.")
        roles = {}
        for role in ROLES:
            words = dict(parts[role])
            roles[role] = Role(words.pop("sentences"), words)
        domains[name] = Domain({kind: parts[kind] for kind in PLAIN}, roles)
    return domains


GRAMMAR = read_grammar("essays")
LANGUAGES = {"en": build_domains(GRAMMAR["english"]), "zh": build_domains(GRAMMAR["chinese"])}
