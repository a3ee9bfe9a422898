"""Grammar data of the synthetic paraphrase pairs, authored for this project: constructions, wordy phrases, domains.

A template gives the source and the target pattern of one construction. `{slot}` or `{slot.form}` is filled once for the
pair and written on each side in that side's words. Capital slots are scene parts (`paraphrase_scene.Scene` documents
each), small ones synonym sets, `{~cue}` one of the wordy source phrases of `CUES`.
"""

from typing import NamedTuple

from corpus.grammar import read_grammar

GRAMMAR = read_grammar("paraphrases")

# weight | source => target
TEMPLATES: str = GRAMMAR["templates"]

# Wordy source phrases; the template's target says the same in one plain way.
CUES: dict[str, str] = GRAMMAR["cues"]

NOMINALS: dict[str, str] = GRAMMAR["nominals"]


class Domain(NamedTuple):
    """A field of life: who acts in it, what they do to what, and how."""

    roles: tuple[str, ...]
    groups: tuple[str, ...]
    frames: tuple[tuple[str, str], ...]  # (verb set, object noun set)
    adverbs: tuple[str, ...]


# roles | groups | adverbs | verb: objects; ...
_DOMAINS = GRAMMAR["domains"]


def _parse_domains() -> tuple[Domain, ...]:
    """Read `_DOMAINS`: three bars a domain."""
    fields = [field.strip() for field in _DOMAINS.replace("\n    ", " ").replace("\n", "|").strip("|").split("|")]
    domains = []
    for roles, groups, adverbs, table in zip(*[iter(fields)] * 4, strict=True):
        frames: list[tuple[str, str]] = []
        for entry in table.split(";"):
            verb, objects = entry.split(":")
            frames.extend((verb.strip(), noun) for noun in objects.split())
        domains.append(Domain(tuple(roles.split()), tuple(groups.split()), tuple(frames), tuple(adverbs.split())))
    return tuple(domains)


def _parse_templates() -> tuple[tuple[int, str, str], ...]:
    """Read `TEMPLATES` into (weight, source, target)."""
    parsed = []
    for line in TEMPLATES.replace("\n    ", " ").strip().splitlines():
        weight, _, patterns = line.partition("|")
        source, _, target = patterns.partition("=>")
        parsed.append((int(weight), source.strip(), target.strip()))
    return tuple(parsed)


# Nouns that are never plural here, that stay in one place, that someone owns, and those of things close to disasters.
SINGULAR_ONLY = frozenset("king government parliament army".split())
NO_PROFESSION = SINGULAR_ONLY | frozenset("student owner rebel criminal guest neighbour friend".split())
IMMOVABLE = tuple("house monument road wall bridge harbour castle shop factory school garden river cave field".split())
OWNABLE = tuple("house ship book picture car machine shop horse jewel document garden factory".split())
ENDANGERED = tuple("house shop car ship castle bridge factory school field garden village".split())
HAZARDS = tuple("storm fire flood earthquake".split())

DOMAINS: tuple[Domain, ...] = _parse_domains()
PARSED_TEMPLATES: tuple[tuple[int, str, str], ...] = _parse_templates()
PEOPLE = frozenset(role for domain in DOMAINS for role in domain.roles) | frozenset(
    "patient child enemy rival employee prisoner witness".split()
)
