"""The design of a study and its rating sheets.

The design says which sentences of which systems are rated, in which order and by whom. It is saved in ``key.json``.
Raters see item names without meaning, and each rater sees the items in a different order. Only the key names the
systems. As in the papers, there are two kinds of study:

* ``likert``: a rater sees one text at a time and rates every criterion from 1 to 5. Examples are WEAN Table 3 (fluency,
  adequacy, simplicity) and PC-SAN;
* ``compare``: a rater sees two texts side by side and answers A, B or tie for every criterion. An example is C-DNPG
  Table 4 (relevance and fluency; wins, ties and losses of the first system).

Every rater gets a CSV file for spreadsheets and a self-contained HTML form for browsers. The form needs no network and
no server. It stores the answers in the browser's local storage, and can save them as the same CSV file.
"""

import csv
import io
import json
import os
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ...console import check_name
from ...errors import UserError
from ...templates import render_template
from ..output_reader import SystemOutput
from ..tables import starts_formula, without_formula
from ..text_files import PathLike, read_bytes, read_typed_json, write_atomically

Kind = Literal["likert", "compare"]
LIKERT: Kind = "likert"
COMPARE: Kind = "compare"
KINDS = (LIKERT, COMPARE)
#: Name and version of the format of ``key.json``.
KeyFormat = Literal["wean-human-evaluation-2"]
KEY_FORMAT: KeyFormat = "wean-human-evaluation-2"
#: Permitted answers for each kind of study.
ANSWERS = {LIKERT: ("1", "2", "3", "4", "5"), COMPARE: ("A", "B", "tie")}
#: Instructions for the raters, for each kind of study.
_INSTRUCTIONS = {
    LIKERT: "Rate every text on {} from 1 (very bad) to 5 (very good). Please answer everything.",
    COMPARE: "For every pair say which text is better, A, B or tie, on {}. Please answer everything.",
}
#: Headings of the texts, for each kind of study.
TEXTS = {LIKERT: ["text"], COMPARE: ["text A", "text B"]}
#: Names of the other columns of sheets, and the name of the mean over all criteria.
_RESERVED = {"rater", "item", "source", *TEXTS[LIKERT], *TEXTS[COMPARE], "all"}


class Item(Struct, frozen=True, forbid_unknown_fields=True):
    """A text or a pair of texts that is rated.

    Attributes:
        name: name of the item on the sheets, which does not reveal the system.
        sentence: line number in the test set, from 1.
        systems: the rated system, or the two systems that the first rater sees as A and B.
        texts: the texts for the rater, in the order of `systems`.
        source: the source sentence, or empty if it is not shown.
    """

    name: str
    sentence: int
    systems: tuple[str, ...]
    texts: tuple[str, ...]
    source: str


