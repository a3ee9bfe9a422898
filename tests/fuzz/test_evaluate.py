"""For any text, ``wean-evaluate`` prints scores or one error sentence, and every score belongs to its line."""

import json
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.fuzz.text import (
    FRAGMENTS,
    LONGEST,
    File,
    assert_one_sentence,
    attempt,
    budgets,
    call,
    damaged,
    files,
    paragraphs,
    texts,
)
from wean_fairseq.evaluation.cli import main
from wean_fairseq.evaluation.output_reader import read_generated
from wean_fairseq.evaluation.plausibility import MARKS

METRICS = ("bleu", "sari", "rouge-l", "meteor-exact-stem", "exact@1", "copy-rate", "distinct-2", "novelty-1")
NAMES = ("A", "Ä 中", "|", "A|B", "\u2028", "x\ny", "\ud800", "`", "\U0001f469\u200d\U0001f467", "copy-source")
#: Messages about files that are refused because they contain something other than plain sentences. The unit tests list
#: the kinds of files that are refused.
NOT_PLAIN = re.compile(
    r"not plain sentences|holds JSON, not one sentence|outputs hold|outputs (?:begin|end) with a number"
)
TAGGED = re.compile(r"[STHD]-[0-9]+\t", re.DOTALL)


@st.composite
def corpora(draw: st.DrawFn) -> dict[str, list[str]]:
    """Draw outputs, references and sources, some of which are equal."""
    size = draw(st.integers(1, 5))
    lines = paragraphs(size, size)
    outputs = draw(lines)
    kept = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    references = [out if keep else other for out, keep, other in zip(outputs, kept, draw(lines), strict=True)]
    pieces = next(filter(MARKS[0].found_in, outputs), None)
    if pieces is not None:  # the outputs are refused if no reference contains pieces
        references[-1] = pieces
    return {"hyp": outputs, "ref": references, "src": draw(lines)}


def score(folder: Path, name: str, *options: object, given: str = "--hyp") -> tuple[int, str, str]:
    arguments = [given, f"{name}={folder / 'hyp'}", "--ref", folder / "ref", "--src", folder / "src"]
    more = ["--json", folder / "json", "--markdown", folder / "md", "--overwrite", "--sentences", "--quiet"]
    return call(main, *arguments, *more, "--resamples", 0, "--metric", *METRICS, *options)


@budgets(12, 1500)
def test_every_score_belongs_to_its_line(examples, reliability):
    """Test with exact@1 that no line is shifted or lost, because exact@1 of a line depends only on this line."""

    def check(corpus, data, name, tokenize):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            for role, lines in corpus.items():
                (folder / role).write_bytes(data.draw(files(lines)).content)
            status, out, err = score(folder, name, *tokenize)
            written, references = corpus["hyp"], corpus["ref"]
            refused = sum(bool(TAGGED.match(line)) for line in written) > 1 or not any(map(str.strip, references))
            if refused or not name.isprintable() or name == "copy-source":
                assert status == 2
                assert_one_sentence(err, "wean-evaluate")
                assert not (folder / "json").exists()
                return
            if status == 2 and NOT_PLAIN.search(err):
                assert_one_sentence(err, "wean-evaluate")
                assert not (folder / "json").exists()
                return
            assert (status, err) == (0, "")
            found = json.loads((folder / "json").read_text(encoding="utf-8"))
            assert found["data"]["sentences"] == len(written)
            exact = [100.0 * (ours.split() == right.split()) for ours, right in zip(written, references, strict=True)]
            assert found["systems"][name]["exact@1"]["sentences"] == exact
            rows = [line for line in (folder / "md").read_text(encoding="utf-8").split("\n") if line.startswith("|")]
            assert len(rows) == 4  # table header, separator line, row of the source and row of the system
            assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {len(METRICS) + 2}
            assert out.startswith(f"{len(written)} sentence{'s' * (len(written) != 1)}, 1 reference\n")

    tokenize = st.sampled_from([[], *(["--tokenize", name] for name in ("13a", "none", "zh", "char"))])
    attempt(
        examples, reliability, check, corpus=corpora(), data=st.data(), name=st.sampled_from(NAMES), tokenize=tokenize
    )


@budgets(15, 1500)
def test_files_that_do_not_fit_or_are_no_text_are_refused(examples, reliability):
    def check(corpus, data, role, harm):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            spoilt = data.draw(harm(corpus[role]))
            for name, lines in corpus.items():
                (folder / name).write_bytes(spoilt.content if name == role else data.draw(files(lines)).content)
            status, _, err = score(folder, "A")
            assert status == 2
            assert_one_sentence(err, "wean-evaluate")

    harms = [
        damaged,
        lambda lines: files([*lines, "more"]),
        lambda _: st.sampled_from([File(b"", []), File(b"\n" * 9, [])]),
    ]
    role, harm = st.sampled_from(["hyp", "ref", "src"]), st.sampled_from(harms)
    attempt(examples, reliability, check, corpus=corpora(), data=st.data(), role=role, harm=harm)


