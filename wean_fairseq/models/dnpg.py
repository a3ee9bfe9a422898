"""``dnpg``: decomposable neural paraphrase generation (Li et al., ACL 2019, arXiv 1906.09741).

The phrase level generates and copies words, and the sentence level only generates them. The weights of the two levels
depend on labels of the words.

Legend: ``B`` batch, ``N`` hypotheses, ``M`` words, ``S`` source length, ``T`` target length, ``D_0``, ``D_1`` widths of
the phrase and the sentence level, ``V`` base vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..errors import UserError
from ..fields import option
from ..modules import (
    CopyGate,
    Copying,
    DecoderLayer,
    EmbeddedLevel,
    EncodedLevels,
    EncoderLayer,
    FractionalEmbedding,
    Labels,
    Level,
    LevelAggregator,
    LevelOutputs,
    LevelsDecoder,
    LevelsEncoder,
    LevelSeparator,
    LossSums,
    Step,
    base_ids,
    init_transformer,
    label_loss,
    mean_over_heads,
    repeat_for_hypotheses,
)
from ..modules.chunked_loss import Readings, TokenLoss, product_token_loss
from ..modules.copying import CopyMixture, mix
from ..modules.dnpg_decoder import LevelsMemory, LevelsState, mix_levels
from ..modules.dnpg_levels import PHRASE, SENTENCE
from .base import BuildScores, SourceEncoder, WordScores, register_family
from .copying import CopyingDecoder, CopyingModel, CopyMemory, no_copy_mask
from .word_layers import OutputLayerConfig, build_output_layer, word_embedding


@dataclass
class DnpgConfig(OutputLayerConfig):
    """Options of the model. Section numbers refer to the paper."""

    phrase_dim: int = option(300, "width of the phrase level (sec. 3.2)", least=1)
    phrase_heads: int = option(6, "attention heads of the phrase level (sec. 3.2)", least=1)
    sentence_dim: int = option(150, "width of the sentence level (sec. 3.2)", least=1)
    sentence_heads: int = option(3, "attention heads of the sentence level (sec. 3.2)", least=1)
    encoder_layers: int = option(3, "layers of each level's encoder", least=1)
    decoder_layers: int = option(3, "layers of each level's decoder", least=1)
    ffn_factor: int = option(
        4, "inner width of the feed-forward sublayers, as a multiple of the level's width", least=1
    )
    window: int = option(3, "the phrase level's self-attention reads words whose distance is less than this", least=1)
    separator_dim: int = option(
        300, "width of the separator: its embeddings, both directions together, and its second LSTM", least=1
    )
    aggregator_dim: int = option(300, "width of the aggregator", least=1)
    dropout: float = option(0.1, "dropout on embeddings and on the output of every sublayer")
    attention_dropout: float = option(0.1, "dropout on attention weights")
    label_weight: float = option(1.0, "initial weight of the loss of the weak labels (lambda of sec. 3.2)", least=0)
    final_label_weight: float = option(0.01, "weight of the label loss after --anneal-after epochs", least=0)
    temperature: float = option(1.0, "initial temperature of the labels (tau of sec. 3.2)", is_positive=True)
    final_temperature: float = option(0.9, "temperature of the labels after --anneal-after epochs", is_positive=True)
    anneal_after: int = option(
        3, "epochs before --final-label-weight and --final-temperature apply; 0 = from the start", least=0
    )
    decoder_labels: ChoiceEnum(("aggregator", "weak")) = option(  # type: ignore[valid-type]
        "aggregator",
        "labels that weight the previous words for the sentence level in training: aggregator = its own, as in "
        "generation; weak = the weak labels, with which all steps run at once",
    )
    noisy_inference: bool = option(False, "sample labels in generation too, which makes the search random")


class Annealing(nn.Module):
    """The annealing schedule of section 3.2.

    Temperature and label weight change once, after a number of epochs that the options set.

    fairseq calls ``set_epoch`` at the start of every epoch, also when a training is resumed. The temperature is saved
    with the model, because generation needs it.

    Attributes:
        temperature: temperature of the labels, a scalar buffer.
        label_weight: weight of the loss of the weak labels.
    """

    temperature: Tensor

    def __init__(self, cfg: DnpgConfig) -> None:
        super().__init__()
        self.first = (cfg.temperature, cfg.label_weight)
        self.final = (cfg.final_temperature, cfg.final_label_weight)
        self.after = cfg.anneal_after
        self.noisy_inference = cfg.noisy_inference
        self.register_buffer("temperature", torch.tensor(1.0))
        self.label_weight = 0.0
        self.set_epoch(1)

    def set_epoch(self, epoch: int) -> None:
        """Set the values for an epoch, counted from 1."""
        temperature, self.label_weight = self.first if epoch <= self.after else self.final
        self.temperature.fill_(temperature)

    @property
    def noisy(self) -> bool:
        """Return True if labels are sampled instead of being used as weights."""
        return self.training or self.noisy_inference

    @property
    def uses_labels(self) -> bool:
        """Return True if any epoch needs weak labels."""
        return self.first[1] > 0 or self.final[1] > 0


class DnpgEncoder(SourceEncoder):
    """Label every word with the temperature and noise of ``annealing``, and encode the source for both levels."""

    def __init__(self, dictionary: Dictionary, network: LevelsEncoder, annealing: Annealing) -> None:
        super().__init__(dictionary)
        self.network = network
        self.annealing = annealing

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        source_labels: Tensor | None = None,
        target_labels: Tensor | None = None,
        **_unused: Any,
    ) -> dict[str, Tensor]:
        """Encode a batch.

        Args:
            source_labels: weak labels for the loss, (B, S). They are the levels of the source words (0 or 1), and
                negative at padding.
            target_labels: weak labels of the target words, (B, T).

        Returns:
            A dictionary with ``phrase_states`` (B, S, D_0), ``sentence_states`` (B, S, D_1), ``labels`` and
            ``expected_labels`` (B, S, 2) (see ``Labels``), ``encoder_padding_mask`` (B, S) and, unchanged,
            ``src_tokens`` and both weak labels.
        """
        padding_mask = src_tokens.eq(self.dictionary.pad())
        encoded = self.network(
            self.known_words(src_tokens),
            padding_mask,
            self.annealing.temperature,
            noisy=self.annealing.noisy,
        )
        weak = {"source_labels": source_labels, "target_labels": target_labels}
        return {
            **{name: labels for name, labels in weak.items() if labels is not None},
            "phrase_states": encoded.phrase,
            "sentence_states": encoded.sentence,
            "labels": encoded.labels.used,
            "expected_labels": encoded.labels.expected,
            "encoder_padding_mask": padding_mask,
            "src_tokens": src_tokens,
        }


class LevelScores:
    """``WordScores`` of a decoder with two levels.

    ``compute`` stores their mixture in the scores of the phrase level.
    """

    def __init__(self, outputs: LevelOutputs, build: BuildScores) -> None:
        self._outputs = outputs
        self._phrase: WordScores
        self._phrase, self._sentence = map(build, outputs.outputs, outputs.embeddings)
        self.fits, self.get, self.put = self._phrase.fits, self._phrase.get, self._phrase.put
        self.best, self.mix = self._phrase.best, self._phrase.mix

    def compute(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Score all words from the features (N, D_0 + D_1 + 2). Return the log of the summed exponentials, (N,)."""
        assert temperature == 1.0  # the scores are normalised, so a search with another temperature uses fairseq's loop
        (phrase, sentence), weights = self._outputs.split(features)
        log_sums = torch.stack([self._phrase.compute(phrase), self._sentence.compute(sentence)], dim=1)
        weight, sentence_weight = (weights - log_sums).unbind(dim=1)
        self._phrase.mix(weight, self._sentence, sentence_weight)
        return torch.logsumexp(weights, dim=1)


