"""Test the Transformer that is compared with PC-SAN: fairseq's model with the sizes of PC-SAN's decoder."""

from argparse import Namespace
from typing import Any

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

from tests.model_contract import PAD, log_probs, make_batch, make_task
from wean_fairseq.criterions.model_loss import ModelLossConfig
from wean_fairseq.criterions.query_embedding import QueryEmbeddingCriterion

SIZES = {"essay_transformer": (768, 3072, 6, 8), "essay_transformer_small": (128, 512, 2, 4)}


def build(arch: str, **options: Any) -> torch.nn.Module:
    args = Namespace(**options)
    ARCH_CONFIG_REGISTRY[arch](args)
    torch.manual_seed(1)
    return ARCH_MODEL_REGISTRY[arch].build_model(args, make_task()).eval()


@pytest.mark.parametrize("arch", SIZES)
def test_the_sizes_are_those_of_the_decoder_of_pc_san(arch):
    """The sizes are in spec 6.10.

    The parameters are counted by hand, with one embedding of 23 words for topics, essay and output.
    """
    d, inner, layers, heads = SIZES[arch]
    model = build(arch)
    attention, norm, feed_forward = 4 * (d * d + d), 2 * d, d * inner + inner + inner * d + d
    each = (attention + feed_forward + 2 * norm) + (2 * attention + feed_forward + 3 * norm)
    assert sum(p.numel() for p in model.parameters()) == 23 * d + layers * each
    assert model.decoder.output_projection.weight is model.encoder.embed_tokens.weight
    assert model.decoder.embed_tokens.weight is model.encoder.embed_tokens.weight
    assert model.encoder.layers[0].self_attn.num_heads == model.decoder.layers[0].self_attn.num_heads == heads


def test_it_is_the_post_norm_network_of_vaswani_with_dropout_one_tenth():
    args = Namespace()
    ARCH_CONFIG_REGISTRY["essay_transformer"](args)
    for side in ("encoder", "decoder"):
        assert not getattr(args, f"{side}_normalize_before")
        assert not getattr(args, f"{side}_learned_pos")
    assert (args.dropout, args.attention_dropout, args.activation_fn) == (0.1, 0.1, "relu")


def test_a_flag_wins_over_the_preset():
    assert len(build("essay_transformer_small", decoder_layers=3).decoder.layers) == 3


def test_it_trains_with_the_criterion_query_embedding():
    """The expected loss is fairseq's own label-smoothed loss."""
    model, batch = build("essay_transformer_small"), make_batch()
    target = batch.pop("target")
    task = Namespace(**vars(make_task()))
    criterion = QueryEmbeddingCriterion(task, ModelLossConfig(label_smoothing=0.1, sentence_avg=False))
    sample = {"net_input": batch, "target": target, "ntokens": int(target.ne(PAD).sum())}
    loss = criterion(model, sample)[0]
    expected = label_smoothed_nll_loss(log_probs(model, batch).flatten(0, 1), target.flatten(), 0.1, ignore_index=PAD)
    torch.testing.assert_close(loss, expected[0], rtol=1e-5, atol=1e-5)
