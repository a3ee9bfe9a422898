"""Test word alignment, phrases and their labels with cases computed by hand and loops, and test the command."""

import json
import math
import random
from collections import Counter, defaultdict

import numpy as np
import pytest
import weak_labels
from corpus.alignment import ALPHA, NULL_SHARE, TENSION, Block, align, number_words, smallest_blocks, symmetrise
from scipy.special import digamma


def sides(pairs):
    numbers = {}
    return [number_words([pair[side].split() for pair in pairs], numbers) for side in (0, 1)]


def naive_align(pairs, iterations):
    """Compute the model of Dyer et al. cell by cell.

    Return the aligned positions from the last table, where -1 means that no word is aligned.
    """
    rows = defaultdict(set)
    for source, target in pairs:
        for e in [None, *source.split()]:
            rows[e] |= set(target.split())
    table = defaultdict(lambda: 1.0)

    def weights(source, target, j):
        m, n = len(source), len(target)
        near = [math.exp(-TENSION * abs((i + 1) / m - (j + 1) / n)) for i in range(m)]
        prior = [NULL_SHARE, *((1 - NULL_SHARE) * x / sum(near) for x in near)]
        found = [p * table[e, target[j]] for p, e in zip(prior, [None, *source], strict=True)]
        return [w / sum(found) for w in found]

    for _ in range(iterations):
        counts = defaultdict(float)
        for source, target in ((a.split(), b.split()) for a, b in pairs):
            for j, f in enumerate(target):
                for e, weight in zip([None, *source], weights(source, target, j), strict=True):
                    counts[e, f] += weight
        for e, words in rows.items():
            total = sum(counts[e, f] for f in words) + ALPHA * len(words)
            for f in words:
                top, bottom = digamma(np.array([counts[e, f] + ALPHA, total]))
                table[e, f] = math.exp(top - bottom)
    best = []
    for source, target in ((a.split(), b.split()) for a, b in pairs):
        for j in range(len(target)):
            found = weights(source, target, j)
            best.append(found.index(max(found)) - 1)
    return best


def random_pairs(seed, number=40):
    rng = random.Random(seed)
    vocabulary = [f"w{i}" for i in range(12)]
    return [
        (" ".join(rng.choices(vocabulary, k=rng.randint(1, 6))), " ".join(rng.choices(vocabulary, k=rng.randint(1, 6))))
        for _ in range(number)
    ]


@pytest.mark.parametrize("cells", [7, 50, 10**6])
@pytest.mark.parametrize("iterations", [1, 4])
def test_the_alignment_is_that_of_the_naive_loops(cells, iterations, monkeypatch):
    monkeypatch.setattr("corpus.alignment._CELLS", cells)  # batches of one pair, of some pairs, and of all pairs
    pairs = random_pairs(3)
    assert align(*sides(pairs), iterations).tolist() == naive_align(pairs, iterations)


def test_words_that_always_meet_are_aligned_wherever_they_stand():
    rng = random.Random(1)
    pairs = []
    for _ in range(300):
        words = rng.sample(range(20), 5)
        turned = rng.sample(words, 5)
        pairs.append((" ".join(f"e{w}" for w in words), " ".join(f"f{w}" for w in turned)))
    found = align(*sides(pairs), 8).tolist()
    expected = [source.split().index(word.replace("f", "e")) for source, target in pairs for word in target.split()]
    right = sum(a == b for a, b in zip(found, expected, strict=True))
    assert right / len(expected) > 0.95


def test_symmetrisation_by_hand():
    """Both directions have (0, 0) and (2, 2).

    (1, 1) and (3, 2) are added, because they are next to these links, and (0, 3) is not.
    """
    forward, backward = [0, 1, 2, 0], [0, -1, 2, 2]
    assert symmetrise(forward, backward, grow=False) == {(0, 0), (2, 2)}
    assert symmetrise(forward, backward, grow=True) == {(0, 0), (1, 1), (2, 2), (3, 2)}


def test_growing_stops_where_both_words_are_linked():
    """(0, 1) is next to (0, 0) and (1, 1), but both of its words already have a link.

    In the last case, target word 1 has no link, so (0, 1) is added.
    """
    assert symmetrise([0, 1], [1, 1], grow=False) == {(1, 1)}
    assert symmetrise([0, 1], [1, 1], grow=True) == {(0, 0), (1, 1)}
    assert symmetrise([0, 0], [0, 1], grow=True) == {(0, 0), (0, 1), (1, 1)}


def test_smallest_phrases_by_hand():
    """Words 1 and 2 are aligned with 2 and 1.

    Word 3 is aligned with words 3 and 5, so its phrase also contains the unaligned target word 4.
    """
    links = {(0, 0), (1, 2), (2, 1), (3, 3), (3, 5)}
    blocks = list(smallest_blocks(links))
    assert blocks == [
        Block((0, 1), (0, 1)),
        Block((1, 2), (2, 3)),
        Block((2, 3), (1, 2)),
        Block((3, 4), (3, 6)),
        Block((3, 4), (3, 6)),
    ]
    # A word between two words of a phrase belongs to the phrase, so the phrase of (3, 3) also contains (2, 4).
    assert set(smallest_blocks({(2, 4), (3, 3), (3, 5)})) == {Block((2, 3), (4, 5)), Block((2, 4), (3, 6))}


