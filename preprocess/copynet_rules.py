"""Generate the synthetic rule data of CopyNet (Gu et al., ACL 2016, section 5.1): copy the strings for x and y.

    python preprocess/copynet_rules.py --output data/copynet-rules

The script writes {train,valid,test}.{src,tgt}, the number and type of the rule of each line
({train,valid,test}.{rule,type}), the rules (rules.json) and manifest.json. The same options give byte-identical files
on every machine.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from corpus.chance import between, pick
from corpus.command import output_parser, run_once, whole_number
from corpus.generator import EXAMPLES, draw_distinct, json_list, sizes_of, write_items
from corpus.output import OutputFolder

VERSION = "1.0"  # must be raised whenever the written bytes change
COLUMNS = ("src", "tgt", "rule", "type")
RULES_FILE = "rules.json"
REMARK = (
    "Re-created from the description in the paper, whose own rules were never published: "
    "a score on it can be compared with the paper's in kind, not digit by digit."
)

SYMBOLS = tuple(f"{number:03d}" for number in range(1000))
MIN_TEMPLATE, MAX_TEMPLATE = 5, 20  # minimum and maximum number of symbols and variables on one side of a rule
MIN_FILLING, MAX_FILLING = 1, 15  # minimum and maximum number of symbols that replace a variable
# Maps each type of rule to the variables on its source side and on its target side.
TYPES = {
    "x-to-empty": ("x", ""),
    "x-to-x": ("x", "x"),
    "x-to-xx": ("x", "xx"),
    "xy-to-x": ("xy", "x"),
    "xy-to-xy": ("xy", "xy"),
}

Template = tuple[str, ...]


class Rule(NamedTuple):
    """A rule with its type and a template for each side. Templates consist of symbols and the variables "x" and "y"."""

    type: str
    source: Template
    target: Template


class Instance(NamedTuple):
    """One pair of sentences, and the index of its rule."""

    rule: int
    source: str
    target: str


def draw_template(rng: Random, variables: str) -> Template:
    """Draw a template: its length, its symbols, and a different inner position for each variable."""
    template = [pick(rng, SYMBOLS) for _ in range(between(rng, MIN_TEMPLATE, MAX_TEMPLATE))]
    interior = list(range(1, len(template) - 1))
    for variable in variables:
        template[interior.pop(int(rng.random() * len(interior)))] = variable
    return tuple(template)


def draw_rules(rng: Random, count: int) -> list[Rule]:
    """Draw ``count`` rules, cycling through the types, so that the numbers of rules per type differ by at most one."""
    names = list(TYPES)
    rules = []
    for number in range(count):
        name = names[number % len(names)]
        source, target = (draw_template(rng, variables) for variables in TYPES[name])
        rules.append(Rule(name, source, target))
    return rules


def fill_template(template: Template, fillings: dict[str, Template]) -> str:
    """Return the template with every variable replaced by its filling."""
    return " ".join(symbol for item in template for symbol in fillings.get(item, (item,)))


def draw_instance(rng: Random, rules: Sequence[Rule], number: int) -> Instance:
    """Replace each variable of a rule by a new string of symbols. All occurrences of a variable get the same string."""
    rule = rules[number]
    fillings = {
        variable: tuple(pick(rng, SYMBOLS) for _ in range(between(rng, MIN_FILLING, MAX_FILLING)))
        for variable in TYPES[rule.type][0]
    }
    return Instance(number, fill_template(rule.source, fillings), fill_template(rule.target, fillings))


def draw_splits(rng: Random, rules: Sequence[Rule], per_rule: dict[str, int]) -> Iterator[tuple[str, Instance]]:
    """Yield every instance with its split (see ``draw_distinct``). No source occurs twice.

    The rules take turns, so that the first lines of a file are a representative sample of it.
    """
    counts = {split: number * len(rules) for split, number in per_rule.items()}
    return draw_distinct(
        counts, lambda _, number: draw_instance(rng, rules, number % len(rules)), lambda instance: {instance.source}
    )


def find_fillings(rule: Rule, source: Template) -> Iterator[dict[str, Template]]:
    """Yield every way to parse the source with this rule. All ways are equally likely.

    If the source template has a single variable, there is only one way. If x and y are adjacent, there is one way for
    each border between them.
    """
    order = [item for item in rule.source if item in ("x", "y")]
    total = len(source) - len(rule.source) + len(order)  # number of symbols that replace variables
    lengths = [(total,)] if len(order) == 1 else [(first, total - first) for first in range(1, total)]
    for chosen in lengths:
        if not all(MIN_FILLING <= length <= MAX_FILLING for length in chosen):
            continue
        sizes = dict(zip(order, chosen, strict=True))
        fillings, position, fits = {}, 0, True
        for item in rule.source:
            end = position + sizes.get(item, 1)
            if item in sizes:
                fillings[item] = source[position:end]
            else:
                fits = fits and source[position] == item
            position = end
        if fits:
            yield fillings


def chance_of_success(rule: Rule, source: str) -> float:
    """Return the expected accuracy of the best answer for a model that knows the rule.

    It is 1 unless the border between x and y is ambiguous.
    """
    targets = Counter(fill_template(rule.target, fillings) for fillings in find_fillings(rule, tuple(source.split())))
    return max(targets.values()) / sum(targets.values())


def measure_ceiling(rules: Sequence[Rule], instances: Sequence[Instance]) -> dict[str, float]:
    """Return the best possible accuracy for each type of rule, in percent, if all rules are known."""
    chances: dict[str, list[float]] = {}
    for number, source, _ in instances:
        chances.setdefault(rules[number].type, []).append(chance_of_success(rules[number], source))
    return {name: round(100 * sum(values) / len(values), 1) for name, values in chances.items()}


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = output_parser("copynet_rules", __doc__)
    options.add_argument("--rules", type=whole_number(5, 10_000), default=200, metavar="N", help="rules, of 5 types")
    options.add_argument("--train-per-rule", type=EXAMPLES, default=100, metavar="N", help="training instances")
    options.add_argument("--valid-per-rule", type=EXAMPLES, default=5, metavar="N", help="validation instances")
    options.add_argument("--test-per-rule", type=EXAMPLES, default=100, metavar="N", help="test instances")
    options.add_argument("--seed", type=whole_number(0), default=1, metavar="S", help="seed of the drawing")
    return options


def write(options: Namespace, output: OutputFolder) -> str:
    """Write every instance with the number and the type of its rule, and all rules. Return a description."""
    rng = Random(options.seed)
    rules = draw_rules(rng, options.rules)
    instances = write_items(
        output,
        COLUMNS,
        draw_splits(rng, rules, sizes_of(options, "_per_rule")),
        lambda instance: (instance.source, instance.target, str(instance.rule), rules[instance.rule].type),
    )
    listed = (
        {"rule": number, "type": rule.type, "source": " ".join(rule.source), "target": " ".join(rule.target)}
        for number, rule in enumerate(rules)
    )
    output.write_text(RULES_FILE, json_list(listed))
    output.facts["remark"] = REMARK
    output.facts["rules"] = dict(Counter(rule.type for rule in rules))
    output.facts["highest_test_accuracy"] = measure_ceiling(rules, instances["test"])
    return f"wrote {output.sizes()} pairs of {len(rules)} rules to {output.path}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_once(parser(), write, arguments, version=VERSION)


if __name__ == "__main__":
    sys.exit(main())
