"""Convert a trained Transformer for CTranslate2, a decoding library that needs no PyTorch.

CTranslate2's converter reads fairseq's own Transformers. The Transformers of ``modules/transformer.py`` are passed to
it under fairseq's names. Two parts have no counterpart in fairseq, so they are expressed by parts that CTranslate2
knows. The segment embedding is added to every position embedding. The output layer's transform, LayerNorm(GELU(W h +
b)), is the feed-forward part of an additional decoder layer. Its inner units are W h + b, h and -h. The last two have
the weights -1 and 1 and cancel the residual, because GELU(x) - GELU(-x) = x. The attentions of that layer return 0. The
normalisation before the transform is applied three times: the first two times without weights, the third time with its
original weights.

Legend: ``D`` model width, ``V`` dictionary size.
"""

from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UserError
from ..modules import QueryEmbedding, TiedOutput, TransformerDecoder
from ..modules.query_embedding import ConcatScore
from ..modules.transformer import NORM_EPS, MultiHeadAttention, PositionedEmbedding
from ..optional import import_optional


@torch.no_grad()
def convert(model: Any, task: Any, folder: Path) -> None:
    """Write a model in CTranslate2's format.

    Args:
        model: the model in evaluation mode, on the CPU.

    Raises:
        UserError: if the library is not installed, or does not support the model.
    """
    library = import_optional("ctranslate2")
    names = library.converters.fairseq
    if type(model).__module__.startswith("fairseq."):
        try:
            spec, encoder, decoder = names._get_model_spec(model.args), model.encoder, model.decoder
        except ValueError as error:
            raise _not_there(f"lacks something ({' '.join(str(error).split())})") from error
    else:
        spec, (encoder, decoder) = _own_spec(library.specs, model), _under_fairseqs_names(model)
    names.set_transformer_encoder(spec.encoder, encoder)
    names.set_transformer_decoder(spec.decoder, decoder)
    spec.register_source_vocabulary(_vocabulary(task.source_dictionary, encoder.embed_tokens))
    spec.register_target_vocabulary(_vocabulary(task.target_dictionary, decoder.embed_tokens))
    spec.config.decoder_start_token = spec.config.eos_token
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize()
    folder.mkdir()
    spec.save(str(folder))


def _vocabulary(dictionary: Any, embedding: nn.Embedding) -> list[str]:
    """Return the words that have embeddings. The padding symbol gets the name that CTranslate2 uses."""
    words = dictionary.symbols[: embedding.num_embeddings]
    return ["<blank>" if number == dictionary.pad() else word for number, word in enumerate(words)]


def _own_spec(specs: Any, model: Any) -> Any:
    """Return an empty CTranslate2 specification that corresponds to a model of ``modules/transformer.py``."""
    decoder = model.decoder
    network = getattr(decoder, "network", None)
    if not isinstance(network, TransformerDecoder) or not isinstance(network.embedding, PositionedEmbedding):
        raise _not_there("knows Transformers alone, that read and write one sequence of words")
    if decoder.copies:
        raise _not_there("cannot copy words from the source")
    if getattr(model.encoder, "bert_states", None) is not None:
        raise _not_there("cannot read the states of --bert")
    if any(isinstance(part, MultiHeadAttention) and type(part) is not MultiHeadAttention for part in model.modules()):
        raise _not_there("knows no granularities in its attention")
    if isinstance(getattr(decoder.output, "score", None), ConcatScore):
        raise _not_there("scores words by a matrix product, so not by --query-score concat")
    layers: Any = network.layers
    added, heads = int(isinstance(decoder.output, TiedOutput)), layers[0].self_attention.heads
    spec = specs.TransformerSpec.from_config(
        (len(model.encoder.network.layers), len(layers) + added),
        heads,
        # The alignment comes from the model's own last layer, because its attention selects the source word that
        # replaces <unk>.
        alignment_layer=-1 - added,
        alignment_heads=heads,
        pre_norm=False,
        activation=specs.common_spec.Activation.GELU,
        layernorm_embedding=True,
    )
    spec.config.layer_norm_epsilon = NORM_EPS
    return spec


def _not_there(what: str) -> UserError:
    return UserError(f"CTranslate2 {what}: this model cannot be written in its format.")


def _under_fairseqs_names(model: Any) -> tuple[Namespace, Namespace]:
    encoder, decoder = (_stack(side.network) for side in (model.encoder, model.decoder))
    output, embeddings = model.decoder.output, model.decoder.word_embeddings
    if isinstance(output, TiedOutput):
        decoder.layers.append(_transform_layer(output.transform, decoder.layers[-1]))
        decoder.output_projection = _map(embeddings, output.bias)
    else:
        assert isinstance(output, QueryEmbedding)
        width = model.decoder.network.embedding.words.embedding_dim
        # The scores are an affine function of the decoder states. The scores of the zero state are therefore the bias,
        # and the scores of the unit vectors minus this bias are the weights.
        shift = output.scores(torch.zeros(1, width), embeddings)
        weight = (output.scores(torch.eye(width), embeddings) - shift).t().contiguous()
        decoder.output_projection = _map(weight, shift[0])
    return encoder, decoder


def _stack(network: Any) -> Namespace:
    embedding = network.embedding
    return Namespace(
        embed_tokens=embedding.words,
        embed_positions=Namespace(weights=embedding.positions.weight + embedding.segment, padding_idx=-1),
        embed_scale=1.0,
        layernorm_embedding=embedding.norm,
        layers=[_layer(layer) for layer in network.layers],
        layer_norm=None,
        project_in_dim=None,
        project_out_dim=None,
    )


def _layer(layer: Any) -> Namespace:
    inner, _activation, outer = layer.feed_forward
    named = Namespace(
        self_attn=_attention(layer.self_attention),
        self_attn_layer_norm=layer.self_norm,
        fc1=inner,
        fc2=outer,
        final_layer_norm=layer.output_norm,
    )
    if hasattr(layer, "cross_attention"):
        named.encoder_attn = _attention(layer.cross_attention)
        named.encoder_attn_layer_norm = layer.cross_norm
    return named


def _attention(attention: MultiHeadAttention) -> Namespace:
    return Namespace(
        q_proj=attention.query_proj, k_proj=attention.key_proj, v_proj=attention.value_proj, out_proj=attention.out_proj
    )


def _transform_layer(transform: nn.Sequential, last: Namespace) -> Namespace:
    """Return the output layer's transform in the form of a decoder layer that follows the layer ``last``.

    The normalisation that originally ended ``last`` moves to the new layer.
    """
    linear, _activation, norm = transform
    assert isinstance(linear, nn.Linear)
    width = linear.in_features
    unit, none = torch.eye(width), torch.zeros(width)
    attention = Namespace(**{f"{name}_proj": _map(torch.zeros(width, width), none) for name in ("q", "k", "v", "out")})
    plain, weighted = _map(torch.ones(width), none), last.final_layer_norm
    last.final_layer_norm = plain
    return Namespace(
        self_attn=attention,
        self_attn_layer_norm=plain,
        encoder_attn=attention,
        encoder_attn_layer_norm=weighted,
        fc1=_map(torch.cat([linear.weight, unit, -unit]), torch.cat([linear.bias, none, none])),
        fc2=_map(torch.cat([unit, -unit, unit], dim=1), none),
        final_layer_norm=norm,
    )


def _map(weight: Tensor, bias: Tensor) -> Namespace:
    return Namespace(weight=weight, bias=bias)
