"""Grammar of the synthetic paraphrase pairs, `grammars/paraphrases.toml`, with constructions, phrases and domains.

A template has the source pattern and the target pattern of one construction. `{slot}` or `{slot.form}` is filled once
for the pair, and written on each side in the words of that side. Upper-case slots are parts of the scene (documented in
`paraphrase_scene.Scene`), lower-case slots are synonym sets, and `{~cue}` is one of the wordy source phrases in `CUES`.
"""

from typing import NamedTuple

from corpus.grammar import read_grammar

GRAMMAR = read_grammar("paraphrases")

TEMPLATES: list[tuple[int, str, str]] = [tuple(row) for row in GRAMMAR["templates"]]  # weight, source, target
# Wordy source phrases. In the target pattern, one plain phrase replaces all of them.
CUES: dict[str, str] = GRAMMAR["cues"]
NOMINALS: dict[str, str] = GRAMMAR["nominals"]


class Domain(NamedTuple):
    """A domain of life: people and their actions, and the objects, manners and places of these actions."""

    roles: list[str]
    groups: list[str]
    frames: list[tuple[str, str]]  # (set of verbs, set of object nouns)
    adverbs: list[str]


def _build_domain(roles: str, groups: str, adverbs: str, frames: list[str]) -> Domain:
    """Return a domain of the grammar. Each frame is a verb followed by its objects."""
    pairs = [(verb, noun) for verb, *nouns in map(str.split, frames) for noun in nouns]
    return Domain(roles.split(), groups.split(), pairs, adverbs.split())


DOMAINS = [_build_domain(**domain) for domain in GRAMMAR["domains"]]
# Sets of nouns: those without a plural here, immovable things, owned things, things that hazards endanger, and hazards.
SINGULAR_ONLY, IMMOVABLE, OWNABLE, ENDANGERED, HAZARDS = (
    GRAMMAR[name].split() for name in ("singular_only", "immovable", "ownable", "endangered", "hazards")
)
NO_PROFESSION = [*SINGULAR_ONLY, *GRAMMAR["no_profession"].split()]
PEOPLE = {role for domain in DOMAINS for role in domain.roles} | {*GRAMMAR["people"].split()}
