"""Files and lines that fairseq reads in its own way."""

import re
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
from fairseq import utils
from fairseq_cli import interactive

from wean_fairseq.errors import UserError
from wean_fairseq.host.patches import install
from wean_fairseq.host.table import PATCHES


def test_replace_unk_without_a_file_means_the_word_itself(tmp_path):
    assert utils.load_align_dict("@@ ") == {}  # fairseq's value of the flag without a file
    assert utils.load_align_dict("") == {}
    assert utils.load_align_dict(None) is None
    (tmp_path / "words.txt").write_text("cat dog\n")
    assert utils.load_align_dict(str(tmp_path / "words.txt")) == {"cat": "dog"}


@pytest.mark.parametrize("origin", ["fairseq_cli.interactive", "the.script.of.a.user"])
def test_fairseq_interactive_reads_typed_lines(monkeypatch, tmp_path, origin):
    """The command is imported by its entry point, and runs as ``__main__`` with ``python -m``."""
    command = ModuleType("__main__")
    command.__spec__, command.buffered_read = ModuleSpec(origin, None), interactive.buffered_read.__wrapped__
    monkeypatch.setitem(sys.modules, "__main__", command)
    install([patch for patch in PATCHES if patch.target == "fairseq_cli.interactive:buffered_read"])
    (tmp_path / "input").write_bytes(b"\xef\xbb\xbfa\r\nb")  # with a byte order mark
    expected = [["a", "b"]]
    assert list(interactive.buffered_read(str(tmp_path / "input"), 2)) == expected
    read = list(command.buffered_read(str(tmp_path / "input"), 2))
    assert (read == expected) == (origin == "fairseq_cli.interactive")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "it is not a regular file"),
        (b"cat dog\nbird\n", "a line has fewer than two words"),
        (b"cat \xff\n", "it is not UTF-8: invalid start byte"),
    ],
)
def test_a_file_of_replace_unk_that_cannot_be_used_is_named(tmp_path, content, said):
    """A device or a pipe has no end."""
    path = tmp_path / "words.txt"
    if content is None:
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(content)
    with pytest.raises(UserError, match=re.escape(f"--replace-unk {path} cannot be read ({said}): give a word and ")):
        utils.load_align_dict(str(path))
