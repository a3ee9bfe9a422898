"""Which sentences of which systems are rated, in what order, by whom: decided once, from a seed.

The design is kept in ``key.json``. Raters see opaque item names in an order of their own; only the key knows the
systems. Two kinds of study, as in the papers:

* ``likert``: one text at a time, every criterion from 1 to 5 (WEAN Table 3: fluency, adequacy, simplicity; PC-SAN: its
  criteria);
* ``compare``: two texts side by side, every criterion A, B or tie (C-DNPG Table 4: relevance and fluency, win/tie/loss
  of the first system).
"""

import json
import random
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...errors import UserError
from ..output_reader import SystemOutput
from ..text_files import PathLike, parse_json, read_text

LIKERT = "likert"
COMPARE = "compare"
KINDS = (LIKERT, COMPARE)
#: Answers that a rater may give, by kind of study.
ANSWERS = {LIKERT: ("1", "2", "3", "4", "5"), COMPARE: ("A", "B", "tie")}
#: A cell that starts like this is run as a formula by spreadsheet programs.
_FORMULA_STARTS = "=+-@"
_FORMAT = "wean-human-evaluation-1"


@dataclass(frozen=True)
class Item:
    """One thing to rate.

    Attributes:
        name: what the sheet calls it; says nothing about the system.
        sentence: line number in the test set, from 1.
        systems: the rated system, or the systems shown as A and B.
        texts: what the rater reads, in the order of `systems`.
        source: the source sentence, "" if not shown.
    """

    name: str
    sentence: int
    systems: tuple[str, ...]
    texts: tuple[str, ...]
    source: str


