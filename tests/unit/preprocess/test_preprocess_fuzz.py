"""Test with any input that a script writes a complete output with equally many lines on all sides, or one message.

The input is random bytes, empty files, CRLF, surrogates, NUL, endless lines, line breaks that only some readers know,
and special symbols typed in the text. The files have the names that each script takes.
"""

import contextlib
import importlib
import io
import json
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

SPECIAL = {"<s>", "<pad>", "</s>", "<unk>", "<oov-3>"}
LONG = b"word " * 100_000
FRAGMENTS = [
    b"", b" ", b"a b", b"A.", b"\n", b"\n", b"\r\n", b"\r", b"\t", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf",
    b"\xed\xa0\x80", b"<unk> </s>", b"<UNK>", b" <pad> <s> <oov-3> ",
    "\u2028\x85\x0b\x0c\u200b\u200e\u00ad".encode(), "e\u0301 \u3000 中文".encode(),
    b"|", b'"', b"'", b"&lt;unk&gt;", b"@@ ", b"{", b"0", b"-1", b"nan",
]  # fmt: skip
TURK = ["norm", *(f"turk.{number}" for number in range(8))]
# Fragments in the format of each script are needed to reach more than the first line.
FORMATS = {
    "own_pairs": (["pairs.csv"], ["--data", "pairs.csv"], [b"a b,c d\n"]),
    "parallel_text": (["s", "t"], ["--lowercase", "--train", "s", "t", "--test", "t", "s", "--drop-empty"], []),
    "pwkp": (
        [*(f"N.{split}.{end}" for split in ("train", "test") for end in ("src", "dst")), "N.ori.test.src", "N.map.t7"],
        ["--data", ".", "--name", "N"],
        [b"PERSON@1 ", b" NUMBER@2", b"\x03\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00", b"\x02\x00\x00\x00"],
    ),
    "ew_sew": (
        ["m", *(f"{split}.8turkers.tok.{end}" for split in ("tune", "test") for end in TURK)],
        ["--match", "m", "0.5", "--turk", "."],
        [b"a\tb\t0.6\n", b"\t1\n"],
    ),
    "lcsts": (
        ["PART_I.txt", "PART_II.txt", "PART_III.txt"],
        ["--data", "."],
        [b"<doc id=1>\n", b"<human_label>4</human_label>", b"<summary>", b"s", b"</summary>\n", b"<short_text>\n", b"t",
         b"</short_text>", b"</doc>\n"],
    ),
    "quora": (
        ["q.tsv"],
        ["--data", "q.tsv", "--train", "9", "--valid", "1", "--test", "1"],
        [b"id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n", b"1\t1\t2\ta?\tb?\t1\n",
         b'2\t3\t4\t"a\n""b"\tc\t1\r\n', b"3\t1\t1\te\tf\t1\n"],
    ),
    "twitter_url": (
        ["Twitter_URL_Corpus_train.txt", "Twitter_URL_Corpus_test.txt", "2016_Oct_10--2017_Jan_08_paraphrase.txt"],
        ["--data", ".", "--train", "0", "--valid", "1", "--test", "1"],
        [b"a\tb\t(5, 6)\tu\n", b"c\td\n", b"(9, 6)"],
    ),
    "essay": (
        ["train", "test"],
        ["--train", "train", "--test", "test"],
        [b"x y </d> t\n", b"z </d> u\n", b"v w </d> r\n", b"</d> "],
    ),
    "commongen": (
        ["commongen.train.jsonl", "commongen.dev.jsonl"],
        ["--data", "."],
        [b'{"concept_set": "a#b", "scene": ["c \\ud800 d", "\\u0000"]}\n', b"[" * 5000],
    ),
    "clause_chunks": (
        [f"{split}.{side}" for split in ("train", "valid", "test") for side in ("src", "tgt")],
        ["--data", "."],
        [b"a b\n", "c , b d 。 a\n".encode(), b"<chunk> "],
    ),
    "multi_reference": (["s", "r0", "r1"], ["--valid", "s", "r0", "r1", "--train-on-valid"], []),
}  # fmt: skip

DOCUMENT = (
    "<doc id=0>\n<human_label>4</human_label>\n<summary>\n短\n</summary>\n<short_text>\n长\n</short_text>\n</doc>\n"
)
# MAP is {"train": [{}, {}], "test": [{}, {}]} in the serialisation format of Torch 7.
MAP = struct.pack("<iii", 3, 1, 2) + b"".join(
    struct.pack("<ii", 2, len(split)) + split
    + struct.pack("<iii", 3, index, 2)
    + b"".join(struct.pack("<idiii", 1, line, 3, index + line, 0) for line in (1, 2))
    for index, split in ((10, b"train"), (20, b"test"))
)  # fmt: skip
# The following files need a special valid content. All other valid files are two lines of text.
SOUND = {
    "N.map.t7": MAP,
    "pairs.csv": b"".join(b"no. %d,number %d\n" % (n, n) for n in range(12)),
    "m": b"a\tb\t0.6\nc d\te\t0.9\n",
    **dict.fromkeys(("PART_I.txt", "PART_II.txt", "PART_III.txt"), DOCUMENT.encode() * 2),
    "q.tsv": FORMATS["quora"][2][0] + b"1\t1\t2\ta?\tb?\t1\n2\t3\t4\tc\td\t1\n3\t5\t6\te\tf\t1\n",
    **dict.fromkeys(FORMATS["twitter_url"][0][:2], b"a\tb\t(5, 6)\tu\nc\td\t(4, 6)\tu\n"),
    FORMATS["twitter_url"][0][2]: b"a\tb\nc\td\n",
    **dict.fromkeys(("train", "test"), b"x y </d> t\nz </d> u\nv w </d> r\n"),
    **dict.fromkeys(FORMATS["commongen"][0], FORMATS["commongen"][2][0] * 2),
}


