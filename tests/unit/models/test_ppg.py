"""Test ``ppg`` with the checks that all models share for every arch, and test its chunks against loops."""

from typing import Any, ClassVar

import pytest
import torch

from tests.model_contract import EOS, PAD, build_model, log_probs, make_dictionary, make_task
from tests.reference import ppg as reference
from tests.topic_contract import CHUNK, ESSAYS, TOPICS, TopicContract, essay_batch, scored
from wean_fairseq.errors import UserError

SYMBOL = f"w{CHUNK - 4}"  # the tests' dictionary has no <chunk>, so this word replaces it
TINY = {"embed_dim": 6, "hidden_size": 5, "init_range": 0.9, "chunk_symbol": SYMBOL}
# As in the output of clause_chunks.py, the number of chunks equals the number of topics.
PLANNED = [13, 10, CHUNK, 9, 12, 13, CHUNK, 14, 10, EOS]


class TestPpgContract(TopicContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "ppg": ("ppg", TINY),
        "ppg_small": ("ppg_small", TINY),
        # These variants use another word as chunk symbol.
        "another symbol": ("ppg", TINY | {"chunk_symbol": "w6"}),
    }


@pytest.mark.parametrize("chunk", [CHUNK, 13, 5])
def test_probabilities_and_attention_are_those_of_the_equations(chunk):
    """The oracle is the naive loops of ``tests/reference/ppg.py``, for fewer, more and equally many chunks."""
    model = build_model("ppg", **TINY | {"chunk_symbol": f"w{chunk - 4}"})
    batch = essay_batch(extra_source=2, extra_target=3)
    with torch.no_grad():
        lprobs, (_, extra) = log_probs(model, batch), scored(model, batch)
        for row, (topics, essay) in enumerate(zip(TOPICS, ESSAYS, strict=True)):
            probabilities, topic_weights = reference.run(model, topics, essay, chunk)
            torch.testing.assert_close(lprobs[row, : len(essay)].exp(), probabilities, rtol=1e-4, atol=1e-6)
            attention = extra["attn"][0][row, : len(essay)]
            torch.testing.assert_close(attention.sum(-1), topic_weights, rtol=1e-4, atol=1e-6)
            for step, word in enumerate(attention.argmax(dim=-1)):
                number = min(essay[:step].count(chunk), len(topics) - 1)
                assert batch["src_tokens"][row, word] == topics[number]


def steps_that_differ(model: torch.nn.Module, one: dict[str, Any], other: dict[str, Any]) -> list[int]:
    difference = (log_probs(model, one) - log_probs(model, other)).abs().amax(dim=-1)[0]
    return difference.gt(1e-6).nonzero().flatten().tolist()


@pytest.mark.parametrize(("topic", "steps"), [(0, [0, 1, 2]), (1, [3, 4, 5, 6]), (2, [7, 8, 9])])
def test_a_chunk_is_written_from_its_own_topic_alone(topic, steps):
    topics = [8, 9, 12]
    others = [word if place != topic else 17 for place, word in enumerate(topics)]
    model = build_model("ppg", **TINY)
    one, other = (essay_batch([words], [PLANNED]) for words in (topics, others))
    assert steps_that_differ(model, one, other) == steps


@pytest.mark.parametrize(
    ("place", "steps"),
    [
        (0, [1, 2, 3, 4, 5, 6, 7, 8, 9]),  # all later words of its chunk, and all later chunks
        (4, [5, 6, 7, 8, 9]),
        (5, [6, 7, 8, 9]),
        (8, [9]),
    ],
)
def test_a_word_is_seen_by_what_comes_after_it(place, steps):
    essay = [*PLANNED[:place], 18, *PLANNED[place + 1 :]]
    model = build_model("ppg", **TINY)
    one, other = essay_batch([TOPICS[0]], [PLANNED]), essay_batch([TOPICS[0]], [essay])
    assert steps_that_differ(model, one, other) == steps


def test_the_last_chunk_ends_as_the_others_do():
    """If all chunks have the same input, </s> in the last chunk is as probable as the symbol in the others."""
    model = build_model("ppg", **TINY)
    for weight in (model.encoder.gru, model.decoder.text_gru, model.decoder.start_proj):
        for parameter in weight.parameters():
            torch.nn.init.zeros_(parameter)
    model.decoder.embed_tokens.weight.data[EOS] = model.decoder.embed_tokens.weight.data[CHUNK]
    lprobs = log_probs(model, essay_batch([[8, 9]], [[10, 13, CHUNK, 10, 13, EOS]]))[0]
    torch.testing.assert_close(lprobs[:3, CHUNK], lprobs[3:, EOS])
    torch.testing.assert_close(lprobs[:3, EOS], lprobs[3:, CHUNK])
    assert (lprobs[:3, EOS] - lprobs[3:, EOS]).abs().min() > 1e-3


def test_label_smoothing_is_that_of_the_scores():
    """The oracle is (1 - e - e_i) nll - e_i sum over the words of log p, e_i = e / (V - 1), written out."""
    model, batch, eps = build_model("ppg", **TINY), essay_batch(), 0.1
    lprobs = log_probs(model, batch)
    nll = -lprobs.gather(2, batch["target"].unsqueeze(2)).squeeze(2)
    each = eps / (lprobs.size(-1) - 1)
    per_token = (1 - eps - each) * nll - each * lprobs.sum(-1)
    expected = per_token[batch["target"] != PAD].sum()
    torch.testing.assert_close(model(**batch, label_smoothing=eps).loss, expected, rtol=1e-5, atol=1e-5)


def test_the_sizes_of_the_paper():
    """The paper has embeddings of 512 and 512 units. The parameters are counted by hand from the equations."""
    words = 96 + 4
    model = build_model("ppg", make_task(make_dictionary(96)), chunk_symbol=SYMBOL)
    gru = 2 * 3 * 512 * (512 + 512 + 2)
    attention = 512 * 1024 + 512 * 512 + 512
    cell = 3 * 512 * (512 + 1024 + 512 + 2)
    readout = 512 * (512 + 1024 + 512) + 512
    expected = words * 512 + 2 * gru + (1024 * 512 + 512) + attention + cell + readout + words * 512 + words
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.parametrize("symbol", ["<chunk>", "<unk>", "</s>"])
def test_a_symbol_that_is_no_word_is_one_clear_sentence(symbol):
    with pytest.raises(UserError, match=r"the chunk symbol '.*' in its dictionary.*preprocess/clause_chunks.py"):
        build_model("ppg", **TINY | {"chunk_symbol": symbol})
