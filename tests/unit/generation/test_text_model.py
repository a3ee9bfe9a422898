"""Test models that read and write text, of every kind.

Each line has one output, which does not depend on the rest of the batch.
"""

import copy
import json
import pickle
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from tests.model_contract import EOS, collate, task_inputs
from tests.unit.generation.models import ARCHS, ESSAYS, MOSES, build
from wean_fairseq.checkpoints.loading import Loaded, StoredModel
from wean_fairseq.errors import UserError
from wean_fairseq.generation import Generated, TextModel, load
from wean_fairseq.text import TOKENS, TextSettings

LINES = ["What's the BEST way?", "", "  ", "how do i lose weight", 'who is "Zorblax", the café friend?', "\u200b"]
TOPICS = ["what how", "", "  ", "friend", "best way café", "\u200b"]


def texts_of(arch: str) -> tuple[list[str], dict[str, int]]:
    return (TOPICS if arch in ESSAYS else LINES), ({"essay_length": 5} if arch == "mta_lstm" else {})


@pytest.mark.parametrize("arch", ARCHS)
def test_a_line_has_the_output_that_it_has_alone(arch: str, tmp_path: Path):
    model = build(tmp_path, arch, MOSES)
    lines, options = texts_of(arch)
    together = model.generate(lines, batch_size=3, **options)
    assert [bool(line) for line in together] == [
        bool(line.strip(" \u200b")) and bool(text) for line, text in zip(lines, together, strict=True)
    ]
    assert together == [model.generate(line, **options) for line in lines]
    assert together[1] == together[2] == together[5] == ""
    assert all(together[place] for place in (0, 3, 4))


@pytest.mark.parametrize("arch", ARCHS)
def test_n_best_come_best_first_with_the_best_one_of_the_single_answer(arch: str, tmp_path: Path):
    model = build(tmp_path, arch, MOSES)
    lines, options = texts_of(arch)
    found = model.explain(lines, 3, **options)
    assert [[output.text for output in item.outputs] for item in found] == model.generate(lines, n_best=3, **options)
    assert model.generate(lines[0], n_best=3, **options) == [output.text for output in found[0].outputs]
    assert [len(item.outputs) for item in found] == [3, 0, 0, 3, 3, 0]
    assert found[1] == Generated()
    for item in found:
        scores = [output.score for output in item.outputs]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("arch", ARCHS)
def test_arrays_have_the_shapes_of_the_tokens(arch: str, tmp_path: Path):
    model = build(tmp_path, arch)
    lines, options = texts_of(arch)
    network, pair = model.model, [torch.tensor([4, EOS])]
    batch = collate(pair, pair)
    attends = network(**{**batch, "target": None}, **task_inputs(network, batch))[1]["attn"] != [None]
    for item in model.explain([lines[0], lines[4]], 2, **options):  # the shorter line is padded
        assert item.source[-1] == "</s>"
        for output in item.outputs:
            assert output.tokens[-1] == "</s>"
            sizes = (len(output.tokens), len(item.source))
            assert output.probabilities.shape == sizes[:1]
            assert np.log2(output.probabilities).mean() == pytest.approx(output.score, abs=1e-4)
            assert (output.attention is not None) == attends
            assert output.attention is None or output.attention.shape == sizes
            assert (output.copied is not None) == model.copies
            if model.copies:
                assert (output.copied.shape, output.copied_from.shape) == (sizes[:1], sizes)
            if model.has_granularity:
                assert {z.shape for z in output.granularity.values()} == {sizes[:1]}
                assert {z.shape for z in item.granularity.values()} == {sizes[1:]}
                assert all(np.isnan(z[-1]) and not np.isnan(z[:-1]).any() for z in output.granularity.values())


