"""The scene of one synthetic pair. It draws the parts that fill the slots of a template, in words for both sides.

The source word may be any word of its synonym set. The target word is usually the plainest word of the set, and never
more formal than the source word. All random draws use `random.Random.random`, which gives the same numbers in all
versions of Python.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from corpus.chance import between, pick
from paraphrase_grammar import (
    CUES,
    DOMAINS,
    ENDANGERED,
    HAZARDS,
    IMMOVABLE,
    NO_PROFESSION,
    NOMINALS,
    OWNABLE,
    PEOPLE,
    SINGULAR_ONLY,
)
from paraphrase_lexicon import COUNTRIES, FEMALE_NAMES, LEXICON, MALE_NAMES, SURNAMES, TOWNS, inflect

PLAIN_IN_SOURCE = 0.45  # probability that the source has the plainest word of a set
PLAIN_IN_TARGET = 0.80  # probability that the target has the plainest word if the source has not

MONTHS = "january february march april may june july august september october november december".split()
LARGE_NUMBERS = [*(f"{n}00" for n in range(2, 10)), *(f"{n},000" for n in range(1, 10))]
DIRECTIONS = "northern southern eastern western".split()
_DRAWN_WITH = {"O": "V", "O2": "V2", "J": "K"}  # each of these parts is drawn together with another part
_PRONOUNS = {"he": ("he", "she"), "his": ("his", "her")}


class Unsuitable(Exception):
    """Error for a scene that cannot fill the template, so that the generator draws another scene."""


class Part(NamedTuple):
    """The filling of a slot: its words in source and target, and properties that other words must agree with."""

    source: str
    target: str
    plural: bool = False
    female: bool = False
    person: bool = False
    key: str = ""

    def write(self, side: int, form: str) -> str:
        """Return the words for side 0 (source) or 1 (target), inflected or made to agree as `form` requires."""
        if form == "was":
            return "were" if self.plural else "was"
        if form == "had":
            return "had"
        if form == "which":
            return "who" if self.person else "which"
        if form in _PRONOUNS:
            return _PRONOUNS[form][self.female]
        if form == "nom":
            if self.key not in NOMINALS:
                raise Unsuitable(self.key)
            return NOMINALS[self.key]
        words = self.target if side else self.source
        return inflect(words, form) if form else words


class Scene:
    """Fills the slots of a pair. Each slot is filled once.

    The slots are: A, A2 any actor (B: any actor except a group). N, N2 name of a person, M name of a person to marry.
    R, RP role in the singular and plural, JOB role that earns a living. V, V2 action, O, O2 its object. K, J object and
    its adjective. X immovable thing, G owned thing, E endangered thing, H hazard. P, P2 towns, L town or village, D
    direction, C country. Y, Y2 years, AGE, NUM, NUM2, BIG numbers, Q about/over/almost. WW, TT place and time, W, T
    place and time, or nothing. Adv manner, filler or nothing.
    """

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.domain = pick(rng, DOMAINS)
        self.parts: dict[str, Part] = {}
        self.used: set[str] = set()
        self.makers: dict[str, Callable[[], Part]] = {
            "A": self.actor,
            "B": lambda: self.actor(groups=False),
            "N": self.name,
            "M": self.name,
            "R": lambda: self.described(self.new(self.domain.roles, SINGULAR_ONLY)),
            "JOB": lambda: self.described(self.new(self.domain.roles, NO_PROFESSION)),
            "RP": lambda: self.described(self.new(self.domain.roles, SINGULAR_ONLY), form="p"),
            "V": self.frame,
            "X": lambda: self.described(self.object_among(IMMOVABLE)),
            "G": lambda: self.described(self.object_among(OWNABLE)),
            "K": self.judged,
            "E": lambda: self.word(self.new(ENDANGERED)),
            "H": lambda: self.word(pick(rng, HAZARDS)),
            "L": lambda: self.described(pick(rng, ("town", "village"))),
            "P": self.town,
            "D": lambda: self.literal(pick(rng, DIRECTIONS)),
            "C": lambda: self.literal(pick(rng, COUNTRIES)),
            "Y": lambda: self.literal(self.number(1850, 1920)),
            "AGE": lambda: self.literal(self.number(20, 79)),
            "NUM": lambda: self.literal(self.number(3, 39)),
            "BIG": lambda: self.literal(pick(rng, LARGE_NUMBERS)),
            "Q": lambda: self.word(pick(rng, ("about", "over", "almost"))),
            "WW": self.place,
            "TT": self.time,
            "W": lambda: self.place() if rng.random() < 0.4 else self.literal(""),
            "T": lambda: self.time() if rng.random() < 0.4 else self.literal(""),
            "Adv": self.manner,
        }

    def part(self, name: str) -> Part:
        """Return the part that fills the slot `name`. It is drawn when it is first used."""
        if name not in self.parts:
            if name.startswith("~"):
                made = Part(pick(self.rng, CUES[name[1:]].split("|")), "")
            elif name in LEXICON:
                made = self.word(name)
            elif name in _DRAWN_WITH:
                self.part(_DRAWN_WITH[name])
                return self.parts[name]
            elif name == "Y2":
                made = self.literal(str(int(self.part("Y").source) + int(self.number(2, 40))))
            elif name == "NUM2":
                made = self.literal(str(int(self.part("NUM").source) + int(self.number(3, 40))))
            elif name == "V2":
                made = self.frame("O2")
            else:
                made = self.makers[name.rstrip("2")]()
            self.parts[name] = made
        return self.parts[name]

    def number(self, low: int, high: int) -> str:
        """Return a number between `low` and `high`, both included."""
        return str(between(self.rng, low, high))

    def new(self, keys: Sequence[str], without: Sequence[str] = ()) -> str:
        """Return one of `keys` that the pair has not used yet and that is not in `without`."""
        left = [key for key in keys if key not in self.used and key not in without]
        if not left:
            raise Unsuitable(str(keys))
        chosen = pick(self.rng, left)
        self.used.add(chosen)
        return chosen

    @staticmethod
    def literal(text: str) -> Part:
        """Return words that are the same on both sides."""
        return Part(text, text)

    def word(self, key: str) -> Part:
        """Draw a word of a synonym set for each side. The target word is never more formal than the source word."""
        words = LEXICON[key].words
        rank = 0
        if len(words) > 1 and self.rng.random() >= PLAIN_IN_SOURCE:
            rank = between(self.rng, 1, len(words) - 1)
        target_rank = 0
        if rank and self.rng.random() >= PLAIN_IN_TARGET:
            target_rank = between(self.rng, 1, rank)
        return Part(words[rank], words[target_rank], person=key in PEOPLE, key=key)

    def described(self, key: str, form: str = "s") -> Part:
        """Return a noun in the singular or plural. Half of the time, it has one of its adjectives."""
        noun, adjectives = self.word(key), LEXICON[key].adjectives
        source, target = inflect(noun.source, form), inflect(noun.target, form)
        if adjectives and self.rng.random() < 0.5:
            adjective = self.word(pick(self.rng, adjectives))
            source, target = f"{adjective.source} {source}", f"{adjective.target} {target}"
        return Part(source, target, plural=form == "p", person=key in PEOPLE)

    def noun_phrase(self, key: str) -> Part:
        """Return a noun with its determiner."""
        draw = self.rng.random()
        plural = draw >= 0.66 and key not in SINGULAR_ONLY
        noun = self.described(key, "p" if plural else "s")
        determiner = self.literal("the" if key in SINGULAR_ONLY or draw < 0.40 or 0.66 <= draw < 0.80 else "a")
        if plural and draw >= 0.95:
            number = self.number(3, 39)
            determiner = Part(pick(self.rng, ("", "a total of ")) + number, number)
        elif plural and draw >= 0.80:
            determiner = self.word("many" if draw < 0.87 else "several")
        source, target = f"{determiner.source} {noun.source}", f"{determiner.target} {noun.target}"
        return Part(source, target, plural=plural, person=noun.person)

    def actor(self, groups: bool = True) -> Part:
        """Return an actor: a name, a role with or without a name, or a group."""
        draw = self.rng.random()
        if draw < 0.25:
            return self.name()
        if draw < 0.33:
            role, name = self.part_role(), self.name()
            return Part(f"the {role.source} {name.source}", f"the {role.target} {name.target}", female=name.female)
        if groups and self.domain.groups and draw < 0.48:
            group = self.word(self.new(self.domain.groups))
            town = f" of {self.town().source}" if self.rng.random() < 0.3 else ""
            return Part(f"the {group.source}{town}", f"the {group.target}{town}")
        return self.noun_phrase(self.new(self.domain.roles))

    def part_role(self) -> Part:
        """Return a noun, without an article, for a role that a named person can have."""
        return self.word(self.new(self.domain.roles, SINGULAR_ONLY))

    def name(self) -> Part:
        """Return a first name and a surname that the pair has not used yet."""
        female = self.rng.random() < 0.5
        full = f"{self.new(FEMALE_NAMES if female else MALE_NAMES)} {self.new(SURNAMES)}"
        return Part(full, full, female=female, person=True)

    def frame(self, slot: str = "O") -> Part:
        """Draw an action together with its object, which fills `slot`."""
        verb, noun = self.new_frame(self.domain.frames)
        self.parts[slot] = self.noun_phrase(noun)
        return self.word(verb)

    def new_frame(self, frames: Sequence[tuple[str, str]]) -> tuple[str, str]:
        """Return a (verb, object) pair whose verb and object the sentence has not used yet."""
        left = [frame for frame in frames if not self.used.intersection(frame)]
        if not left:
            raise Unsuitable("no verb left")
        chosen = pick(self.rng, left)
        self.used.update(chosen)
        return chosen

    def object_among(self, nouns: Sequence[str]) -> str:
        """Draw the action V with an object from `nouns`, and return the object."""
        verb, noun = self.new_frame([frame for frame in self.domain.frames if frame[1] in nouns])
        self.parts["V"] = self.word(verb)
        return noun

    def judged(self) -> Part:
        """Return a noun of the domain without an article. Its adjective fills J, and an action on it fills V."""
        noun = self.object_among([noun for _, noun in self.domain.frames if LEXICON[noun].adjectives])
        self.parts["J"] = self.word(pick(self.rng, LEXICON[noun].adjectives))
        return self.word(noun)

    def town(self) -> Part:
        """Return a town that the pair has not used yet."""
        return self.literal(self.new(TOWNS))

    def place(self) -> Part:
        """Return a place."""
        draw, town = self.rng.random(), self.new(TOWNS)
        if draw < 0.4:
            return self.literal(f"in {town}")
        if draw < 0.6:
            near = self.word("near")
            return Part(f"{near.source} {town}", f"{near.target} {town}")
        if draw < 0.8:
            return Part(f"in the {pick(self.rng, ('city', 'area', 'district'))} of {town}", f"in {town}")
        direction, country = pick(self.rng, DIRECTIONS), pick(self.rng, COUNTRIES)
        return Part(f"in the {direction} part of {country}", f"in {direction} {country}")

    def time(self) -> Part:
        """Return a time."""
        draw, year, month = self.rng.random(), self.number(1850, 1999), pick(self.rng, MONTHS)
        if draw < 0.35:
            return self.literal(f"in {year}")
        wordy: tuple[str, ...]
        if draw < 0.55:
            wordy, plain = ("in the year {}",), "in"
        elif draw < 0.75:
            wordy, plain = (f"in {month} {{}}", f"in the month of {month} {{}}"), f"in {month}"
        elif draw < 0.85:
            wordy, plain = ("at the beginning of {}", "in the first weeks of {}"), "in early"
        else:
            wordy, plain = ("towards the end of {}", "in the last weeks of {}"), "in late"
        return Part(pick(self.rng, wordy).format(year), f"{plain} {year}")

    def manner(self) -> Part:
        """Return an adverb, a phrase that the target omits, or (in about half of the cases) nothing."""
        draw = self.rng.random()
        if draw < 0.35:
            return self.word(pick(self.rng, self.domain.adverbs))
        return Part(pick(self.rng, CUES["filler"].split("|")) if draw < 0.48 else "", "")
