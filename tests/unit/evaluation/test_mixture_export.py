"""Test the weights of BERT's layers in a trained model, as a table."""

import math
import re
from pathlib import Path

import pytest
import torch

from wean_fairseq.reporting.plot_cli import main

NAME = "encoder.bert_states.mixture."


def save(path, **parameters: torch.Tensor) -> str:
    torch.save({"model": {NAME + name: value for name, value in parameters.items()}}, path)
    return str(path)


def table(checkpoint: str) -> list[list[str]]:
    """Return the table that is written next to the picture."""
    assert main(["layers", checkpoint, "--output", checkpoint]) == 0
    return [line.split("\t") for line in Path(f"{checkpoint}.tsv").read_text(encoding="utf-8").splitlines()]


def test_a_softmax_mixture_is_written_as_weights_a_line_for_each_decoder_layer(tmp_path):
    """In closed form, logits 0 and ln 3 have the weights 1/4 and 3/4."""
    checkpoint = save(tmp_path / "c.pt", logits=torch.tensor([[0.0, math.log(3)], [5.0, 5.0]]))
    assert table(checkpoint) == [
        ["decoder_layer", "bert_1", "bert_2"],
        ["1", "0.250000", "0.750000"],
        ["2", "0.500000", "0.500000"],
    ]


def test_free_weights_are_written_as_they_are_and_a_shared_mixture_once(tmp_path):
    checkpoint = save(tmp_path / "c.pt", weights=torch.tensor([[-0.5, 0.25, 2.0]], dtype=torch.float16))
    assert table(checkpoint)[1:] == [["all", "-0.500000", "0.250000", "2.000000"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no checkpoint .*c.pt"),
        (b"nonsense", "c.pt is damaged, or was not written by fairseq-train"),
        ({"model": {"encoder.words.weight": torch.zeros(1)}}, "has no mixture of BERT's layers: give one of pc_san"),
        ([1, 2], "is not a checkpoint of fairseq-train, which holds a model"),
    ],
)
def test_what_has_no_mixture_is_refused_in_one_sentence(content, message, tmp_path, capsys):
    path = tmp_path / "c.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    assert main(["layers", str(path), "--output", str(tmp_path / "layers")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("wean-plot: error: ") and error.count("\n") == 1
    assert re.search(message, error)
