"""``policy_gradient``: learn from rewards for sentences that the model itself generates (DRESS, EMNLP 2017).

It supports every arch of this package. Words are sampled with the decoder's step function, and the model's forward
computes their probabilities. Auxiliary losses of the models are not used in training.

Legend: ``B`` sentences, ``T`` words, ``L`` given words of the target, ``V`` dictionary size, ``D`` width of the
features.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..checkpoints.dictionaries import fingerprint
from ..errors import UserError
from ..fields import check_values, option
from ..host.precision import set_tf32
from ..models.base import StepDecoder
from ..modules.policy_gradient import given_words, mean_of_others, policy_loss
from .model_loss import ModelLossConfig, ModelLossCriterion
from .rewards import AutoEncoder, LanguageModel, Sentences, simplicity

_LONGEST = 1.2  # maximum sample length as a multiple of the longest target, close to the authors' value
_REWARD = "reward:"  # prefix of the logged sum of a reward over all sentences that have rewards


@dataclass
class PolicyGradientConfig(FairseqDataclass):
    """Options of the criterion. The defaults follow the authors' code for WikiLarge (train_dress.sh)."""

    simplicity_weight: float = option(1.0, "weight of SARI in the reward; 0 = not used", least=0)
    relevance_weight: float = option(
        0.25, "weight of the similarity to the source in the reward; 0 = not used", least=0
    )
    fluency_weight: float = option(0.5, "weight of a language model's probability in the reward; 0 = not used", least=0)
    sari_forward: float = option(
        0.1,
        "share of SARI(source, output, target) in the simplicity; the rest is SARI(source, target, output)",
        least=0,
        most=1,
    )
    auto_encoder: Optional[str] = option(  # Optional, because fairseq cannot read `str | None`
        None, "checkpoint of an arch of this package that was trained to reproduce its source, for --relevance-weight"
    )
    language_model: Optional[str] = option(
        None, "checkpoint of --task language_modeling with the target's dictionary, for --fluency-weight"
    )
    given_words: int = option(
        24, "number of first words of a target trained by cross entropy in the first epoch (L)", least=0
    )
    fewer_words: int = option(3, "decrease of this number, applied every --fewer-every epochs", least=0)
    fewer_every: int = option(2, "number of epochs between two decreases of --given-words", least=1)
    baseline_width: int = option(
        0,
        "width of the decoder's features, to learn the baseline as a linear function of them; "
        "0 = the mean reward of the other sentences of the batch",
        least=0,
    )


