"""Test that essays are split into chunks of clauses: all words are kept, sizes are balanced, topics are reordered."""

import itertools
import json
from random import Random

import clause_chunks
import pytest


def run(*arguments):
    return clause_chunks.main([str(argument) for argument in arguments])


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read(path):
    return path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("essay", "clauses"),
    [
        ("the sun rose , and we left .", ["the sun rose ,", "and we left ."]),
        ("no end", ["no end"]),
        ("wait ... what ? ! go", ["wait ...", "what ? !", "go"]),
        (
            "太阳 升起 ， 鸟 、 花 都 醒 了 。 ” 他 说 ； 走",
            ["太阳 升起 ，", "鸟 、 花 都 醒 了 。 ”", "他 说 ；", "走"],
        ),
        ("she ( here . ) left : bye", ["she ( here . )", "left :", "bye"]),
        ("it cost 3.5 , not 3,5 .", ["it cost 3.5 ,", "not 3,5 ."]),
    ],
)
def test_clauses_end_at_their_punctuation(essay, clauses):
    assert clause_chunks.split_clauses(essay.split()) == [len(clause.split()) for clause in clauses]


def test_groups_are_the_most_equal_of_all_groupings():
    """The expected grouping is the best of all groupings, and for ties the one with the longest last group."""
    random = Random(4)
    for _ in range(200):
        lengths = [random.randint(1, 9) for _ in range(random.randint(1, 8))]
        parts = random.randint(1, len(lengths))
        found = []
        for cuts in itertools.combinations(range(1, len(lengths)), parts - 1):
            bounds = [0, *cuts, len(lengths)]
            sizes = [sum(lengths[a:b]) for a, b in itertools.pairwise(bounds)]
            found.append((sum(size * size for size in sizes), cuts[::-1], sizes))
        assert clause_chunks.split_evenly(lengths, parts) == min(found)[2]


class Counted(int):
    """An integer that counts the operations on it and on their results."""

    operations = 0


def counted(name):
    def operate(self, *others):
        Counted.operations += 1
        return Counted(getattr(int, name)(self, *others))

    return operate


for operation in ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__pow__"):
    setattr(Counted, operation, counted(operation))


