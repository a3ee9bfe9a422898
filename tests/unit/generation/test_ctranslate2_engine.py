"""Test that search with CTranslate2 has the same outputs, attention and options as the search of this package."""

import numpy as np
import pytest
import torch

from tests.unit.generation.models import ARCHS, TRANSFORMER, WORDS, build, words_dictionary
from wean_fairseq.errors import UserError
from wean_fairseq.generation import TextModel
from wean_fairseq.generation.cli import build_parser
from wean_fairseq.generation.ctranslate2_engine import CTranslate2Engine
from wean_fairseq.generation.loading import load
from wean_fairseq.storage.search import NO_UNKNOWN

LINES = ["what is the best way to learn python ?", "", "how do i lose weight", "friend is who , café ."]
CPU = torch.device("cpu")
PADDING = 4 + len(WORDS)  # the last entry of the dictionary, added by fairseq


@pytest.fixture
def padding(monkeypatch):
    """Add a padding entry to the dictionary, as fairseq does to fill it up."""
    dictionary = words_dictionary()
    dictionary.add_symbol("madeupword0000", n=0)
    monkeypatch.setattr("tests.unit.generation.models.words_dictionary", lambda: dictionary)


@pytest.fixture
def models(tmp_path, monkeypatch):
    """Return two models with the same weights, the first searched by PyTorch and the second by CTranslate2."""
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    monkeypatch.setitem(ARCHS, "copy_transformer", {**TRANSFORMER, "copy_mode": "none"})
    model, other = (build(tmp_path, "copy_transformer") for _ in range(2))
    for one in (model, other):
        one.replaces_unknown = False
    other.engine = CTranslate2Engine(other.model, other.task, CPU, "float32")
    other._generator = None
    return model, other


@pytest.mark.parametrize("beam", [1, 4])
def test_the_best_output_and_its_attention_are_those_of_fairseqs_search(models, beam):
    """The expected outputs come from the search of this package, which other tests compare with fairseq's search.

    All outputs are cut at 12 words, so their scores are means without the end symbol. The attention has no row for the
    end symbol either.
    """
    expected, found = (model.explain(LINES, beam=beam) for model in models)
    assert [one.source for one in found] == [one.source for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert [output.text for output in one.outputs] == [output.text for output in other.outputs]
        for output, same in zip(one.outputs, other.outputs, strict=True):
            assert output.tokens == same.tokens and len(output.tokens) == 13
            assert output.score == pytest.approx(np.log2(same.probabilities[:-1]).mean(), abs=0.01)
            steps = slice(0 if beam == 1 else 1, -1)  # for several lines with a beam, the first word has no attention
            np.testing.assert_allclose(output.attention[steps, :-1], same.attention[steps, :-1], atol=1e-4)
            assert np.isnan(output.attention[0]).all() == (beam > 1)
            assert np.isnan(output.probabilities).all()


def test_an_unknown_first_word_is_replaced_as_in_fairseqs_search(models):
    """CTranslate2 shares the attention of the first word between lines, so this model searches line by line."""
    for model in models:
        model.replaces_unknown = True
        with torch.no_grad():
            model.model.decoder.output.bias[model.task.target_dictionary.unk()] += 6
    model, other = models
    other.engine, other._generator = CTranslate2Engine(other.model, other.task, CPU, "float32"), None
    assert {one.outputs[0].tokens[0] for one in other.explain(LINES) if one.outputs} == {"<unk>"}
    without = other.explain(LINES, unkpen=NO_UNKNOWN)
    assert not any("<unk>" in output.tokens for one in without for output in one.outputs)
    assert other.generate(LINES) == model.generate(LINES)


def test_padding_of_the_dictionary_is_never_written(padding, models):
    """Both searches must give the same output if padding has the highest score."""
    model, other = models
    for one in models:
        with torch.no_grad():
            one.model.decoder.output.bias[PADDING] += 20
    other.engine, other._generator = CTranslate2Engine(other.model, other.task, CPU, "float32"), None
    texts = other.generate(LINES)
    assert "madeupword0000" not in " ".join(texts) and texts[0]
    assert other.generate(LINES, beam=1) == model.generate(LINES, beam=1)
    with pytest.raises(UserError, match="the constraint 'madeupword0000' has no word, or one that is not in the dict"):
        model.generate("what is", constraints=["madeupword0000"])


def test_lengths_and_repetitions_are_limited(models):
    _, model = models
    assert all(len(text.split()) <= 3 for text in model.generate(LINES, max_len_b=3))
    assert all(len(text.split()) >= 5 for text in model.generate(LINES, min_len=5) if text)
    words = [text.split() for text in model.generate(LINES, no_repeat_ngram_size=1)]
    assert all(len(set(line)) == len(line) for line in words)


def test_a_minimum_above_the_maximum_is_refused(models):
    with pytest.raises(UserError, match=r"--min-len 50 is more than the \d+ words that an output may have"):
        models[1].generate(LINES, min_len=50, max_len_a=1.0)


@pytest.mark.parametrize("options", [{"unkpen": 1.0}, {"diverse_beam_groups": 2, "beam": 4}, {"sampling": True}])
def test_options_that_the_library_lacks_are_rejected(models, options):
    with pytest.raises(UserError, match=f"CTranslate2 has no option {next(iter(options))}: leave it out"):
        models[1].generate(LINES, **options)


def test_other_types_and_presets_are_rejected(models):
    model, _ = models
    with pytest.raises(UserError, match=r"no compute type .int3. on this machine: choose from .*float32"):
        CTranslate2Engine(model.model, model.task, CPU, "int3")
    model.task.cfg.search_preset = "wean"
    with pytest.raises(UserError, match="no search preset wean"):
        CTranslate2Engine(model.model, model.task, CPU, "float32")


def test_models_that_copy_are_rejected(tmp_path):
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    model: TextModel = build(tmp_path, "copy_transformer")
    with pytest.raises(UserError, match="cannot copy words"):
        CTranslate2Engine(model.model, model.task, CPU, "float32")


def test_unknown_engines_are_rejected_before_anything_is_read():
    with pytest.raises(UserError, match="the engine must be one of pytorch, ctranslate2, but is 'onnx'"):
        load("nowhere", engine="onnx")
    with pytest.raises(UserError, match="'int8' is an option of the engine ctranslate2"):
        load("nowhere", compute_type="int8")
    with pytest.raises(SystemExit):
        build_parser().parse_args(["--model", "m", "--engine", "onnx"])
