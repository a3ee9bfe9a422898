"""Test that every sentence of an essay follows the grammar, and that the essay is about exactly its topics.

The test lists all sentences that the grammar file can produce, and looks up the sentences of an essay in this list.
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

import essay_grammar
import pytest
import topic_essays as generator
from essay_grammar import GRAMMAR

PREPROCESS = Path(__file__).resolve().parents[3] / "preprocess"

SPLITS = ("train", "valid", "test")
ROLES = ("scene", "people", "deed", "thing", "feeling")
TEXTS = {"en": GRAMMAR["english"], "zh": GRAMMAR["chinese"]}


def run(output, *options, **environment):
    return subprocess.run(
        [sys.executable, PREPROCESS / "topic_essays.py", "--output", output, *map(str, options)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def read(folder, split):
    """Return (topics, essay, domain) of every line."""
    columns = ((folder / f"{split}.{name}").read_text("utf-8").splitlines() for name in ("src", "tgt", "domain"))
    return [(source.split(" "), essay, domain) for source, essay, domain in zip(*columns, strict=True)]


@pytest.fixture(scope="module", params=["en", "zh"])
def language(request):
    return request.param


@pytest.fixture(scope="module")
def essays(language, tmp_path_factory):
    folder = tmp_path_factory.mktemp("essays") / language
    result = run(folder, "--language", language)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="module")
def sentences(language):
    """Return the role or kind and the topic word or None of every sentence, for each domain."""
    found = {}
    for name, parts in TEXTS[language].items():
        domain = found[name] = {}
        for role, part in parts.items():
            if isinstance(part, list):
                domain.update(dict.fromkeys(part, (role, None)))
                continue
            said = ((word, more) for word, mores in part.items() if word != "sentences" for more in mores)
            for template, (word, more) in itertools.product(part["sentences"], said):
                domain[template.replace("{more}", more).replace("{}", word)] = (role, word)
    return found


def split_sentences(essay, language):
    end = "." if language == "en" else "。"
    return [f"{text} {end}" for text in essay.removesuffix(f" {end}").split(f" {end} ")]


# --- the grammar


def test_grammar_is_even(sentences):
    assert len(sentences) == 6
    for domain in sentences.values():
        kinds = Counter(role for role, _ in domain.values())
        assert kinds == {"opening": 3, "more": 3, "closing": 3, **dict.fromkeys(ROLES, 3 * 5 * 2)}


def test_a_topic_word_stands_for_itself_only(sentences, language):
    """Each of the 150 topic words has one domain and one role, and occurs only in sentences about itself."""
    topics = {word: name for name, domain in sentences.items() for _, word in domain.values() if word}
    assert len(topics) == 150
    for name, domain in sentences.items():
        for sentence, (_, word) in domain.items():
            assert set(sentence.split()) & set(topics) == ({word} if word else set()), sentence
            assert word is None or topics[word] == name
            assert sentence.split(" ").count(word) == (word is not None)


def test_sentences_are_tokens_with_single_spaces_and_one_full_stop(sentences, language):
    end = "." if language == "en" else "。"
    for domain in sentences.values():
        for sentence in domain:
            assert sentence == " ".join(sentence.split())
            assert sentence.endswith(f" {end}")
            assert sentence.split().count(end) == 1
            assert not re.search(r"[{}|>#]", sentence)
            if language == "en":
                assert re.fullmatch(r"[a-z]+( ([a-z]+|[,:;]))* \.", sentence)
            else:
                assert re.fullmatch(r"[\u4e00-\u9fff]+( ([\u4e00-\u9fff]+|[，、]))* 。", sentence)


def test_every_choice_of_topics_fits_into_an_essay(sentences):
    """Any five topics fit into 80 tokens.

    Essays with one topic, or with a scene and a feeling, have at least 30 tokens with one more sentence.
    """
    for domain in sentences.values():
        sizes = {}
        for text, key in domain.items():
            sizes.setdefault(key, []).append(len(text.split()))
        words = {role: [sizes[key] for key in sizes if key[0] == role and key[1]] for role in ROLES}
        assert sum(max(min(lengths) for lengths in words[role]) for role in ROLES) <= 80
        opening, more, closing = (max(sizes[kind, None]) for kind in ("opening", "more", "closing"))
        least = {role: min(max(lengths) for lengths in words[role]) for role in ROLES}
        assert least["scene"] + more + closing >= 30
        assert opening + more + least["feeling"] >= 30
        assert least["scene"] + more + least["feeling"] >= 30
        assert all(opening + least[role] + more + closing >= 30 for role in ("people", "deed", "thing"))


def test_incomplete_domain_is_named():
    with pytest.raises(ValueError, match="domain walk has the parts"):
        essay_grammar.build_domains({"walk": {"opening": ["a ."], "closing": ["b ."]}})


# --- the essays


def test_sizes(essays, language):
    assert [len(read(essays, split)) for split in SPLITS] == [4000, 300, 300]
    everything = [row for split in SPLITS for row in read(essays, split)]
    lengths = [len(essay.split(" ")) for _, essay, _ in everything]
    assert min(lengths) >= 30
    assert max(lengths) <= 80
    counts = Counter(len(topics) for topics, _, _ in everything)
    shares = {1: 0.05, 2: 0.15, 3: 0.25, 4: 0.3, 5: 0.25}
    assert set(counts) == set(shares)
    assert all(abs(counts[size] / 4600 - share) < 0.03 for size, share in shares.items())
    # the mean is 767 and the standard deviation 25
    assert min(Counter(domain for _, _, domain in everything).values()) > 650
    assert {len(split_sentences(essay, language)) for _, essay, _ in everything} == {3, 4, 5, 6}


def test_every_topic_is_told_and_nothing_else(essays, sentences, language):
    for split in SPLITS:
        for topics, essay, domain in read(essays, split):
            told = [sentences[domain][sentence] for sentence in split_sentences(essay, language)]
            assert sorted(word for _, word in told if word) == sorted(topics)
            assert len(set(split_sentences(essay, language))) == len(told)


def test_order_of_an_essay(essays, sentences, language):
    """The order is scene or opening, people, deed, thing, further sentences, feeling or closing."""
    places = {"opening": 0, "scene": 0, "people": 1, "deed": 2, "thing": 3, "more": 4, "feeling": 5, "closing": 5}
    for _, essay, domain in read(essays, "test"):
        order = [places[sentences[domain][sentence][0]] for sentence in split_sentences(essay, language)]
        assert order == sorted(order)
        assert order[0] == 0 and order[-1] == 5
        assert order.count(0) == order.count(5) == 1


def test_topics_come_in_any_order(essays, sentences):
    roles = {word: role for domain in sentences.values() for role, word in domain.values() if word}
    first = Counter(roles[topics[0]] for topics, _, _ in read(essays, "train"))
    assert all(abs(first[role] - 800) < 120 for role in ROLES)  # the mean is 4,000 / 5, and the standard deviation 25
    pairs = Counter(
        ROLES.index(roles[one]) < ROLES.index(roles[two])
        for topics, _, _ in read(essays, "train")
        for one, two in itertools.pairwise(topics)
    )
    assert abs(pairs[True] / pairs.total() - 0.5) < 0.03


def test_no_topics_occur_twice(essays):
    sets = [frozenset(topics) for split in SPLITS for topics, _, _ in read(essays, split)]
    assert len(set(sets)) == 4600
    assert all(len(topics) == len(set(topics)) for topics, _, _ in read(essays, "train"))


def test_every_test_word_was_seen_in_training(essays):
    train, test = (
        {token for topics, essay, _ in read(essays, split) for token in [*topics, *essay.split()]}
        for split in ("train", "test")
    )
    assert test <= train


def test_manifest_and_topics(essays, language, sentences):
    manifest = json.loads((essays / "manifest.json").read_text("utf-8"))
    everything = [row for split in SPLITS for row in read(essays, split)]
    lengths = [len(essay.split()) for _, essay, _ in everything]
    assert manifest["options"] == {"language": language, "train": 4000, "valid": 300, "test": 300, "seed": 1}
    assert manifest["domains"] == Counter(domain for _, _, domain in everything)
    assert manifest["essays_by_number_of_topics"] == Counter(str(len(topics)) for topics, _, _ in everything)
    assert manifest["tokens_an_essay"]["mean"] == pytest.approx(sum(lengths) / 4600, abs=0.06)
    assert manifest["vocabulary"] == {
        "source": len({topic for topics, _, _ in everything for topic in topics}),
        "target": len({token for _, essay, _ in everything for token in essay.split()}),
    }
    listed = json.loads((essays / "topics.json").read_text("utf-8"))
    assert {
        (name, role, word) for name, roles in listed.items() for role, words in roles.items() for word in words.split()
    } == {(name, role, word) for name, domain in sentences.items() for role, word in domain.values() if word}


# --- the draw


def test_only_the_stable_method_of_random_is_used(language):
    class OnlyRandom:
        """A source of random numbers with `random()` only, which Python promises to keep the same between versions."""

        def __init__(self):
            self.random = Random(5).random

    sizes = {"train": 40, "valid": 9, "test": 11}
    plain, stub = (
        list(generator.draw_splits(rng, essay_grammar.LANGUAGES[language], sizes)) for rng in (Random(5), OnlyRandom())
    )
    assert stub == plain


def test_valid_and_test_do_not_depend_on_the_training_size():
    domains = essay_grammar.LANGUAGES["en"]
    one, two = (
        list(generator.draw_splits(Random(2), domains, {"train": size, "valid": 9, "test": 8})) for size in (5, 40)
    )
    assert one == two[: len(one)]
    assert [split for split, _ in one] == ["test"] * 8 + ["valid"] * 9 + ["train"] * 5


# --- files


def test_used_up_topics_are_one_clear_line(tmp_path, monkeypatch, capsys):
    """With one topic per essay there are only 150 different sources."""
    monkeypatch.setattr(generator, "TOPIC_COUNTS", (1,))
    options = ["--output", str(tmp_path / "out"), "--train", "140", "--valid", "5", "--test", "6"]
    assert generator.main(options) == 2
    message = capsys.readouterr().err
    assert "after 150 of 151 essays there is no other one for train: ask for fewer." in message
    assert not list(tmp_path.iterdir())
