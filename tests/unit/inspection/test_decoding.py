"""Test that the page and the task use the same search, with random weights for every kind of model."""

import json
import math
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: F401 - initialises fairseq's config store
from msgspec.structs import replace

from tests.model_contract import make_dictionary
from wean_fairseq.checkpoints.loading import Loaded
from wean_fairseq.errors import UserError
from wean_fairseq.generation import TextModel
from wean_fairseq.generation.outputs import Generated
from wean_fairseq.inspection.cli import worker
from wean_fairseq.inspection.decoding import System, decode
from wean_fairseq.inspection.question import Question
from wean_fairseq.tasks.paraphrase import ParaphraseConfig, ParaphraseTask
from wean_fairseq.tasks.topic_essay import TopicEssayConfig, TopicEssayTask
from wean_fairseq.text import TOKENS, Text

LAYERS = {"encoder_layers": 2, "decoder_layers": 2, "attention_heads": 2, "ffn_dim": 12}
ARCHS: dict[str, dict[str, Any]] = {
    "wean_lstm": {},
    "copynet": {},
    "pointer_generator": {},
    "copy_transformer": LAYERS,
    "granularity_transformer": {**LAYERS, "ga_start_layer": 2},
    "sc_lstm": {},
    "mta_lstm": {},
}
ESSAYS = ("sc_lstm", "mta_lstm")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for language in ("src", "tgt"):
        make_dictionary().save(str(tmp_path / f"dict.{language}.txt"))
        (tmp_path / f"test.src-tgt.{language}").write_text("w1\n", encoding="utf-8")
    return tmp_path


def build(data: Path, arch: str, **task_options: Any) -> System:
    kinds = (TopicEssayConfig, TopicEssayTask) if arch in ESSAYS else (ParaphraseConfig, ParaphraseTask)
    cfg = kinds[0](data=str(data), source_lang="src", target_lang="tgt", dataset_impl=None)
    for name, value in task_options.items():
        setattr(cfg, name, value)
    task = kinds[1].setup_task(cfg)
    torch.manual_seed(3)
    sizes = {"embed_dim": 8} if "ffn_dim" in ARCHS[arch] else {"embed_dim": 6, "hidden_size": 10}
    model = task.build_model(Namespace(_name=arch, arch=arch, **sizes, **ARCHS[arch])).eval()
    return System(arch, TextModel(Loaded(model, task, {}), Text(TOKENS)))


def question(text: str, **changes: Any) -> Question:
    return replace(Question(text, ("x",), 4, 2, 30), **changes)


def test_a_text_without_words_is_refused(data: Path):
    """The text steps of an exported model may remove all characters of a text, such as zero-width spaces."""
    with pytest.raises(UserError, match="the text has no words"):
        decode(build(data, "copynet"), question(""))


@pytest.mark.parametrize(
    ("arch", "text", "changes"),
    [
        ("copynet", "w1 " * 126, {"beam": 20}),  # 126 * 20 = 2,520 is more than the limit of 2,500
        ("copynet", "w " * 1000, {"beam": 3}),
        ("mta_lstm", "w1", {"beam": 20, "length": 126}),
    ],
)
def test_a_search_that_takes_minutes_is_refused(data: Path, arch: str, text: str, changes: dict[str, int]):
    """Without a limit, a text of 1,000 words with beam 20 took more than two minutes.

    During this time no other question was answered.
    """
    with pytest.raises(UserError, match=r"words with a beam of .* take too long: use at most"):
        decode(build(data, arch), question(text, **changes))


def test_a_model_that_writes_too_many_words_is_refused(data: Path):
    """Without a limit, a model folder that asks for 10,000 words occupied the only worker for more than 75 s."""
    system = build(data, "copynet")
    system.model.search_options |= {"min_len": 126, "max_len_b": 10_000}
    with pytest.raises(UserError, match="126 words with a beam of 20 take too long: use at most 125 words"):
        decode(system, question("w1", beam=20))


@pytest.mark.parametrize(
    ("search", "beam", "limit"),
    [
        ({"max_len_b": 10_000}, 20, {"max_len_a": 0.0, "max_len_b": 200}),
        ({"max_len_a": 100.0, "max_len_b": 226}, 4, {"max_len_a": 0.0, "max_len_b": 625}),  # 2,500 / 4
        ({"max_len_a": 1.0, "max_len_b": 621}, 4, {}),  # the source has three words and the end symbol
        ({"max_len_a": 1.0, "max_len_b": 622}, 4, {"max_len_a": 0.0, "max_len_b": 625}),
        ({}, 20, {}),
    ],
)
def test_the_output_has_at_most_2500_words_times_beam(data: Path, monkeypatch, search, beam, limit):
    system = build(data, "copynet")
    system.model.search_options |= search
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(system.model, "explain", lambda *_args, **options: calls.append(options) or [Generated()])
    with pytest.raises(UserError, match="the text has no words"):
        decode(system, question("w1 w2 w3", beam=beam))
    assert calls == [{"beam": beam, "essay_length": None, **limit}]


