"""Test CopyNet's rule data: targets must follow from rule and source, and sizes must equal the paper's.

Gu et al. (ACL 2016), section 5.1, state: 1,000 symbols, 200 rules of five types, 5 to 20 items per template, 1 to 15
symbols per variable, and 100 + 100 instances per rule. Here, regular expressions match the rules, one for every two
lengths of x and y, without code of the generator.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random

import copynet_rules as generator
import pytest

PREPROCESS = Path(__file__).resolve().parents[3] / "preprocess"

VARIABLES = {
    "x-to-empty": ("x", ""),
    "x-to-x": ("x", "x"),
    "x-to-xx": ("x", "xx"),
    "xy-to-x": ("xy", "x"),
    "xy-to-xy": ("xy", "xy"),
}


def run(output, *options, **environment):
    return subprocess.run(
        [sys.executable, PREPROCESS / "copynet_rules.py", "--output", output, *map(str, options)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def contents(directory):
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def read(directory, split):
    columns = [(directory / f"{split}.{name}").read_text("ascii").splitlines() for name in ("src", "tgt", "rule")]
    return [(source, target, int(rule)) for source, target, rule in zip(*columns, strict=True)]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Return the output with default options, which has the sizes of the paper."""
    folder = tmp_path_factory.mktemp("rules") / "data"
    result = run(folder)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="module")
def rules(published):
    return json.loads((published / "rules.json").read_text("ascii"))


def derive(rule, source):
    """Return every target that the rule can give for the source, found by trying all lengths of x and y."""
    found = set()
    surplus = len(source.split()) - len(rule["source"].split())  # number of symbols beyond one per variable
    for x in range(1, 16) if "y" in rule["source"] else [surplus + 1]:
        y = surplus + 2 - x
        if 1 <= y <= 15 and (match := expression(rule["source"], x, y).fullmatch(source)):
            found.add(re.sub("[xy]", lambda variable, match=match: match[variable[0]], rule["target"]))
    return found


@cache
def expression(template, x, y):
    """Return a pattern of all sources that fit a template whose variables have ``x`` and ``y`` symbols."""
    for variable, size in (("x", x), ("y", y)):
        template = template.replace(variable, rf"(?P<{variable}>\d{{3}}(?: \d{{3}}){{{size - 1}}})")
    return re.compile(template)


# --- the data of the paper


def test_counts(published, rules):
    assert [len(read(published, split)) for split in ("train", "valid", "test")] == [20000, 1000, 20000]
    assert [rule["rule"] for rule in rules] == list(range(200))
    assert Counter(rule["type"] for rule in rules) == dict.fromkeys(VARIABLES, 40)
    for split, each in (("train", 100), ("valid", 5), ("test", 100)):
        assert Counter(rule for _, _, rule in read(published, split)) == dict.fromkeys(range(200), each)


def test_templates(rules):
    """Each side has 5 to 20 items, and the variables of the rule type are never at its ends.

    Lengths and symbols are uniformly distributed.
    """
    symbols, sizes = Counter(), Counter()
    for rule in rules:
        for side, variables in zip(("source", "target"), VARIABLES[rule["type"]], strict=True):
            items = rule[side].split()
            sizes[len(items)] += 1
            assert Counter(item for item in items if item in "xy") == Counter(variables)
            assert items[0] not in "xy" and items[-1] not in "xy"
            constants = [item for item in items if item not in "xy"]
            assert all(re.fullmatch(r"\d{3}", item) for item in constants)
            symbols.update(constants)
    assert set(sizes) == set(range(5, 21))
    assert max(sizes.values()) < 45  # the mean is 400 / 16 = 25, and the standard deviation 4.8
    assert len(symbols) > 950  # about 4,700 draws leave 9 of the 1,000 symbols out on average
    assert max(symbols.values()) < 18


def test_variables_stand_everywhere_inside_and_in_either_order():
    rng = Random(7)
    places, orders = Counter(), Counter()
    for _ in range(6000):
        template = generator.draw_template(rng, "xy")
        if len(template) == 7:
            places[template.index("x"), template.index("y")] += 1
        orders[template.index("x") < template.index("y")] += 1
    assert set(places) == {(x, y) for x in range(1, 6) for y in range(1, 6) if x != y}
    assert abs(orders[True] - orders[False]) < 400  # the standard deviation is 77


def test_every_target_follows_from_its_rule_and_source(published, rules):
    blurred = 0
    for split in ("valid", "test"):
        for source, target, number in read(published, split)[: 10 * 200]:
            possible = derive(rules[number], source)
            assert target in possible, (rules[number], source)
            assert rules[number]["type"].startswith("xy") or len(possible) == 1
            blurred += len(possible) > 1
    assert 0 < blurred < 3000 * 2 / 5 / 2  # on average, x and y are adjacent in a quarter of the rules with y


def test_source_and_rule_belong_together_in_training_too(published, rules):
    assert all(target in derive(rules[number], source) for source, target, number in read(published, "train")[:1000])


def test_fillings_have_1_to_15_symbols(published, rules):
    lengths, symbols = Counter(), Counter()
    for source, _, number in read(published, "train"):
        if rules[number]["type"].startswith("x-"):
            template = rules[number]["source"].split()
            filling = source.split()[
                template.index("x") : len(source.split()) - len(template) + template.index("x") + 1
            ]
            lengths[len(filling)] += 1
            symbols.update(filling)
    assert set(lengths) == set(range(1, 16))
    # the mean is 12,000 / 15, and the standard deviation 27
    assert all(abs(count - 800) < 150 for count in lengths.values())
    assert len(symbols) == 1000
    assert max(symbols.values()) < 2 * min(symbols.values())


