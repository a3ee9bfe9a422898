"""Test ``fset`` with the checks that all models share, and test its equations, with and without a pair."""

from typing import Any, ClassVar

import pytest
import torch

from tests.families import CHUNK, tiny
from tests.model_contract import EOS, PAD, ModelContract, build_model, collate, log_probs, token_log_probs
from tests.reference import fset as reference
from tests.reference.transformer import lively
from wean_fairseq.errors import UserError
from wean_fairseq.modules import split_pairs

PAIR = 11  # w7
UPDATES, RATE = 150, 0.005
TINY = {
    "embed_dim": 6,
    "ffn_dim": 10,
    "attention_heads": 3,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "edit_layers": 2,
    "edit_dim": 9,
    "micro_dim": 5,
    "pair_symbol": CHUNK,
}
# The sources have a pair, no pair, half a pair, an empty pair, or one separator too many.
SOURCES = [
    [5, 9, 7, PAIR, 5, 9, PAIR, 8, 9, 12, EOS],
    [7, 13, EOS],
    [7, PAIR, 14, 6, EOS],
    [PAIR, PAIR, EOS],
    [4, PAIR, 5, PAIR, 6, PAIR, 10, EOS],
]
TARGETS = [[8, 9, 7, EOS], [6, EOS], [12, 5, EOS], [4, EOS], [9, 9, EOS]]


def build(**options: Any) -> torch.nn.Module:
    """Build in float64, because normalisation amplifies float32 rounding with these weights."""
    return lively(build_model("fset", **TINY | options)).double()


def make_pairs(left_pad_source: bool = True, **padding: int) -> dict[str, torch.Tensor]:
    return collate(
        [torch.tensor(row) for row in SOURCES], [torch.tensor(row) for row in TARGETS], left_pad_source, **padding
    )


class TestFsetContract(ModelContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "fset": ("fset", TINY),
        "query embedding": ("fset", TINY | {"output_layer": "query_embedding"}),
        "one embedding": ("fset", TINY | {"share_embeddings": True}),
        "more decoder layers": ("fset", TINY | {"encoder_layers": 1, "decoder_layers": 3, "edit_layers": 1}),
    }


@pytest.mark.parametrize("left_pad_source", [False, True])
@pytest.mark.parametrize("options", [{}, {"share_embeddings": True}, {"output_layer": "query_embedding"}])
def test_the_probabilities_are_those_of_the_equations(options, left_pad_source):
    """The expected values come from the naive forward pass of ``tests/reference/fset.py``."""
    model, batch = build(**options), make_pairs(left_pad_source)
    with torch.no_grad():
        out = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
        found = model.get_normalized_probs(out, log_probs=False)
        for row, source in enumerate(SOURCES):
            previous = [EOS, *TARGETS[row][:-1]]
            expected, attention = reference.run(model, source, previous, PAIR)
            torch.testing.assert_close(found[row, : len(expected)].double(), expected, rtol=1e-4, atol=1e-6)
            real = batch["src_tokens"][row] != PAD
            shown = out[1]["attn"][0][row, : len(expected)]
            torch.testing.assert_close(shown[:, real].double(), attention, rtol=1e-4, atol=1e-6)
            assert not shown[:, ~real].any()


