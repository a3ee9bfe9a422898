"""Test the model card: its text and scores, and invalid files of scores."""

import json

import pytest
import torch

from wean_fairseq.checkpoints.card import read_evaluations, write_card
from wean_fairseq.errors import UserError
from wean_fairseq.text import Text, TextSettings

STATE = {
    "cfg": {
        "model": {"_name": "copynet", "embed_dim": 12, "hidden_size": 7, "attention_dim": 0},
        "task": {"_name": "paraphrase", "max_source_positions": 1024},
        "common": {"seed": 5},
        "optimization": {"lr": [0.25, 0.125]},
        "checkpoint": {"finetune_from_model": "/home/anna/old/model.safetensors"},
    },
    "model": {"a": torch.zeros(20, 60), "b": torch.zeros(34)},
    "optimizer_history": [{"num_updates": 1500}],
}
SCORES = {
    "columns": {"bleu": {"label": "BLEU", "signature": "nrefs:1|tok:13a"}},
    "systems": {"copynet": {"bleu": {"score": 12.345, "ci": [11, 13.5]}}, "other": {"bleu": {"score": None}}},
    "data": {"sentences": 6, "references": 1, "warnings": ["few sentences"]},
}
MANIFEST = {
    "script": "own_pairs",
    "sources": [{"file": "my|<b>`pairs`.csv", "sha256": "abc"}],
    "splits": {"train": {"kept": 3000, "dropped": {"leak": 2}}, "valid": {"kept": 100}, "test": {"kept": 1}},
    "left_out": {"exact_duplicates": 4},
}


def saved(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_a_card_shows_data_settings_scores_and_limits(tmp_path):
    """Test that the card shows 20 * 60 + 34 parameters and all values of the constants above.

    Markup in a name must have no effect.
    """
    saved(tmp_path / "manifest.json", MANIFEST)
    scores = saved(tmp_path / "test.json", SCORES)
    card = write_card(STATE, 9, Text(TextSettings(unit="joiner"), tmp_path), scores, "not converged")
    assert card.startswith("# copynet: a model that rewrites sentences\n")
    for line in (
        "| `my\\|&lt;b>'pairs'.csv` | `abc` |",
        "* train: 3,000 lines (left out: 2 leak)",
        "* valid: 100 lines",
        "* test: 1 line",
        "* Warning: the test set has 1 pair, and scores are unreliable with fewer than 100.",
        "* in no split: 4 exact duplicates",
        "Text: words and punctuation with joiner marks.",
        "| parameters | 1,234 |",
        "| words in the dictionary | 9 |",
        "| embed dim | 12 |",
        "| learning rate | 0.25, 0.125 |",
        "| seed | 5 |",
        "| updates | 1,500 |",
        "| continued from | …/model.safetensors |",
        "| system | BLEU |",
        "| copynet | 12.35 [11.00, 13.50] |",
        "| other | – |",
        "* BLEU: `nrefs:1|tok:13a`",
        "* Warning: few sentences",
        "* Note: not converged",
    ):
        assert line in card.split("\n")
    assert "attention dim" not in card and "the valid set" not in card


def test_a_model_of_essays_reads_topics():
    assert "--input sentences.txt --output rewritten.txt`" in write_card(STATE, 9, None, None, "")
    state = STATE | {"cfg": STATE["cfg"] | {"task": {"_name": "topic_essay"}}}
    assert "--input topics.txt --output essays.txt`" in write_card(state, 9, None, None, "")


def test_several_test_sets_have_a_table_each(tmp_path):
    scores = saved(tmp_path / "test.json", {"sets": {"test": SCORES, "old-test": SCORES}})
    card = write_card(STATE, 9, None, scores, "")
    assert card.count("| system | BLEU |") == 2
    assert "old-test, 6 sentences" in card


def test_negative_numbers_are_refused(tmp_path):
    scores = tmp_path / "scores.json"
    scores.write_text('{"columns": {}, "systems": {}, "data": {"sentences": -5}}', encoding="utf-8")
    with pytest.raises(UserError, match=r"has no scores .*Expected `int` >= 0 - at `.*sentences`"):
        read_evaluations(scores)


def test_what_is_not_known_is_said(tmp_path):
    saved(tmp_path / "manifest.json", {"sources": "damaged"})
    card = write_card(STATE, 9, Text(TextSettings(), tmp_path), None, "")
    assert "The training text is not recorded." in card
    assert "This model was exported without scores." in card


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"sets": 3}', '{"systems": {}}', '{"columns": {}, "systems": {"a": 1}, "data": {}}']
    + [
        f'{{"columns": {{}}, "systems": {{"a": {{"b": {{"score": {n}}}}}}}, "data": {{}}}}'
        for n in ("NaN", "-1e30", "1" * 31)
    ],
)
def test_other_files_of_scores_are_refused(tmp_path, content):
    (tmp_path / "scores.json").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"has no scores .*: give a file of wean-evaluate --json"):
        read_evaluations(tmp_path / "scores.json")
    with pytest.raises(UserError, match="cannot be read"):
        read_evaluations(tmp_path / "none.json")