def test_unknown_words_stand_where_they_were_copied_or_attended_to(tmp_path: Path):
    """CopyNet may write <unk> as a word.

    WEAN replaces <unk> by the source word with the most attention, so no output contains <unk>.
    """
    for arch in ("copynet", "wean_lstm"):
        model = build(tmp_path / arch, arch, MOSES)
        with torch.no_grad():
            for name, weights in model.model.named_parameters():
                if "embed" in name:
                    weights[model.task.target_dictionary.unk()] *= 5
        texts = model.generate(["zorblax zyx", "what zorblax"], n_best=4)
        assert not any("<unk>" in text for item in texts for text in item if arch == "wean_lstm")


def test_unknown_words_of_fset_are_words_of_the_sentence_alone(tmp_path: Path):
    """The words that replace <unk> come from the sentence, never from the pair, and are never the separator.

    FSET reads the separator as the end symbol, which gets much of the attention in this model.
    """
    model = build(tmp_path, "fset")
    end, unknown = (model.task.target_dictionary.index(word) for word in ("</s>", "<unk>"))
    with torch.no_grad():
        model.model.encoder.network.embedding.words.weight[end] *= 5
        model.model.decoder.word_embeddings[unknown] *= 5
    found = model.explain("zorblax zyx <pair> what is <pair> who is", n_best=4)[0].outputs
    assert any("<unk>" in output.tokens for output in found)
    words = {word for output in found for word in output.text.split() if "<unk>" in output.tokens}
    assert "<pair>" not in words
    assert words & {"zorblax", "zyx"}


def test_what_is_too_long_is_refused_by_its_line_or_cut(tmp_path: Path):
    model = build(tmp_path, "wean_lstm", max_source_positions=4)
    with pytest.raises(UserError, match=r"^line 2: the text has 4 words, and the model reads at most 3: shorten it\.$"):
        model.generate(["what", "what is the way"])
    with pytest.raises(UserError, match=r"^the text has 4 words"):
        model.generate("what is the way")
    whole, cut = model.explain(["what is the", "what is the way"], cut=True)
    assert (whole.cut, cut.cut) == (False, True)
    assert whole.source == cut.source
    assert whole.outputs[0].text == cut.outputs[0].text


def test_a_wrong_line_is_named_by_its_number(tmp_path: Path):
    model = build(tmp_path, "sc_lstm", max_topics=2)
    with pytest.raises(UserError, match=r"^line 12: the text has 3 topics, and the model reads at most 2"):
        model.explain(["what", "what is how"], first=11)
    with pytest.raises(UserError, match=r"^line 12: </d> separates an essay from its topics"):
        model.explain(["", "</d> what"], first=11)
    for _ in range(2):  # each search numbers its own lines
        with pytest.raises(UserError, match=r"\(line 2\)"):
            list(model.search(["what", "</d> what"]))


def test_many_unknown_words_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    model = build(tmp_path, "wean_lstm", TextSettings(unit="moses"))
    [found] = model.explain("What IS The Best zorblax way")
    assert found.unknown == "5 of 6 words are not in the dictionary: was the model trained on lower-cased text?"
    model.generate("What IS The")
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [found.unknown]  # the warning appears only once
    assert model.explain("zorblax way")[0].unknown.endswith(
        "1 of 2 words are not in the dictionary: was the model trained on such text?"
    )
    # One unknown word in five is exactly 20 %, which does not cause a warning.
    assert model.explain("what is the best zorblax")[0].unknown == ""


def test_marks_of_tokens_join_them_in_outputs(tmp_path: Path):
    """A model with random weights writes words and joiner marks in any order.

    Every output is one line, joined according to its tokens.
    """
    model = build(tmp_path, "copynet", TextSettings(unit="joiner"))
    [found] = model.explain("what, isn’t “the” way?")
    assert found.source[:-1] == ["what", "￭,", "isn", "￭’t", "“￭", "the", "￭”", "way", "￭?"]
    for output in found.outputs:
        assert output.text == model.text.restore(" ".join(output.tokens[:-1]))
        assert "￭" not in output.text


