"""What model families share whatever their network is: the forward of a model, the decoder that scores features.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``L`` layers, ``H`` hidden width, ``D`` width of the
features, ``V`` dictionary size.
"""

from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from torch import Tensor, nn

from ..modules import LossSums, MixtureLoss, QueryEmbedding

State = dict[str, dict[str, Tensor | None]]


class LossModel(FairseqEncoderDecoderModel):
    """An encoder, and a decoder with ``loss(prev_output_tokens, encoder_out, target, label_smoothing)``."""

    computes_loss = True  # see criterions/model_loss.py

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        target: Tensor | None = None,
        label_smoothing: float = 0.0,
        **task_inputs: Any,
    ) -> tuple[Tensor, dict[str, Any]] | LossSums | MixtureLoss:
        """Score every next word, or with ``target`` compute the loss, which builds only the scores that it needs.

        Args:
            src_tokens: shape (B, S).
            src_lengths: shape (B,).
            prev_output_tokens: shape (B, T).
            target: shape (B, T).
            label_smoothing: used with ``target``.
            task_inputs: what else the task gives; the encoder takes what it needs of it.

        Returns:
            What the decoder returns: scores (B, T, V) and ``{"attn": [weights (B, T, S) or None], ...}``; with
            ``target`` the summed losses.
        """
        encoder_out = self.encoder(src_tokens, src_lengths, **task_inputs)
        if target is None:
            return self.decoder(prev_output_tokens, encoder_out)
        return self.decoder.loss(prev_output_tokens, encoder_out, target, label_smoothing)


class FeatureDecoder(FairseqIncrementalDecoder):
    """A decoder whose words are scored from features; a family implements ``extract_features``.

    Args:
        dictionary: of the target.
        embed_tokens: (V, E).
        output: scores words, by their embeddings or not.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, output: QueryEmbedding) -> None:
        super().__init__(dictionary)
        self.padding_idx = dictionary.pad()
        self.embed_tokens = embed_tokens
        self.output = output

    def extract_features(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """What words are scored from, (B, T, D), and ``{"attn": [weights (B, T, S) or None], ...}``."""
        raise NotImplementedError

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None = None,
        **_unused: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Scores of the next word at every step.

        Args:
            prev_output_tokens: shape (B, T); with ``incremental_state`` only the last step is computed.
            encoder_out: what the encoder returned.
            incremental_state: the state between steps of generation.

        Returns:
            Logits (B, T, V), and what ``extract_features`` says beside the features.
        """
        features, extra = self.extract_features(prev_output_tokens, encoder_out, incremental_state)
        return self.output.scores(features, self.embed_tokens.weight), extra

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> LossSums | MixtureLoss:
        """Loss sums against ``target`` (B, T), without building the logits; a family adds its own losses here."""
        features, _ = self.extract_features(prev_output_tokens, encoder_out)
        return self.word_loss(features, target, label_smoothing)

    def word_loss(self, features: Tensor, target: Tensor, label_smoothing: float) -> LossSums:
        """Cross entropy of features (B, T, D) against ``target`` (B, T)."""
        return self.output.loss(features, self.embed_tokens.weight, target, self.padding_idx, label_smoothing)

    def max_positions(self) -> int:
        """A recurrent decoder has no longest output; the task sets the limits."""
        return int(1e5)


class LstmStates(FairseqIncrementalDecoder):
    """Keeps the state (h, c) of a decoder's LSTM, (L, B, H) each, between steps of generation."""

    def kept_states(self, incremental_state: State | None) -> tuple[Tensor, Tensor] | None:
        """The state after the last step; ``None`` at the first one, and in training."""
        kept = None if incremental_state is None else self.get_incremental_state(incremental_state, "lstm")
        return None if kept is None else (kept["hidden"], kept["cell"])

    def keep_states(self, incremental_state: State | None, hidden: Tensor, cell: Tensor) -> None:
        """Keep the state after this step; nothing in training."""
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "lstm", {"hidden": hidden, "cell": cell})

    def reorder_incremental_state(self, incremental_state: State, new_order: Tensor) -> None:
        """Let the states follow the hypotheses ``new_order`` (B',) that beam search kept."""
        states = self.kept_states(incremental_state)
        if states is not None:
            self.keep_states(incremental_state, *(state.index_select(1, new_order) for state in states))


@torch.no_grad()
def start_uniform(model: nn.Module, bound: float) -> None:
    """Start all weights uniform in [-bound, bound], 0 = leave them as they are; padding words are 0."""
    if bound:
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -bound, bound)
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight[module.padding_idx].zero_()
