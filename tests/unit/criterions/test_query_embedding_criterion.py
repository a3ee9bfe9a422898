"""Test that the criterion returns the sums and counts of fairseq's criterion.

The models are ours and fairseq's Transformer.
"""

import math
from argparse import Namespace

import pytest
import torch
from fairseq import criterions, options
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.models.lstm import LSTMModel
from fairseq.models.lstm import base_architecture as lstm_architecture
from fairseq.models.transformer import TransformerModel, tiny_architecture

from tests.model_contract import EOS, PAD, build_model, collate, make_batch, make_dictionary, make_task, unpad
from wean_fairseq.criterions.model_loss import ModelLossConfig
from wean_fairseq.criterions.query_embedding import QueryEmbeddingCriterion
from wean_fairseq.errors import UserError

DICTIONARY = make_dictionary()
TASK = Namespace(source_dictionary=DICTIONARY, target_dictionary=DICTIONARY, cfg=Namespace())


def make_sample(batch=None):
    batch = batch or make_batch()
    net_input = {name: tensor for name, tensor in batch.items() if name != "target"}
    return {"net_input": net_input, "target": batch["target"], "ntokens": int(batch["target"].ne(PAD).sum())}


def make_criterion(label_smoothing=0.0, **options):
    cfg = ModelLossConfig(label_smoothing=label_smoothing, **{"sentence_avg": False} | options)
    return QueryEmbeddingCriterion(TASK, cfg)


def make_transformer(**options):
    args = Namespace(encoder_layers=1, decoder_layers=1, dropout=0.0, max_source_positions=20, max_target_positions=20)
    vars(args).update(options)
    tiny_architecture(args)
    torch.manual_seed(1)
    return TransformerModel.build_model(args, TASK).eval()


def make_model(kind):
    if kind == "wean_lstm":
        return build_model("wean_lstm", make_task(DICTIONARY), embed_dim=6, hidden_size=10)
    return make_transformer(share_all_embeddings=(kind == "tied transformer"))


MODELS = ["wean_lstm", "tied transformer", "untied transformer"]


@pytest.mark.parametrize("eps", [0.0, 0.1])
@pytest.mark.parametrize("kind", MODELS)
def test_equals_fairseqs_criterions(kind, eps):
    """The expected values come from fairseq's cross_entropy and label_smoothed_cross_entropy on materialised scores."""
    model, sample = make_model(kind), make_sample()
    theirs = LabelSmoothedCrossEntropyCriterion(TASK, False, eps) if eps else CrossEntropyCriterion(TASK, False)
    expected, expected_size, expected_log = theirs(model, sample)
    expected.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()

    loss, size, log = make_criterion(eps)(model, sample)
    loss.backward()
    assert size == expected_size == sample["ntokens"]
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        log["nll_loss"], expected_log.get("nll_loss", expected_log["loss"]), rtol=1e-5, atol=1e-5
    )
    assert gradients
    for name, parameter in model.named_parameters():
        if name in gradients:
            torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-5, atol=1e-5, msg=name)


@pytest.mark.parametrize("kind", MODELS)
def test_a_padded_batch_equals_the_sum_of_its_sentences(kind):
    model, criterion = make_model(kind), make_criterion(0.1)
    batch = make_batch()
    together = criterion(model, make_sample(batch))[0]
    singles = sum(
        criterion(model, make_sample(collate([source], [target])))[0]
        for source, target in zip(*unpad(batch), strict=True)
    )
    torch.testing.assert_close(together, singles, rtol=1e-5, atol=1e-5)


def test_validation_without_gradients_gives_the_same_sums():
    model, sample = make_model("wean_lstm"), make_sample()
    criterion = make_criterion(0.1)
    with_grad = criterion(model, sample)
    with torch.no_grad():
        without = criterion(model, sample)
    torch.testing.assert_close(without[2]["loss"], with_grad[2]["loss"])
    torch.testing.assert_close(without[2]["nll_loss"], with_grad[2]["nll_loss"])
    assert not without[0].requires_grad


