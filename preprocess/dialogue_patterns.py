"""Generate single-turn dialogues like those of CopyNet (Gu et al., ACL 2016, section 5.3): 173 patterns with slots.

    python preprocess/dialogue_patterns.py --output data/dialogue

The script writes two data sets. In DS-I (DIR/ds1), the names, places and other slot fillers of the test set also occur
in the training set. In DS-II (DIR/ds2), all slot fillers of the test set are new. Each set has
{train,valid,test}.{src,tgt}, one token per character. Further files contain, for each pair, its pattern (.pattern), the
kind of its response (.kind: copied, free or foreign), and all acceptable responses, separated by tabs (.responses). The
response of the pair itself comes first. The same options give byte-identical files on every machine.
"""

import json
import math
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from corpus.chance import between, pick
from corpus.command import output_parser, run_once, whole_number
from corpus.generator import add_sizes, draw_distinct, json_list, sizes_of, write_items
from corpus.output import SPLITS, OutputFolder
from dialogue_grammar import FORMS, HALVES, PATTERNS, SLOT, Pattern, draw_pool, slots

from wean_fairseq.text.steps import splitter

VERSION = "1.0"  # must be raised whenever the written bytes change
SETS = ("ds1", "ds2")
COLUMNS = ("src", "tgt", "pattern", "kind", "responses")
REMARK = (
    "Synthetic text, written by patterns and not by people. The paper's corpus and patterns were never published: "
    "a score on this re-creation can be compared with the paper's in kind, not digit by digit."
)

Pools = dict[str, list[str]]  # fillers for each type of slot


class Turn(NamedTuple):
    """An utterance with its response, all acceptable responses (this response first), its pattern and its kind."""

    pattern: int
    source: str
    responses: tuple[str, ...]
    kind: str
    fillers: tuple[str, ...]  # fillers of the source


def draw_pools(rng: Random, name: str, size: int) -> dict[str, Pools]:
    """Draw the fillers for each split. In DS-I, all splits share the same fillers.

    In DS-II, the test set has its own fillers.
    """
    if name == "ds1":
        shared = {kind: draw_pool(rng, kind, HALVES, size) for kind in FORMS}
        return dict.fromkeys(SPLITS, shared)
    known, new = ({kind: draw_pool(rng, kind, [half], size) for kind in FORMS} for half in HALVES)
    return {"train": known, "valid": known, "test": new}


def type_of(slot: str) -> str:
    """Return the type of a slot. The type of "person2" is "person"."""
    return slot.rstrip("0123456789")


def draw_fillers(rng: Random, pattern: Pattern, pools: Pools) -> dict[str, str]:
    """Draw a filler for every slot of a pattern. All slots of a pattern get different fillers."""
    fillers: dict[str, str] = {}
    for slot in slots(" ".join((pattern.said, *pattern.responses))):
        filler = pick(rng, pools[type_of(slot)])
        while filler in fillers.values():
            filler = pick(rng, pools[type_of(slot)])
        fillers[slot] = filler
    return fillers


def fill_slots(text: str, fillers: dict[str, str]) -> str:
    """Return the text with its slots filled."""
    return SLOT.sub(lambda slot: fillers[slot[1] + slot[2]], text)


def foreign_slots(pattern: Pattern, response: str) -> list[str]:
    """Return the slots of a response that are not in the utterance."""
    return [slot for slot in slots(response) if slot not in slots(pattern.said)]


def kind_of(pattern: Pattern, response: str) -> str:
    """Return the kind of a response: "free" without entities, "copied" if all can be copied, otherwise "foreign"."""
    if not slots(response):
        return "free"
    return "foreign" if foreign_slots(pattern, response) else "copied"


def draw_turn(rng: Random, pools: Pools) -> Turn:
    """Draw a pattern, its fillers, and one of its responses."""
    number = between(rng, 0, len(PATTERNS) - 1)
    pattern = PATTERNS[number]
    fillers = draw_fillers(rng, pattern, pools)
    chosen = pick(rng, pattern.responses)
    responses = (chosen, *(response for response in pattern.responses if response != chosen))
    return Turn(
        number,
        fill_slots(pattern.said, fillers),
        tuple(fill_slots(response, fillers) for response in responses),
        kind_of(pattern, chosen),
        tuple(fillers[slot] for slot in slots(pattern.said)),
    )


