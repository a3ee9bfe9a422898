"""``copy_transformer``: the Transformer in the table of C-DNPG (Gu et al., COLING 2022), with and without copying.

The defaults are the row "Transformer+Copy" of that table. There are two decoders, which combine generating and copying
in different ways.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``D`` width.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..fields import option
from ..modules import CopyGate, Copying, init_transformer
from ..modules.transformer_decoder import Decoded
from .base import register_family
from .bert_states import AddedStates
from .copying import CopyingModel
from .transformer import (
    TransformerConfig,
    TransformerMemory,
    TransformerSourceEncoder,
    TransformerTargetDecoder,
    build_network,
)


@dataclass
class CopyTransformerConfig(TransformerConfig):
    """Options of the model."""

    copy_mode: ChoiceEnum(("gate", "shared-softmax", "none")) = option(  # type: ignore[valid-type]
        "gate",
        "gate: choose between generating and copying by the last layer's attention (DNPG, eq. 8); "
        "shared-softmax: one softmax over words and source positions (CopyNet, eq. 4-8); none: no copying",
    )


# The row "Transformer" of the C-DNPG table. The name `transformer` is already used by fairseq's own arch.
PRESETS = {"paraphrase_transformer": {"copy_mode": "none"}}


class GateDecoder(TransformerTargetDecoder):
    """Decoder with a gate between generating a word and copying a word that the last layer attends to (DNPG, eq. 8).

    P = (1 - rho_t) P_gen + rho_t P_copy, with rho_t = sigmoid(w . [o_t; c_t; e(y_{t-1})] + b), where o_t is the output
    of the last layer and c_t its context. P_copy is the attention of that layer, averaged over heads.
    """

    copies = True
    loss_needs_attention = True

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.copy_gate = CopyGate(self.word_embeddings.size(1))
        init_transformer(self.copy_gate)

    def copying(
        self, decoded: Decoded, log_attention: Tensor | None, previous: Tensor, memory: TransformerMemory
    ) -> Copying:
        assert log_attention is not None
        embedded = self.network.embedding.words(previous)  # (N, T, D)
        states, context = (tensor.view_as(embedded) for tensor in (decoded.states, decoded.context))
        return Copying(log_attention, self.copy_gate.generating(states, context, embedded))


class SharedSoftmaxDecoder(TransformerTargetDecoder):
    """Decoder in which words and source positions compete in one softmax (CopyNet, Gu et al. 2016, eqs. 4 to 8).

    The score of copying position j is psi_c(x_j) = tanh(h_j W_c) . o_t / sqrt(D). CopyNet does not divide by sqrt(D),
    because its states are bounded by 1. A Transformer's states have norm sqrt(D). Without the division, the initial
    standard deviation would be 5.5 for copy scores and 0.4 for word scores.
    """

    copies = True

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        width = self.word_embeddings.size(1)
        self.copy_proj = nn.Linear(width, width, bias=False)  # W_c
        init_transformer(self.copy_proj)

    def remember(self, encoder_out: dict[str, Tensor]) -> TransformerMemory:
        keys = torch.tanh(self.copy_proj(encoder_out["encoder_out"]))  # (B, S, D)
        return replace(super().remember(encoder_out), copy_keys=keys)

    def copying(
        self, decoded: Decoded, log_attention: Tensor | None, previous: Tensor, memory: TransformerMemory
    ) -> Copying:
        assert memory.copy_keys is not None
        copy = decoded.states @ memory.copy_keys.transpose(1, 2) / math.sqrt(decoded.states.size(-1))  # eq. 8
        return Copying(copy.view(*previous.shape, -1), None)


DECODERS: dict[str, type[TransformerTargetDecoder]] = {
    "gate": GateDecoder,
    "shared-softmax": SharedSoftmaxDecoder,
    "none": TransformerTargetDecoder,
}


@register_family("copy_transformer", CopyTransformerConfig, PRESETS)
class CopyTransformerModel(CopyingModel):
    """A Transformer that generates and copies. With ``--copy-mode none`` it is the same network without copying.

    With the task's option ``--bert``, BERT's states of the words are added to the encoder's input.
    """

    capabilities = replace(CopyingModel.capabilities, inputs=("bert_features",))
    encoder: TransformerSourceEncoder
    decoder: TransformerTargetDecoder

    @classmethod
    def build(cls, cfg: CopyTransformerConfig, task: FairseqTask) -> "CopyTransformerModel":
        dictionary = task.source_dictionary
        # create the network first, so that all modes start from the same network if they use the same seed
        network = build_network(cfg, dictionary)
        bert = getattr(task, "bert", None)
        bert_states = None if bert is None else AddedStates(bert, cfg.embed_dim)
        return cls(
            TransformerSourceEncoder(dictionary, network.encoder, bert_states),
            DECODERS[str(cfg.copy_mode)](dictionary, network.decoder, network.output_layer),
        )
