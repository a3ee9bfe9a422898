"""Grammar of the synthetic paraphrase pairs, `grammars/paraphrases.toml`, with constructions, phrases and domains.

A template has the source pattern and the target pattern of one construction. `{slot}` or `{slot.form}` is filled once
for each pair, with words that may differ between source and target. Upper-case slots are parts of the scene (documented
in `paraphrase_scene.Scene`), lower-case slots are synonym sets, and `{~cue}` is one of the wordy source phrases in
`CUES`.
"""

from typing import NamedTuple

from corpus.grammar import read_grammar

GRAMMAR = read_grammar("paraphrases")

# each row has a weight, a source pattern and a target pattern
TEMPLATES: list[tuple[int, str, str]] = [tuple(row) for row in GRAMMAR["templates"]]
# These are wordy phrases of sources. The target pattern has one plain phrase instead of all of them.
CUES: dict[str, str] = GRAMMAR["cues"]
NOMINALS: dict[str, str] = GRAMMAR["nominals"]


class Domain(NamedTuple):
    """A subject area: its people and their actions, with objects, manners and places of these actions."""

    roles: list[str]
    groups: list[str]
    frames: list[tuple[str, str]]  # pairs of the synonym set of a verb and of its object
    adverbs: list[str]


def _build_domain(roles: str, groups: str, adverbs: str, frames: list[str]) -> Domain:
    """Return a domain of the grammar. Each frame is a verb followed by its objects."""
    pairs = [(verb, noun) for verb, *nouns in map(str.split, frames) for noun in nouns]
    return Domain(roles.split(), groups.split(), pairs, adverbs.split())


DOMAINS = [_build_domain(**domain) for domain in GRAMMAR["domains"]]
# These nouns have no plural here, are immovable, are owned, are endangered by hazards, or are hazards.
SINGULAR_ONLY, IMMOVABLE, OWNABLE, ENDANGERED, HAZARDS = (
    GRAMMAR[name].split() for name in ("singular_only", "immovable", "ownable", "endangered", "hazards")
)
NO_PROFESSION = [*SINGULAR_ONLY, *GRAMMAR["no_profession"].split()]
PEOPLE = {role for domain in DOMAINS for role in domain.roles} | {*GRAMMAR["people"].split()}