@dataclass
class Design:
    """A whole study; saved as ``key.json``.

    Attributes:
        kind: ``likert`` or ``compare``.
        systems: names; in ``compare`` the first is compared with all others.
        seed: of sampling, sides, names and orders.
        items: everything that every rater rates.
        orders: for every rater, the order of the items.
    """

    kind: str
    criteria: list[str]
    systems: list[str]
    raters: list[str]
    seed: int
    items: list[Item]
    orders: dict[str, list[str]] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps({"format": _FORMAT, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_file(cls, path: PathLike) -> "Design":
        text = read_text(path)
        try:
            content: dict[str, Any] = parse_json(text)
            if content.pop("format") != _FORMAT:
                raise KeyError("format")
            items = [
                Item(
                    item["name"],
                    item["sentence"],
                    tuple(_names(item["systems"])),
                    tuple(_texts(item["texts"])),
                    item["source"],
                )
                for item in content.pop("items")
            ]
            design = cls(items=items, **content)
            if not design.is_sound:
                raise KeyError("items")
            return design
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(
                f"{path} is not a key written by wean-evaluate sheet, or it was changed; "
                "give the key.json beside the sheets."
            ) from None

    @property
    def is_sound(self) -> bool:
        """Whether all parts have their types and belong together, as in an unchanged file.

        Raises:
            ValueError: if a list of names is something else.
        """
        names, first = _names([item.name for item in self.items]), _names(self.systems)[0]
        _names(self.criteria)
        groups: dict[tuple[str, ...], list[int]] = {}
        for item in self.items:
            if type(item.sentence) is not int or not isinstance(item.source, str):
                return False
            if len(item.texts) != len(item.systems):
                return False
            groups.setdefault(tuple(sorted(item.systems)), []).append(item.sentence)
        others = self.systems if self.kind == LIKERT else [tuple(sorted((first, name))) for name in self.systems[1:]]
        expected = {(other,) if isinstance(other, str) else other for other in others}
        rated = {tuple(sorted(sentences)) for sentences in groups.values()}
        orders = [sorted(_names(self.orders[rater])) for rater in _names(self.raters)]
        return (
            self.kind in KINDS
            and groups.keys() == expected
            and len(rated) == 1  # the same sentences of every system
            and all(order == sorted(names) for order in orders)
            and len(self.orders) == len(orders)
        )


def _texts(values: Any) -> list[str]:
    """Return a list of texts.

    Raises:
        ValueError: if it is empty or something else.
    """
    if not isinstance(values, list) or not values or not all(isinstance(value, str) for value in values):
        raise ValueError("this is not a list of texts")
    return values


def _names(values: Any) -> list[str]:
    """Return a list of different texts.

    Raises:
        ValueError: if it is something else.
    """
    if len(set(_texts(values))) < len(values):
        raise ValueError("a name is repeated")
    return _texts(values)


def starts_formula(text: str) -> bool:
    """Return whether a spreadsheet program may run the text of a cell as a formula.

    White space and invisible characters before the sign, and its full-width forms, do not keep every program from it.
    """
    visible = (letter for letter in unicodedata.normalize("NFKC", text) if not letter.isspace())
    first = next((letter for letter in visible if unicodedata.category(letter)[0] != "C"), "")
    return first in set(_FORMULA_STARTS) or text.startswith(("\t", "\r"))


def make_design(
    systems: Sequence[SystemOutput],
    sources: Sequence[str] | None,
    criteria: Sequence[str],
    *,
    kind: str = LIKERT,
    num_sentences: int = 100,
    num_raters: int = 3,
    seed: int = 1,
) -> Design:
    """Sample sentences and lay out the study.

    Args:
        systems: outputs in input order, all of one test set.
        sources: source sentences, shown to the raters if given.
        num_sentences: how many sentences are sampled; every system is rated on all of them.
        num_raters: how many sheets; every rater rates everything.
        seed: same seed and texts, same sheets.
    """
    _check(systems, sources, criteria, kind, num_sentences, num_raters)
    sampled = sorted(random.Random(seed).sample(range(len(systems[0].nbest)), num_sentences))
    texts = {system.name: system.hypotheses for system in systems}
    names = [system.name for system in systems]
    # The choice of sentences depends on the seed alone; the names of items on everything, so that a sheet of another
    # study is recognised, and a browser does not fill it with the answers to this one.
    generator = random.Random(repr((seed, kind, list(criteria), num_raters, sources and list(sources), texts)))
    groups = [(name,) for name in names] if kind == LIKERT else [(names[0], other) for other in names[1:]]
    cells = [(sentence, group) for sentence in sampled for group in groups]
    labels = generator.sample(range(16**6), len(cells))
    items = []
    for (sentence, group), label in zip(cells, labels, strict=True):
        shown = tuple(generator.sample(group, len(group)))  # sides at random
        source = sources[sentence] if sources is not None else ""
        items.append(
            Item(f"item-{label:06x}", sentence + 1, shown, tuple(texts[name][sentence] for name in shown), source)
        )
    raters = [f"rater-{number}" for number in range(1, num_raters + 1)]
    orders = {rater: generator.sample([item.name for item in items], len(items)) for rater in raters}
    return Design(kind, list(criteria), names, raters, seed, items, orders)


def _check(
    systems: Sequence[SystemOutput],
    sources: Sequence[str] | None,
    criteria: Sequence[str],
    kind: str,
    num_sentences: int,
    num_raters: int,
) -> None:
    if kind not in KINDS:
        raise UserError(f"unknown kind of study {kind!r}; choose {' or '.join(KINDS)}.")
    names = [system.name for system in systems]
    if len(set(names)) != len(names):
        raise UserError("two systems have the same name; give every system its own name.")
    if len(names) < (2 if kind == COMPARE else 1):
        raise UserError(f"a {kind} study needs more systems than {len(names)}; add them with --hyp NAME=FILE.")
    if not criteria or len(set(criteria)) != len(criteria) or {"rater", "item", "source"} & set(criteria):
        raise UserError(
            "the criteria must be different names and none of rater, item, source; give them with --criteria."
        )
    for name in filter(starts_formula, criteria):
        raise UserError(f"--criteria {name!r} begins like a formula of a spreadsheet; choose another name.")
    lengths = {len(system.nbest) for system in systems} | ({len(sources)} if sources is not None else set())
    if len(lengths) > 1:
        raise UserError(f"the files have different numbers of lines ({sorted(lengths)}); give outputs of one test set.")
    if not 1 <= num_sentences <= min(lengths):
        raise UserError(f"cannot sample {num_sentences} of {min(lengths)} sentences; choose another --sentences.")
    if num_raters < 1:
        raise UserError("a study needs at least one rater; choose another --raters.")
