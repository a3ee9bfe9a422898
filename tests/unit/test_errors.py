"""Test messages of errors: on one line, without control characters, and not too long."""

import errno

import pytest

from wean_fairseq.errors import UserError, printable, sentence_of


def raised(call, *arguments) -> BaseException:
    """Return the error of a call, with its traceback."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each case has a different type
        call(*arguments)
    return caught.value


def test_a_wrapped_user_error_is_its_sentence():
    def load() -> None:
        try:
            raise UserError("mend it.")
        except UserError:
            raise Exception("Cannot load model parameters from checkpoint")  # noqa: B904 - as the trainer does

    assert sentence_of(raised(load)) == "mend it."


def test_a_sentence_stays_on_one_line():
    assert str(UserError("a\r\nb is no name.")) == "a\\r\\nb is no name."


@pytest.mark.parametrize(
    "sign", ["\x1b", "\x07", "\x9b", "\r", "\n", "\x00", "\x7f", "\u2028", "\u202e", "\u2066", "\u061c", "\udcff"]
)
def test_control_characters_of_names_are_escaped(sign):
    """A file or parameter name such as ``ESC ] 0 ; title BEL`` would give commands to the terminal."""
    said = str(UserError(f"there is no file a{sign}b"))
    assert sign not in said and said == f"there is no file a{sign.encode('unicode_escape').decode()}b"


def test_other_characters_of_names_stay():
    assert printable("naïve 北京 \u00a0'\\' 👩‍🔬") == "naïve 北京 \u00a0'\\' 👩‍🔬"


def test_a_name_that_is_too_long_is_a_sentence(tmp_path):
    error = raised((tmp_path / ("n" * 300)).is_file)
    assert "is longer than the file system allows: shorten it." in str(sentence_of(error))


def test_a_message_that_quotes_a_long_name_is_cut_in_its_middle():
    """A long name in a message is cut, but the beginning (the problem) and the end (the solution) are kept."""
    said = str(UserError(f"the parameter {'x' * 10**6} is unknown: delete the file."))
    assert len(said) < 5000
    assert said.startswith("the parameter xxx") and said.endswith("is unknown: delete the file.")


def test_a_link_to_itself_is_one_sentence(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    said = sentence_of(raised(lambda: (tmp_path / "loop").resolve() / ""))
    assert said is not None and "is a symbolic link that leads to itself" in said


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
    ids=str,
)
def test_a_lack_of_memory_is_a_sentence(error):
    """Memory may be exhausted, for example under ``ulimit -v``, and then one sentence says so.

    The texts come from Python, glibc and torch.
    """
    assert str(sentence_of(error)).startswith("there is not enough memory (")