@dataclass(frozen=True)
class DnpgMemory(CopyMemory):
    """The encoder's output in the form that decoder steps read, with the labels (B, S, 2) of the source words."""

    network: LevelsMemory
    expected_labels: Tensor


class DnpgDecoder(CopyingDecoder[DnpgMemory, LevelsState]):
    """The decoders of both levels, their output layers, and the aggregator.

    ``annealing`` contains the temperature and noise of the labels, and the weight of their loss. If
    ``reads_weak_labels`` is true, the sentence level reads the weak labels in training instead of the aggregator's
    labels.
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
        """See ``StepDecoder``. The method returns the embeddings of the phrase level.

        The sentence level has separate embeddings.
        """
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
        """See ``CopyingDecoder``.

        The step already contains the mixture of words and copies, so nothing is left to mix.
        """
        assert step.copying is not None
        return CopyMixture(torch.zeros_like(log_sum), step.copying.scores)

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> LossSums:
        """Return the summed losses against ``target`` (B, T), including the loss of weak labels, if any (eq. 10).

        Raises:
            UserError: in training, if weak labels are missing that the options require.
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
        """See ``CopyingDecoder``.

        All scores are computed at once if their sum is required, or if they are not matrix products.
        """
        if totals or not self.output.by_product:
            return self._whole_token_loss(features, words, loss_of, inputs, totals=totals)
        products, weights = self.output.level_parts(features)

        # Each level is normalised separately, and the log-probabilities of the two levels are mixed with the levels'
        # weights.
        def sums_of(phrase: Readings, sentence: Readings, weights: Tensor, *inputs: Tensor) -> Tensor:
            log_probs = [readings.picked - readings.log_sum.unsqueeze(1) for readings in (phrase, sentence)]
            return loss_of(Readings(torch.zeros_like(weights[:, 0]), mix_levels(log_probs, weights), None), *inputs)

        size = self.phrase_output.chunk_size
        return product_token_loss(products, words, sums_of, (weights, *inputs), chunk_size=size)

    def step(
        self, words: Tensor, memory: DnpgMemory, state: LevelsState, given_labels: Tensor | None = None
    ) -> tuple[Step, LevelsState]:
        """See ``StepDecoder``. ``attention`` is the attention of the phrase level.

        ``extra`` has ``labels`` log P(z_t), (N, T, 2).
        """
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
        of_phrase = used[..., PHRASE]  # log P(z_t = 0), the weight of the phrase level including its copies
        # Log of the weight of the words that each level generates, (N, T, 2).
        weights = torch.stack([of_phrase - mixture.normaliser, used[..., SENTENCE]], dim=-1)
        features = torch.cat([phrase.states.float(), decoded.sentence.states.float(), weights], dim=-1)
        copying = Copying(of_phrase.unsqueeze(-1) + mixture.copy, None)
        return Step(features, attention.exp(), copying, {"labels": decoded.labels.expected}), state


