"""fairseq-interactive, with tiny random models, prints one output per line in order, or one error sentence."""

import contextlib
import copy
import functools
import io
import re
import tempfile
from pathlib import Path

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import interactive
from hypothesis import strategies as st
from omegaconf import DictConfig

from tests.fuzz.models import data_folder, save_random_model
from tests.fuzz.text import attempt, budgets, damaged, files, long_text, paragraphs, texts
from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.output_reader import read_generated

SIZES = ["--embed-dim", "8", "--hidden-size", "8"]
SENTENCES, TOPICS = ["--task", "paraphrase"], ["--task", "topic_essay"]
# For each family, the training options and the options of fairseq-interactive.
FAMILIES = {
    "wean_lstm": (
        [*SENTENCES, "--arch", "wean_lstm", *SIZES, "--encoder-layers", "1", "--decoder-layers", "1"],
        [*SENTENCES, "--replace-unk"],
    ),
    "copynet": ([*SENTENCES, "--arch", "copynet", *SIZES], SENTENCES),
    "pointer_generator": ([*SENTENCES, "--arch", "pointer_generator", *SIZES], [*SENTENCES, "--copy-fold-case"]),
    "mta_lstm": ([*TOPICS, "--arch", "mta_lstm", *SIZES], [*TOPICS, "--essay-length", "4"]),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def checkpoint(data: Path, family: str) -> Path:
    return save_random_model(data, family, FAMILIES[family][0])


@functools.cache
def configuration(data: Path, checkpoint: Path, *more: str) -> DictConfig:
    """Return the configuration of fairseq-interactive. fairseq takes half a second to create it."""
    line = [str(data), "-s", "src", "-t", "tgt", "--cpu", "--path", str(checkpoint), *more]
    line += ["--beam", "2", "--max-len-a", "0", "--max-len-b", "4", "--no-progress-bar"]
    parser = options.get_interactive_generation_parser()
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, input_args=line))


def answer(data: Path, checkpoint: Path, given: Path, *more: str) -> str:
    """Return the output of fairseq-interactive for a file."""
    cfg = copy.deepcopy(configuration(data, checkpoint, *more))
    cfg.interactive.input = str(given)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        interactive.main(cfg)
    return out.getvalue()


def words(line: str) -> str:
    """Return a line as the task reads it, with single spaces between words."""
    return " ".join(re.split(r"\s+", line.strip())).strip()


def sources(said: str) -> list[str]:
    """Return the texts of the S lines."""
    return re.findall(r"^S-\d+\t(.*)$", said, flags=re.MULTILINE)


BUFFERS = st.sampled_from([[], ["--buffer-size", "2"], ["--buffer-size", "3", "--batch-size", "2"]])


def check_answers(data: Path, checkpoint: Path, lines: list[str], content: bytes, *more: str) -> None:
    """Assert that every line has an answer with the number and the words of the line, and that the log is readable."""
    with tempfile.TemporaryDirectory() as place:
        given = Path(place, "given")
        given.write_bytes(content)
        said = answer(data, checkpoint, given, *more)
        assert sources(said) == [words(line) for line in lines]
        given.write_text(said, encoding="utf-8", newline="")
        if lines:
            found = read_generated("", given, oov_source=[words(line) for line in lines])
            assert len(found.hypotheses) == len(lines)
            assert not any(re.search(r"\s", text.replace(" ", "")) for text in found.hypotheses)


@pytest.mark.parametrize("family", ["wean_lstm", "copynet", "pointer_generator"], scope="module")
@budgets(5, 300)
def test_every_line_is_answered_in_its_place(examples, reliability, data, checkpoint, family):
    def check(lines, drawn, buffer):
        content = drawn.draw(files(lines)).content
        check_answers(data, checkpoint, lines, content, *FAMILIES[family][1], *buffer)

    attempt(examples, reliability, check, lines=paragraphs(0), drawn=st.data(), buffer=BUFFERS)


@pytest.mark.parametrize("family", ["mta_lstm"], scope="module")
@budgets(5, 300)
def test_topics_are_answered_or_their_line_is_named(examples, reliability, data, checkpoint, family):
    def check(lines, drawn, buffer):
        content = drawn.draw(files(lines)).content
        counts = [len(line.split()) if "</d>" not in line.split() else 0 for line in lines]
        bad = [number for number, count in enumerate(counts, start=1) if not 1 <= count <= 5]
        if not bad:
            check_answers(data, checkpoint, lines, content, *FAMILIES[family][1], *buffer)
            return
        with pytest.raises(UserError, match=r"the input has \d+ (topic )?line") as refused:
            check_answers(data, checkpoint, lines, content, *FAMILIES[family][1], *buffer)
        assert int(re.search(r"\(line (\d+)", str(refused.value))[1]) in bad

    topics = paragraphs(extra=("w1", "w2 w3", "w4 Quill"))
    attempt(examples, reliability, check, lines=topics, drawn=st.data(), buffer=BUFFERS)


@pytest.mark.parametrize("family", ["copynet"], scope="module")
@budgets(5, 200)
def test_what_is_no_text_is_refused_by_its_line(examples, reliability, data, checkpoint, family):
    def check(file):
        with tempfile.TemporaryDirectory() as place:
            given = Path(place, "given")
            given.write_bytes(file.content)
            with pytest.raises(UserError, match=rf"line \d+ of {re.escape(str(given))} is not UTF-8") as refused:
                answer(data, checkpoint, given, *FAMILIES[family][1])
            line = int(re.search(r"line (\d+) of", str(refused.value))[1])
            assert "\ufffd" in file.content.split(b"\n")[line - 1].decode(errors="replace")

    attempt(examples, reliability, check, file=paragraphs().flatmap(damaged))


@pytest.mark.parametrize("family", ["copynet", "wean_lstm"], scope="module")
@budgets(2, 40)
def test_a_line_of_100000_characters_is_answered_or_refused(examples, reliability, data, checkpoint, family):
    def check(line, other):
        with tempfile.TemporaryDirectory() as place:
            given = Path(place, "given")
            given.write_text(f"{other}\n{line}\n", encoding="utf-8", newline="")
            if len(line.split()) <= 1023:
                check_answers(data, checkpoint, [other, line], given.read_bytes(), *FAMILIES[family][1])
                return
            with pytest.raises(UserError, match=r"longer than this model takes .*, first number 1 "):
                answer(data, checkpoint, given, *FAMILIES[family][1])

    attempt(examples, reliability, check, line=long_text(), other=texts().map(lambda line: line.lstrip("\ufeff")))


@pytest.mark.parametrize("family", ["wean_lstm"], scope="module")
def test_a_sentence_that_no_batch_can_hold_is_refused(data, checkpoint, family, tmp_path):
    (tmp_path / "given").write_text("w1 w2\nw1 w2 w3 w4\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"--max-tokens 4 is the size of a batch, but a sentence has 5 tokens"):
        answer(data, checkpoint, tmp_path / "given", *FAMILIES[family][1], "--max-tokens", "4")


@pytest.mark.parametrize("family", ["wean_lstm"], scope="module")
def test_a_file_that_is_not_there_is_one_sentence(data, checkpoint, family, tmp_path):
    with pytest.raises(UserError, match=r"nowhere cannot be read \(No such file or directory\)"):
        answer(data, checkpoint, tmp_path / "nowhere", *FAMILIES[family][1])
