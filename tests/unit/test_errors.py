"""Which errors are shown as one sentence, and which keep their traceback."""

import ast

import pytest
import torch
from fairseq import search
from fairseq.data import Dictionary, data_utils

from tests.model_contract import make_dictionary
from wean_fairseq.errors import UserError, printable, sentence_of


def raised(call, *arguments) -> BaseException:
    """The error of a call, with its traceback."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each case has another one
        call(*arguments)
    return caught.value


def ours(error: Exception) -> None:
    """An error of this project's code, or of a user's."""
    raise error


@pytest.mark.parametrize(
    ("call", "arguments", "says"),
    [
        (search.DiverseBeamSearch(make_dictionary(), 2, 0.5).step, (0, torch.ones(1, 3, 5), None), "requires --beam"),
        (data_utils.post_process, ("a", "nope"), "Unknown post_process option: nope."),
        (data_utils.numpy_seed(-1).__enter__, (), "Seed must be between 0 and"),
    ],
    ids=["option", "value", "seed"],
)
def test_fairseqs_own_words_about_options_are_a_sentence(call, arguments, says):
    said = sentence_of(raised(call, *arguments))
    assert said is not None and says in said and said.endswith(".")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("--beam was lost on the way"),
        AssertionError("a table row: --x--"),
        NotImplementedError("--yet"),
        OSError("Model file not found: x"),
        KeyError("--x"),
    ],
    ids=repr,
)
def test_what_looks_like_an_option_elsewhere_keeps_its_traceback(error):
    assert sentence_of(raised(ours, error)) is None


def test_an_error_of_the_operating_system_names_the_file(tmp_path):
    """Raised in fairseq's code, as for --tensorboard-logdir /dev/null; one without a file keeps its traceback."""
    path = str(tmp_path / " --x")
    assert sentence_of(raised(Dictionary().add_from_file, path)) == (
        f"{path} cannot be read or written (No such file or directory): look at its disk, or choose another place."
    )
    assert sentence_of(OSError(5, "Input/output error")) is None


def test_overrides_that_are_no_dictionary_are_a_sentence():
    """As fairseq-generate reads --model-overrides."""
    for text in ("__import__('os')", "{", "{'beam': 10**9}"):
        said = sentence_of(raised(ast.literal_eval, text))
        assert said.startswith("--model-overrides must be a dictionary, such as {'beam': 4} ("), text


def test_a_users_error_is_its_sentence_where_the_trainer_has_wrapped_it():
    def load() -> None:
        try:
            raise UserError("mend it.")
        except UserError:
            raise Exception("Cannot load model parameters from checkpoint")  # noqa: B904 - as the trainer does

    assert sentence_of(raised(load)) == "mend it."


def test_a_sentence_stays_on_one_line_whatever_it_quotes():
    assert str(UserError("a\r\nb is no name.")) == "a\\r\\nb is no name."


@pytest.mark.parametrize(
    "sign", ["\x1b", "\x07", "\x9b", "\r", "\n", "\x00", "\x7f", "\u2028", "\u202e", "\u2066", "\udcff"]
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
    """The beginning says what is wrong, the end what to do."""
    said = str(UserError(f"the parameter {'x' * 10**6} is unknown: delete the file."))
    assert len(said) < 5000
    assert said.startswith("the parameter xxx") and said.endswith("is unknown: delete the file.")