class Design(Struct, forbid_unknown_fields=True):
    """A whole study, which is saved as ``key.json``.

    Attributes:
        kind: ``likert`` or ``compare``.
        systems: names of the systems. In ``compare``, the first system is compared with all others.
        seed: random seed of the sampled sentences, sides, item names and orders.
        items: the items that every rater rates.
        orders: for every rater, the order of the item names.
    """

    format: KeyFormat
    kind: Kind
    criteria: list[str]
    systems: list[str]
    raters: list[str]
    seed: int
    items: list[Item]
    orders: dict[str, list[str]]

    def __post_init__(self) -> None:
        """Raise ValueError if names are repeated, or if members do not match because the file was changed."""
        items = sorted(item.name for item in self.items)
        for names in (items, self.systems, self.criteria, self.raters):
            if not len(set(names)) == len(names) > 0:
                raise ValueError(f"Expected different names, got {names[:5]}")
        sentences = {item.sentence for item in self.items}
        groups = [sorted(group) for group in _groups(self.kind, self.systems)]
        found = sorted((item.sentence, sorted(item.systems)) for item in self.items)
        # compare the numbers first, because a small file can contain lists with a large product
        is_complete = len(found) == len(sentences) * len(groups)
        if not is_complete or found != sorted((sentence, group) for sentence in sentences for group in groups):
            raise ValueError("The items are not those of the systems, one for every sentence")
        if any(len(item.texts) != len(item.systems) for item in self.items):
            raise ValueError("An item has not one text per system")
        if self.orders.keys() != set(self.raters) or any(sorted(order) != items for order in self.orders.values()):
            raise ValueError("The orders are not those of the raters and items")

    def sheet(self, rater: str) -> list[Item]:
        """Return the items of one rater's sheet, in the rater's order and with the rater's sides.

        Every second rater sees the texts of an item on exchanged sides.
        """
        items = {item.name: item for item in self.items}
        sheet = [items[name] for name in self.orders[rater]]
        if self.raters.index(rater) % 2 == 0:
            return sheet
        return [replace(item, systems=item.systems[::-1], texts=item.texts[::-1]) for item in sheet]

    def to_json(self) -> str:
        return json.dumps(to_builtins(self), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_file(cls, path: PathLike) -> "Design":
        return read_typed_json(path, cls, "give the unchanged key.json that wean-evaluate sheet wrote")


def make_design(
    systems: Sequence[SystemOutput],
    sources: Sequence[str] | None,
    criteria: Sequence[str],
    *,
    kind: Kind = LIKERT,
    num_sentences: int = 100,
    num_raters: int = 3,
    seed: int = 1,
) -> Design:
    """Sample sentences, and design a study of them.

    Args:
        systems: outputs of all systems on one test set, in input order.
        sources: source sentences, shown to the raters if given.
        num_sentences: number of sampled sentences. Every system is rated on all of these sentences.
        num_raters: number of sheets. Every rater rates all items.
        seed: random seed. The same seed and texts produce the same sheets.
    """
    names = [system.name for system in systems]
    lengths = {len(system.nbest) for system in systems} | ({len(sources)} if sources is not None else set())
    _check_study(kind, names, lengths, criteria, num_sentences)
    sampled = sorted(random.Random(seed).sample(range(min(lengths)), num_sentences))
    texts = {system.name: system.hypotheses for system in systems}
    # The choice of sentences depends only on the seed. The item names depend on all settings and texts. Therefore a
    # sheet of another study is recognised, and a browser does not fill it with answers from this study.
    generator = random.Random(
        repr((KEY_FORMAT, seed, kind, list(criteria), num_raters, sources and list(sources), texts))
    )
    cells = [(sentence, group) for sentence in sampled for group in _groups(kind, names)]
    labels = generator.sample(range(16**6), len(cells))
    items = []
    for (sentence, group), label in zip(cells, labels, strict=True):
        shown = tuple(generator.sample(group, len(group)))  # the order in which the first rater sees the texts
        source = sources[sentence] if sources is not None else ""
        items.append(
            Item(f"item-{label:06x}", sentence + 1, shown, tuple(texts[name][sentence] for name in shown), source)
        )
    raters = [f"rater-{number}" for number in range(1, num_raters + 1)]
    orders = {rater: generator.sample([item.name for item in items], len(items)) for rater in raters}
    return Design(KEY_FORMAT, kind, list(criteria), names, raters, seed, items, orders)


def _groups(kind: Kind, systems: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the systems of each item that is created for one sentence."""
    return [(name,) for name in systems] if kind == LIKERT else [(systems[0], other) for other in systems[1:]]


def _check_study(
    kind: Kind, names: Sequence[str], lengths: set[int], criteria: Sequence[str], num_sentences: int
) -> None:
    for name in names:
        check_name(name, "system")
    if len(set(names)) != len(names):
        raise UserError("two systems have the same name; give every system its own name.")
    if len(names) < (2 if kind == COMPARE else 1):
        raise UserError(f"a {kind} study needs more systems than {len(names)}; add them with --hyp NAME=FILE.")
    if not criteria or len(set(criteria)) != len(criteria) or _RESERVED & set(criteria):
        reserved = ", ".join(sorted(_RESERVED))
        raise UserError(f"--criteria must give different names and none of {reserved}; choose other names.")
    for name in criteria:
        if starts_formula(name):
            raise UserError(f"--criteria {name!r} begins like a formula of a spreadsheet; choose another name.")
        check_name(name, f"--criteria {name!r}")
    if len(lengths) > 1:
        raise UserError(f"the files have different numbers of lines ({sorted(lengths)}); give outputs of one test set.")
    if not 1 <= num_sentences <= min(lengths):
        raise UserError(f"cannot sample {num_sentences} of {min(lengths)} sentences; choose another --sentences.")


def write_sheets(design: Design, folder: PathLike) -> list[Path]:
    """Write ``RATER.csv`` and ``RATER.html`` for every rater, and ``key.json``.

    The files of another study are never overwritten.

    An interrupted call leaves sheets without a key. They are replaced if they equal the new sheets.

    Returns:
        The paths of the written files. The last path is the key. The key names the systems, so raters must not see it.
    """
    key = Path(folder) / "key.json"
    sheets = {
        key.with_name(f"{rater}.{suffix}"): partial(sheet, design, rater)
        for rater in design.raters
        for suffix, sheet in (("csv", csv_sheet), ("html", html_sheet))
    }
    present = [path for path in (key, *sheets) if os.path.lexists(path)]
    others = (path for path in present if path == key or read_bytes(path) != sheets[path]().encode())
    if (other := next(others, None)) is not None:
        raise UserError(f"{other} exists: there is a study in this folder already; choose another --out.")
    for path, text in sheets.items():
        write_atomically(path, text())
    write_atomically(key, design.to_json())
    return [*sheets, key]


def csv_sheet(design: Design, rater: str) -> str:
    """Return a rater's CSV sheet, with empty cells for the answers."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["rater", "item", "source", *TEXTS[design.kind], *design.criteria])
    for item in design.sheet(rater):
        texts = map(without_formula, (item.source, *item.texts))
        writer.writerow([rater, item.name, *texts, *("" for _ in design.criteria)])
    return buffer.getvalue()


def html_sheet(design: Design, rater: str) -> str:
    """Return the HTML form of a rater. Every text in it is escaped."""
    return render_template(
        "wean_fairseq.evaluation.human",
        "sheet.html.j2",
        design=design,
        rater=rater,
        items=design.sheet(rater),
        instructions=_INSTRUCTIONS[design.kind].format(", ".join(design.criteria)),
        headings=[heading.replace("text", "Text") for heading in TEXTS[design.kind]],
        answers=ANSWERS[design.kind],
    )
