"""DRGD for one sentence pair, computed from the raw weights for one word and one source position at a time."""

from typing import Any

import torch
from torch import Tensor

from tests.reference import query_scores
from tests.reference.residual_lstm import SCORES
from tests.reference.rnn_distract import gru_step, linear, read_source
from wean_fairseq.modules import EarlyResetGru


def read(model: Any, source: Tensor, previous: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scores of the next word, (T, V), and the divergence of each step from its prior, (T,).

    Args:
        model: model of this family.
        source: source words (S,), without padding.
        previous: output words before each step, (T,).
        noise: eps of each step, (T, Z). With 0, the mean is used.
    """
    decoder, attention, embed = model.decoder, model.decoder.attention, model.encoder.embed_tokens.weight
    first, second, latent = (
        dict(part.named_parameters()) for part in (decoder.first_gru, decoder.second_gru, decoder.latent)
    )
    early_reset = isinstance(decoder.first_gru, EarlyResetGru)
    memory, start = read_source(model, source)
    h1, h2, z = start, start, torch.zeros(noise.size(1))
    features, divergences = [], []
    for word, eps in zip(previous.tolist(), noise, strict=True):
        e = embed[word]
        x = torch.cat([e, h1])  # h1 of the previous step
        projected = latent["input_proj.weight"] @ x + latent["input_proj.bias"] + latent["latent_proj.weight"] @ z
        h = 1 / (1 + torch.exp(-projected))
        mu, log_variance = (latent["gaussian_proj.weight"] @ h + latent["gaussian_proj.bias"]).chunk(2)
        sigma = log_variance.exp().sqrt()
        z = mu + sigma * eps
        normals = torch.distributions.Normal(mu, sigma), torch.distributions.Normal(0.0, 1.0)
        divergences.append(torch.distributions.kl_divergence(*normals).sum())
        h1 = gru_step(e, h1, first, "_l0", early_reset)
        scores = [
            attention.vector @ torch.tanh(attention.key_proj.weight @ source_state + linear(attention.query_proj, h1))
            for source_state in memory
        ]
        alpha = torch.softmax(torch.stack(scores), dim=0)
        content = sum(a * source_state for a, source_state in zip(alpha, memory, strict=True))
        h2 = gru_step(torch.cat([e, content]), h2, second, "_l0", early_reset)
        features.append(torch.tanh(linear(decoder.combine, torch.cat([z, h2]))))
    kind = SCORES[type(decoder.output.score).__name__]
    parameters = dict(decoder.output.named_parameters())
    return query_scores.scores(kind, torch.stack(features), embed, parameters), torch.stack(divergences)