@pytest.mark.parametrize("left_pad_source", [False, True])
def test_padding_and_neighbours_change_nothing_where_there_are_pairs(left_pad_source):
    model = build()
    together = token_log_probs(model, make_pairs())
    padded = make_pairs(left_pad_source, extra_source=3, extra_target=2)
    torch.testing.assert_close(token_log_probs(model, padded), together, rtol=1e-5, atol=1e-5)
    for source, target, expected in zip(SOURCES, TARGETS, together, strict=True):
        alone = token_log_probs(model, collate([torch.tensor(source)], [torch.tensor(target)]))[0]
        torch.testing.assert_close(alone, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("left", [False, True])
def test_a_source_is_parted_at_its_separators(left):
    """The expected parts are written by hand: each ends with the end symbol, and a missing part has no words."""
    parts = split_pairs(make_pairs(left)["src_tokens"], PAD, EOS, PAIR)
    words = [
        [[token for token in row.tolist() if token != PAD] for row in part]
        for part in (parts.sentence, parts.p, parts.q)
    ]
    assert list(zip(*words, strict=True)) == [
        ([5, 9, 7, EOS], [5, 9, EOS], [8, 9, 12, EOS]),
        ([7, 13, EOS], [EOS], [EOS]),
        ([7, EOS], [14, 6, EOS], [EOS]),
        ([EOS], [EOS], [EOS]),
        ([4, EOS], [5, EOS], [6, EOS]),
    ]
    assert parts.unpaired == 3
    width = max(map(len, SOURCES))
    for row, expected in ((0, [0, 1, 2, 10]), (1, [0, 1, 2]), (2, [0, 4]), (4, [0, 7])):
        first = width - len(SOURCES[row]) if left else 0
        assert parts.place[row, : len(expected)].tolist() == [first + place for place in expected]


def test_without_an_end_symbol_the_places_are_the_tokens_own():
    """Sources have no end symbol with ``--no-source-end``."""
    parts = split_pairs(torch.tensor([[5, 9, PAIR, 5, PAIR, 8], [PAD, PAD, PAD, PAD, 6, 7]]), PAD, EOS, PAIR)
    assert parts.place[0].tolist() == [0, 1, 2]
    assert parts.place[1, :2].tolist() == [4, 5]


def test_each_word_of_the_pair_counts_and_the_sentence_counts():
    """Change one source word at a time.

    Every change must change the output, because otherwise the model would ignore that word.
    """
    model = build()
    given = SOURCES[0]
    target = torch.tensor(TARGETS[0])
    before = token_log_probs(model, collate([torch.tensor(given)], [target]))[0]
    for place, word in enumerate(given):
        if word not in (PAIR, EOS):
            changed = torch.tensor([*given[:place], 17, *given[place + 1 :]])
            assert (token_log_probs(model, collate([changed], [target]))[0] - before).abs().max() > 1e-4


@pytest.mark.parametrize("row", [1, 2, 4])
def test_sources_that_have_not_one_pair_are_said_once(row, caplog):
    model = build()
    batch = collate([torch.tensor(SOURCES[row])], [torch.tensor(TARGETS[row])])
    for _ in range(2):
        log_probs(model, batch)
    (record,) = caplog.records
    assert record.message.startswith(
        "a source is not a sentence with one pair, x w7 p w7 q: missing parts are read as empty"
    )
    caplog.clear()
    log_probs(build(), collate([torch.tensor(SOURCES[0])], [torch.tensor(TARGETS[0])]))
    assert not caplog.records


@pytest.mark.parametrize("symbol", ["<pair>", "<unk>", "</s>"])
def test_a_symbol_that_is_no_word_is_one_clear_sentence(symbol):
    with pytest.raises(UserError, match=r"needs the word '.*' in its dictionary.*preprocess/retrieve_pairs.py"):
        build_model("fset", **TINY | {"pair_symbol": symbol})


def test_a_part_that_is_too_long_is_refused():
    model = build(max_positions=4)
    token_log_probs(model, collate([torch.tensor([4, 5, 6, PAIR, 7, PAIR, 8, EOS])], [torch.tensor([EOS])]))
    with pytest.raises(UserError, match="5 tokens"):
        token_log_probs(model, collate([torch.tensor([4, 5, 6, 7, PAIR, 7, PAIR, 8, EOS])], [torch.tensor([EOS])]))


def test_heads_that_do_not_divide_the_decoders_width_are_refused():
    with pytest.raises(UserError, match="3 heads and 14 units"):
        build_model("fset", **TINY | {"edit_dim": 8})


def test_it_learns_what_only_the_pair_tells():
    """In this task, p is one word, q is p and a new word, and y is x and the same new word.

    The source sentence x alone does not determine y, so the model must use the pair. The model predicts more than 95 %
    of the words of unseen sentences, but only a quarter of them without the pair.
    """
    rows = [(x, p, new) for x in range(4, 11) for p in range(4, 11) for new in range(12, 16) if x != p]
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(4)).tolist()

    def batch(numbers: list[int]) -> dict[str, torch.Tensor]:
        chosen = [rows[number] for number in numbers]
        sources = [torch.tensor([x, PAIR, p, PAIR, p, new, EOS]) for x, p, new in chosen]
        return collate(sources, [torch.tensor([x, new, EOS]) for x, _, new in chosen])

    model = build_model("fset", **tiny("fset", 32)).train()
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    training, held_out = batch(order[30:]), batch(order[:30])
    for update in range(UPDATES):
        optimizer.param_groups[0]["lr"] = RATE * (1 - update / UPDATES)
        optimizer.zero_grad()
        (model(**training).loss / training["target"].numel()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    best = log_probs(model.eval(), held_out).argmax(dim=-1)
    assert best.eq(held_out["target"]).double().mean() > 0.95