@pytest.mark.parametrize("parts", [3, 30, 200])
def test_long_essays_are_cut_in_linear_time(parts):
    """The best grouping of equal words has equal groups. The number of operations is counted, not the time.

    A clause and a group need 2 operations for a line and 3 for a sum. A comparison of two lines needs 4 if the lowest
    line is looked for, and 6 if a hidden line is removed. Each ends a loop once, and passes or removes a line at most
    once. The sum is 2 + 3 + 2 (4 + 6) = 25. Earlier versions tried all beginnings, 3 operations for each of 300, and
    took cubic time for many groups.
    """
    clauses = 600
    Counted.operations = 0
    assert clause_chunks.split_evenly([Counted(1)] * clauses, parts) == [clauses // parts] * parts
    assert 0 < Counted.operations <= 25 * clauses * parts


def test_more_than_50_topics_are_refused(corpus, capsys):
    """One pair of 100,000 topics and 100,000 words did not end. The limit is the one of own_pairs.py --topics."""
    essay = " ".join(f"w{number} ," for number in range(60))
    for number, status in ((50, 0), (51, 2)):
        write(corpus / "data" / "train.src", [" ".join(["x"] * number)])
        write(corpus / "data" / "train.tgt", [essay])
        assert run("--data", corpus / "data", "--output", corpus / f"out{number}") == status
    assert read(corpus / "out50" / "train.tgt")[0].count("<chunk>") == 49
    assert "line 1 of" in (error := capsys.readouterr().err)
    assert "train.tgt has 51 topics, but at most 50 are allowed: prepare the text again" in error
    assert not (corpus / "out51").exists()


@pytest.mark.parametrize(
    ("essay", "parts", "expected", "inside"),
    [
        ("a , b , c c c .", 2, "a , b , | c c c .", False),
        ("a b c . d .", 3, "a b | c . | d .", True),  # only two clauses for three topics: cut between words
        ("a b", 3, "a | b", True),  # only two words for three topics
        ("a , b .", 1, "a , b .", False),
    ],
)
def test_an_essay_has_a_chunk_a_topic(essay, parts, expected, inside):
    tokens, cut_inside = clause_chunks.cut(essay.split(), parts, "|")
    assert (" ".join(tokens), cut_inside) == (expected, inside)


def test_topics_come_in_the_order_of_the_essay():
    order = clause_chunks.order_topics("x sea sun y sea".split(), "the sun and the sea and the sun".split())
    assert order == ["sun", "sea", "sea", "x", "y"]


@pytest.fixture
def corpus(tmp_path):
    """Write three splits of one pair each, and return their folder. The topic x does not occur in the targets."""
    for split in ("train", "valid", "test"):
        write(tmp_path / "data" / f"{split}.src", [f"x b{split} a"])
        write(tmp_path / "data" / f"{split}.tgt", [f"the a , then b{split} , and so it is ."])
    return tmp_path


def test_chunks_are_written_and_taken_out_again(corpus):
    assert run("--data", corpus / "data", "--output", corpus / "out") == 0
    for split in ("train", "valid", "test"):
        chunked = read(corpus / "out" / f"{split}.tgt")
        assert chunked == [f"the a , <chunk> then b{split} , <chunk> and so it is ."]
        assert run("--input", corpus / "out" / f"{split}.tgt", "--output", corpus / f"plain.{split}") == 0
        assert read(corpus / f"plain.{split}") == read(corpus / "data" / f"{split}.tgt")
    assert read(corpus / "out" / "train.src") == ["a btrain x"]
    assert read(corpus / "out" / "valid.src") == ["a bvalid x"]
    # the test topics keep their order, because the essay is unknown
    assert read(corpus / "out" / "test.src") == ["x btest a"]
    manifest = json.loads((corpus / "out" / "manifest.json").read_text("utf-8"))
    assert manifest["chunks"] == {"essays_cut_inside_of_clauses": 0, "topics": 9, "topics_in_their_essay": 6}


def test_the_unknown_word_of_prepared_text_stays_what_it_is(corpus):
    write(corpus / "data" / "train.tgt", ["the <unk> a , &lt;unk&gt; ."])
    assert run("--data", corpus / "data", "--output", corpus / "out", "--unknown", "<unk>") == 0
    assert read(corpus / "out" / "train.tgt")[0].replace("<chunk> ", "") == "the <unk> a , &lt;unk&gt; ."


def test_the_symbol_is_taken_out_of_a_log(corpus):
    log = write(
        corpus / "log", ["S-0\tx b", "H-0\t-0.5\ta , <chunk> b .", "P-0\t-0.5", "S-1\tx", "H-1\t-1\tc", "P-1\t-1"]
    )
    log.write_text(log.read_text("utf-8") + "Generate test with beam=5: \n", encoding="utf-8")
    assert run("--generated", log, "--output", corpus / "plain") == 0
    assert read(corpus / "plain") == ["a , b .", "c"]


def test_given_order_and_another_symbol(corpus):
    line = ["--data", corpus / "data", "--output", corpus / "out", "--given-order", "--chunk-symbol", "||"]
    assert run(*line) == 0
    assert read(corpus / "out" / "train.src") == ["x btrain a"]
    assert read(corpus / "out" / "train.tgt")[0].split().count("||") == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--chunk-symbol", "and"], "has the word and: choose another --chunk-symbol."),
        (["--unit", "characters"], "must be in tokens already"),
        (["--bpe", "10"], "must be in tokens already"),
    ],
)
def test_what_cannot_be_chunked_is_one_clear_sentence(corpus, capsys, options, message):
    assert run("--data", corpus / "data", "--output", corpus / "out", *options) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (corpus / "out").exists()


def test_a_symbol_that_is_no_word_is_refused(corpus, capsys):
    """The symbol must be one word, which can be found in outputs, and not a special symbol of fairseq.

    The script retrieve_pairs uses the same check.
    """
    for symbol in ("a b", "<unk>", "\x1b[31m"):
        with pytest.raises(SystemExit, match="2"):
            run("--data", corpus / "data", "--output", corpus / "out", "--chunk-symbol", symbol)
        assert "must be one word, and no special symbol" in capsys.readouterr().err
    assert not (corpus / "out").exists()


def test_a_directory_without_text_is_one_clear_sentence(tmp_path, capsys):
    assert run("--data", tmp_path, "--output", tmp_path / "out") == 2
    assert "has no {train,valid,test}.{src,tgt}" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--given-order"], ["--limit", "1"], ["--unknown", "UNK"]])
def test_options_that_removing_the_symbol_does_not_use_are_refused(corpus, capsys, option):
    (corpus / "plain").write_text("a <chunk> b\n", encoding="utf-8")
    assert run("--input", corpus / "plain", "--output", corpus / "out.txt", *option) == 2
    assert f"{option[0]} is for --data, not for removing the symbol: leave it out." in capsys.readouterr().err
    assert not (corpus / "out.txt").exists()
