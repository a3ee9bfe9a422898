"""Generate short essays about one to five topic words, in English or Chinese, from the grammar of this project.

    python preprocess/topic_essays.py --language zh --output data/topic-essays-zh

The script writes {train,valid,test}.{src,tgt} (topic words, and the tokens of an essay that uses each of them), the
domain of each pair ({train,valid,test}.domain), all topic words (topics.json) and manifest.json. The same options give
byte-identical files on every machine.
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from corpus.chance import between, pick, shuffle
from corpus.command import output_parser, run_once, whole_number
from corpus.generator import add_sizes, draw_distinct, sizes_of, write_items
from corpus.output import SPLITS, OutputFolder
from essay_grammar import LANGUAGES, ROLES, Domain

VERSION = "1.0"  # must be raised whenever the written bytes change
COLUMNS = ("src", "tgt", "domain")
REMARK = (
    "Synthetic text, put together from ready sentences and not written by people. "
    "A score on it shows that a model learns, not how well it writes."
)
# The number of topics is drawn from this list with equal probabilities.
TOPIC_COUNTS = (1, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5)
MIN_TOKENS, MAX_TOKENS = 30, 80


class Essay(NamedTuple):
    """Topic words in random order, the essay about them, and its domain."""

    topics: tuple[str, ...]
    text: str
    domain: str


def write_sentence(rng: Random, domain: Domain, role: str, word: str) -> str:
    """Draw a sentence about one topic word."""
    sentences, words = domain.roles[role]
    return pick(rng, sentences).replace("{}", word).replace("{more}", pick(rng, words[word]))


def write_essay(rng: Random, domain: Domain, topics: dict[str, str]) -> list[str]:
    """Draw three to six sentences: an opening, the topics in the order of their roles, maybe more, and a closing."""
    told = {role: write_sentence(rng, domain, role, word) for role, word in topics.items()}
    sentences = [told.pop("scene", "") or pick(rng, domain.plain["opening"])]
    closing = told.pop("feeling", "") or pick(rng, domain.plain["closing"])
    sentences += [told[role] for role in ROLES if role in told]
    extra = between(rng, 0, 1) + (len(topics) <= 2)  # short essays get additional sentences
    return [*sentences, *shuffle(rng, domain.plain["more"])[:extra], closing]


def draw_essay(rng: Random, domains: dict[str, Domain]) -> Essay:
    """Draw a domain, topics with different roles, and an essay of suitable length about them."""
    name = pick(rng, list(domains))
    domain = domains[name]
    roles = shuffle(rng, ROLES)[: pick(rng, TOPIC_COUNTS)]
    topics = {role: pick(rng, list(domain.roles[role].words)) for role in roles}
    while True:
        text = " ".join(write_essay(rng, domain, topics))
        if MIN_TOKENS <= len(text.split()) <= MAX_TOKENS:
            return Essay(tuple(topics.values()), text, name)


def draw_splits(rng: Random, domains: dict[str, Domain], counts: dict[str, int]) -> Iterator[tuple[str, Essay]]:
    """Yield every essay with its split (see ``draw_distinct``). No set of topics occurs twice."""
    return draw_distinct(
        counts, lambda *_: draw_essay(rng, domains), lambda essay: {frozenset(essay.topics)}, noun="essays"
    )


def measure(essays: dict[str, list[Essay]]) -> dict[str, object]:
    """Return facts for the manifest."""
    everything = [essay for split in SPLITS for essay in essays[split]]
    lengths = [len(essay.text.split()) for essay in everything]
    return {
        "domains": dict(sorted(Counter(essay.domain for essay in everything).items())),
        "essays_by_number_of_topics": dict(sorted(Counter(len(essay.topics) for essay in everything).items())),
        "tokens_an_essay": {
            "least": min(lengths),
            "mean": round(sum(lengths) / len(lengths), 1),
            "most": max(lengths),
        },
        "vocabulary": {
            "source": len({topic for essay in everything for topic in essay.topics}),
            "target": len({token for essay in everything for token in essay.text.split()}),
        },
    }


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = output_parser("topic_essays", __doc__)
    options.add_argument("--language", choices=tuple(LANGUAGES), default="en", help="English, or Chinese in words")
    add_sizes(options, {"train": 4000, "valid": 300, "test": 300}, "essays")
    options.add_argument("--seed", type=whole_number(0), default=1, metavar="S", help="seed of the drawing")
    return options


def write(options: Namespace, output: OutputFolder) -> str:
    """Write the essays and the list of topic words. Return a description of the directory."""
    domains = LANGUAGES[options.language]
    drawn = draw_splits(Random(options.seed), domains, sizes_of(options))
    essays = write_items(output, COLUMNS, drawn, lambda essay: (" ".join(essay.topics), essay.text, essay.domain))
    listed = {
        name: {role: " ".join(words) for role, (_, words) in domain.roles.items()} for name, domain in domains.items()
    }
    output.write_text("topics.json", json.dumps(listed, ensure_ascii=False, indent=1) + "\n")
    output.facts["remark"] = REMARK
    output.facts.update(measure(essays))
    return f"wrote {output.sizes()} essays to {output.path}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_once(parser(), write, arguments, version=VERSION)


if __name__ == "__main__":
    sys.exit(main())