@pytest.mark.parametrize("seed", range(20))
def test_phrases_are_consistent_with_the_alignment_and_do_not_overlap(seed):
    """By the definition of Och and Ney, no link crosses the border of a phrase pair, and one link or more is inside.

    The test checks all links of random sentence pairs.
    """
    rng = random.Random(seed)
    source, target = ([f"w{rng.randint(0, 5)}" for _ in range(rng.randint(1, 9))] for _ in range(2))
    links = {(rng.randrange(len(source)), rng.randrange(len(target))) for _ in range(rng.randint(0, 8))}
    counts = Counter(source + target)
    blocks = weak_labels.rarest_blocks(source, target, links, counts, 3, 3)
    assert len(blocks) <= 3
    for block in blocks:
        inside = [(block.source[0] <= i < block.source[1], block.target[0] <= j < block.target[1]) for i, j in links]
        assert all(a == b for a, b in inside)
        assert (True, True) in inside
        assert max(block.source[1] - block.source[0], block.target[1] - block.target[0]) <= 3
    for side in ("source", "target"):
        covered = [place for block in blocks for place in range(*getattr(block, side))]
        assert len(covered) == len(set(covered))


def test_the_rarest_words_are_chosen_first():
    source, target = ["how", "is", "gold", "mined"], ["how", "do", "you", "mine", "gold"]
    counts = Counter({"how": 90, "is": 80, "do": 70, "you": 60, "gold": 3, "mined": 2, "mine": 5})
    links = {(0, 0), (1, 1), (2, 4), (3, 3)}
    order = [Block((3, 4), (3, 4)), Block((2, 3), (4, 5)), Block((1, 2), (1, 2)), Block((0, 1), (0, 1))]
    for number in range(1, 5):
        assert weak_labels.rarest_blocks(source, target, links, counts, number, 3) == order[:number]
    long = weak_labels.rarest_blocks(source, target, links | {(3, 0)}, counts, 4, 3)
    # The phrase that contains (3, 0) has more than 3 words and is therefore not chosen.
    assert long == [Block((2, 3), (4, 5)), Block((1, 2), (1, 2))]


def write(folder, **texts):
    folder.mkdir(exist_ok=True)
    for name, lines in texts.items():
        (folder / name.replace("_", ".")).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


@pytest.fixture
def data(tmp_path):
    pairs = random_pairs(5, 60)
    return write(
        tmp_path / "text",
        train_src=[a for a, _ in pairs[:50]],
        train_tgt=[b for _, b in pairs[:50]],
        valid_src=[a for a, _ in pairs[50:]],
        valid_tgt=[b for _, b in pairs[50:]],
    )


def run(data, output, *options):
    return weak_labels.main(["--data", str(data), "--output", str(output), *map(str, options)])


def test_every_word_has_a_label_and_the_same_options_give_the_same_bytes(data, tmp_path):
    assert run(data, tmp_path / "one") == run(data, tmp_path / "two") == 0
    names = [f"{split}.{side}" for split in ("train", "valid") for side in ("src", "tgt")]
    marked = 0
    for name in names:
        text = (data / name).read_text().splitlines()
        labels = (tmp_path / "one" / f"{name}.z").read_text()
        assert labels == (tmp_path / "two" / f"{name}.z").read_text()
        rows = [line.split() for line in labels.splitlines()]
        assert [len(row) for row in rows] == [len(line.split()) for line in text]
        assert {label for row in rows for label in row} == {"0", "1"}
        marked += sum(row.count("0") for row in rows)
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    assert manifest["phrase_words"] == marked
    assert manifest["splits"]["valid"]["kept"] == 10
    assert [source["file"] for source in manifest["sources"]] == names
    assert run(data, tmp_path / "three", "--seed", 2) == 0
    assert (tmp_path / "three" / "train.src.z").read_text() != (tmp_path / "one" / "train.src.z").read_text()


def test_what_is_complete_is_left_alone_and_nothing_is_overwritten_unasked(data, tmp_path, capsys):
    assert run(data, tmp_path / "out") == 0
    before = (tmp_path / "out" / "manifest.json").stat().st_mtime_ns
    assert run(data, tmp_path / "out") == 0
    assert "complete already" in capsys.readouterr().out
    assert (tmp_path / "out" / "manifest.json").stat().st_mtime_ns == before
    assert run(data, tmp_path / "out", "--phrases", 1) == 2
    assert "pass --overwrite" in capsys.readouterr().err
    assert run(data, tmp_path / "out", "--phrases", 1, "--overwrite") == 0


def test_the_validation_split_may_be_missing(data, tmp_path):
    for side in ("src", "tgt"):
        (data / f"valid.{side}").unlink()
    assert run(data, tmp_path / "out") == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["manifest.json", "train.src.z", "train.tgt.z"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"train_src": ["a", "b"], "train_tgt": ["a"]}, "train.tgt has 1 line but"),
        ({"train_src": ["a", " "], "train_tgt": ["a", "b"]}, "has an empty side: leave such pairs out"),
        ({"train_src": [], "train_tgt": []}, "train.src is empty"),
        ({"train_src": ["a", "a " * 2001], "train_tgt": ["b", "b " * 2001]}, "pair 2 of the text has 2,001 and 2,001"),
        (
            {"train_src": ["a " * 500, "a " * 500], "train_tgt": ["b " * 500, "b " * 501]},
            "pair 2 of the text has 500 and 501 words, whose product must be at most 250,000: prepare",
        ),
        ({"train_src": ["a"]}, "there is no file"),
        ({"train_src": ["a"], "train_tgt": ["b"], "valid_src": ["a"]}, "valid.tgt"),
    ],
)
def test_text_that_cannot_be_labelled_is_refused_in_one_sentence(texts, message, tmp_path, capsys):
    assert run(write(tmp_path / "text", **texts), tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
