"""fairseq-generate logs and plain files are read in input order or refused with a sentence that gives the reason."""

from pathlib import Path

import pytest

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation import read_generated, read_plain
from wean_fairseq.evaluation.output_reader import join_pieces, parse_log

# Written by hand after the line formats in fairseq_cli/generate.py (0.12), which prints ids out of order.
LOG = """2026-01-01 00:00:00 | INFO | fairseq_cli.generate | loading model(s)
S-1\tthe red ca@@ t
T-1\ta <unk>
H-1\t-0.25\ta ca@@ t
D-1\t-0.25\ta ca@@ t
P-1\t-0.1 -0.2 -0.3
H-1\t-0.50\tthe ca@@ t
D-1\t-0.50\tthe ca@@ t
P-1\t-0.1 -0.2 -0.3
S-0\thello
T-0\thi
H-0\t-0.75\thi there
D-0\t-0.75\tHi there!
P-0\t-0.1 -0.2
2026-01-01 00:00:00 | INFO | fairseq_cli.generate | Translated 2 sentences
"""


def write(path: Path, text: str) -> Path:
    """Write UTF-8 text and return the path."""
    path.write_bytes(text.encode("utf-8"))
    return path


def tagged(log: str, tag: str) -> str:
    """Return the lines of one tag."""
    return "".join(line for line in log.splitlines(keepends=True) if line.startswith(f"{tag}-"))


def test_log_is_put_back_in_input_order(tmp_path: Path) -> None:
    output = read_generated("X", write(tmp_path / "gen.log", LOG), remove_bpe="subword_nmt")
    assert output.nbest == [["Hi there!"], ["a cat", "the cat"]]
    assert output.hypotheses == ["Hi there!", "a cat"]


def test_token_lines_on_request(tmp_path: Path) -> None:
    output = read_generated("X", write(tmp_path / "gen.log", LOG), detokenised=False)
    assert output.hypotheses == ["hi there", "a ca@@ t"]


def test_log_without_d_lines_falls_back_to_h_lines(tmp_path: Path) -> None:
    log = write(tmp_path / "h.log", tagged(LOG, "H"))
    assert read_generated("X", log).hypotheses == ["hi there", "a ca@@ t"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda log: log.replace("-0\t", "-2\t"), "id 0 of 0..2 missing"),
        (lambda log: log + LOG, "id 1 is generated twice"),
        (lambda log: log.replace("H-0\t-0.75\thi there\nD-0\t-0.75\tHi there!\n", ""), "no H- line for id 0"),
        (lambda log: log.replace("H-0\t-0.75\thi there", "H-0\t-0.75"), "the H- line has no score and text"),
        (lambda log: log[: log.index("D-0") + 12], "is cut off"),
        (lambda log: log[: log.index("D-0") + 3], "is cut off"),
        (lambda log: log[: log.index("P-0") + 7], "is cut off"),  # the outputs of further sentences may be lost
        (lambda log: tagged(log, "D") * 2, "line 4: id 1 is generated twice"),
        (lambda log: tagged(log, "D").replace("-0.50", "-0.10"), "line 2: the D- lines of this id are not best first"),
        (lambda log: "D-0\t-0.5\ta\n" * 2, "line 2: the D- lines of this id are not best first, or there twice"),
        (lambda log: log.replace("D-0\t-0.75\tHi there!\n", ""), "id 0 has 1 H- but 0 D- lines"),
        (lambda log: log.replace("there!\nP-0\t", ""), "id 0 has 1 output but 0 P- lines; lines are lost"),
        (lambda log: tagged(log, "H") + "P-0\t-0.1\n", "id 1 has 2 outputs but 0 P- lines; lines are lost"),
        (
            lambda log: log.replace("D-1\t-0.25", "D-1 | WARNING | x\n\t-0.25"),
            "line 5: 'D-1 | WARNING | x' is cut off or",
        ),
        (
            lambda log: log.replace("D-1\t-0.25", "50%|##  | 1/2\rD-1\t-0.25"),
            "line 5: a line of fairseq-generate is preceded",
        ),
        (lambda log: log.replace("\nD-1\t-0.25", "D-1\t-0.25"), "line 4: a line of fairseq-generate is preceded by"),
        (lambda log: "{'score_reference': True}\n" + log, "line 1: this is a log of --score-reference"),
        (lambda log: log.replace("T-1\ta <unk>\n", "T-1\ta\nT-1\tb\n"), "a second T- line for the same id"),
        (lambda log: "nothing here\n", "holds no H- lines"),
        (lambda log: log.replace("T-0\thi", "S-0\thello"), "a second S- line for the same id"),
    ],
)
def test_broken_logs_are_refused(tmp_path: Path, change, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_log(write(tmp_path / "gen.log", change(LOG)))


@pytest.mark.parametrize("lines", [LOG.splitlines(), tagged(LOG, "D").splitlines()], ids=["whole", "D-lines"])
def test_a_sorted_log_is_read(tmp_path: Path, lines: list[str]) -> None:
    """Test a sorted log, in which each id occurs with every tag without being a duplicate."""
    path = write(tmp_path / "gen.log", "".join(f"{line}\n" for line in sorted(lines)))
    assert read_generated("X", path).nbest == [["Hi there!"], ["a ca@@ t", "the ca@@ t"]]


def test_equal_draws_of_sampling_are_read(tmp_path: Path) -> None:
    """Sampling may draw one text twice. Other lines are between the two H- lines, and between the two D- lines."""
    draw = "H-0\t-0.75\thi there\nD-0\t-0.75\tHi there!\nP-0\t-0.1 -0.2\n"
    path = write(tmp_path / "gen.log", LOG.replace(draw, draw * 2))
    assert read_generated("X", path).nbest[0] == ["Hi there!", "Hi there!"]


def test_tokens_of_a_log_without_them_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "gen.log", tagged(LOG, "D"))
    with pytest.raises(UserError, match="holds no H- lines, which --tokens asks for"):
        read_generated("X", path, detokenised=False)