def draw_splits(rng: Random, pools: dict[str, Pools], counts: dict[str, int], title: str) -> Iterator[tuple[str, Turn]]:
    """Yield every turn with its split (see ``draw_distinct``). No source occurs twice."""
    return draw_distinct(
        counts,
        lambda split, _: draw_turn(rng, pools[split]),
        lambda turn: {turn.source},
        advice="ask for fewer, or for more fillers with --pool-size",
        title=title,
    )


def chance_of_success(pattern: Pattern, pools: Pools, guesses: int) -> float:
    """Return the probability that the true response is among the best guesses of a model that knows all patterns."""
    chances: list[float] = []
    said = Counter(type_of(slot) for slot in slots(pattern.said))
    for response in pattern.responses:
        kinds = [type_of(slot) for slot in foreign_slots(pattern, response)]
        readings = math.prod(len(pools[kind]) - said[kind] for kind in kinds)
        chances += [1 / len(pattern.responses) / readings] * min(readings, guesses)
    return sum(sorted(chances, reverse=True)[:guesses])


def measure(turns: dict[str, list[Turn]], pools: Pools) -> dict[str, object]:
    """Return facts for the manifest: kinds of responses, best possible accuracy, and novelty of the test set."""
    known = {character for turn in turns["train"] for text in (turn.source, *turn.responses) for character in text}
    fillers = {filler for turn in turns["train"] for filler in turn.fillers}
    new = [set(turn.source + turn.responses[0]) - known for turn in turns["test"]]
    total = len(turns["test"])
    return {
        "kinds": {split: dict(sorted(Counter(turn.kind for turn in turns[split]).items())) for split in SPLITS},
        "test_pairs_of_several_responses": sum(len(turn.responses) > 1 for turn in turns["test"]),
        "highest_test_exact": {
            f"@{guesses}": round(
                100 * sum(chance_of_success(PATTERNS[turn.pattern], pools, guesses) for turn in turns["test"]) / total,
                1,
            )
            for guesses in (1, 10)
        },
        "test_pairs_with_unseen_filler": sum(not fillers.issuperset(turn.fillers) for turn in turns["test"]),
        "unseen_test_characters": len(set().union(*new)),
        "test_pairs_with_unseen_character": sum(map(bool, new)),
    }


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = output_parser("dialogue_patterns", __doc__)
    options.add_argument(
        "--set", choices=(*SETS, "both"), default="both", help="ds2: no name, place, ... of test is in train"
    )
    add_sizes(options, {"train": 6500, "valid": 500, "test": 1500})
    options.add_argument(
        "--pool-size",
        type=whole_number(5, 100_000),
        default=200,
        metavar="N",
        help="maximum of fillers per type",
    )
    options.add_argument("--unit", choices=("characters", "jieba"), default="characters", help="tokens")
    options.add_argument("--seed", type=whole_number(0), default=1, metavar="S", help="seed of the drawing")
    return options


def write(options: Namespace, output: OutputFolder) -> str:
    """Write the turns, the patterns and the fillers of one set. Return a description of the directory."""
    rng, cut = Random(options.seed), splitter(options.unit)
    pools = draw_pools(rng, options.set, options.pool_size)

    def row(turn: Turn) -> tuple[str, ...]:
        responses = [cut(response) for response in turn.responses]
        return cut(turn.source), responses[0], str(turn.pattern), turn.kind, "\t".join(responses)

    turns = write_items(output, COLUMNS, draw_splits(rng, pools, sizes_of(options), options.set), row)
    patterns = ({"pattern": number, **pattern._asdict()} for number, pattern in enumerate(PATTERNS))
    output.write_text("patterns.json", json_list(patterns))
    fillers = {split: {kind: " ".join(pool) for kind, pool in pools[split].items()} for split in ("train", "test")}
    output.write_text("fillers.json", json.dumps(fillers, ensure_ascii=False, indent=1) + "\n")
    output.facts["remark"] = REMARK
    output.facts["patterns"] = len(PATTERNS)
    output.facts.update(measure(turns, pools["test"]))
    return f"wrote {output.sizes()} pairs of {len(PATTERNS)} patterns to {output.path}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_once(parser(), write, arguments, version=VERSION, sets=SETS)


if __name__ == "__main__":
    sys.exit(main())