def test_the_filling_of_x_is_the_same_in_both_places(published, rules):
    for source, target, number in read(published, "test"):
        rule = rules[number]
        if rule["type"] == "x-to-xx":
            items = rule["target"].split()
            first, second = (place for place, item in enumerate(items) if item == "x")
            size = (len(target.split()) - len(items)) // 2 + 1
            words = target.split()
            assert words[first : first + size] == words[second + size - 1 : second + 2 * size - 1]
            assert " ".join(words[first : first + size]) in source


def test_no_source_occurs_twice(published):
    sources = [source for split in ("train", "valid", "test") for source, _, _ in read(published, split)]
    assert len(set(sources)) == len(sources) == 41000


def test_first_lines_are_a_fair_sample(published):
    assert [rule for _, _, rule in read(published, "test")[:200]] == list(range(200))


def test_side_cars_name_rule_and_type(published, rules):
    for split in ("train", "valid", "test"):
        types = (published / f"{split}.type").read_text("ascii").splitlines()
        assert types == [rules[number]["type"] for _, _, number in read(published, split)]


def test_manifest(published):
    manifest = json.loads((published / "manifest.json").read_text("utf-8"))
    assert manifest["options"] == {
        "rules": 200,
        "train_per_rule": 100,
        "valid_per_rule": 5,
        "test_per_rule": 100,
        "seed": 1,
    }
    assert manifest["rules"] == dict.fromkeys(VARIABLES, 40)
    assert {name: split["kept"] for name, split in manifest["splits"].items()} == {
        "train": 20000,
        "valid": 1000,
        "test": 20000,
    }
    found = contents(published)
    del found["manifest.json"]
    assert {name: entry["sha256"] for name, entry in manifest["files"].items()} == {
        name: hashlib.sha256(data).hexdigest() for name, data in found.items()
    }


# --- how well a model can do


def ceiling_by_hand(rule, source):
    """Return the expected accuracy of a model that knows the rule: the share of the likeliest target."""
    targets = Counter()
    words, items = source.split(), rule["source"].split()
    for x in range(1, 16):
        y = len(words) - (len(items) - 2) - x
        if not 1 <= y <= 15:
            continue
        sizes = {"x": x, "y": y}
        parts, at, fits = {}, 0, True
        for item in items:
            size = sizes.get(item, 1)
            parts[item] = words[at : at + size]
            fits = fits and (item in sizes or parts[item] == [item])
            at += size
        if fits:
            targets[re.sub("[xy]", lambda item, parts=parts: " ".join(parts[item[0]]), rule["target"])] += 1
    return max(targets.values()) / sum(targets.values())


def test_highest_accuracy(published, rules):
    stated = json.loads((published / "manifest.json").read_text("utf-8"))["highest_test_accuracy"]
    assert [stated[name] for name in ("x-to-empty", "x-to-x", "x-to-xx")] == [100, 100, 100]
    for name in ("xy-to-x", "xy-to-xy"):
        chances = [
            ceiling_by_hand(rules[n], source) for source, _, n in read(published, "test") if rules[n]["type"] == name
        ]
        assert stated[name] == pytest.approx(100 * sum(chances) / len(chances), abs=0.05)
        assert 65 < stated[name] < 90


def test_touching_variables_leave_a_choice():
    """Three symbols are divided between x and y in two ways, which give two targets unless a symbol separates them."""
    touching = generator.Rule("xy-to-x", ("001", "x", "y", "002", "003"), ("004", "x", "005", "006", "007"))
    apart = touching._replace(source=("001", "x", "008", "y", "002", "003"))
    kept = touching._replace(target=("004", "x", "y", "005", "006"))
    assert generator.chance_of_success(touching, "001 101 102 103 002 003") == 1 / 2
    assert generator.chance_of_success(apart, "001 101 102 008 103 002 003") == 1
    assert generator.chance_of_success(apart, "001 101 008 102 008 103 002 003") == 1 / 2
    assert generator.chance_of_success(kept, "001 101 102 103 002 003") == 1


# --- the draw


def test_only_the_stable_method_of_random_is_used():
    class OnlyRandom:
        """A source of random numbers with `random()` only, which Python promises to keep the same between versions."""

        def __init__(self):
            self.random = Random(5).random

    def drawn(rng):
        rules = generator.draw_rules(rng, 10)
        return rules, list(generator.draw_splits(rng, rules, {"train": 4, "valid": 1, "test": 2}))

    assert drawn(OnlyRandom()) == drawn(Random(5))


def test_other_seed_gives_other_rules():
    assert not set(generator.draw_rules(Random(1), 50)) & set(generator.draw_rules(Random(2), 50))


def test_valid_and_test_do_not_depend_on_the_training_size():
    rules = generator.draw_rules(Random(1), 10)
    one, two = (
        list(generator.draw_splits(Random(2), rules, {"train": size, "valid": 3, "test": 3})) for size in (2, 9)
    )
    assert one[:60] == two[:60]
    assert one == two[: len(one)]
    assert Counter(split for split, _ in two) == {"test": 30, "valid": 30, "train": 90}


def test_repeated_sources_are_drawn_again(monkeypatch):
    monkeypatch.setattr(generator, "SYMBOLS", ("000", "001"))
    monkeypatch.setattr(generator, "MAX_FILLING", 2)  # this allows six different fillings
    rules = [generator.Rule("x-to-x", ("000", "x", "001"), ("001", "x", "000"))]
    found = [instance for _, instance in generator.draw_splits(Random(1), rules, {"train": 3, "valid": 1, "test": 2})]
    assert len({instance.source for instance in found}) == 6
