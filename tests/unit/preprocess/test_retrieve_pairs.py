"""Test the retrieval of similar pairs against loops over all pairs, without leaks, and as a command."""

import json
import math
import random
from collections import Counter

import pytest
import retrieve_pairs

SPLITS = {"train": 60, "valid": 9, "test": 9}


def naive_vectors(sources):
    """Return a function for TF-IDF as in scikit-learn: count x (1 + ln((1 + n) / (1 + sentences with the word)))."""
    having = Counter(word for source in sources for word in set(source.split()))

    def vector(sentence):
        counts = Counter(word for word in sentence.split() if word in having)
        weights = {word: n * (1 + math.log((1 + len(sources)) / (1 + having[word]))) for word, n in counts.items()}
        norm = math.sqrt(sum(weight * weight for weight in weights.values()))
        return {word: weight / norm for word, weight in weights.items()}

    return vector


def naive_best(sentence, pairs, forbidden=()):
    """Return the greatest cosine over all allowed pairs, and the cosines of all pairs."""
    vector = naive_vectors([p for p, _ in pairs])
    asked = vector(sentence)
    likeness = [sum(asked.get(word, 0) * weight for word, weight in vector(p).items()) for p, _ in pairs]
    return max(like for like, pair in zip(likeness, pairs, strict=True) if not set(pair) & set(forbidden)), likeness


def random_pairs(seed, number):
    """Return random pairs of short sentences over eight words, so that sentences occur several times."""
    rng = random.Random(seed)

    def sentence():
        return " ".join(rng.choice("abcdefgh") for _ in range(rng.randint(1, 3)))

    return [(sentence(), sentence()) for _ in range(number)]