def test_sentence_average_counts_sentences():
    _, size, log = make_criterion(sentence_avg=True)(make_model("wean_lstm"), make_sample())
    assert (size, log["sample_size"], log["nsentences"]) == (3, 3, 3)


@pytest.mark.parametrize(("sizes", "loss"), [((2, 6), 5), ((1, 3), 10)], ids=["by token", "by sentence"])
def test_reduction_divides_the_sums_of_all_workers_once(sizes, loss):
    """In closed form, (8 + 24) nats over (2 + 6) tokens are 4 nats, or 4 / ln 2 bits.

    A mean of the workers' means would be different.

    The loss of 10 + 30 nats is divided by the number of tokens, or with ``--sentence-avg`` by 1 + 3 sentences. Losses
    are rounded to three digits. Other sums are rounded to four digits, such as 1.2345 / 8 = 0.1543125 copied words. A
    batch may lack these sums.
    """
    logs = [
        {"loss": 10.0, "nll_loss": 8.0, "ntokens": 2, "nsentences": 1, "sample_size": sizes[0]},
        {"loss": 30.0, "nll_loss": 24.0, "ntokens": 6, "nsentences": 3, "sample_size": sizes[1]},
    ]
    logs[0]["per_token:copied"] = 1.2345
    with metrics.aggregate() as aggregated:
        QueryEmbeddingCriterion.reduce_metrics(logs)
    values = aggregated.get_smoothed_values()
    assert values["nll_loss"] == round(4 / math.log(2), 3)
    assert values["loss"] == round(loss / math.log(2), 3)
    assert values["copied"] == 0.1543
    assert values["ppl"] == pytest.approx(math.exp(4), rel=1e-2)


@pytest.mark.parametrize("kind", MODELS)
def test_bf16_output_rounds_the_products_of_this_loss_alone(kind):
    """tests/unit/modules/test_output_matmul.py tests the error bounds."""
    model, sample = make_model(kind), make_sample()
    exact, rounded, again = (make_criterion(0.1, bf16_output=bf16)(model, sample)[0] for bf16 in (0, 1, 0))
    assert exact == again
    assert rounded != exact
    torch.testing.assert_close(rounded, exact, rtol=0.02, atol=0.0)


@pytest.mark.parametrize("kind", MODELS)
def test_the_first_target_word_may_be_left_out(kind):
    """The oracle is fairseq's label_smoothed_cross_entropy, which drops first columns by ``ignore_prefix_size``."""
    model, sample = make_model(kind), make_sample()
    theirs = LabelSmoothedCrossEntropyCriterion(TASK, False, 0.1, ignore_prefix_size=1)
    expected, _, expected_log = theirs(model, sample)
    loss, size, log = make_criterion(0.1, skip_first_target=True)(model, sample)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(log["nll_loss"], expected_log["nll_loss"], rtol=1e-5, atol=1e-5)
    assert size == log["ntokens"] == int(sample["target"][:, 1:].ne(PAD).sum())
    # no token is left, so the divisor would be 0
    ends = make_sample(collate([torch.tensor([5, EOS])], [torch.tensor([EOS])]))
    assert make_criterion(skip_first_target=True)(model, ends)[1] == 1


def test_bf16_output_is_an_option_of_the_command_line():
    words = ["data", "--arch", "wean_lstm", "--criterion", "query_embedding"]
    for more in ([], ["--bf16-output"]):
        args = options.parse_args_and_arch(options.get_training_parser(), input_args=[*words, *more])
        cfg = convert_namespace_to_omegaconf(args)
        assert criterions.build_criterion(cfg.criterion, TASK).options.bf16_output == bool(more)


def test_a_model_without_a_known_output_layer_is_refused():
    args = Namespace(criterion="query_embedding")
    lstm_architecture(args)
    model = LSTMModel.build_model(args, TASK)
    with pytest.raises(UserError, match="LSTMDecoder has neither: use --criterion cross_entropy"):
        make_criterion()(model, make_sample())
