"""Test that a search finds the right output of a peaked model, and not only outputs that end too early."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from fairseq.search import LexicallyConstrainedBeamSearch, Sampling
from fairseq.sequence_generator import SequenceGenerator
from fairseq.token_generation_constraints import pack_constraints

from tests.model_contract import EOS, make_dictionary
from wean_fairseq.errors import UserError
from wean_fairseq.search.generator import PaperSequenceGenerator, log_known

WORDS = list(range(4, 16))  # the right output
BEAM = 5
SURE, END = 0.9, 0.05  # probabilities of the right word and of ending too early
OTHER = (1 - SURE - END) / 21  # probability of each of the other 21 entries of the dictionary
RIGHT = [SURE] * len(WORDS) + [1 - 22 * OTHER]  # probability of each word of the right output and of its end


class Echo(FairseqEncoder):
    def forward(self, src_tokens: torch.Tensor, src_lengths: Any = None, **_: Any) -> dict[str, torch.Tensor]:
        return {"src_tokens": src_tokens}

    def reorder_encoder_out(self, encoder_out: dict[str, torch.Tensor], new_order: torch.Tensor) -> Any:
        return {"src_tokens": encoder_out["src_tokens"].index_select(0, new_order)}


class Sure(FairseqIncrementalDecoder):
    """Model that predicts the same distribution at a position for every prefix."""

    def forward(self, prev_output_tokens: torch.Tensor, **_: Any) -> tuple[torch.Tensor, dict[str, Any]]:
        position = prev_output_tokens.size(1) - 1
        probabilities = torch.full((prev_output_tokens.size(0), 1, len(self.dictionary)), OTHER)
        if position < len(WORDS):
            probabilities[..., EOS] = END
            probabilities[..., WORDS[position]] = SURE
        else:
            probabilities[..., EOS] = RIGHT[-1]
        return probabilities.log(), {"attn": [None]}

    def max_positions(self) -> int:
        return 1000


@pytest.fixture
def dictionary() -> Dictionary:
    return make_dictionary(19)


@pytest.fixture
def model(dictionary: Dictionary) -> FairseqEncoderDecoderModel:
    return FairseqEncoderDecoderModel(Echo(dictionary), Sure(dictionary))


def search(generator: SequenceGenerator, sentences: int = 2, **more: Any) -> list[list[dict[str, Any]]]:
    tokens = torch.tensor([[5, 6, EOS]]).repeat(sentences, 1)
    net_input = {"src_tokens": tokens, "src_lengths": torch.full((sentences,), 3)}
    return generator.generate([], {"net_input": net_input}, **more)


@pytest.mark.parametrize("len_penalty", [0.0, 0.5, 1.0, 2.0])
def test_the_right_output_is_found_where_early_ends_fill_the_beam(model, dictionary, len_penalty):
    options = {"beam_size": BEAM, "max_len_a": 0, "max_len_b": 30, "len_penalty": len_penalty}
    patient = PaperSequenceGenerator([model], dictionary, stop_when_nothing_better=1, **options)
    for hypotheses in search(patient):
        # The expected scores are computed in closed form. No other output has a similar score. For example, the empty
        # output has probability 0.05.
        assert hypotheses[0]["tokens"].tolist() == [*WORDS, EOS]
        expected = sum(map(math.log, RIGHT)) / 13**len_penalty
        assert hypotheses[0]["score"].item() == pytest.approx(expected, rel=1e-4)
        assert len(hypotheses) <= BEAM
        scores = [float(hypothesis["score"]) for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
    plain = SequenceGenerator([model], dictionary, **options)
    # The option is needed because fairseq's search returns only outputs that end too early.
    assert all(len(hypotheses[0]["tokens"]) < len(WORDS) for hypotheses in search(plain))


def test_the_nbest_are_the_best_of_all_that_the_beam_saw(model, dictionary):
    """The right output comes first. Then come outputs at least as good as an early end after 11 and 10 right words."""
    options = {"beam_size": BEAM, "max_len_a": 0, "max_len_b": 30}
    patient = PaperSequenceGenerator([model], dictionary, stop_when_nothing_better=3, **options)
    for hypotheses in search(patient, sentences=1):
        scores = [float(hypothesis["score"]) for hypothesis in hypotheses[:3]]
        early = [(k * math.log(SURE) + math.log(END)) / (k + 1) for k in (11, 10)]
        assert scores[0] == pytest.approx(sum(map(math.log, RIGHT)) / 13, rel=1e-4)
        assert scores[1] >= early[0] - 1e-4
        assert scores[2] >= early[1] - 1e-4


def test_a_search_that_never_ends_is_ended_by_the_longest_output(model, dictionary):
    patient = PaperSequenceGenerator([model], dictionary, stop_when_nothing_better=1, beam_size=2, max_len_b=6)
    assert all(len(hypotheses[0]["tokens"]) <= 7 for hypotheses in search(patient))


class Stutter(FairseqIncrementalDecoder):
    """Model that gives one word the highest score in every step, and </s> the lowest."""

    def forward(self, prev_output_tokens: torch.Tensor, **_: Any) -> tuple[torch.Tensor, dict[str, Any]]:
        wishes = -torch.arange(len(self.dictionary), dtype=torch.float)
        wishes[:4] = -100.0
        return wishes.log_softmax(0).repeat(prev_output_tokens.size(0), 1, 1), {"attn": [None]}

    def max_positions(self) -> int:
        return 1000


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_is_written_twice(dictionary, size):
    """Without blocking, the output would repeat one word."""
    model = FairseqEncoderDecoderModel(Echo(dictionary), Stutter(dictionary))

    def output(**options: Any) -> list[int]:
        generator = PaperSequenceGenerator([model], dictionary, beam_size=2, max_len_b=12, **options)
        return search(generator)[1][0]["tokens"].tolist()[:-1]

    assert len(set(output())) == 1
    words = output(no_repeat_ngram_size=size)
    ngrams = [tuple(words[start : start + size]) for start in range(len(words) - size + 1)]
    assert len(words) == 12
    assert len(ngrams) == len(set(ngrams))
    shorter = [tuple(words[start : start + size - 1]) for start in range(len(words) - size + 2)]
    assert size == 1 or len(shorter) > len(set(shorter))  # blocking longer n-grams allows repeated words


@pytest.mark.parametrize(("size", "least"), [(1, 30), (2, 600)])
def test_outputs_that_cannot_be_so_long_without_a_repetition_are_refused(dictionary, size, least):
    """The dictionary has 23 entries, and so fewer than 530 different pairs of words."""
    model = FairseqEncoderDecoderModel(Echo(dictionary), Stutter(dictionary))
    lengths = {"min_len": least, "max_len_b": least}
    generator = PaperSequenceGenerator([model], dictionary, beam_size=2, **lengths, no_repeat_ngram_size=size)
    with pytest.raises(UserError, match=f"every output of --min-len {least} words repeats an n-gram of .* {size}:"):
        search(generator)


class NotFinite(Stutter):
    """A model whose parameters are so large that its scores are NaN."""

    def forward(self, prev_output_tokens: torch.Tensor, **_: Any) -> tuple[torch.Tensor, dict[str, Any]]:
        scores, extra = super().forward(prev_output_tokens)
        return scores * math.nan, extra


@pytest.mark.parametrize("more", [{}, {"no_repeat_ngram_size": 2}, {"min_len": 3, "no_repeat_ngram_size": 1}], ids=str)
@pytest.mark.parametrize("options", [{}, {"search_strategy": Sampling}, {"beam_sampling": True}], ids=str)
def test_scores_that_are_not_finite_are_one_sentence(dictionary, options, more):
    model = FairseqEncoderDecoderModel(Echo(dictionary), NotFinite(dictionary))
    options = {name: value(dictionary) if name == "search_strategy" else value for name, value in options.items()}
    generator = PaperSequenceGenerator([model], dictionary, beam_size=2, max_len_b=4, **options, **more)
    with pytest.raises(UserError, match="the scores of the model are not finite"):
        search(generator)


@pytest.mark.parametrize("size", [0, 2])
def test_scores_that_are_not_finite_are_not_blamed_on_the_constraints(dictionary, size):
    """One constraint of one word fits into an output of four words, so only the scores can be the reason."""
    model = FairseqEncoderDecoderModel(Echo(dictionary), NotFinite(dictionary))
    strategy = LexicallyConstrainedBeamSearch(dictionary, "ordered")
    options = {"search_strategy": strategy, "max_len_b": 4, "no_repeat_ngram_size": size}
    generator = PaperSequenceGenerator([model], dictionary, beam_size=2, **options)
    with pytest.raises(UserError, match="the scores of the model are not finite"):
        search(generator, constraints=pack_constraints([[torch.tensor([5])]] * 2))


def test_the_limit_of_the_length_is_not_taken_for_a_repetition(model, dictionary):
    with pytest.raises(UserError, match="--min-len 9 is more than the 8 words that an output may have"):
        search(PaperSequenceGenerator([model], dictionary, min_len=9, max_len_b=8, no_repeat_ngram_size=1))


@pytest.mark.parametrize("beam", [1, 11, 49])
def test_beam_sampling_finishes_at_the_longest_output_at_any_width(beam):
    """At the maximum length only the end symbol is allowed, so that all other candidates are padding."""
    dictionary = make_dictionary(120)
    model = FairseqEncoderDecoderModel(Echo(dictionary), Stutter(dictionary))
    generator = PaperSequenceGenerator([model], dictionary, beam_size=beam, max_len_b=4, beam_sampling=True)
    for hypotheses in search(generator):
        assert len(hypotheses) == beam
        assert all(hypothesis["tokens"].tolist().index(EOS) <= 4 for hypothesis in hypotheses)
        assert all(math.isfinite(hypothesis["score"]) for hypothesis in hypotheses)


def test_a_beam_too_wide_to_draw_is_refused(model, dictionary):
    with pytest.raises(UserError, match="--beam must be less than 50, but is 50"):
        PaperSequenceGenerator([model], dictionary, beam_size=50, beam_sampling=True)


@pytest.mark.parametrize(
    ("scores", "settled"),
    [((-1.0,), False), ((-1.0, -3.0, -4.0), False), ((-5.0, -4.0, -1.5, -1.0), True), ((-1.0, -2.0), True)],
)
def test_nothing_better_compares_with_the_last_of_the_wanted_outputs(scores, settled):
    """All scores are sums of log-probabilities, and the best unfinished hypothesis has -2.

    Two outputs are requested, so the second best decides.
    """
    generator = SimpleNamespace(
        stop_when_nothing_better=2, search=SimpleNamespace(best_open=[-2.0]), normalize_scores=False
    )
    assert PaperSequenceGenerator._cannot_improve(generator, 0, list(scores), step=3, max_len=9) == settled


@pytest.mark.parametrize(("penalty", "reachable"), [(1.0, -2 / 10), (-1.0, -2 * 5)])
def test_an_open_hypothesis_may_still_get_its_most_favourable_length(penalty, reachable):
    """After step 3, counted from 0, an output can have 5 to 10 words with its end. Its sum is at most -2."""
    generator = SimpleNamespace(
        stop_when_nothing_better=1, search=SimpleNamespace(best_open=[-2.0]), normalize_scores=True, len_penalty=penalty
    )
    for score, settled in ((reachable, True), (reachable - 0.01, False)):
        assert PaperSequenceGenerator._cannot_improve(generator, 0, [score], step=3, max_len=9) == settled


def test_the_probability_of_known_words_is_never_0():
    """The probability of known words is 1 - P(<unk>), which is 3/4 here, and at least a millionth."""
    found = log_known(torch.tensor([0.25, 1.0]).log()).exp()
    torch.testing.assert_close(found, torch.tensor([0.75, 1e-6]), rtol=0.05, atol=0.0)


def test_an_unknown_word_is_replaced_by_a_word_never_by_the_end():
    """The attention is highest at the end symbol and at the padding on the left.

    The two words have 0.1 and 0.2 for the first output word.

    For the second output word they have 0.2 and 0.1.
    """
    generator = SimpleNamespace(pad=1, eos=EOS)
    attention = torch.tensor([[0.3, 0.3], [0.1, 0.2], [0.2, 0.1], [0.4, 0.4]])
    assert PaperSequenceGenerator._source_positions(generator, torch.tensor([1, 7, 8, EOS]), attention) == [1, 0]