def test_words_that_were_read_are_not_kept(tmp_path: Path):
    model = build(tmp_path, "copynet", MOSES)
    first = model.generate("zorblax is zyx")
    size = len(model.task.source_dictionary._spellings)
    assert model.generate(["qwop zyx", "zorblax is zyx"])[1] == first
    assert len(model.task.source_dictionary._spellings) == size == 0


def test_threads_wait_for_one_another(tmp_path: Path):
    model = build(tmp_path, "copynet", MOSES)
    lines = [f"{word} zorb{number} the way" for number, word in enumerate(("what", "how", "who", "best"))]
    expected = [model.generate(line) for line in lines]
    found: dict[int, str] = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: model.generate(lines[n % 4])})) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[n] for n in range(12)] == expected * 3


def test_a_wide_answer_needs_a_wide_beam_and_numbers_are_checked(tmp_path: Path):
    model = build(tmp_path, "wean_lstm")
    assert len(model.generate("what is", n_best=6)) == 6  # more outputs than the beam of 4
    assert model.generate("what is", details=True) == model.generate("what is")  # only explain has a details argument
    with pytest.raises(UserError, match="beam must be a whole number of 1 to 2147483647, but is 0"):
        model.generate("what", beam=0)
    for name in ("n_best", "beam", "essay_length", "batch_size"):  # the batch size is used by C code, too
        with pytest.raises(UserError, match=f"{name} must be a whole number of 1 to 2147483647, but is 10000000"):
            model.generate("what", **{name: 10**30})
    assert model.generate([]) == []
    json.dumps(model.generate("what\nis the way"))


# --- generation options ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["wean_lstm", "copynet", "copy_transformer"])
@pytest.mark.parametrize("preset", ["fairseq", "wean", "copynet"])
def test_sampling_is_reproducible_for_a_seed_and_different_for_another(arch, preset, tmp_path):
    """The presets of the papers are beam searches, and sampling replaces each of them."""
    model = build(tmp_path, arch)
    model.task.cfg.search_preset = preset
    lines, _ = texts_of(arch)
    before = torch.random.get_rng_state()
    drawn = [model.generate(lines, sampling=True, seed=seed, max_len_b=8) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert torch.equal(torch.random.get_rng_state(), before)
    assert model.task.cfg.search_preset == preset
    assert model.generate(lines, sampling=True, sampling_topk=1, seed=5) == model.generate(
        lines, sampling=True, sampling_topk=1, seed=6
    )  # only one word can be drawn


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        ({"max_len_a": 0.0, "max_len_b": 2}, lambda tokens: len(tokens) <= 3),
        ({"min_len": 6, "max_len_b": 8}, lambda tokens: len(tokens) >= 7),
        ({"no_repeat_ngram_size": 1}, lambda tokens: len(set(tokens)) == len(tokens)),
    ],
)
def test_an_option_of_a_call_holds_for_this_call_alone(options, holds, tmp_path):
    model = build(tmp_path, "wean_lstm")
    lines, _ = texts_of("wean_lstm")
    plain = model.generate(lines)
    for item in model.explain(lines, **options):
        assert all(holds(output.tokens) for output in item.outputs)
    assert model.generate(lines) == plain


def test_diverse_beams_begin_differently(tmp_path):
    """Four groups of one hypothesis each and a large penalty must give outputs with four different first words."""
    model = build(tmp_path, "wean_lstm")
    options = {"beam": 4, "diverse_beam_groups": 4, "diverse_beam_strength": 50.0}
    [item] = model.explain(texts_of("wean_lstm")[0][0], 4, **options)
    assert len({output.tokens[0] for output in item.outputs}) == 4


def test_diverse_beams_of_a_line_are_those_that_it_has_alone(tmp_path):
    model = build(tmp_path, "wean_lstm", MOSES)
    options = {"beam": 4, "diverse_beam_groups": 2, "diverse_beam_strength": 0.5}
    together = model.generate(LINES, 2, **options)
    assert together == [model.generate(line, 2, **options) for line in LINES]


