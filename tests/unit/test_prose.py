"""Test that the check of the project's English finds each phrase where it occurs, and no others."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("prose", ROOT / "scripts" / "prose.py")
prose = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(prose)


def found(path, text):
    path.write_text(text, encoding="utf-8")
    return [message.removeprefix(f"{path}:") for message in prose.findings(path)]


@pytest.mark.parametrize(
    ("sentence", "phrase"),
    [
        ("A run that goes on with its last checkpoint.", "goes on with"),
        ("The folder is made anew.", "anew"),
        ("The target is read likewise.", "likewise"),
        ("Each has a folder of its own.", "of its own"),
        ("Write a line a sentence.", "a line a sentence"),
        ("The text stays as it is.", "as it is"),
        ("A dash in the place of NaN.", "in the place of"),
        ("The paper was not at hand.", "at hand"),
        ("Whoever reads this file.", "Whoever"),
        ("Refuse whatever is there.", "whatever is"),
        ("Of what is no number, a dash.", "is no number"),
        ("Refuse a value that is no path and no name.", "is no path and"),
        ("Return the fields: what has changed.", ": what has"),
        ("Read so many lines.", "so many"),
        ("Mend the row.", "Mend"),
        ("The log tells of it.", "tells of"),
        ("Names are kept for ever.", "for ever"),
        ("Zeros stand in for them.", "stand in for"),
    ],
)
def test_each_phrase_is_found(tmp_path, sentence, phrase):
    (message,) = found(tmp_path / "page.md", f"{sentence}\n")
    assert message.startswith(f"1: {phrase!r}: write: ")


def test_every_pattern_has_an_example():
    """Every pattern has at least one example sentence in the test above."""
    marks = test_each_phrase_is_found.pytestmark
    sentences = [sentence for sentence, _ in marks[0].args[1]]
    assert [p for p in prose.PHRASES if not any(re.search(p, text, re.IGNORECASE) for text in sentences)] == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Resume from the last checkpoint, and write one line per sentence.",
        "There is no longer a limit, as it is not needed.",
        "Return what the caller needs if there is no default.",
        "The option `go on` is code.",
    ],
)
def test_plain_sentences_pass(tmp_path, sentence):
    assert found(tmp_path / "page.md", f"{sentence}\n") == []


def test_docstrings_and_comments_are_read_but_not_other_strings(tmp_path):
    code = 'def f():\n    """Load it.\n\n    Then go on.\n    """\n    return "made anew"  # anew\n'
    messages = found(tmp_path / "code.py", code)
    assert [message.partition(": write")[0] for message in messages] == ["4: 'go on'", "6: 'anew'"]


def test_code_blocks_and_shell_commands_are_skipped(tmp_path):
    assert found(tmp_path / "page.md", "```bash\necho anew\n```\nanew\n") == ["4: 'anew': write: again, from scratch"]
    assert found(tmp_path / "run.sh", "echo anew\n  # anew\n") == ["2: 'anew': write: again, from scratch"]


def test_the_exit_status_says_whether_there_are_findings(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("Plain.\n", encoding="utf-8")
    assert prose.main([str(page)]) == 0
    page.write_text("Made anew.\n", encoding="utf-8")
    assert prose.main([str(page)]) == 1
    assert capsys.readouterr().out == f"{page}:1: 'anew': write: again, from scratch\n"


def test_all_folders_are_checked():
    names = set(prose.project_files())
    assert {"wean_fairseq/modules/steps.py", "preprocess/README.md", "examples/lib/recipe.sh", "CHANGELOG.md"} <= names
    assert "tests/unit/test_prose.py" in names