def sound(name):
    return SOUND.get(name, b"PERSON@1 one\ntwo three\n")


def spoilt(name):
    """Draw a valid file with some pieces added to its last line, which keeps the number of lines."""
    body, end = (sound(name)[:-1], b"\n") if name != "N.map.t7" else (MAP, b"")
    pieces = [piece for piece in FRAGMENTS if b"\n" not in piece]
    return st.lists(st.sampled_from(pieces), max_size=2).map(lambda chosen: body + b"".join(chosen) + end)


def contents(extra):
    """Return a strategy for files of random bytes, of format fragments, or of well-formed lines."""
    pieces = st.lists(st.sampled_from([*FRAGMENTS, *extra, *extra, *extra]), max_size=12).map(b"".join)
    lines = st.integers(0, 4).map(lambda number: (b"".join(extra) + b"one two\n") * number)
    header = st.just(extra[0] if extra else b"")
    return st.one_of(st.binary(max_size=60), pieces, st.tuples(header, pieces).map(b"".join), lines)


def run_script(script, folder, arguments, names):
    """Run a script in this process with the paths in ``folder``, and return the status and the messages."""
    words = [str(folder / word) if word in names or word == "." else word for word in arguments]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = importlib.import_module(script).main([*words, "--output", str(folder / "out")])
    return status, err.getvalue()


def check_output(folder):
    """Check that the output is complete, and that different programs read the same lines from all files of a split."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert set(manifest["files"]) == {path.name for path in folder.iterdir()} - {"manifest.json"}
    for split, counts in manifest["splits"].items():
        for path in folder.glob(f"{split}.*"):
            text = path.read_bytes().decode("utf-8")
            assert len(text.splitlines()) == text.count("\n") == counts["kept"] > 0, path.name
            if path.suffix != ".entities":
                lines = text.split("\n")[:-1]
                assert all(line == " ".join(line.split()) != "" for line in lines)
                assert not SPECIAL & set(text.split())
                assert "\0" not in text


@pytest.mark.parametrize("script", FORMATS)
def test_any_files_give_a_complete_output_or_one_sentence(script):
    names, arguments, extra = FORMATS[script]
    wild = st.lists(contents(extra), min_size=len(names), max_size=len(names))
    mild = st.tuples(*map(spoilt, names))

    @given(files=wild | mild, same=st.booleans())
    @example(files=[sound(name) for name in names], same=False)
    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    def fuzz(files, same):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            for name, data in zip(names, files, strict=True):
                (folder / name).write_bytes(files[0] if same else data)
            status, error = run_script(script, folder, arguments, names)
            left = {path.name for path in folder.iterdir()} - set(names)
            if status == 0:
                complete.append(files)
                assert left == {"out"}
                check_output(folder / "out")
                before = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
                status, _ = run_script(script, folder, [*arguments, "--unicode", "NFKC"], names)
                assert status == 2
                assert {path.name: path.read_bytes() for path in (folder / "out").iterdir()} == before
            else:
                assert status == 2
                assert not left
                assert (
                    error.startswith(f"{script}: error: ") and error.endswith((".\n", "?\n")) and error.count("\n") == 1
                )

    complete = []
    fuzz()
    assert complete


@pytest.mark.parametrize("unit", ["words", "characters", "moses"])
def test_very_long_line(unit, tmp_path):
    (tmp_path / "s").write_bytes(LONG + b"\n" + b"x" * 500_000 + b"\n")
    (tmp_path / "t").write_bytes(b"short\nshort\n")
    if unit == "moses":  # the patterns of Moses are slow
        (tmp_path / "s").write_bytes(LONG[:50_000] + b"\nx\n")
    assert run_script("parallel_text", tmp_path, ["--train", "s", "t", "--unit", unit], ["s", "t"])[0] == 0
    check_output(tmp_path / "out")


def test_all_scripts_are_fuzzed():
    scripts = {path.stem for path in Path(importlib.import_module("quora").__file__).parent.glob("*.py")}
    readers = {name for name in scripts if "inputs" in vars(importlib.import_module(name))}
    assert readers == set(FORMATS)