def visible(line: str) -> bool:
    return not re.search(r"<oov-\d+>", line)


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[str], list[str], list[str]]:
    """Draw sources, outputs and the lines of their log, which are in the order of batches and between other lines."""
    line = texts().map(lambda text: " ".join(text.split())).filter(visible)
    pairs = draw(st.lists(st.tuples(line, line), min_size=1, max_size=5))
    # a line that contains such text is refused, too
    noise = texts().filter(lambda text: not re.search(r"[STHDP]-\d", text))
    shown = []
    for number in draw(st.permutations(range(len(pairs)))):
        source, output = pairs[number]
        shown += draw(st.lists(noise, max_size=1))
        shown += [f"S-{number}\t{source}", f"W-{number}\t0.1\tseconds"]
        shown += [f"H-{number}\t-0.25\t{output}", f"D-{number}\t-0.25\t{output}", f"P-{number}\t-0.5 -0.5"]
        second = [f"H-{number}\t-0.75\tsecond", f"D-{number}\t-0.75\tsecond", f"P-{number}\t-0.75"]
        shown += second * draw(st.integers(0, 1))
    return [source for source, _ in pairs], [output for _, output in pairs], shown


@budgets(15, 1500)
def test_logs_are_read_in_the_order_of_the_input(examples, reliability):
    def check(log, data):
        sources, outputs, shown = log
        with tempfile.TemporaryDirectory() as place:
            path = Path(place, "log")
            path.write_bytes(
                data.draw(files([*shown, "."])).content
            )  # a log that ends in the middle of a tagged line is refused
            found = read_generated("", path, oov_source=sources)
            assert found.hypotheses == outputs

    attempt(examples, reliability, check, log=logs(), data=st.data())


@budgets(15, 1500)
def test_damaged_logs_are_refused(examples, reliability):
    """Test that logs with lost, repeated, cut or renumbered lines lead to scores or to one error sentence."""

    def check(log, data):
        _, _, shown = log
        place = data.draw(st.integers(0, len(shown) - 1))
        line = shown[place]
        changed = data.draw(
            st.sampled_from(
                [
                    [], [line, line], [line[: len(line) // 2]], [re.sub(r"(?<=-)\d+", "99999999999999", line, count=1)],
                    [re.sub(r"(?<=-)\d+", "9" * 5000, line, count=1)], [re.sub(r"(?<=-)\d+", "٣", line, count=1)],
                    [line.replace("\t", " ", 1)], ["\0" + line],
                ]
            )
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "hyp")
            path.write_bytes("".join(f"{line}\n" for line in [*shown[:place], *changed, *shown[place + 1 :]]).encode())
            for role in ("ref", "src"):
                Path(folder, role).write_text("one\n" * 5, encoding="utf-8")
            status, _, err = score(Path(folder), "A", given="--generated")
            assert status in (0, 2)
            if status:
                assert_one_sentence(err, "wean-evaluate")

    attempt(examples, reliability, check, log=logs(), data=st.data())


@pytest.mark.parametrize("line", ["y" * LONGEST, "ab cd e " * (LONGEST // 8)], ids=["word", "words"])
def test_a_line_of_100000_characters_is_scored(tmp_path, line):
    """Test a line of one word and a line of many words, for which the table of rouge-score would need 11 GB."""
    for role in ("hyp", "ref", "src"):
        (tmp_path / role).write_text(f"{line}\nshort\n", encoding="utf-8")
    status, _, err = score(tmp_path, "A")
    assert (status, err) == (0, "")
    found = json.loads((tmp_path / "json").read_text(encoding="utf-8"))["systems"]["A"]
    assert found["rouge-l"]["sentences"] == [100.0, 100.0]


@budgets(10, 1000)
def test_other_commands_take_any_file_without_a_traceback(examples, reliability):
    """Check that the readers of other files never end with a traceback.

    The files are sheets, ratings, recorded results, tables and re-ranking files, or they only resemble such files.
    """

    def check(pieces, damage):
        content = b"".join(piece.encode("utf-8", "surrogatepass") for piece in pieces) + damage
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "f").write_bytes(content)
            (folder / "results").mkdir()
            (folder / "results" / "f.json").write_bytes(content)
            (folder / "d.md").write_text("<!-- results: f -->\n<!-- /results -->\n", encoding="utf-8")
            path = folder / "f"
            for arguments in (
                ["sheet", "--hyp", f"A={path}", "--sentences", 1, "--raters", 1, "--out", folder / "sheets"],
                ["ratings", path, "--key", path],
                ["record", path, "--experiment", "e", "--command", "c", "--seed", 1, "--results", folder / "kept"],
                ["tables", path, "--results", folder / "results"],
                ["tables", folder / "d.md", "--results", folder / "results"],
                ["rerank", "--tune", f"A={path}", "--ref", path],
            ):
                status, _, err = call(main, *arguments)
                assert status in (0, 2)
                if status:
                    assert_one_sentence(err, "wean-evaluate")

    result = '{"experiment": "f", "command": "c", "seed": 1, "evaluation": {"systems": '
    key = '{"format": "wean-human-evaluation-1", "items": [], "kind": "likert", "criteria": '
    meant = (
        "\n", "\n", ",", "rater,item,fluency\n", "rater-1,item-0,3\n", result, key, "{}", "[]", "null", "}", ":",
        '{"A": {"bleu": {"score": 1, "ci": null}}}', '}, "data": {"sentences": 1}', '"systems": {}', '"data": {',
        "1" * 5000, "[" * 100_000, "<!-- results: f -->\n", "<!-- /results -->", "\ud800",
    )  # fmt: skip
    pieces = st.lists(st.sampled_from(FRAGMENTS) | st.sampled_from(meant), max_size=8)
    attempt(examples, reliability, check, pieces=pieces, damage=st.sampled_from([b"", b"", b"\xff"]))