@pytest.mark.parametrize("arch", ARCHS)
def test_an_output_has_its_constraints(arch, tmp_path):
    """Each line has its own constraints, and the words of a phrase follow one another."""
    model = build(tmp_path, arch)
    lines, _ = texts_of(arch)
    model.task.cfg.search_preset = "copynet"
    options = {"beam": 6, "max_len_b": 12, **({"essay_length": 6} if model.needs_length else {})}
    forced = [["friend"], ["way", "lose weight"], []]
    outputs = model.generate(lines[:1] * 3, constraints=forced, **options)
    for output, phrases in zip(outputs, forced, strict=True):
        assert all(f" {phrase} " in f" {output} " for phrase in phrases)
    assert outputs[2] == model.generate(lines[0], constraints=[], **options)
    for phrases in (["way", "friend"], ["friend", "way"]):
        words = model.generate(lines[0], constraints=phrases, ordered=True, **options).split()
        assert words.index(phrases[0]) < len(words) - 1 - words[::-1].index(phrases[1])


def test_constraints_are_prepared_like_the_text(tmp_path):
    model = build(tmp_path, "wean_lstm", MOSES)
    assert "café, " in model.generate("what is it ?", constraints=["Café,"], beam=6)


@pytest.mark.parametrize(
    ("text", "constraints", "message"),
    [
        ("what", ["way of"], "the constraint 'way of' has no word, or one that is not in the dictionary of the model"),
        (["what", "how"], [[], [" "]], "line 2: the constraint ' ' has no word"),
        (["what", " "], [["way"], ["way"]], "line 2: there are constraints, but the sentence has no words: give"),
        (["what", "how"], ["way"], "there are 2 sentences, and constraints for 1: give one list each"),
        (["what"], ["way"], "line 1: the constraints are 'way': give a list of words or phrases, and for several"),
        ("what", [7], r"the constraints are \[7\]: give a list of words or phrases"),
        (["what"], [7], "line 1: the constraints are 7: give a list of words or phrases"),
        (["what"], [{"way"}], "line 1: the constraints are {'way'}: give a list of words or phrases"),
        ("what", ["way " * 1000], "the constraints have 1000 words: give at most 500 for a line"),
        (["what", "how"], [["way"], ["way"] * 501], "line 2: the constraints have 501 words: give at most 500"),
        ("what", ["way </s>"], "the constraint 'way </s>' has no word, or one that is not in the dictionary"),
        ("what", ["way " * 13], "the constraints of a line do not fit into the 12 words that an output may have: give"),
    ],
)
def test_constraints_that_cannot_be_met_are_refused(text, constraints, message, tmp_path):
    with pytest.raises(UserError, match=message):
        build(tmp_path, "wean_lstm").generate(text, constraints=constraints)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topk": 5}, r"topk is not an option of generate: choose from n_best, beam, .*, sampling_topk, "),
        ({"nbest": 3}, r"nbest is not an option of generate \(did you mean n_best\?\): choose from n_best, beam, "),
        ({"temprature": 2}, r"temprature is not an option of generate \(did you mean temperature\?\)"),
        ({"sampling": 1}, "sampling must be True or False, but is 1"),
        *(({name: 1}, f"{name} must be True or False, but is 1") for name in ("details", "cut", "ordered")),
        ({"essay_length": 5}, "essay_length is for models that plan an essay by length: leave it out"),
        # min_len is 1 by default, so max_len_b 0 allows no output.
        ({"max_len_b": 0}, "--min-len 1 is longer than --max-len-b 0 allows"),
        ({"constraints": ["way"], "beam": 13}, "--beam 13 is more than half of the 25 words of the model: lower it"),
        ({"beam": 40, "diverse_beam_groups": 40}, "--beam 40 cannot be shared among --diverse-beam-groups 40"),
        ({"sampling": True, "min_len": 50, "max_len_a": 1.0}, r"--min-len 50 is more than the 17 words that an output"),
        (
            {"constraints": ["way", "way"], "no_repeat_ngram_size": 1},
            "do not fit into the 12 words .*, or repeat an n-gram of --no-repeat-ngram-size: give fewer",
        ),
        ({"min_len": 1.5}, r"min_len must be a whole number of 0 to 10000, but is 1\.5"),
        ({"max_len_b": -1}, "max_len_b must be a whole number of 0 to 10000, but is -1"),
        ({"no_repeat_ngram_size": 2**62}, "no_repeat_ngram_size must be a whole number of 0 to 2147483647, but is 46"),
        ({"lenpen": True}, "lenpen must be a number of -60 to 60, but is True"),
        ({"unkpen": "x"}, "unkpen must be a number, but is 'x'"),
        ({"unkpen": float("nan")}, "unkpen must be a number, but is nan"),
        ({"beam": True}, "beam must be a whole number of 1 to 2147483647, but is True"),
        ({"seed": True}, "seed must be a whole number of -9223372036854775807 to 9223372036854775807, but is True"),
        ({"first": "x"}, "first must be a whole number of 1 to 2147483647, but is 'x'"),
        ({"constraints": 5}, "the constraints are 5: give a list of words or phrases"),
        ({"temperature": 0.0}, r"temperature must be a number of 1e-30 to 1e\+30, but is 0"),
        ({"temperature": 1e-320}, r"temperature must be a number of 1e-30 to 1e\+30, but is 1e-320"),
        ({"temperature": 1e308}, r"temperature must be a number of 1e-30 to 1e\+30, but is 1e\+308"),
        ({"lenpen": 61}, "lenpen must be a number of -60 to 60, but is 61"),
        ({"diverse_beam_strength": float("nan")}, "diverse_beam_strength must be a number of .*, but is nan"),
        ({"sampling": True, "sampling_topp": 1.5}, "--sampling-topp must be .* 1, but is 1.5"),
        ({"sampling_topk": 3}, "--sampling-topk .* --sampling"),
        ({"seed": 1 << 63}, "seed must be a whole number of -.*, but is 9223372036854775808"),
        ({"seed": 1.5}, r"seed must be a whole number of -.*, but is 1\.5"),
        ({"sampling": True, "constraints": ["way"]}, "constraints are for beam search, without sampling and diverse"),
        ({"min_len": 500, "max_len_a": 1.0}, r"--min-len 500 is more than the \d+ words that an output may have"),
    ],
)
def test_options_that_mean_nothing_are_named(options, message, tmp_path):
    with pytest.raises(UserError, match=message):
        build(tmp_path, "wean_lstm").generate("what is it ?", **options)


