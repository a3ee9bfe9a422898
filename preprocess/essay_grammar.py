"""Reads how the synthetic topic essays are written down: domains, what their sentences say, and their topic words.

    # holiday
    opening > a sentence . | another one .
    more > ...
    closing > ...
    scene > last summer we went to the {} , where {more} . | we saw the {} : {more} .
      sea > the water was warm | the waves sang all night
      village > ...

A domain has three kinds of sentences without a topic, and five roles with topics. `{}` stands for the topic word,
`{more}` for one of the things to say about it; a line that starts with `|` goes on with the line before. An essay tells
the roles in the order of `ROLES`; the first one, if it is a topic, replaces the opening, the last one the closing.
"""

from typing import NamedTuple

from corpus.grammar import read_grammar

PLAIN = ("opening", "more", "closing")
ROLES = ("scene", "people", "deed", "thing", "feeling")


class Role(NamedTuple):
    """The sentences about one topic, and its possible words with what there is to say about each."""

    sentences: tuple[str, ...]
    words: dict[str, tuple[str, ...]]


class Domain(NamedTuple):
    """The sentences and words of essays of one kind."""

    plain: dict[str, tuple[str, ...]]
    roles: dict[str, Role]


def parse_domains(text: str) -> dict[str, Domain]:
    """Return the domains that the text writes down.

    Raises:
        ValueError: naming the domain that lacks a part.
    """
    domains: dict[str, Domain] = {}
    joined = text.replace("\n    |", " |")
    for block in filter(str.strip, joined.split("# ")):
        name, *lines = block.strip().splitlines()
        domain = Domain({}, {})
        for line in lines:
            key, alternatives = line.split(" > ")
            said = tuple(part.strip() for part in alternatives.split(" | "))
            if key.startswith(" "):
                domain.roles[list(domain.roles)[-1]].words[key.strip()] = said
            elif key in PLAIN:
                domain.plain[key] = said
            else:
                domain.roles[key] = Role(said, {})
        if (tuple(domain.plain), tuple(domain.roles)) != (PLAIN, ROLES):
            raise ValueError(f"the domain {name} has the parts {[*domain.plain, *domain.roles]}.")
        domains[name] = domain
    return domains


GRAMMAR = read_grammar("essays")
LANGUAGES = {"en": parse_domains(GRAMMAR["english"]), "zh": parse_domains(GRAMMAR["chinese"])}
