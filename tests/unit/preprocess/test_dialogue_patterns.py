"""Test the dialogue sets: sizes and shares, responses that follow from the source, and separate fillers.

The expected responses are derived from the written files: a regular expression for each pattern extracts the fillers
from the source, and the response is built from them.
"""

import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import dialogue_grammar
import dialogue_patterns as generator
import pytest
from dialogue_grammar import PATTERNS, Pattern

PREPROCESS = Path(__file__).resolve().parents[3] / "preprocess"

SPLITS = ("train", "valid", "test")
COLUMNS = ("src", "tgt", "pattern", "kind", "responses")
SMALL = ("--train", 60, "--valid", 10, "--test", 20, "--pool-size", 30)


def run(output, *options, **environment):
    return subprocess.run(
        [sys.executable, PREPROCESS / "dialogue_patterns.py", "--output", output, *map(str, options)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def contents(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*.*"))}


def lines(path):
    return path.read_text("utf-8").splitlines()


def read(folder, split):
    """Return (source, response, pattern, kind, all responses) of every line, without the spaces between characters."""
    rows = zip(*(lines(folder / f"{split}.{column}") for column in COLUMNS), strict=True)
    return [
        (source.replace(" ", ""), response.replace(" ", ""), int(number), kind, every.replace(" ", "").split("\t"))
        for source, response, number, kind, every in rows
    ]


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Return both sets in the sizes of the paper."""
    folder = tmp_path_factory.mktemp("dialogue") / "data"
    result = run(folder)
    assert result.returncode == 0, result.stderr
    return {name: folder / name for name in ("ds1", "ds2")}


@pytest.fixture(scope="module")
def patterns(sets):
    return json.loads((sets["ds1"] / "patterns.json").read_text("utf-8"))


def fillers(folder, split):
    pools = json.loads((folder / "fillers.json").read_text("utf-8"))[split]
    return {kind: pool.split() for kind, pool in pools.items()}


def named(text):
    return [name for name, _ in re.findall(r"\{(([a-z]+)\d?)\}", text)]


def expression(pattern, pools):
    """Return a regular expression with a group for each slot. A slot that occurs twice must have the same content."""
    parts, seen = [], set()
    for part in re.split(r"(\{[a-z]+\d?\})", pattern):
        name = part.strip("{}")
        if not part.startswith("{"):
            parts.append(re.escape(part))
        elif name in seen:
            parts.append(f"(?P={name})")
        else:
            seen.add(name)
            parts.append(f"(?P<{name}>{'|'.join(map(re.escape, pools[name.rstrip('2')]))})")
    return re.compile("".join(parts))


# --- the patterns


def test_there_are_173_different_patterns(patterns):
    assert len(patterns) == len({entry["said"] for entry in patterns}) == 173
    assert [entry["pattern"] for entry in patterns] == list(range(173))


def test_shares_of_the_patterns(patterns):
    """At least 30 % of the patterns have several responses, 15 % one without an entity, 5 % one with a foreign one."""
    several = [entry for entry in patterns if len(entry["responses"]) > 1]
    free = [entry for entry in patterns if not all(named(response) for response in entry["responses"])]
    foreign = [
        entry
        for entry in patterns
        if any(set(named(response)) - set(named(entry["said"])) for response in entry["responses"])
    ]
    assert 0.30 <= len(several) / 173 <= 0.37
    assert {len(entry["responses"]) for entry in patterns} == {1, 2, 3}
    assert len(free) / 173 >= 0.15
    assert len(foreign) / 173 >= 0.05


def test_every_pattern_has_a_slot_and_different_responses(patterns):
    for entry in patterns:
        assert named(entry["said"]), entry
        assert len(set(entry["responses"])) == len(entry["responses"])
        for text in (entry["said"], *entry["responses"]):
            assert {name.rstrip("2") for name in named(text)} <= set(dialogue_grammar.FORMS)
            assert text[-1] in "。？！”", text
            assert not re.search(r"[\s>|,.?!]", text)


def test_every_type_of_filler_is_used(patterns):
    used = {name.rstrip("2") for entry in patterns for name in named(entry["said"])}
    assert used == set(dialogue_grammar.FORMS)


# --- the sets


@pytest.mark.parametrize("name", ["ds1", "ds2"])
def test_sizes(sets, name):
    assert [len(read(sets[name], split)) for split in SPLITS] == [6500, 500, 1500]
    sources = [source for split in SPLITS for source, *_ in read(sets[name], split)]
    assert len(set(sources)) == 8500
    numbers = Counter(number for _, _, number, _, _ in read(sets[name], "train"))
    assert len(numbers) == 173
    assert max(numbers.values()) < 75  # the mean is 37.6 and the standard deviation 6


@pytest.mark.parametrize("name", ["ds1", "ds2"])
def test_a_token_is_a_character(sets, name):
    for split in SPLITS:
        for side in ("src", "tgt"):
            for line in lines(sets[name] / f"{split}.{side}"):
                assert all(len(token) == 1 for token in line.split(" "))
                assert 3 <= len(line.split(" ")) <= 25


@pytest.mark.parametrize("name", ["ds1", "ds2"])
@pytest.mark.parametrize("split", SPLITS)
def test_every_response_follows_from_pattern_and_source(sets, patterns, name, split):
    pools = fillers(sets[name], "test" if split == "test" else "train")
    expressions = [expression(entry["said"], pools) for entry in patterns]
    for source, response, number, kind, every in read(sets[name], split)[:1500]:
        assert every[0] == response
        match = expressions[number].fullmatch(source)
        assert match, (source, patterns[number]["said"])
        assert len(set(match.groupdict().values())) == len(match.groupdict())
        known = match.groupdict()
        readings = []
        for template in patterns[number]["responses"]:
            half = template
            for slot, filler in known.items():
                half = half.replace("{" + slot + "}", filler)
            readings.append((template, re.fullmatch(expression(half, pools), response)))
        assert any(reading for _, reading in readings), (source, response)
        kinds = {
            "free" if not named(template) else "copied" if set(named(template)) <= set(known) else "foreign"
            for template, reading in readings
            if reading
        }
        assert kind in kinds
        assert len(every) == len(set(every)) == len(readings)
        for template in patterns[number]["responses"]:
            if set(named(template)) <= set(known):
                assert re.sub(r"\{(\w+)\}", lambda slot, known=known: known[slot[1]], template) in every


def test_each_of_several_responses_is_given_as_often(sets, patterns):
    """If a pattern has two responses, each of them is the target of half of the pairs."""
    given = Counter()
    for _, response, number, _, every in read(sets["ds1"], "train"):
        if len(patterns[number]["responses"]) == 2 and not named(patterns[number]["responses"][1]):
            given[any(response == text for text in patterns[number]["responses"])] += 1
            assert len(every) == 2
    assert sum(given.values()) > 1000
    assert abs(given[True] / sum(given.values()) - 0.5) < 0.06


@pytest.mark.parametrize("name", ["ds1", "ds2"])
def test_shares_of_the_pairs(sets, name):
    manifest = json.loads((sets[name] / "manifest.json").read_text("utf-8"))
    for split in SPLITS:
        kinds = Counter(kind for _, _, _, kind, _ in read(sets[name], split))
        assert manifest["kinds"][split] == kinds
        assert kinds["free"] / kinds.total() >= 0.15
        assert kinds["foreign"] / kinds.total() >= 0.05
        assert kinds["copied"] / kinds.total() > 0.6
    assert manifest["test_pairs_of_several_responses"] == sum(
        len(every) > 1 for _, _, _, _, every in read(sets[name], "test")
    )


# --- the fillers


def test_ds1_shares_its_fillers_and_ds2_shares_none(sets):
    one, two = ([fillers(sets[name], split) for split in ("train", "test")] for name in ("ds1", "ds2"))
    assert one[0] == one[1]
    assert two[0].keys() == two[1].keys() == one[0].keys() == set(dialogue_grammar.FORMS)
    for kind in two[0]:
        assert not set(two[0][kind]) & set(two[1][kind]), kind
        for pool in (one[0][kind], two[0][kind], two[1][kind]):
            assert len(pool) == len(set(pool)) >= 16, kind
    everything = [filler for pool in two[1].values() for filler in pool]
    assert not set(everything) & {filler for pool in two[0].values() for filler in pool}
    assert all(len(one[0][kind]) == 200 for kind in ("person", "place", "food", "song", "team", "school"))


def list_fillers(kind, halves):
    forms = (
        [dialogue_grammar.words_of(part, halves) for part in form.split()] for form in dialogue_grammar.FORMS[kind]
    )
    return {"".join(words) for form in forms for words in itertools.product(*form)}


@pytest.mark.parametrize("kind", sorted(set(dialogue_grammar.FORMS) - {"code"}))
def test_fillers_of_ds2_are_disjoint_for_every_seed(kind):
    """All possible fillers are compared, not only those drawn.

    Codes are too many to list and differ in their first digit.
    """
    first, second = (list_fillers(kind, [half]) for half in ("train", "test"))
    assert not first & second
    assert first | second <= list_fillers(kind, ["train", "test"])


def test_codes_of_ds2_differ_in_their_first_digit():
    first, second = (dialogue_grammar.draw_pool(Random(1), "code", [half], 300) for half in ("train", "test"))
    assert {code[0] for code in first} == set("13579")
    assert {code[0] for code in second} == set("2468")
    assert {len(code) for code in first + second} == {6, 8}


def test_a_pool_has_the_size_asked_for_or_everything():
    assert len(dialogue_grammar.draw_pool(Random(1), "person", ["test"], 321)) == 321
    pool = dialogue_grammar.draw_pool(Random(1), "age", ["train"], 200)
    assert sorted(pool) == sorted(tens + one for tens in "十 二十 三十 四十 五十".split() for one in "一三五七九")


def test_unseen_characters_and_fillers(sets):
    for name, new_fillers in (("ds1", range(150, 450)), ("ds2", range(1500, 1501))):
        folder = sets[name]
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        train = {character for row in read(folder, "train") for text in (row[0], *row[4]) for character in text}
        new = [set(source + response) - train for source, response, *_ in read(folder, "test")]
        assert manifest["unseen_test_characters"] == len(set().union(*new))
        assert manifest["test_pairs_with_unseen_character"] == sum(map(bool, new))
        assert manifest["test_pairs_with_unseen_filler"] in new_fillers
        assert (sum(map(bool, new)) > 750) == (name == "ds2")


# --- how well a model can do


def test_chance_of_success():
    """One of the two responses names another person from a list of five names.

    The other response is tried first, and then the four possible names.
    """
    pattern = Pattern("我是{person}。", ("你好，{person}。", "我是{person2}。"))
    pools = {"person": ["甲", "乙", "丙", "丁", "戊"]}
    assert generator.chance_of_success(pattern, pools, 1) == 1 / 2
    assert generator.chance_of_success(pattern, pools, 3) == pytest.approx(1 / 2 + 2 * 1 / 2 / 4)
    assert generator.chance_of_success(pattern, pools, 10) == pytest.approx(1)
    foreign = Pattern("我是{person}。", ("你像{pet}。",))
    assert generator.chance_of_success(foreign, {"person": ["甲"], "pet": ["a"] * 40}, 10) == pytest.approx(10 / 40)


def test_highest_exact_of_the_test_sets(sets, patterns):
    """The expected value is the share of test pairs whose target is the likeliest response, computed by hand.

    If responses are equally likely, their order decides.
    """
    for folder in sets.values():
        stated = json.loads((folder / "manifest.json").read_text("utf-8"))["highest_test_exact"]
        one = 0.0
        for _, _, number, _, every in read(folder, "test"):
            known = set(named(patterns[number]["said"]))
            copyable = [text for text in patterns[number]["responses"] if set(named(text)) <= known]
            one += 1 / len(every) if copyable else 0
        assert stated["@1"] == pytest.approx(one / 15, abs=0.5)  # guessing a foreign entity adds little to it
        assert stated["@1"] >= round(one / 15, 1)
        assert stated["@1"] < stated["@10"] < 100


# --- the draw


def test_only_the_stable_method_of_random_is_used():
    class OnlyRandom:
        """A source of random numbers with `random()` only, which Python promises to keep the same between versions."""

        def __init__(self):
            self.random = Random(5).random

    def drawn(rng, name):
        pools = generator.draw_pools(rng, name, 30)
        return pools, list(generator.draw_splits(rng, pools, {"train": 60, "valid": 10, "test": 20}, name))

    for name in ("ds1", "ds2"):
        assert drawn(OnlyRandom(), name) == drawn(Random(5), name)


def test_valid_and_test_do_not_depend_on_the_training_size():
    pools = generator.draw_pools(Random(1), "ds2", 50)
    one, two = (
        list(generator.draw_splits(Random(2), pools, {"train": size, "valid": 9, "test": 8}, "ds2")) for size in (5, 40)
    )
    assert one == two[: len(one)]
    assert [split for split, _ in one] == ["test"] * 8 + ["valid"] * 9 + ["train"] * 5


# --- files


def test_one_set_only(tmp_path):
    assert run(tmp_path, *SMALL, "--set", "ds2").returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["ds2"]


def test_existing_output_is_refused_and_left_alone(tmp_path):
    assert run(tmp_path, *SMALL, "--set", "ds2").returncode == 0
    before = contents(tmp_path)
    refused = run(tmp_path, *SMALL, "--seed", 2)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "--overwrite" in refused.stderr
    assert contents(tmp_path) == before  # the other set is not written either
    assert run(tmp_path, *SMALL, "--seed", 2, "--overwrite").returncode == 0
    after = contents(tmp_path)
    assert after["ds2/test.src"] != before["ds2/test.src"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ds1", "ds2"]


def test_too_many_pairs_are_one_clear_line(tmp_path):
    result = run(tmp_path, "--set", "ds1", "--pool-size", 5, "--train", 90000, "--valid", 1, "--test", 1)
    assert result.returncode == 2
    assert result.stderr.startswith("dialogue_patterns: error: after ")
    assert "of 90,002 pairs there is no other one for train" in result.stderr
    assert not list(tmp_path.iterdir())


def test_jieba_units(tmp_path):
    """With jieba, the tokens are words instead of characters. Both texts are the same without spaces."""
    pytest.importorskip("jieba")
    for unit in ("jieba", "characters"):
        line = ["--output", tmp_path / unit, *SMALL, "--set", "ds1", "--unit", unit]
        assert generator.main([str(word) for word in line]) == 0
    words, characters = (contents(tmp_path / unit / "ds1") for unit in ("jieba", "characters"))
    assert words["test.src"].replace(b" ", b"") == characters["test.src"].replace(b" ", b"")
    assert len(words["test.src"].split()) < len(characters["test.src"].split())
    assert "jieba" in json.loads(words["manifest.json"])["versions"]


def test_patterns_of_the_file_are_those_of_the_grammar(patterns):
    assert [(entry["said"], entry["responses"]) for entry in patterns] == [tuple(entry) for entry in PATTERNS]