@pytest.mark.parametrize("stored", [{"beam": -1}, {"beam": 0}, {"nbest": -3}, {"diverse_beam_groups": -7}])
def test_a_stored_search_out_of_range_is_refused(stored, tmp_path):
    """In earlier versions, a negative beam in the configuration of a model folder was silently replaced by 1."""
    model = build(tmp_path, "wean_lstm")
    (name,) = stored
    shown = name.replace("nbest", "n_best")
    with pytest.raises(UserError, match=f"^{shown} must be a whole number of -?1 to 2147483647, but is {stored[name]}"):
        TextModel(Loaded(model.model, model.task, {"beam": 4, **stored}), model.text)


@pytest.mark.parametrize("extreme", [{"lenpen": 60}, {"temperature": 1e-30}, {"temperature": 1e30}])
def test_the_largest_options_still_give_an_output(extreme, tmp_path):
    """12 to the power 60 has 216 bits, and the integers of torch have at most 64 bits."""
    assert isinstance(build(tmp_path, "wean_lstm").generate("what is it ?", min_len=12, **extreme), str)


@pytest.mark.parametrize(
    "table", [{"what is it ?": 1}, pd.DataFrame({"text": ["what is it ?"]}), np.array("what"), torch.tensor(1)]
)
def test_a_table_is_not_a_list_of_texts(table, tmp_path):
    """Iterating over a table gives the names of its columns. An array without dimensions has no items."""
    with pytest.raises(UserError, match="give a string, or a list of strings"):
        build(tmp_path, "wean_lstm").generate(table)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"no_such": 1}, "no_such is not an option of the task or .*: choose from beam, search_preset, .*, unkpen"),
        ({"foo": 1}, "choose from (?!.*(max_source|eval_bleu|data|seed|length_policy))beam, "),
        ({"lenpn": 1}, r"lenpn is not an option .* \(did you mean lenpen\?\)"),
        ({"beam": 0}, "^beam must be a whole number of 1 to 2147483647, but is 0"),
        ({"search_preset": "x"}, "search_preset cannot be 'x': choose from fairseq, wean, copynet, cdnpg-sampling."),
        ({"max_source_positions": "x"}, "max_source_positions cannot be 'x': .* could not be converted to Integer"),
        ({"lenpen": "x"}, "^lenpen must be a number of -60 to 60, but is 'x'"),
        ({"bf16_scores": "${oc.env:HOME}"}, "bf16_scores cannot be "),
        ({"device": "cuda:99"}, "'cuda:99' cannot be used"),
        ({"device": "meta"}, "'meta' cannot be used"),
        ({"device": "gpu"}, "^the device 'gpu' cannot be used: choose cpu, or cuda with a GPU.$"),
    ],
)
def test_options_of_load_that_cannot_be_used_are_named(tmp_path, monkeypatch, options, says):
    """The options include GPU numbers that no computer has."""
    built = build(tmp_path, "wean_lstm")
    monkeypatch.setattr(StoredModel, "load", lambda *_, **__: Loaded(built.model, built.task, built.search_options))
    (tmp_path / "a.pt").touch()
    with pytest.raises(UserError, match=says):
        load(tmp_path / "a.pt", text=MOSES, **options)