@pytest.mark.parametrize("arch", ARCHS)
def test_every_model_tells_what_it_has(arch: str, data: Path):
    system = build(data, arch)
    told = system.describe()
    shown = decode(system, question("w1 Zorblax w2"))
    copies = arch in ("copynet", "pointer_generator", "copy_transformer")
    essay = arch in ESSAYS
    assert told == {
        "name": arch,
        "arch": arch,
        "topics": essay,
        "needs_length": arch == "mta_lstm",
        "beam": 5,
        "copies": copies,
        "granularity": arch == "granularity_transformer",
        "text": "words between spaces",
        "example": "",
    }
    read = ["w1", "Zorblax", "w2", "</s>"]
    assert [(word["word"], word["known"]) for word in shown["source"]] == list(zip(read, [1, 0, 1, 1], strict=True))
    assert len(shown["outputs"]) == 2
    scores = [output["score"] for output in shown["outputs"]]
    assert scores == sorted(scores, reverse=True)
    for output in shown["outputs"]:
        words = output["words"]
        assert words[-1]["word"] == "</s>"
        mean = sum(math.log2(word["probability"]) for word in words) / len(words)
        # With the default length penalty 1, the score of fairseq is the mean of the log-probabilities.
        assert output["score"] == pytest.approx(mean, abs=0.02)
        assert all(("attention" in word) == (arch != "sc_lstm") for word in words)
        assert all(("copied" in word) == copies for word in words)
        if copies:
            assert all(word["copied"] == pytest.approx(1, abs=1e-3) for word in words if word["word"] == "Zorblax")
    assert shown["attends"] == (arch != "sc_lstm")
    has_z = [list(word.get("granularity", [])) for word in shown["source"]]
    assert has_z == [["2"] if arch == "granularity_transformer" else []] * 4
    assert set(shown["neighbours"]["source"]) == {"w1", "w2"}
    json.dumps(shown, allow_nan=False)


@pytest.mark.parametrize("arch", [arch for arch in ARCHS if arch not in ESSAYS])
def test_each_word_has_its_own_attention_and_probability(arch: str, data: Path):
    """The expected values come from one forward pass over the source and the whole output, as in training."""
    system = build(data, arch)
    with torch.no_grad():
        for weights in system.model.model.parameters():
            # without this change, all words have the same attention
            weights.mul_(4).add_(torch.randn_like(weights), alpha=0.5)
    dictionary = system.model.task.target_dictionary
    source = torch.tensor([[*(dictionary.index(f"w{number}") for number in (3, 1, 4, 1, 5)), dictionary.eos()]])
    for output in decode(system, question("w3 w1 w4 w1 w5", length=30))["outputs"]:
        tokens = torch.tensor([[dictionary.index(word["word"]) for word in output["words"]]])
        with torch.no_grad():
            scores, extra = system.model.model(source, torch.tensor([6]), tokens.roll(1, dims=1))
        probabilities = scores.float().log_softmax(dim=-1).exp().gather(2, tokens.unsqueeze(2))[0, :, 0]
        assert [word["probability"] for word in output["words"]] == pytest.approx(probabilities.tolist(), abs=2e-4)
        attention = extra["attn"][0][0]
        assert attention.diff(dim=0).abs().max() > 0.1
        for word, expected in zip(output["words"], attention.tolist(), strict=True):
            shown = [word["attention"].get(place, 0.0) for place in range(6)]
            assert shown == pytest.approx(expected, abs=0.006)  # the page omits attention below 0.005


def test_the_search_is_as_wide_as_that_of_the_other_commands(data: Path):
    """The expected result is the output of ``wean-generate --nbest 2``. The beam of 2 allows only two outputs."""
    system = build(data, "wean_lstm")
    system.model.search_options["beam"] = 2
    shown = decode(system, question("w1 w2", beam=None, outputs=5))
    assert [output["text"] for output in shown["outputs"]] == system.model.generate("w1 w2", n_best=2)
    assert system.describe()["beam"] == 2


def test_topics_that_are_too_many_are_counted_in_plain_words(data: Path):
    system = build(data, "sc_lstm", max_topics=3)
    with pytest.raises(UserError, match="the text has 4 topics, and the model reads at most 3: shorten it"):
        decode(system, question("w1 w2 w3 w4"))


def test_a_text_that_is_cut_is_not_too_long(data: Path):
    cut = build(data, "wean_lstm", length_policy="truncate", max_pair_length=2)
    assert [word["word"] for word in decode(cut, question("w1 w2 w3 w4"))["source"]] == ["w1", "w2", "</s>"]
    cut.model.task.cfg.max_source_positions = 3
    assert len(decode(cut, question("w1 w2 w3 w4"))["source"]) == 3
    whole = build(data, "wean_lstm", max_source_positions=3)
    with pytest.raises(UserError, match="the text has 3 words, and the model reads at most 2: shorten it"):
        decode(whole, question("w1 w2 w3"))


def test_one_system_that_cannot_read_it_does_not_keep_the_other_from_it(data: Path):
    names = ("wean_lstm", "sc_lstm")
    work = worker([build(data, "wean_lstm"), build(data, "sc_lstm", max_topics=1)])
    counted: list[int] = []
    results = work(question("w1 w2", systems=names), counted.append)
    assert counted == [1, 2]
    assert len(results[0]["outputs"]) == 2
    assert results[1] == {
        "system": "sc_lstm",
        "error": "the text has 2 topics, and the model reads at most 1: shorten it.",
    }


def test_a_question_leaves_nothing_behind_for_the_next(data: Path):
    system = build(data, "copynet")
    first = decode(system, question("w1 Zorblax"))
    decode(system, question("Other Zorblax Words w2"))
    assert decode(system, question("w1 Zorblax")) == first
    assert system.model.task.source_dictionary._spellings == []  # words of questions must not accumulate in memory


def test_topics_with_an_essay_are_told_what_to_give_instead(data: Path):
    with pytest.raises(UserError, match=r"^</d> separates an essay from its topics: give only the topics"):
        decode(build(data, "sc_lstm"), question("w1 </d> w2"))
