"""Test the script of every data set on small files in the published format."""

import csv
import importlib
import json
import os
import re
import struct
from pathlib import Path
from random import Random

import pytest
from corpus.outputs import outputs_parser

from wean_fairseq.errors import UserError
from wean_fairseq.text import prepared_text

SCRIPTS = (
    "commongen essay ew_sew lcsts multi_reference parallel_text pwkp quora twitter_url restore_entities undo_text"
).split()


def run(script, *arguments):
    """Run a script in this process and return the exit status."""
    return importlib.import_module(script).main([str(argument) for argument in arguments])


def prepared(folder):
    """Return the text files of an output directory, as lists of lines."""
    return {
        path.name: path.read_text(encoding="utf-8").split("\n")[:-1]
        for path in folder.iterdir()
        if path.name != "manifest.json"
    }


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_and_a_clear_sentence_without_data(script, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        run(script, "--help")
    assert stopped.value.code == 0
    assert "--output" in capsys.readouterr().out
    if script in ("parallel_text", "restore_entities", "undo_text"):
        return
    needed = {
        "essay": ["--data", tmp_path],
        "ew_sew": ["--turk", tmp_path, "--train", tmp_path / "en", tmp_path / "sen"],
    }.get(script, ["--data", tmp_path])
    assert run(script, *needed, "--output", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{script}: error: ")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_finished_output_is_said_and_skipped(tmp_path, capsys):
    write(tmp_path / "a", ["x", "y"])
    line = ["--train", tmp_path / "a", tmp_path / "a", "--output", tmp_path / "out"]
    assert run("parallel_text", *line) == 0
    before = (tmp_path / "out" / "train.src").stat().st_mtime_ns
    capsys.readouterr()
    assert run("parallel_text", *line) == 0
    assert "is complete already" in capsys.readouterr().out
    assert (tmp_path / "out" / "train.src").stat().st_mtime_ns == before
    assert run("parallel_text", *line, "--lowercase") == 2
    assert "exists already" in capsys.readouterr().err
    write(tmp_path / "b", ["z", "z"])
    for first, second in (("a", "b"), ("b", "a")):  # the second run has the two files in the other order
        files = [tmp_path / first, tmp_path / second]
        status = run("parallel_text", "--train", *files, "--output", tmp_path / "both")
        assert status == (0 if first == "a" else 2)
    assert run("parallel_text", "--test", tmp_path / "a", tmp_path / "b", "--output", tmp_path / "both") == 2


def test_steps_leaks_and_counts_of_a_whole_run(tmp_path, capsys):
    write(tmp_path / "t.src", ["The cat\u200b sat", "A Dog ran .", "one </s> line", "gone"])
    write(tmp_path / "t.tgt", ["The cat sat", "Dog .", "two <UNK>", "\u200b"])
    write(tmp_path / "v", ["a dog RAN ."])
    train = ["--train", tmp_path / "t.src", tmp_path / "t.tgt", "--test", tmp_path / "v", tmp_path / "v"]
    line = [*train, "--output", tmp_path / "out", "--lowercase", "--drop-empty", "--drop-leaks"]
    assert run("parallel_text", *line) == 0
    assert prepared(tmp_path / "out") == {
        "train.src": ["the cat sat", "one &lt;/s&gt; line"],
        "train.tgt": ["the cat sat", "two &lt;unk&gt;"],
        "test.src": ["a dog ran ."],
        "test.tgt": ["a dog ran ."],
    }
    manifest = manifest_of(tmp_path / "out")
    assert manifest["splits"]["train"] == {"kept": 2, "dropped": {"empty_side": 1, "leak": 1}}
    assert manifest["cleaning"] == {"special_tokens_escaped": 2, "zero_width_characters": 2}
    assert manifest["leaks"]["train / test"] == {"pairs": 0, "sources": 1, "targets": 0, "any": 1}
    assert [source["file"] for source in manifest["sources"]] == ["t.src", "t.tgt", "v"]
    assert manifest["options"]["train"] == [[0, 1]]  # the files are recorded as positions in the list of sources
    out = capsys.readouterr().out
    assert "train: 2 lines; left out: 1 empty side, 1 leak" in out
    assert "train lines that also occur in test: 0 pairs, 1 source, 0 targets, 1 on whichever side" in out
    write(tmp_path / "hyp", ["one &lt;/s&gt; line"])
    assert (
        run("undo_text", "--prepared", tmp_path / "out", "--input", tmp_path / "hyp", "--output", tmp_path / "b") == 0
    )
    assert (tmp_path / "b").read_text() == "one </s> line\n"


def test_learnt_steps_keep_the_lines_and_are_undone(tmp_path):
    sentences = [f"The newest cat number {number} sat lower than the widest ones" for number in range(30)]
    write(tmp_path / "a", sentences)
    line = ["--train", tmp_path / "a", tmp_path / "a", "--valid", tmp_path / "a", tmp_path / "a", "--unit", "moses"]
    assert run("parallel_text", *line, "--truecase", "--bpe", 20, "--output", tmp_path / "out") == 0
    found = prepared(tmp_path / "out")
    assert set(found) == {"train.src", "train.tgt", "valid.src", "valid.tgt", "bpe.codes", "truecase.model"}
    assert found["valid.tgt"][0].startswith("the ") and "@@ " in found["valid.tgt"][0]
    assert {len(lines) for name, lines in found.items() if name.endswith(("src", "tgt"))} == {30}
    assert {"sacremoses", "subword-nmt", "unicode"} == set(manifest_of(tmp_path / "out")["versions"])
    undo = ["--prepared", tmp_path / "out", "--input", tmp_path / "out" / "valid.src", "--output", tmp_path / "plain"]
    assert run("undo_text", *undo) == 0
    before = undo[3].read_bytes()
    assert run("undo_text", *undo[:-1], undo[3]) == 2  # the output must not be the input
    assert undo[3].read_bytes() == before
    steps = tmp_path / "out" / "truecase.model"
    before = steps.read_bytes()
    assert run("undo_text", *undo[:-1], steps, "--overwrite") == 2  # the output must not be a file of the learnt steps
    assert steps.read_bytes() == before
    assert (tmp_path / "plain").read_text() == (tmp_path / "a").read_text()
    write(tmp_path / "out" / "plain", ["old"])  # undo_text does not read this file, so it may be overwritten
    assert run("undo_text", *undo[:-1], tmp_path / "out" / "plain", "--overwrite") == 0
    assert (tmp_path / "out" / "plain").read_text() == (tmp_path / "a").read_text()
    # fairseq-generate writes its outputs in the order of batches, and numbers them.
    write(tmp_path / "log", [f"H-{number}\t-0.5\t{found['valid.src'][number]}" for number in reversed(range(30))])
    undo[2:4] = ["--generated", tmp_path / "log"]
    assert run("undo_text", *undo) == 2  # without --overwrite, an existing file is kept
    assert run("undo_text", *undo, "--overwrite") == 0
    assert (tmp_path / "plain").read_text() == (tmp_path / "a").read_text()


def test_a_foreign_manifest_is_not_called_missing(tmp_path, capsys):
    write(tmp_path / "hyp", ["a"])
    line = ["--prepared", tmp_path, "--input", tmp_path / "hyp", "--output", tmp_path / "plain"]
    for content, found in ((None, "no manifest.json"), ("{}", "a manifest.json, but not the one")):
        if content is not None:
            (tmp_path / "manifest.json").write_text(content)
        assert run("undo_text", *line) == 2
        assert f"{tmp_path} has {found} of a script of preprocess/" in capsys.readouterr().err
        with pytest.raises(UserError, match=f"has {found} of a script of preprocess/: name the directory"):
            prepared_text(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("folder", "message"), [("x" * 300, "ile name"), ("loop", "[Ss]ymbolic link"), ("file", "Not a directory")]
)
def test_a_prepared_folder_that_cannot_be_read_is_one_sentence(tmp_path, capsys, folder, message):
    write(tmp_path / "hyp", ["a"])
    write(tmp_path / "file", ["a"])
    (tmp_path / "loop").symlink_to("loop")
    line = ["--prepared", tmp_path / folder, "--input", tmp_path / "hyp", "--output", tmp_path / "plain"]
    assert run("undo_text", *line) == 2
    error = capsys.readouterr().err
    assert error.startswith("undo_text: error: ") and error.count("\n") == 1 and re.search(message, error)
    assert not (tmp_path / "plain").exists()


def test_nothing_to_learn_from_is_one_sentence(tmp_path, capsys):
    write(tmp_path / "a", ["x"])
    line = ["--test", tmp_path / "a", tmp_path / "a", "--output", tmp_path / "out", "--bpe", 5]
    assert run("parallel_text", *line) == 2
    assert "no training text to learn bpe.codes from" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# --- PWKP

PWKP = "PWKP_108016.tag.80.aner"
ANONYMISED = {
    "train": [("PERSON@1 met PERSON@2 in LOCATION@1 .", "PERSON@1 met PERSON@2 .")],
    "valid": [("Nothing here .", "Nothing .")],
    "test": [("NUMBER@1 men saw MISC@1 twice , MISC@1 .", "NUMBER@1 saw MISC@1 and MISC@2 .")],
}
ORIGINAL = {
    "train": [("Ann Lee met Bob in New York .", "Ann Lee met Bob .")],
    "valid": [("Nothing here .", "Nothing .")],
    "test": [("12 men saw Jazz Days twice , Jazz Days .", "12 saw Jazz Days and Rock .")],
}


def write_pwkp(folder):
    for form, splits in (("", ANONYMISED), (".ori", ORIGINAL)):
        for split, pairs in splits.items():
            for side, end in enumerate(("src", "dst")):
                write(folder / f"{PWKP}{form}.{split}.{end}", [pair[side] for pair in pairs])
    return folder


def torch7(value):
    """Return a value in the format of Torch."""
    count = 0

    def dump(value):
        nonlocal count
        if isinstance(value, str):
            data = value.encode()
            return struct.pack("<ii", 2, len(data)) + data
        if isinstance(value, (int, float)):
            return struct.pack("<id", 1, value)
        count += 1
        head = struct.pack("<iii", 3, count, len(value))
        return head + b"".join(dump(key) + dump(item) for key, item in value.items())

    return dump(value)


MAP = {
    "train": {1: {"PERSON@1": "Ann Lee", "PERSON@2": "Bob", "LOCATION@1": "New York"}},
    "valid": {1: {}},
    "test": {1: {"NUMBER@1": "12", "MISC@1": "Jazz Days", "MISC@2": "Rock", "MISC@3": "not in the pair"}},
}


@pytest.mark.parametrize("with_map", [True, False])
def test_pwkp_anonymised_and_names_restored(tmp_path, with_map, capsys):
    data = write_pwkp(tmp_path / "data")
    if with_map:
        (data / f"{PWKP}.map.t7").write_bytes(torch7(MAP))
    assert run("pwkp", "--data", data, "--output", tmp_path / "out", "--lowercase") == 0
    found = prepared(tmp_path / "out")
    assert found["train.src"] == ["person@1 met person@2 in location@1 ."]
    assert found["train.entities"] == ['{"location@1": "new york", "person@1": "ann lee", "person@2": "bob"}']
    assert found["valid.entities"] == ["{}"]
    # Entities that occur only in the target are known only from the map of the release.
    more = {"misc@2": "rock"} if with_map else {}
    assert json.loads(found["test.entities"][0]) == {"misc@1": "jazz days", "number@1": "12", **more}
    sources = [source["file"] for source in manifest_of(tmp_path / "out")["sources"]]
    assert (f"{PWKP}.map.t7" in sources) == with_map
    write(tmp_path / "hyp", ["misc@1 , number@1 , person@7 ."])
    restore = ["--overwrite", "--entities", tmp_path / "out" / "test.entities", "--output", tmp_path / "names"]
    assert run("restore_entities", *restore, "--input", tmp_path / "hyp") == 0
    assert (tmp_path / "names").read_text() == "jazz days , 12 , person@7 .\n"
    os.link(tmp_path / "out" / "test.entities", tmp_path / "linked")
    before = (tmp_path / "linked").read_bytes()
    assert run("restore_entities", *restore[:-1], tmp_path / "linked", "--input", tmp_path / "hyp") == 2
    assert (tmp_path / "linked").read_bytes() == before
    assert run("restore_entities", *restore, "--input", tmp_path / "out" / "bad") == 2
    write(tmp_path / "hyp", ["a", "b"])
    assert run("restore_entities", *restore, "--input", tmp_path / "hyp") == 2
    assert "has 1 line, but there are 2 outputs" in capsys.readouterr().err


@pytest.mark.slow  # it imports the evaluation, which takes long
def test_pwkp_names_are_restored_in_a_log(tmp_path):
    (tmp_path / "log").write_text("H-1\t-1\tperson@1 here\nH-0\t-1\tperson@2 saw person@1 .\n", encoding="utf-8")
    write(tmp_path / "entities", ['{"person@1": "ann", "person@2": "bob b. smith"}', "{}"])
    files = ["--entities", tmp_path / "entities", "--generated", tmp_path / "log", "--output", tmp_path / "out"]
    assert run("restore_entities", *files) == 0
    assert (tmp_path / "out").read_text(encoding="utf-8") == "bob b. smith saw ann .\nperson@1 here\n"


def test_pwkp_original_and_test_sets_stay_aligned(tmp_path, capsys):
    data = write_pwkp(tmp_path / "data")
    assert run("pwkp", "--data", data, "--form", "original", "--split", "test", "--output", tmp_path / "out") == 0
    assert prepared(tmp_path / "out") == {
        "test.src": ["12 men saw Jazz Days twice , Jazz Days ."],
        "test.tgt": ["12 saw Jazz Days and Rock ."],
    }
    write(data / f"{PWKP}.test.dst", [" "])
    assert run("pwkp", "--data", data, "--output", tmp_path / "other") == 2
    assert "line 1 of" in capsys.readouterr().err


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x03",
        torch7(MAP)[:-3],
        torch7({"train": {1: {}}, "valid": {1: {}}}),  # the test split is missing
        torch7({**MAP, "test": {1: {"NUMBER@1": 12}}}),
        torch7({**MAP, "test": {2: {}}}),
        torch7({**MAP, "test": {1: {}, 2: {}}}),  # the number of lines differs
        struct.pack("<ii", 4, 1) + b"torch.FloatTensor",  # an object that is not a table
        struct.pack("<ii", 2, -1),
        struct.pack("<ii", 2, 2**31 - 1),
        struct.pack("<iii", 3, 1, 2**31 - 1),
        b"".join(struct.pack("<iii", 3, number, 1) for number in range(1, 100)),
    ],
)
def test_damaged_or_dangerous_map_is_one_sentence(tmp_path, data, capsys):
    folder = write_pwkp(tmp_path / "data")
    (folder / f"{PWKP}.map.t7").write_bytes(data)
    assert run("pwkp", "--data", folder, "--output", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert "map.t7" in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_pwkp_map_with_a_repeated_row_checks_it_once():
    class Row(dict):
        checks = 0

        def values(self):
            self.checks += 1
            return super().values()

    row = Row({"PERSON@1": "Ann"})
    lists = importlib.import_module("pwkp").lua_list({"train": dict.fromkeys((1, 2, 3), row)}, "train", Path("map.t7"))
    assert lists == [row] * 3 and row.checks == 1


# --- EW-SEW and sets with several references


def write_turk(folder, splits=("tune", "test")):
    for split in splits:
        write(folder / f"{split}.8turkers.tok.norm", [f"a {split} -lrb- one -rrb-", f"{split} two"])
        for number in range(8):
            write(folder / f"{split}.8turkers.tok.turk.{number}", [f"{split} one {number}", f"{split} two {number}"])
    return folder


def test_ew_sew_match_files_and_references(tmp_path):
    good = [
        "Old ( a ) is .\tA is .\t0.9",
        "b\tc\t0.67",
        "d\te\t0.66",
        "no score\tat all",
        "m\tn\tinf",
        "A test lrb one rrb\tx\t1.0",
    ]
    partial = ["f \\/ g\th\t0.45", "i\tj\t0.44", "k\tl\tnone", "m\tn\t1_0", "m\tn\tnan"]
    matches = [
        "--match",
        write(tmp_path / "good", good),
        "0.67",
        "--match",
        write(tmp_path / "partial", partial),
        "0.45",
    ]
    line = [*matches, "--turk", write_turk(tmp_path / "turk"), "--output", tmp_path / "out", "--lowercase"]
    assert run("ew_sew", *line, "--leak-key", "loose", "--drop-leaks", "sources") == 0
    found = prepared(tmp_path / "out")
    assert (found["train.src"], found["train.tgt"]) == (["old -lrb- a -rrb- is .", "b", "f / g"], ["a is .", "c", "h"])
    assert found["test.src"] == ["a test -lrb- one -rrb-", "test two"]
    assert found["valid.ref7"] == ["tune one 7", "tune two 7"]
    assert found["test.tgt"] == found["test.ref0"]
    manifest = manifest_of(tmp_path / "out")
    assert manifest["left_out"] == {"below_threshold": 2, "malformed_lines": 5}
    assert manifest["splits"]["train"] == {"kept": 3, "dropped": {"leak": 1}}
    assert manifest["options"]["similarity"] == [0.67, 0.45]
    assert str(tmp_path) not in json.dumps(manifest)


def test_ew_sew_as_released_with_nts(tmp_path, capsys):
    en, sen = write(tmp_path / "train.en", ["a b", "c"]), write(tmp_path / "train.sen", ["a", "c"])
    dev = [("x", f"x{number}") for number in range(8)] + [("y", f"y{number}") for number in range(9)]
    dev_files = [write(tmp_path / f"dev.{side}", [pair[side] for pair in dev]) for side in (0, 1)]
    turk = write_turk(tmp_path / "turk", ["test"])
    line = ["--train", en, sen, "--turk", turk, "--output", tmp_path / "out"]
    assert run("ew_sew", *line, "--dev", *dev_files) == 0
    found = prepared(tmp_path / "out")
    assert (found["valid.src"], found["valid.tgt"], found["valid.ref7"]) == (["x", "y"], ["x0", "y0"], ["x7", "y7"])
    assert manifest_of(tmp_path / "out")["left_out"] == {"dev_references_beyond_the_fewest": 1}
    for threshold in ("high", "nan", "inf", "0_5", "٠"):
        assert run("ew_sew", *line, "--match", en, threshold) == 2
        assert f"must be a finite number: '{threshold}' is not a" in capsys.readouterr().err
    match = write(tmp_path / "match", ["m\tn\tinf", "m\tn\t1_0", "m\tn\t0.4"])
    assert run("ew_sew", *line[3:5], "--output", tmp_path / "bad", "--dev", *dev_files, "--match", match, 0.5) == 2
    reasons = "1 below threshold, 1 dev references beyond the fewest, 2 malformed lines"
    assert f"no line is left for train: {reasons}." in capsys.readouterr().err


def test_sets_with_references(tmp_path):
    turk = write_turk(tmp_path / "turk")
    assert run("multi_reference", "--data", turk, "--output", tmp_path / "out", "--train-on-valid") == 0
    found = prepared(tmp_path / "out")
    assert found["valid.ref3"] == ["tune one 3", "tune two 3"]
    assert len(found["train.src"]) == 16 and found["train.tgt"][9] == "tune two 1"
    assert "train / valid" not in manifest_of(tmp_path / "out")["leaks"]


def test_asset_and_files_by_name(tmp_path, capsys):
    for split in ("valid", "test"):
        write(tmp_path / f"asset.{split}.orig", [split])
        for number in range(10):
            write(tmp_path / f"asset.{split}.simp.{number}", [f"{split} {number}"])
    assert run("multi_reference", "--data", tmp_path, "--output", tmp_path / "out") == 0
    assert prepared(tmp_path / "out")["test.ref9"] == ["test 9"]
    files = [tmp_path / "asset.test.orig", tmp_path / "asset.test.simp.0"]
    assert run("multi_reference", "--test", *files, "--output", tmp_path / "mine") == 0
    assert set(prepared(tmp_path / "mine")) == {"test.src", "test.tgt", "test.ref0"}
    assert run("multi_reference", "--test", files[0], "--output", tmp_path / "other") == 2
    assert "at least one of references" in capsys.readouterr().err
    for twice in (files[:1] * 2, [*files[:2], files[1]]):
        assert run("multi_reference", "--test", *twice, "--output", tmp_path / "other") == 2
        assert f"--test has {twice[-1]} twice: give the sentences and each" in capsys.readouterr().err
    (tmp_path / "asset.test.simp.4").unlink()
    assert run("multi_reference", "--data", tmp_path, "--output", tmp_path / "other") == 2
    assert "asset.test.simp.4" in capsys.readouterr().err


# --- LCSTS


def write_lcsts(folder, documents):
    """Write the files of the release from (score, text, summary) rows for each part."""
    for part, rows in documents.items():
        lines = []
        for number, (score, text, summary) in enumerate(rows):
            label = [] if score is None else [f"    <human_label>{score}</human_label>"]
            body = ["    <summary>", f"        {summary}", "    </summary>", "    <short_text>", f"        {text}"]
            lines += [f"<doc id={number}>", *label, *body, "    </short_text>", "</doc>"]
        write(folder / f"{part}.txt", lines)
    return folder


LCSTS = {
    "PART_I": [(None, "长文 一iOS", "短一"), (None, "长文二", "  "), (None, "长< 三", "短三")],
    "PART_II": [(2, "文", "差"), (3, "文二", "好"), (None, "文五", "没分")],
    "PART_III": [(5, "文三", "很好"), (1, "文四", "不")],
}


def test_lcsts_parts_with_scores(tmp_path):
    data = write_lcsts(tmp_path / "data", LCSTS)
    assert run("lcsts", "--data", data, "--output", tmp_path / "out") == 0
    assert prepared(tmp_path / "out") == {
        "train.src": ["长 文 一 i O S", "长 < 三"],
        "train.tgt": ["短 一", "短 三"],
        "valid.src": ["文 二"],
        "valid.tgt": ["好"],
        "test.src": ["文 三"],
        "test.tgt": ["很 好"],
    }
    splits = manifest_of(tmp_path / "out")["splits"]
    assert splits["train"] == {"kept": 2, "dropped": {"empty_side": 1}}
    assert splits["valid"] == {"kept": 1, "dropped": {"low_score": 1, "no_score": 1}}
    for score, kept in ((1, 2), (0, 3)):
        assert run("lcsts", "--data", data, "--output", tmp_path / f"all{score}", "--score", score) == 0
        found = prepared(tmp_path / f"all{score}")
        assert (len(found["test.src"]), len(found["valid.src"])) == (2, kept)


def test_a_score_of_many_digits_is_none():
    """Python refuses to convert more than 4,300 digits."""
    assert [importlib.import_module("lcsts")._score(label) for label in (" 4 ", "9" * 5000)] == [4, None]


def test_lcsts_tags_on_one_line_and_documents_without_end(tmp_path):
    # The end of document 7 and the start of document 8 are lost.
    text = "<doc id=7><summary>短</summary><short_text>长</short_text>\n"
    text += "<summary>错</summary><short_text>误</short_text></doc>\n"
    text += "<doc id=0><summary>短</summary><short_text>长 文</short_text></doc>\n<DOC ID=1>\n<summary>丢\n"
    text += "<doc id=2>\n<short_text>\n两\n行\n</short_text>\n<summary>好</summary>\n</doc>\n"
    data = write_lcsts(tmp_path / "data", LCSTS)
    (data / "PART_I.txt").write_text(text, encoding="utf-8")
    assert run("lcsts", "--data", data, "--output", tmp_path / "out") == 0
    found = prepared(tmp_path / "out")
    assert (found["train.src"], found["train.tgt"]) == (["长 文", "两 行"], ["短", "好"])
    assert manifest_of(tmp_path / "out")["splits"]["train"]["dropped"] == {"document_without_end": 2}


def test_lcsts_plain_and_settings(tmp_path, monkeypatch):
    for split in ("train", "valid", "test"):
        for side in ("src", "tgt"):
            write(tmp_path / "data" / f"{split}.{side}", [f"{split}我来到{side}"])
    called = []
    binarise = "corpus.command.binarise"
    monkeypatch.setattr(binarise, lambda text, folder, sizes, **_: called.append(sizes["words"]) or True)
    for setting in ("wean", "copynet-characters", "copynet-words"):
        monkeypatch.setattr("wean_fairseq.text.steps._jieba", lambda: lambda text: text.replace("我来到", " 我 来到 "))
        line = ["--data", tmp_path / "data", "--setting", setting, "--output", tmp_path / setting]
        assert run("lcsts", *line, "--binarise", tmp_path / "bin") == 0
    assert called == [4000, 3000, 10000]
    assert prepared(tmp_path / "wean")["test.tgt"] == ["t e s t 我 来 到 t g t"]
    assert prepared(tmp_path / "copynet-words")["test.tgt"][0].split() == ["test", "我", "来到", "tgt"]


# --- Quora

QUESTIONS = [('how, "a" or b?', "a\tor\nb?", 1), ("What is x?", "what  is x ?", 1), ("no", "not", 0)]


def write_quora(path, delimiter, rows):
    """Write the table in the published format, with quotes where necessary and a question over two lines."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter=delimiter)
        table.writerow(["id", "qid1", "qid2", "question1", "question2", "is_duplicate"])
        for number, (first, second, duplicate) in enumerate(rows):
            table.writerow([number, 2 * number, 2 * number + 1, first, second, duplicate])
    return path


def duplicates(number):
    """Return pairs, many of which share a question with another."""
    return [(f"question {index % 29} ?", f"is it {index} ?", 1) for index in range(number)]


SIZES = ["--train", 30, "--valid", 3, "--test", 5]


@pytest.mark.parametrize(("name", "delimiter"), [("quora_duplicate_questions.tsv", "\t"), ("train.csv", ",")])
def test_quora_as_published(tmp_path, name, delimiter):
    data = write_quora(tmp_path / name, delimiter, QUESTIONS + duplicates(40))
    assert run("quora", "--data", data, "--output", tmp_path / "moses", *SIZES, "--train", 34) == 0
    tokens = prepared(tmp_path / "moses")
    assert 'how , " a " or b ?' in tokens["train.src"] + tokens["valid.src"] + tokens["test.src"]
    assert run("quora", "--data", data, "--output", tmp_path / "out", *SIZES, "--unit", "words") == 0
    found = prepared(tmp_path / "out")
    assert [len(found[f"{split}.src"]) for split in ("train", "valid", "test")] == [30, 3, 5]
    assert manifest_of(tmp_path / "out")["left_out"] == {"not_drawn": 4, "not_duplicates": 1}
    pairs = {
        (s, t)
        for split in ("train", "valid", "test")
        for s, t in zip(found[f"{split}.src"], found[f"{split}.tgt"], strict=True)
    }
    assert len(pairs) == 38
    everything = {
        (" ".join(s.split()), " ".join(t.split())) for s, t, duplicate in QUESTIONS + duplicates(40) if duplicate
    }
    assert pairs <= everything


def test_quora_layouts_and_row_orders_give_the_same_draw(tmp_path):
    rows = duplicates(45)
    write_quora(tmp_path / "a.tsv", "\t", rows)
    write_quora(tmp_path / "b.csv", ",", rows[::-1])
    for name in ("a.tsv", "b.csv"):
        assert run("quora", "--data", tmp_path / name, "--output", tmp_path / f"{name}.out", *SIZES) == 0
    first, second = prepared(tmp_path / "a.tsv.out"), prepared(tmp_path / "b.csv.out")
    assert {name: sorted(lines) for name, lines in first.items()} == {n: sorted(lines) for n, lines in second.items()}
    assert run("quora", "--data", tmp_path / "a.tsv", "--output", tmp_path / "c", *SIZES, "--seed", 2) == 0
    assert prepared(tmp_path / "c") != first


@pytest.mark.parametrize("script", ["quora", "twitter_url"])
def test_splits_at_hand_are_drawn_from_by_their_sizes(script, tmp_path, capsys):
    lines = [f"question {number}" for number in range(40)]
    for split in ("train", "valid", "test"):
        for side in ("src", "tgt"):
            write(tmp_path / f"{split}.{side}", [f"{split} {side} {line}" for line in lines])
    command = [script, "--data", tmp_path, "--output"]
    assert run(*command, tmp_path / "whole") == 0
    assert prepared(tmp_path / "whole")["train.src"] == [f"train src {line}" for line in lines]
    assert run(*command, tmp_path / "drawn", "--train", 7, "--test", 50, "--seed", 3) == 0
    warning = f"{script}: warning: --test asks for 50 pairs, but {tmp_path / 'test.src'} has 40\n"
    assert (said := capsys.readouterr().out).count("warning") == 1 and warning in said
    shuffled = list(lines)
    Random(3).shuffle(shuffled)  # the help text of the option promises this order
    for side in ("src", "tgt"):
        found = prepared(tmp_path / "drawn")
        assert found[f"train.{side}"] == [f"train {side} {line}" for line in shuffled[:7]]
        # the test split ends where the table ends
        assert found[f"test.{side}"] == [f"test {side} {line}" for line in shuffled]
        assert found[f"valid.{side}"] == [f"valid {side} {line}" for line in lines]


@pytest.mark.parametrize(
    ("script", "option"),
    [
        ("quora", ["--question-disjoint"]),
        ("twitter_url", ["--setting", "human"]),
        ("twitter_url", ["--votes", 4]),  # the default value, given by name
        ("lcsts", ["--score", 0]),
    ],
)
def test_splits_at_hand_leave_no_published_pairs_to_choose_among(script, option, tmp_path, capsys):
    for split in ("train", "valid", "test"):
        for side in ("src", "tgt"):
            write(tmp_path / f"{split}.{side}", ["one"])
    assert run(script, "--data", tmp_path, "--output", tmp_path / "out", *option) == 2
    assert capsys.readouterr().err == (
        f"{script}: error: {tmp_path} is split already: {option[0]} chooses among published pairs; leave it out, "
        "or give --data the published files.\n"
    )
    assert not (tmp_path / "out").exists()


def test_splits_at_hand_that_are_not_there_are_not_drawn_from(tmp_path, capsys):
    write(tmp_path / "train.src", ["one"])
    write(tmp_path / "train.tgt", ["two"])
    assert run("quora", "--data", tmp_path, "--output", tmp_path / "out", "--test", 1) == 2
    assert capsys.readouterr().err == "quora: error: there is no test.src with a test.tgt to draw --test 1 from.\n"
    assert not (tmp_path / "out").exists()


def test_quora_sizes_of_a_default_draw_are_on_record(tmp_path, capsys):
    sizes = {"train": 100_000, "valid": 4_000, "test": 20_000}  # the sizes of RBM, which papers on paraphrases use
    data = write_quora(tmp_path / "q.tsv", "\t", duplicates(24_001))
    line = ["quora", "--data", data, "--output", tmp_path / "out", "--unit", "words"]
    assert run(*line) == 0
    assert sizes.items() <= manifest_of(tmp_path / "out")["options"].items()
    assert run(*line, "--train", 100_000) == 0
    assert "is complete already" in capsys.readouterr().out


def test_quora_question_disjoint_split_shares_no_question(tmp_path):
    data = write_quora(tmp_path / "q.tsv", "\t", duplicates(80))
    random_split, disjoint = tmp_path / "random", tmp_path / "disjoint"
    sizes = ["--train", 60, "--valid", 4, "--test", 6]
    assert run("quora", "--data", data, "--output", random_split, *sizes) == 0
    assert run("quora", "--data", data, "--output", disjoint, *sizes, "--question-disjoint") == 0
    for folder, shared in ((random_split, True), (disjoint, False)):
        found = prepared(folder)
        questions = {s: {*found[f"{s}.src"], *found[f"{s}.tgt"]} for s in ("train", "valid", "test")}
        assert bool(questions["train"] & questions["test"]) == shared
        leaks = manifest_of(folder)["leaks"]
        assert (leaks["train / test"]["any"] > 0) == shared
        if not shared:
            assert not questions["train"] & questions["valid"] and not questions["valid"] & questions["test"]
            assert sum(sum(counts.values()) for counts in leaks.values()) == 0
    # Pairs that share a question come in groups of two or three, so not every size is possible.
    sizes = [len(prepared(disjoint)[f"{split}.src"]) for split in ("train", "valid", "test")]
    assert sizes[0] == 60 and 2 <= sizes[1] <= 4 and 4 <= sizes[2] <= 6


def test_quora_pairs_in_one_group_have_no_disjoint_splits(tmp_path, capsys):
    chain = [(f"question {number}", f"question {number + 1}", 1) for number in range(30)]
    data = write_quora(tmp_path / "q.tsv", "\t", chain)
    sizes = ["--train", 10, "--valid", 2, "--test", 3]
    assert run("quora", "--data", data, "--output", tmp_path / "out", *sizes, "--question-disjoint") != 0
    assert "fits into test, valid, train: ask for larger splits" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        # the test.csv of Kaggle has these columns
        ("id\tquestion1\tquestion2\n1\ta\tb\n", "has no column is_duplicate"),
        ("id\tquestion1\tquestion2\tis_duplicate\n", "has 0 duplicate pairs"),
        (
            "id\tquestion1\tquestion2\tis_duplicate\n" + "1\ta\tb\tyes\n" * 3 + "1\ta\tb\t0\n2\n",
            "has 0 duplicate pairs (1 rows are not duplicates, 4 are malformed)",
        ),
        ('id\tquestion1\tquestion2\tis_duplicate\n1\t"a\n' + "x" * 200_000, "row is on line 2"),
    ],
)
def test_quora_other_files_are_one_sentence(tmp_path, text, message, capsys):
    (tmp_path / "q.tsv").write_text(text, encoding="utf-8")
    assert run("quora", "--data", tmp_path / "q.tsv", "--output", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


# --- Twitter URL


def write_twitter(folder):
    for name, number in (("train", 12), ("test", 9)):
        lines = [f"{name} {index}\tpara {index}\t({index % 7}, 6)\thttp://t.co/{index}" for index in range(number)]
        write(folder / f"Twitter_URL_Corpus_{name}.txt", [*lines, "broken line"])
    write(folder / "2016_Oct_10--2017_Jan_08_paraphrase.txt", [*(f"auto {i}\tfound {i}" for i in range(20)), "a\tb\tc"])
    return folder


def test_twitter_url_of_c_dnpg(tmp_path, capsys):
    data = write_twitter(tmp_path / "data")
    sizes = ["--train", 15, "--valid", 2, "--test", 3]
    assert run("twitter_url", "--data", data, "--output", tmp_path / "out", *sizes) == 0
    found = prepared(tmp_path / "out")
    assert found["valid.src"] == ["test 4", "test 5"]  # the first pairs with at least 4 of 6 votes
    assert set(found["test.src"]) < {f"train {index}" for index in (4, 5, 6, 11)} and len(found["test.src"]) == 3
    assert len(found["train.src"]) == 15 and found["train.src"][0].startswith("auto ")
    assert manifest_of(tmp_path / "out")["left_out"]["malformed_lines"] >= 2
    line = ["--data", data, "--output", tmp_path / "all", "--valid", 2, "--test", 3, "--train", 0, "--votes", 6]
    assert run("twitter_url", *line) == 2  # only one pair has six votes, and more are requested
    capsys.readouterr()
    line = ["--data", data, "--output", tmp_path / "few", *sizes, "--valid"]
    assert run("twitter_url", *line, 4) == 2  # of the nine pairs of the test file, the pairs 4 to 6 have enough votes
    assert "_test.txt has 3 accepted pairs, but --valid 4 asks for more: ask for fewer" in capsys.readouterr().err
    assert not (tmp_path / "few").exists()
    assert run("twitter_url", *line, 3) == run("twitter_url", *line, 4, "--limit", 3, "--overwrite") == 0


def test_twitter_url_of_human_ratings(tmp_path, capsys):
    data = write_twitter(tmp_path / "data")
    line = ["--data", data, "--output", tmp_path / "out", "--setting", "human"]
    assert run("twitter_url", *line, "--valid", 1, "--votes", 3) == 0
    found = prepared(tmp_path / "out")
    assert [len(found[f"{split}.src"]) for split in ("train", "valid", "test")] == [5, 1, 4]
    assert run("twitter_url", *line, "--valid", 99, "--overwrite") == 2
    assert "has 4 accepted pairs, but --valid 99 asks for more" in capsys.readouterr().err
    assert prepared(tmp_path / "out") == found


# --- topics to essays, concepts to sentences


def test_essays_as_released(tmp_path):
    lines = [f"文 章 {number} 。 </d> 音乐 旅游" for number in range(200)]
    lines += ["没 有 主题", "a </d> b </d> c", "太 多 </d> 一 二 三 四 五 六", "短 </d> 一", " </d> 一"]
    train = write(tmp_path / "TrainingData.txt", lines)
    test = write(tmp_path / "TestData.txt", ["试 一 试 </d> 健身"])
    line = ["--train", train, "--test", test, "--output", tmp_path / "out", "--max-topics", 5, "--min-length", 2]
    assert run("essay", *line) == 0
    found = prepared(tmp_path / "out")
    assert (found["test.src"], found["test.tgt"]) == (["健身"], ["试 一 试"])
    assert len(found["valid.src"]) + len(found["train.src"]) == 200
    assert len(found["valid.src"]) == 2  # one percent of the 200 remaining essays
    assert set(found["train.src"]) == {"音乐 旅游"} and "</d>" not in " ".join(found["train.tgt"])
    splits = manifest_of(tmp_path / "out")["splits"]
    assert splits["train"]["dropped"] == {"essays_without_one_</d>": 2, "number_of_topics": 1, "length": 2}
    assert splits["valid"]["dropped"] == {}


def test_essays_without_a_separator_are_counted_and_files_of_them_refused(tmp_path, capsys):
    train = write(tmp_path / "TrainingData.txt", ["文 章 </d> 音乐", "没 有 主题", "文 </d> 音乐"])
    assert run("essay", "--train", train, "--output", tmp_path / "out", "--limit", 5) == 0
    assert "train: 1 line; left out: 1 essays without one </d>" in capsys.readouterr().out
    plain = write(tmp_path / "plain.txt", ["没 有 主题", "也 没 有"])
    assert run("essay", "--train", plain, "--output", tmp_path / "other") == 2
    said = capsys.readouterr().err
    assert "plain.txt is an essay, </d> and its topics, as the corpora are released: give --data a directory" in said
    assert len(said.splitlines()) == 1 and not (tmp_path / "other").exists()


def test_essays_for_validation_must_leave_some_to_train(tmp_path, capsys):
    train = write(tmp_path / "TrainingData.txt", ["文 章 </d> 音乐", "没 有 主题", "文 </d> 音乐"])
    line = ["--train", train, "--output", tmp_path / "out", "--valid"]
    for number in (2, 500):
        assert run("essay", *line, number) == 2
        assert f"has 2 accepted essays, and --valid {number} leaves none to train" in capsys.readouterr().err
    assert run("essay", *line, 1) == 0


def test_essays_as_plain_files(tmp_path):
    write(tmp_path / "data" / "train.src", ["a b", "a b c d e f"])
    write(tmp_path / "data" / "train.tgt", ["one", "two"])
    assert run("essay", "--data", tmp_path / "data", "--output", tmp_path / "out", "--max-topics", 5) == 0
    assert prepared(tmp_path / "out") == {"train.src": ["a b"], "train.tgt": ["one"]}


def test_commongen_as_released(tmp_path, capsys):
    sets = [{"concept_set": "ski#mountain#skier", "scene": ["Skier skis .", "A \ud800mountain ."], "reason": ["x"]}]
    for name in ("train", "dev"):
        write(tmp_path / f"commongen.{name}.jsonl", map(json.dumps, sets))
    write(tmp_path / "commongen.test.jsonl", [json.dumps({"concept_set": "a#b", "scene": []})])
    assert run("commongen", "--data", tmp_path, "--output", tmp_path / "out", "--sort-concepts") == 0
    found = prepared(tmp_path / "out")
    assert set(found) == {"train.src", "train.tgt", "valid.src", "valid.tgt"}
    assert found["train.src"] == ["mountain ski skier"] * 2
    assert found["valid.tgt"] == ["Skier skis .", "A mountain ."]
    assert manifest_of(tmp_path / "out")["left_out"] == {"test_without_sentence": 1}
    scenes = [f'{{"concept_set": "a", "scene": {scene}}}' for scene in ("[1]", '"x"', '{"x": 1}')]
    for bad in ("{", "[]", '{"concept_set": 3}', *scenes, '{"scene": ["x"]}', ""):
        write(tmp_path / "commongen.train.jsonl", [bad])
        assert run("commongen", "--data", tmp_path, "--output", tmp_path / "bad") == 2
        assert "line 1 of" in capsys.readouterr().err
    assert not (tmp_path / "bad").exists()


def test_a_repeated_name_in_json_is_refused_with_its_line(tmp_path, capsys):
    """Python's reader silently keeps the last of two values, so the text would depend on the order in the file."""
    data = write(tmp_path / "commongen.train.jsonl", ['{"concept_set": "a", "scene": ["x"], "scene": ["y"]}']).parent
    assert run("commongen", "--data", data, "--output", tmp_path / "out") == 2
    assert "is not a concept set with sentences (it has 'scene' more than once)" in capsys.readouterr().err
    names = write(tmp_path / "e", ['{"PERSON@1": "Ann", "PERSON@1": "Bob"}'])
    text = write(tmp_path / "text", ["PERSON@1 lives"])
    assert run("restore_entities", "--entities", names, "--input", text, "--output", tmp_path / "out") == 2
    assert "line 1 of" in (error := capsys.readouterr().err)
    assert "is not a table of entities (it has 'PERSON@1' more than once)" in error
    assert not (tmp_path / "out").exists()


def test_commongen_with_references(tmp_path):
    rows = [("a#b", ["A b .", "B a ."]), ("c#d", ["C d ."]), ("e#f", ["E f .", "F e .", "Ef ."])]
    for name in ("train", "dev"):
        lines = [json.dumps({"concept_set": concepts, "scene": sentences}) for concepts, sentences in rows]
        write(tmp_path / "data" / f"commongen.{name}.jsonl", lines)
    write(tmp_path / "data" / "commongen.test.jsonl", [json.dumps({"concept_set": "a#b", "scene": []})])
    # The expected files come from aligned text in which every pair has its own line.
    for side in (0, 1):
        pairs = [(concepts.replace("#", " "), *texts[n : n + 1]) for n in range(3) for concepts, texts in rows]
        lines = [pair[side] for pair in pairs if len(pair) == 2]
        for split in ("train", "valid"):
            write(tmp_path / "plain" / f"{split}.{('src', 'tgt')[side]}", lines)
    for data in ("data", "plain"):
        assert run("commongen", "--data", tmp_path / data, "--output", tmp_path / f"{data}.out", "--references") == 0
        found = prepared(tmp_path / f"{data}.out")
        assert len(found["train.src"]) == 6
        assert set(found) == {"train.src", "train.tgt", "valid.src", "valid.tgt", *(f"valid.ref{n}" for n in range(3))}
        grouped = zip(*(found[f"valid.{end}"] for end in ("src", "tgt", "ref0", "ref1", "ref2")), strict=True)
        assert {source: (target, {*references}) for source, target, *references in grouped} == {
            "a b": ("A b .", {"A b .", "B a ."}),
            "c d": ("C d .", {"C d ."}),
            "e f": ("E f .", {"E f .", "F e .", "Ef ."}),
        }


def test_scripts_name_no_folder_of_a_machine():
    paths = Path(importlib.import_module("quora").__file__).parent.rglob("*.py")
    named = {path.name: found for path in paths if (found := FOLDERS.findall(path.read_text(encoding="utf-8")))}
    assert not named


FOLDERS = re.compile(r"/(?:home|work|root|Users|mnt|data|tmp)\b(?=[/\s\"'.])")


def test_a_script_without_docstrings_has_no_description():
    """With PYTHONOPTIMIZE=2, the scripts that recipes call ended with a traceback."""
    assert outputs_parser("undo_text", None).description == ""
