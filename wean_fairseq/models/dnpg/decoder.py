"""The decoder of ``dnpg``: the phrase level generates and copies, the sentence level generates, labels weigh the two.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``D_0``, ``D_1`` widths of the phrase and the sentence
level, ``V`` base vocabulary.
"""

from typing import Any, NamedTuple

from fairseq.data import Dictionary
from torch import Tensor

from ...errors import UserError
from ...modules import (
    CopyDistribution,
    CopyGate,
    DecodedLevels,
    GranularityDecoder,
    MixtureLoss,
    QueryEmbedding,
    base_ids,
    gated,
    init_transformer,
    label_loss,
    mean_over_heads,
    mix_levels,
)
from ...modules.transformer import Cache
from ..base import State
from ..copying import CopyingDecoder, no_copy_mask
from .annealing import Annealing
from .encoder import encoded_levels


class WeakLabels(NamedTuple):
    """Levels of the words, 0 or 1, and negative at padding: ``source`` (B, S), ``target`` (B, T)."""

    source: Tensor
    target: Tensor


class DnpgDecoder(CopyingDecoder):
    """Both levels' decoders, their output layers, and the aggregator.

    Args:
        dictionary: with its slots.
        network: over the base words.
        phrase_output: scores words by the phrase level's states and embeddings.
        sentence_output: the same for the sentence level.
        annealing: temperature of the labels, weight of their loss.
        reads_weak_labels: in training the sentence level reads the weak labels, not the aggregator's.
        noisy_inference: draw labels outside of training too.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        network: GranularityDecoder,
        phrase_output: QueryEmbedding,
        sentence_output: QueryEmbedding,
        annealing: Annealing,
        reads_weak_labels: bool,
        noisy_inference: bool,
    ) -> None:
        super().__init__(dictionary)
        self.network = network
        self.phrase_output = phrase_output
        self.sentence_output = sentence_output
        self.annealing = annealing
        self.reads_weak_labels = reads_weak_labels
        self.noisy_inference = noisy_inference
        self.copy_gate = CopyGate(network.phrase_embedding.words.embedding_dim)
        init_transformer(self.copy_gate)

    def distribution_and_extra(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> tuple[CopyDistribution, dict[str, Any]]:
        """See ``CopyingDecoder``; ``attn`` is the phrase level's, and ``labels`` are log P(z_t), (B, T, 2)."""
        decoded = self._read(prev_output_tokens, encoder_out, incremental_state)
        steps = decoded.labels.used.size(1)
        distribution = self._choices(decoded, prev_output_tokens[:, -steps:], encoder_out)
        assert decoded.phrase.log_weights is not None
        attention = mean_over_heads(decoded.phrase.log_weights).exp()
        return distribution, {"attn": [attention], "labels": decoded.labels.expected}

    def loss(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Tensor],
        target: Tensor,
        label_smoothing: float,
        weak_labels: WeakLabels | None = None,
    ) -> MixtureLoss:
        """Loss sums against ``target`` (B, T), with the loss of the weak labels where there are some (eq. 10).

        Raises:
            UserError: in training without the weak labels that the options ask for.
        """
        if self.training and weak_labels is None and (self.annealing.uses_labels or self.reads_weak_labels):
            raise UserError(
                "dnpg is trained with weak labels of the words' levels, and the training data has none: make them with "
                "preprocess/weak_labels.py and give --granularity-labels, or give --label-weight 0 "
                "--final-label-weight 0 (and --decoder-labels aggregator) to train without."
            )
        given = weak_labels.target if weak_labels and self.training and self.reads_weak_labels else None
        decoded = self._read(prev_output_tokens, encoder_out, None, given)
        distribution = self._choices(decoded, prev_output_tokens, encoder_out)
        sums = distribution.loss(self.known_targets(target), self.padding_idx, label_smoothing)
        if weak_labels is None:
            return sums
        source = label_loss(encoder_out["expected_labels"], weak_labels.source)
        written = label_loss(decoded.labels.expected, weak_labels.target)
        loss = sums.loss + self.annealing.label_weight * (source + written)
        logged = {"source_label_loss": source.detach(), "target_label_loss": written.detach()}
        return MixtureLoss(loss, sums.nll_loss, sums.logged | logged)

    def reorder_incremental_state(self, incremental_state: State, new_order: Tensor) -> None:
        """Let the states follow the hypotheses ``new_order`` (B',) that beam search kept."""
        for cache in self._caches(incremental_state).values():
            cache.update({key: value.index_select(0, new_order) for key, value in cache.items()})

    def _read(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None,
        given_labels: Tensor | None = None,
    ) -> DecodedLevels:
        decoded: DecodedLevels = self.network(
            base_ids(prev_output_tokens, self.num_base, self.unk_index),
            encoded_levels(encoder_out),
            encoder_out["encoder_padding_mask"],
            self.annealing.temperature,
            noisy=self.training or self.noisy_inference,
            caches=None if incremental_state is None else self._caches(incremental_state),
            given_labels=given_labels,
        )
        return decoded

    def _choices(
        self, decoded: DecodedLevels, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor]
    ) -> CopyDistribution:
        """The mixture at the steps after the words ``prev_output_tokens`` (B, T)."""
        phrase, sentence = decoded.phrase, decoded.sentence
        assert phrase.log_weights is not None
        words = self.network.phrase_embedding.words
        embedded = words(base_ids(prev_output_tokens, self.num_base, self.unk_index))  # (B, T, D_0)
        generate_gate = self.copy_gate.generating(phrase.states, phrase.context, embedded)  # (B, T)
        source = encoder_out["src_tokens"]
        of_phrase = gated(
            generate_gate,
            self.phrase_output.scores(phrase.states, words.weight),
            mean_over_heads(phrase.log_weights),
            source,
            no_copy_mask(source, self.dictionary),
        )  # eq. 8
        of_sentence = self.sentence_output.scores(sentence.states, self.network.sentence_embedding.words.weight)
        return mix_levels(decoded.labels.used, of_phrase, of_sentence)

    def _caches(self, incremental_state: State) -> dict[str, Cache]:
        """The tensors kept between steps by name, batch first; changes to them are kept."""
        caches: dict[str, Cache] = {}
        for name in self.network.cache_names():
            cache = self.get_incremental_state(incremental_state, name)
            if cache is None:
                cache = {}
                self.set_incremental_state(incremental_state, name, cache)
            caches[name] = cache
        return caches