@register_criterion("policy_gradient", dataclass=PolicyGradientConfig)
class PolicyGradientCriterion(ModelLossCriterion):
    """Criterion that computes the loss of sampled sentences in training.

    In validation, it computes the loss of the targets, and the rewards of greedy outputs. Losses are sums over words,
    but gradients are divided by the number of sentences.

    Raises:
        UserError: if an option is out of range, or a reward model is missing or unsuitable.
    """

    def __init__(self, task: FairseqTask, cfg: PolicyGradientConfig) -> None:
        super().__init__(task, ModelLossConfig(sentence_avg=False))
        check_values(PolicyGradientConfig, cfg)
        if not hasattr(task, "epoch"):
            raise UserError("criterion policy_gradient is for --task paraphrase and topic_essay.")
        for name, model in (("relevance", "auto_encoder"), ("fluency", "language_model")):
            path, weight, flag = getattr(cfg, model), getattr(cfg, f"{name}_weight"), model.replace("_", "-")
            if weight and not path:
                raise UserError(f"--{name}-weight {weight} needs --{flag} CHECKPOINT; 0 leaves the {name} out.")
            if path and not weight:
                raise UserError(f"--{flag} is for a --{name}-weight above 0: leave it out.")
        self.cfg = cfg
        words = [task.source_dictionary, task.target_dictionary]
        if cfg.simplicity_weight and fingerprint(words[0]) != fingerprint(words[1]):
            raise UserError(
                "SARI compares the words of both sides, and here they have two dictionaries: binarise the data with "
                "--joined-dictionary, or give --simplicity-weight 0."
            )
        # The reward models are not registered as submodules, because they would then be trained and saved with the
        # criterion.
        self.auto_encoder = AutoEncoder(cfg.auto_encoder, "--auto-encoder", words) if cfg.auto_encoder else None
        self.language_model = (
            LanguageModel(cfg.language_model, "--language-model", words[1:]) if cfg.language_model else None
        )
        set_tf32(task.cfg.tf32)  # loading the two models has changed this setting
        self.baseline = nn.Linear(cfg.baseline_width, 1) if cfg.baseline_width else None
        if self.baseline is not None:  # the expected reward starts at 0
            nn.init.zeros_(self.baseline.weight)
            nn.init.zeros_(self.baseline.bias)

    def load_state_dict(self, state_dict: Mapping[str, Any] | None, strict: bool = True, assign: bool = False) -> Any:
        """Load the parameters of the baseline, if the checkpoint contains a criterion.

        A training may start from a checkpoint of a criterion without a baseline.
        """
        return super().load_state_dict(state_dict, strict, assign) if state_dict is not None else None

    def forward(
        self, model: BaseFairseqModel, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """See ``ModelLossCriterion``."""
        if not isinstance(getattr(model, "decoder", None), StepDecoder):
            raise UserError(f"criterion policy_gradient is for the archs of this package, not {type(model).__name__}.")
        # words that the model cannot write are replaced in the target
        sample = {**sample, "target": model.get_targets(sample, None)}
        if model.training:
            return self._policy_loss(model, sample)
        loss, size, logged = super().forward(model, sample, reduce)
        words = self._draw(model, sample, given=0, greedy=True)
        _, rewards = self.reward(sample, words)
        return loss, size, logged | _sums(rewards, words.new_ones(len(words), dtype=torch.bool))

    def _policy_loss(self, model: BaseFairseqModel, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
        # Sample one sentence for each source. Each sentence starts with the first words of the target.
        given = given_words(self.task.epoch, self.cfg.given_words, self.cfg.fewer_words, self.cfg.fewer_every)
        words = self._draw(model, sample, given)  # (B, T)
        is_word = words.ne(self.padding_idx)
        is_given = is_word & (torch.arange(words.size(1), device=words.device) < given)
        drawn = is_word & ~is_given
        rewarded = drawn.any(dim=1)  # (B,)
        reward, rewards = self.reward(sample, words)
        # The model's forward method computes the probabilities of the sampled words again, this time with dropout and
        # gradients.
        end = words.new_full((len(words), 1), self.task.target_dictionary.eos())
        previous_words = torch.cat([end, words[:, :-1]], dim=1)
        scores, extra = model(**{**sample["net_input"], "prev_output_tokens": previous_words})
        lprobs = model.get_normalized_probs((scores, extra), log_probs=True)  # (B, T, V)
        lprobs = lprobs.gather(2, words.unsqueeze(2)).squeeze(2)
        if self.baseline is None:
            baseline, error = mean_of_others(reward, rewarded).unsqueeze(1), reward.new_zeros(())
        else:
            baseline = self._expected(extra["features"])
            error = 0.5 * ((baseline - reward.unsqueeze(1)) ** 2 * drawn).sum()
        loss = policy_loss(lprobs, reward, baseline, is_given, drawn) + error
        logged = {
            "loss": loss.detach(),
            "nll_loss": -lprobs.detach().masked_fill(~is_word, 0.0).sum(),
            "ntokens": int(is_word.sum()),
            "nsentences": len(words),
            "sample_size": len(words),
        }
        return loss, len(words), logged | _sums(rewards, rewarded)

    def _expected(self, features: Tensor) -> Tensor:
        """Return the expected rewards b_t (B, T), which are a linear function of the features (B, T, D).

        No gradient flows back into the features.
        """
        assert self.baseline is not None
        if features.size(2) != self.baseline.in_features:
            raise UserError(
                f"--baseline-width {self.baseline.in_features} is not the width of the decoder's features, which is "
                f"{features.size(2)}: give that, or 0."
            )
        expected: Tensor = self.baseline(features.detach().to(self.baseline.weight.dtype)).squeeze(2)
        return expected

    def _draw(self, model: BaseFairseqModel, sample: dict[str, Any], given: int, greedy: bool = False) -> Tensor:
        target = sample["target"]
        return draw(model, sample["net_input"], target, given, round(_LONGEST * target.size(1)), greedy)

    @torch.no_grad()
    def reward(self, sample: dict[str, Any], words: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the reward r of the sentences ``words`` (B, T), and its components by name. All have shape (B,)."""
        sources, outputs, targets = (
            self._sentences(tokens) for tokens in (sample["net_input"]["src_tokens"], words, sample["target"])
        )
        terms: dict[str, Tensor] = {}
        if self.cfg.simplicity_weight:
            terms["simplicity"] = simplicity(sources, outputs, targets, self.cfg.sari_forward).to(words.device)
        if self.auto_encoder is not None:
            terms["relevance"] = self.auto_encoder(sources, outputs, words.device)
        if self.language_model is not None:
            terms["fluency"] = self.language_model(outputs, words.device)
        total = sum(
            (getattr(self.cfg, f"{name}_weight") * term for name, term in terms.items()),
            torch.zeros_like(words[:, 0], dtype=torch.float),
        )
        return total, {"reward": total, **{f"reward_{name}": term for name, term in terms.items()}}

    def _sentences(self, tokens: Tensor) -> Sentences:
        """Return the words in each row of ``tokens`` (B, T), without padding and end symbols."""
        no_words = (self.padding_idx, self.task.target_dictionary.eos())
        return [[word for word in row if word not in no_words] for row in tokens.tolist()]

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Reduce the metrics of ``model_loss``, and average the rewards over the rewarded sentences."""
        ModelLossCriterion.reduce_metrics(logging_outputs)
        names = sorted({key for log in logging_outputs for key in log if key.startswith(_REWARD)})
        count = sum(log.get("rewarded", 0) for log in logging_outputs)
        for name in names if count else ():
            total = sum(log.get(name, 0) for log in logging_outputs)
            metrics.log_scalar(name.removeprefix(_REWARD), total / count, count, round=4)


def _sums(rewards: dict[str, Tensor], rewarded: Tensor) -> dict[str, Any]:
    """Return the sums to log: each reward (B,) is summed over the sentences with ``True`` in ``rewarded`` (B,)."""
    sums = {f"{_REWARD}{name}": (values * rewarded).sum() for name, values in rewards.items()}
    return {**sums, "rewarded": int(rewarded.sum())}


@torch.no_grad()
def draw(
    model: BaseFairseqModel, net_input: dict[str, Any], target: Tensor, given: int, longest: int, greedy: bool = False
) -> Tensor:
    """Continue the prefix of each target with words sampled from P(y_t), without dropout and noise.

    Args:
        model: a model whose decoder is a ``StepDecoder``.
        net_input: network input of the batch.
        target: target words (B, T), including the end symbol.
        given: number ``L`` of target words to start with. A shorter target is used completely.
        longest: maximum number of words, including the end symbol.
        greedy: choose the most probable word instead of sampling.

    Returns:
        The words of each sentence (B, T'), including the given words and padded after the end symbol. A sentence that
        reached the maximum length has no end symbol.
    """
    # Samples are drawn without dropout. The steps of the search are used, because they are cheaper than a full forward
    # pass for every word.
    training = model.training
    model.eval()
    encoder: Any = model.encoder
    decoder: StepDecoder[Any, Any] = model.decoder
    padding, end = decoder.padding_idx, decoder.dictionary.eos()
    sources = {name: value for name, value in net_input.items() if name != "prev_output_tokens"}
    memory = decoder.remember(encoder(**sources))
    state = decoder.begin(memory)
    words = target[:, :given]  # (B, L)
    next_words = torch.cat([target.new_full((len(target), 1), end), words], dim=1)
    done = (words.eq(end) | words.eq(padding)).any(dim=1)  # (B,)
    # The first step reads all given words at once. Every later step reads only the word that was just sampled. A
    # finished sentence is padded until all sentences are finished.
    while words.size(1) < longest and not done.all():
        step, state = decoder.step(next_words, memory, state)
        scores = decoder.scores(step, memory)[:, -1:]
        lprobs = decoder.get_normalized_probs((scores, None), log_probs=True, sample=None)[:, 0]  # (B, V)
        lprobs[:, padding] = -torch.inf  # in an untrained model, padding may be as probable as a word
        # If the model has diverged, any word may be sampled, because the loss of that word reports the divergence.
        chosen = lprobs.argmax(dim=1) if greedy else lprobs.exp().nan_to_num(nan=1.0).multinomial(1).squeeze(1)
        next_words = chosen.masked_fill(done, padding).unsqueeze(1)
        words = torch.cat([words, next_words], dim=1)
        done |= chosen.eq(end)
    model.train(training)
    return words