def write(folder, splits):
    folder.mkdir(exist_ok=True)
    for split, pairs in splits.items():
        for side, ending in enumerate(("src", "tgt")):
            if pairs and len(pairs[0]) > side:
                (folder / f"{split}.{ending}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    return folder


@pytest.fixture
def data(tmp_path):
    splits = {split: random_pairs(seed, size) for seed, (split, size) in enumerate(SPLITS.items())}
    return write(tmp_path / "text", splits)


def read(folder, split):
    return [tuple(pair) for pair in zip(*(lines(folder / f"{split}.{side}") for side in ("src", "tgt")), strict=True)]


def lines(path):
    return path.read_text().splitlines()


def run(data, output, *options):
    return retrieve_pairs.main(["--data", str(data), "--output", str(output), *map(str, options)])


def test_every_sentence_gets_the_most_similar_pair_and_none_that_tells_its_target(data, tmp_path, monkeypatch):
    """The retrieved pair must have the greatest cosine of all allowed pairs.

    In training, pairs with the same sentence or the same target are not allowed.
    """
    monkeypatch.setattr(retrieve_pairs, "CELLS", 7 * SPLITS["train"])
    assert run(data, tmp_path / "out") == 0
    train = read(data, "train")
    for split in SPLITS:
        for (x, y), line in zip(read(data, split), lines(tmp_path / "out" / f"{split}.src"), strict=True):
            sentence, p, q = line.split(" <pair> ")
            assert sentence == x
            forbidden = {x, y} if split == "train" else set()
            assert not {p, q} & forbidden
            best, likeness = naive_best(x, train, forbidden)
            assert likeness[train.index((p, q))] == pytest.approx(best, abs=1e-6)
        assert lines(tmp_path / "out" / f"{split}.tgt") == lines(data / f"{split}.tgt")


def test_a_sentence_without_a_common_word_has_no_pair(tmp_path, capsys):
    """A sentence gets no pair either if all similar pairs reveal its target."""
    data = write(tmp_path / "text", {"train": [("a b", "c"), ("a", "a b")], "test": [("z",), ("a",)]})
    assert run(data, tmp_path / "out") == 0
    assert lines(tmp_path / "out/train.src") == ["a b", "a"]
    assert lines(tmp_path / "out/test.src") == ["z", "a <pair> a <pair> a b"]
    assert not (tmp_path / "out/test.tgt").exists()
    assert json.loads((tmp_path / "out/manifest.json").read_text())["sentences_without_a_pair"] == 3
    assert "wrote 2 train + 2 test sentences with their pairs" in capsys.readouterr().out


def test_memory_does_not_grow_with_sentences_times_pairs(monkeypatch):
    """With more pairs, fewer sentences are processed at a time.

    If there are more pairs than cells, sentences are processed one by one.
    """
    monkeypatch.setattr(retrieve_pairs, "CELLS", 20)
    pairs = random_pairs(3, 50)
    retriever = retrieve_pairs.Retriever(pairs)
    shapes = []
    asked = retriever.vectorizer.transform
    monkeypatch.setattr(retriever.vectorizer, "transform", lambda block: shapes.append(len(block)) or asked(block))
    assert len(list(retriever.find(pairs, training=True))) == 50
    assert shapes == [1] * 50
    monkeypatch.setattr(retrieve_pairs, "CELLS", 1000)
    shapes.clear()
    list(retriever.find(pairs, training=True))
    assert shapes == [20, 20, 10]


def test_equal_lines_are_searched_once(monkeypatch):
    """0.8 MB of equal lines took minutes, because all lines were compared with all pairs.

    Repeated pairs change only the document frequencies, so the first of the most similar pairs is found.
    """
    monkeypatch.setattr(retrieve_pairs, "CELLS", 30)
    different = [("a b", "x"), ("a c", "y"), ("a b", "z"), ("d", "a c"), ("d e", "a b")]
    pairs = [pair for pair in different for _ in range(200)]
    retriever = retrieve_pairs.Retriever(pairs)
    assert retriever.vectors.shape[0] == len(different)
    asked, transform = [], retriever.vectorizer.transform
    monkeypatch.setattr(retriever.vectorizer, "transform", lambda block: asked.extend(block) or transform(block))
    # "a b" and "a c" share a word, and so do "d" and "d e". The pairs with the sentence or its target are not allowed.
    expected = {("a b", "x"): 200, ("a c", "y"): 0, ("a b", "z"): 200, ("d", "a c"): 800, ("d e", "a b"): 600}
    assert list(retriever.find(pairs, training=True)) == [expected[pair] for pair in pairs]
    assert asked == [source for source, _ in different]
    asked.clear()
    assert (
        list(retriever.find(pairs, training=False)) == [0] * 200 + [200] * 200 + [0] * 200 + [600] * 200 + [800] * 200
    )
    assert asked == ["a b", "a c", "d", "d e"]


@pytest.mark.parametrize(
    "symbol", ["", " ", "a b", "a\tb", "a\n", "<unk>", "</s>", "\x1b[31m", "a\u200b", "\udcff", "a\xa0b"]
)
def test_the_symbol_is_one_word(symbol, data, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        run(data, tmp_path / "out", "--pair-symbol", symbol)
    assert "must be one word" in capsys.readouterr().err


def test_new_sentences_get_pairs_from_another_directory(data, tmp_path):
    new = write(tmp_path / "new", {"test": [("a b c",)]})
    assert run(new, tmp_path / "out", "--pairs", data, "--pair-symbol", "||") == 0
    sentence, p, q = lines(tmp_path / "out/test.src")[0].split(" || ")
    assert sentence == "a b c"
    assert (p, q) in read(data, "train")


def test_sentences_are_cut_first(tmp_path):
    """Targets are cut only in training data, because references must stay complete."""
    pairs = [("a b c d", "e f g h"), ("b c e", "h i j k")]
    data = write(tmp_path / "text", {"train": pairs, "test": pairs})
    assert run(data, tmp_path / "out", "--max-words", 2) == 0
    assert lines(tmp_path / "out/train.src") == ["a b <pair> b c <pair> h i", "b c <pair> a b <pair> e f"]
    assert lines(tmp_path / "out/train.tgt") == ["e f", "h i"]
    assert lines(tmp_path / "out/test.src") == ["a b <pair> a b <pair> e f", "b c <pair> b c <pair> h i"]
    assert lines(tmp_path / "out/test.tgt") == ["e f g h", "h i j k"]


def test_what_is_complete_is_left_alone_and_nothing_is_overwritten_unasked(data, tmp_path, capsys):
    assert run(data, tmp_path / "out") == 0
    before = (tmp_path / "out/manifest.json").read_bytes()
    assert run(data, tmp_path / "out") == 0
    assert "complete already" in capsys.readouterr().out
    assert run(data, tmp_path / "out", "--max-words", 1) == 2
    assert "pass --overwrite" in capsys.readouterr().err
    assert (tmp_path / "out/manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    ("splits", "options", "message"),
    [
        ({"train": [("a",), ("b",)]}, [], "text has no train.src and train.tgt: name directories that"),
        ({"train": []}, [], "text has no .src: name directories that"),
        ({"train": [("a", "b"), (" ", "b")]}, [], "has an empty side: leave such pairs out"),
        ({"train": [("a <pair> b", "b")]}, [], "has the word <pair>: choose another --pair-symbol"),
        ({"train": [("a", "b")]}, ["--pair-symbol", "b"], "has the word b: choose another --pair-symbol"),
        ({"train": [("a", "b")], "test": [("",)]}, [], "has an empty side"),
    ],
)
def test_text_that_has_no_pairs_to_give_is_refused_in_one_sentence(splits, options, message, tmp_path, capsys):
    assert run(write(tmp_path / "text", splits), tmp_path / "out", *options) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