@pytest.mark.parametrize("stored", [{"constraints": "ordered"}, {"score_reference": True}, {"prefix_size": 2}])
def test_a_stored_search_for_test_sets_is_refused(tmp_path, monkeypatch, stored):
    """A sentence alone has neither constraints nor a reference, from which a prefix is taken."""
    built = build(tmp_path, "wean_lstm")
    searched = built.search_options | stored
    monkeypatch.setattr(StoredModel, "load", lambda *_, **__: Loaded(built.model, built.task, searched))
    (tmp_path / "a.pt").touch()
    option = next(iter(stored)).replace("_", "-")
    with pytest.raises(
        UserError, match=rf"a\.pt searches with --{option}, which is for test sets: give it to fairseq-"
    ):
        load(tmp_path / "a.pt", text=MOSES)


def test_a_path_that_is_not_there_is_named(tmp_path):
    (tmp_path / "a.pt").touch()
    for path in ("a" * 300, "x\0", "nowhere"):
        with pytest.raises(UserError, match=r"^there is no model "):
            load(path)
        for name in ("data", "text"):
            says = rf"^there is no directory .*: give another {name}, or leave it out"
            with pytest.raises(UserError, match=says):
                load(tmp_path / "a.pt", **{name: path})


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((None,), "path"), ((5,), "path"), ((b"m",), "path"), ((["m"],), "path"), (("m", 5), "data"), (("m", []), "data")],
)
def test_a_path_of_another_type_is_named(arguments, name):
    with pytest.raises(UserError, match=rf"^{name} is .*: give a path as a string"):
        load(*arguments)
    with pytest.raises(UserError, match=r"^text is 5: give a path as a string"):
        load("m", text=5)