def test_what_is_odd_about_a_log_is_counted(tmp_path: Path) -> None:
    """Id 0 has one hypothesis and id 1 has two.

    In a second log, all ten outputs equal their targets, and in a third log, only nine of them.
    """
    output = read_generated("X", write(tmp_path / "gen.log", LOG))
    assert (output.notes, output.short_lists) == ([], "1 sentence has fewer than 2 hypotheses (id 0).")
    forced = "".join(f"T-{number}\ta b\nH-{number}\t-1\ta b\n" for number in range(10))
    output = read_generated("X", write(tmp_path / "gen.log", forced))
    (note,) = output.notes
    assert output.short_lists == ""
    assert note.startswith("all 10 outputs are their T- lines")
    # A word outside of the dictionary is <unk> in an output.
    unknown = forced.replace("H-3\t-1\ta b", "H-3\t-1\ta <unk>")
    assert read_generated("X", write(tmp_path / "gen.log", unknown)).notes == [note]
    for output in ("a c", "a b <unk>", "<unk>", "c <unk>"):
        other = forced.replace("H-3\t-1\ta b", f"H-3\t-1\t{output}")
        assert read_generated("X", write(tmp_path / "gen.log", other)).notes == []


def test_many_missing_ids_are_counted_not_listed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"id 0, 1, 2, 3, 4 and 94 more of 0\.\.99 missing"):
        parse_log(write(tmp_path / "gen.log", "H-99\t-1.0\ta\n"))


def test_copied_words_are_put_back(tmp_path: Path) -> None:
    log = "S-0\t<oov-0> met <oov-1> and <oov-0>\nH-0\t-1.0\t<oov-1> met <oov-0> <oov-7>\n"
    path = write(tmp_path / "gen.log", log)
    output = read_generated("X", path, oov_source=["Zork met Blip and Zork"])
    assert output.hypotheses == ["Blip met Zork <unk>"]  # slot 7 has no source word
    with pytest.raises(UserError, match="give the tokenised source text with --oov-source"):
        read_generated("X", path)
    with pytest.raises(UserError, match="is not line 1 of the --oov-source text"):
        read_generated("X", path, oov_source=["Zork saw Blip and Zork"])


def test_copied_words_where_the_log_shows_unk(tmp_path: Path) -> None:
    """The k-th different unknown word has slot k, so Zork has slot 0 both times, and Blip has slot 1."""
    path = write(tmp_path / "gen.log", "S-0\t<unk> met <unk> and <unk>\nH-0\t-1.0\t<oov-1> <oov-0> <oov-2>\n")
    output = read_generated("X", path, oov_source=["Zork met Zork and Blip"])
    assert output.hypotheses == ["Blip Zork <unk>"]


def test_copied_words_of_a_truncated_source(tmp_path: Path) -> None:
    path = write(tmp_path / "gen.log", "S-0\ta <oov-0>\nH-0\t-1.0\t<oov-0>\n")
    assert read_generated("X", path, oov_source=["a Zork who was cut off"]).hypotheses == ["Zork"]


def test_plain_file_keeps_every_line(tmp_path: Path) -> None:
    """The byte-order mark and the CR of CR LF are removed. Empty lines and Unicode line separators are kept."""
    path = tmp_path / "hyp.txt"
    path.write_bytes("\ufeffone\r\n\ntwo\u2028still two\x0b\nthree".encode())
    output = read_plain("X", path)
    assert output.hypotheses == ["one", "", "two\u2028still two\x0b", "three"]
    assert output.empty_lines == [2]


def test_undecodable_bytes_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "hyp.txt"
    path.write_bytes(b"fine\nna\xefve\n")
    with pytest.raises(UserError, match=r"hyp.txt, line 2: byte 0xef at position 3 is not UTF-8"):
        read_plain("X", path)


def test_a_log_is_not_a_plain_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="pass it as --generated X="):
        read_plain("X", write(tmp_path / "gen.log", LOG))
    with pytest.raises(UserError, match="pass it as --generated X="):
        read_plain("X", write(tmp_path / "gen.log", "INFO | a long header\n" * 500 + LOG))


@pytest.mark.parametrize(
    ("name", "message"), [("absent.txt", "does not exist"), (".", "is a directory"), ("empty.txt", "is empty")]
)
def test_unreadable_files(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "empty.txt").touch()
    with pytest.raises(UserError, match=message):
        read_plain("X", tmp_path / name)


@pytest.mark.parametrize(
    ("pieces", "text"), [("hy@@ po@@ thesis", "hypothesis"), ("cut@@", "cut"), ("", ""), ("a@b c", "a@b c")]
)
def test_undo_bpe(pieces: str, text: str) -> None:
    assert join_pieces(pieces) == text
    assert join_pieces(pieces, None) == pieces


def test_undo_sentencepiece() -> None:
    """As with fairseq's --remove-bpe sentencepiece, pieces are joined, and ▁ becomes a space."""
    assert join_pieces("▁hy po thesis ▁of ▁two", "sentencepiece") == "hypothesis of two"
