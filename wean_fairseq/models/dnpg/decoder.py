"""The decoder of ``dnpg``: the phrase level generates and copies, the sentence level generates, labels weight the two.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``D_0``, ``D_1`` widths of the phrase
and the sentence level, ``V`` base vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from fairseq.data import Dictionary
from torch import Tensor

from ...errors import UserError
from ...modules import (
    CopyGate,
    Copying,
    EncodedLevels,
    Labels,
    LevelOutputs,
    LevelsDecoder,
    LossSums,
    Step,
    base_ids,
    init_transformer,
    label_loss,
    mean_over_heads,
    repeat_for_hypotheses,
)
from ...modules.chunked_loss import Readings, TokenLoss, product_token_loss
from ...modules.copying import CopyMixture, mix
from ...modules.dnpg_decoder import LevelsMemory, LevelsState, mix_levels
from ...modules.dnpg_levels import PHRASE, SENTENCE
from ..base import BuildScores, WordScores
from ..copying import CopyingDecoder, CopyMemory, no_copy_mask
from ..word_layers import build_output_layer
from .annealing import Annealing
from .config import DnpgConfig
from .scores import LevelScores


@dataclass(frozen=True)
class DnpgMemory(CopyMemory):
    """Encoder output in the form that the decoder steps read, and the labels of the source words, (B, S, 2)."""

    network: LevelsMemory
    expected_labels: Tensor


class DnpgDecoder(CopyingDecoder[DnpgMemory, LevelsState]):
    """Both levels' decoders, their output layers, and the aggregator.

    ``annealing`` has temperature and noise of the labels, and the weight of their loss. If ``reads_weak_labels`` is
    true, the sentence level reads the weak labels in training instead of the aggregator's.
    """

    def __init__(self, dictionary: Dictionary, network: LevelsDecoder, annealing: Annealing, cfg: DnpgConfig) -> None:
        super().__init__(dictionary)
        self.network = network
        self.phrase_output = build_output_layer(cfg, cfg.phrase_dim, cfg.phrase_dim, dictionary)
        self.sentence_output = build_output_layer(cfg, cfg.sentence_dim, cfg.sentence_dim, dictionary)
        self.annealing = annealing
        self.reads_weak_labels = str(cfg.decoder_labels) == "weak"
        self.copy_gate = CopyGate(cfg.phrase_dim)
        init_transformer(self.copy_gate)

    @property
    def output(self) -> LevelOutputs:  # type: ignore[override]
        return LevelOutputs(
            (self.phrase_output, self.sentence_output),
            (self.network.phrase_embedding.words.weight, self.network.sentence_embedding.words.weight),
        )

    @property
    def word_embeddings(self) -> Tensor:
        """See ``StepDecoder``. Each level has its own embeddings."""
        return self.network.phrase_embedding.words.weight

    def remember(self, encoder_out: dict[str, Tensor]) -> DnpgMemory:
        source = encoder_out["src_tokens"]
        labels = Labels(encoder_out["labels"], encoder_out["expected_labels"])
        encoded = EncodedLevels(encoder_out["phrase_states"], encoder_out["sentence_states"], labels)
        network = self.network.remember(encoded, encoder_out["encoder_padding_mask"])
        return DnpgMemory(source, no_copy_mask(source, self.dictionary), network, labels.expected)

    def begin(self, memory: DnpgMemory) -> LevelsState:
        return self.network.begin(memory.network)

    def search_scores(self, build: BuildScores) -> WordScores:
        """See ``StepDecoder``."""
        return LevelScores(self.output, build)

    def mixture(self, step: Step, log_sum: Tensor, no_copy: Tensor) -> CopyMixture:
        """See ``CopyingDecoder``. ``step`` has already mixed words and copies."""
        assert step.copying is not None
        return CopyMixture(torch.zeros_like(log_sum), step.copying.scores)

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> LossSums:
        """Loss sums against ``target`` (B, T), including the loss of the weak labels if there are any (eq. 10).

        Raises:
            UserError: in training without the weak labels that the options require.
        """
        source_labels, target_labels = (encoder_out.get(f"{side}_labels") for side in ("source", "target"))
        unlabelled = source_labels is None or target_labels is None
        if self.training and unlabelled and (self.annealing.uses_labels or self.reads_weak_labels):
            raise UserError(
                "dnpg is trained with weak labels of the words' levels, and the training data has none: make them with "
                "preprocess/weak_labels.py and give --granularity-labels, or give --label-weight 0 "
                "--final-label-weight 0 (and --decoder-labels aggregator) to train without."
            )
        given_labels = target_labels if self.training and self.reads_weak_labels else None
        memory = self.remember(encoder_out)
        step, _ = self.step(prev_output_tokens, memory, self.begin(memory), given_labels)
        sums = self.step_loss(step, memory, target, label_smoothing)
        if source_labels is None or target_labels is None:
            return sums
        source = label_loss(memory.expected_labels, source_labels)
        written = label_loss(step.extra["labels"], target_labels)
        loss = sums.loss + self.annealing.label_weight * (source + written)
        logged = {"source_label_loss": source.detach(), "target_label_loss": written.detach()}
        return LossSums(loss, sums.nll_loss, sums.logged | logged)

    def _token_loss(
        self, features: Tensor, words: Tensor, loss_of: TokenLoss, inputs: Sequence[Tensor], *, totals: bool
    ) -> Tensor:
        """See ``CopyingDecoder``. All scores are needed only for their sum, or if they are not products."""
        if totals or not self.output.by_product:
            return self._whole_token_loss(features, words, loss_of, inputs, totals=totals)
        products, weights = self.output.level_parts(features)

        # Each level is normalised separately, and the two log-probabilities are mixed with the levels' weights.
        def sums_of(phrase: Readings, sentence: Readings, weights: Tensor, *inputs: Tensor) -> Tensor:
            log_probs = [readings.picked - readings.log_sum.unsqueeze(1) for readings in (phrase, sentence)]
            return loss_of(Readings(torch.zeros_like(weights[:, 0]), mix_levels(log_probs, weights), None), *inputs)

        size = self.phrase_output.chunk_size
        return product_token_loss(products, words, sums_of, (weights, *inputs), chunk_size=size)

    def step(
        self, words: Tensor, memory: DnpgMemory, state: LevelsState, given_labels: Tensor | None = None
    ) -> tuple[Step, LevelsState]:
        """See ``StepDecoder``. ``attention`` is the phrase level's. ``extra`` has ``labels`` log P(z_t), (N, T, 2)."""
        previous = base_ids(words, self.num_base, self.unk_index)
        decoded, state = self.network(
            previous,
            memory.network,
            state,
            self.annealing.temperature,
            noisy=self.annealing.noisy,
            given_labels=given_labels,
        )
        phrase, used = decoded.phrase, decoded.labels.used
        assert phrase.log_weights is not None
        # Only the phrase level copies. Its gate splits the phrase level's probability between words and copies.
        attention = mean_over_heads(phrase.log_weights).view(*words.shape, -1)
        embedded = self.network.phrase_embedding.words(previous)  # (N, T, D_0)
        gate = self.copy_gate.generating(phrase.states, phrase.context, embedded)  # (N, T), eq. 8
        no_copy = repeat_for_hypotheses(memory.no_copy, len(words))
        mixture = mix(Copying(attention, gate), torch.zeros_like(gate.float()), no_copy)
        of_phrase = used[..., PHRASE]  # log P(z_t = 0), the weight of the phrase level with its copies
        # Of each level's words, (N, T, 2).
        weights = torch.stack([of_phrase - mixture.normaliser, used[..., SENTENCE]], dim=-1)
        features = torch.cat([phrase.states.float(), decoded.sentence.states.float(), weights], dim=-1)
        copying = Copying(of_phrase.unsqueeze(-1) + mixture.copy, None)
        return Step(features, attention.exp(), copying, {"labels": decoded.labels.expected}), state