@pytest.mark.parametrize(
    ("settings", "file"),
    [({"truecase": True}, "truecase.model"), ({"bpe": True}, "bpe.codes"), ({"unit": "wordpiece"}, "wordpiece.vocab")],
)
def test_text_settings_that_need_files_are_refused(tmp_path, settings, file):
    (tmp_path / "a.pt").touch()
    with pytest.raises(UserError, match=rf"need {file}: give the folder of the prepared text"):
        load(tmp_path / "a.pt", text=TextSettings(**settings))


@pytest.mark.parametrize("name", ["data", "text"])
def test_an_exported_folder_refuses_the_data_and_text_of_a_checkpoint(tmp_path, name):
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(UserError, match=rf"has its own data and text: leave the option {name} out"):
        load(tmp_path, **{name: tmp_path})


def test_whole_numbers_of_numpy_are_accepted(tmp_path: Path):
    model = build(tmp_path, "wean_lstm")
    numbers = {"n_best": np.int64(2), "beam": np.int32(3), "batch_size": np.uint8(1), "seed": np.int64(1)}
    assert model.generate("what is it ?", **numbers) == model.generate("what is it ?", n_best=2, beam=3)


def test_printed_models_and_results_are_short(tmp_path: Path):
    """The printed text is one line without arrays. It states the number of the model's weights."""
    model = build(tmp_path, "copynet", MOSES)
    named = TextModel(Loaded(model.model, model.task, model.search_options, "copynet_full"), model.text)
    assert repr(named).startswith("TextModel(copynet_full, ")
    number = sum(parameter.numel() for parameter in model.model.parameters())
    assert (
        repr(model)
        == f"TextModel(copynet, {number:,} parameters on cpu; Moses tokens (en), lower-cased; --beam 4 --max-len-b 12)"
    )
    [found] = model.explain(["what is the best way"], 2)
    first = found.outputs[0]
    said = f"Output({first.text!r}, score={first.score:.4f}, tokens, probabilities, attention, copied, copied_from)"
    assert repr(first) == said
    assert repr(found).startswith(f"Generated('what is the best way </s>', outputs=[{said}, Output(")
    assert "\n" not in repr(found)
    assert repr(Generated()) == "Generated('', outputs=[])"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_model_is_not_copied(copied, tmp_path):
    with pytest.raises(TypeError, match="a loaded model can be neither copied nor pickled: load it again"):
        copied(build(tmp_path, "wean_lstm"))


def test_threads_with_different_models_draw_what_they_draw_alone(tmp_path: Path):
    """All threads share the random generator of PyTorch, so a second search at the same time would change the draws."""
    models = [build(tmp_path / name, "wean_lstm", MOSES) for name in ("a", "b")]
    calls = [(model, seed) for model in models for seed in range(1, 9)]

    def draw(model, seed: int) -> list[str]:
        return model.generate(["what is the way", "how do i lose weight"], n_best=3, sampling=True, seed=seed)

    expected = [draw(model, seed) for model, seed in calls]
    assert len({str(drawn) for drawn in expected}) > 4  # different seeds must give different outputs
    found: dict[int, list[str]] = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: draw(*calls[n])})) for n in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[n] for n in range(len(calls))] == expected


def test_unknown_text_steps_of_a_checkpoint_are_reported(tmp_path, monkeypatch, caplog):
    """The data was copied without the text from which it was made."""
    built = build(tmp_path, "wean_lstm")
    monkeypatch.setattr(StoredModel, "load", lambda *_, **__: Loaded(built.model, built.task, built.search_options))
    (tmp_path / "a.pt").touch()
    load(tmp_path / "a.pt", text=MOSES)
    assert caplog.messages == []
    assert load(tmp_path / "a.pt").text.settings == TOKENS
    assert f"not known how text becomes the tokens of {tmp_path / 'a.pt'}, so it reads words between" in caplog.text