@register_family("dnpg", DnpgConfig)
class DnpgModel(CopyingModel):
    """A separator of levels, one encoder and one decoder per level, and an aggregator of the levels' words."""

    capabilities = replace(CopyingModel.capabilities, adds_losses=True, inputs=("source_labels", "target_labels"))

    encoder: DnpgEncoder
    decoder: DnpgDecoder

    @classmethod
    def build(cls, cfg: DnpgConfig, task: FairseqTask) -> "DnpgModel":
        dictionary, annealing = task.source_dictionary, Annealing(cfg)
        levels = _build_levels(cfg, EncoderLayer, cfg.encoder_layers)
        separator = LevelSeparator(word_embedding(dictionary, cfg.separator_dim), cfg.separator_dim)
        phrase, sentence = _embed(levels, cfg, dictionary)
        encoder = LevelsEncoder(separator, phrase, sentence, cfg.window)
        levels = _build_levels(cfg, DecoderLayer, cfg.decoder_layers)
        phrase, sentence = _embed(levels, cfg, dictionary)
        aggregator = LevelAggregator(2 * cfg.phrase_dim + cfg.sentence_dim, cfg.aggregator_dim)
        decoder = LevelsDecoder(phrase, sentence, aggregator, cfg.window)
        return cls(
            DnpgEncoder(dictionary, encoder, annealing),
            DnpgDecoder(dictionary, decoder, annealing, cfg),
        )


def _build_levels(cfg: DnpgConfig, layer: type[EncoderLayer | DecoderLayer], count: int) -> list[Level]:
    levels = [
        Level(layer(dim, heads, cfg.ffn_factor * dim, cfg.dropout, cfg.attention_dropout) for _ in range(count))
        for dim, heads in ((cfg.phrase_dim, cfg.phrase_heads), (cfg.sentence_dim, cfg.sentence_heads))
    ]
    for level in levels:
        init_transformer(level)
    return levels


def _embed(levels: list[Level], cfg: DnpgConfig, dictionary: Dictionary) -> list[EmbeddedLevel]:
    return [
        EmbeddedLevel(FractionalEmbedding(word_embedding(dictionary, dim), cfg.dropout), level)
        for level, dim in zip(levels, (cfg.phrase_dim, cfg.sentence_dim), strict=True)
    ]
