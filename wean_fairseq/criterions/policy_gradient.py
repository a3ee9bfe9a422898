"""``policy_gradient``: learning from rewards of sentences that the model writes itself (DRESS, EMNLP 2017).

It goes with every arch of this package: words are drawn by the steps of the decoder, and their probabilities come from
the model's own forward. Losses that a family adds to that of the words are left out in training.

Legend: ``B`` sentences, ``T`` words, ``L`` words given, ``V`` dictionary size, ``D`` width of the features.
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

from ..checkpoints.dictionaries import describe
from ..errors import UserError
from ..fields import check_values, option
from ..host.precision import set_tf32
from ..models.base import StepDecoder
from ..modules.policy_gradient import given_words, mean_of_others, policy_loss
from .model_loss import ModelLossConfig, ModelLossCriterion
from .rewards import AutoEncoder, LanguageModel, Sentences, simplicity

_LONGEST = 1.2  # of what is drawn, in lengths of the longest target; about what the authors' release takes
_REWARD = "reward:"  # marks a sum over the sentences that have rewards


@dataclass
class PolicyGradientConfig(FairseqDataclass):
    """The defaults are those of the authors' release for WikiLarge (train_dress.sh)."""

    simplicity_weight: float = option(1.0, "weight of SARI in the reward; 0 = leave it out", least=0)
    relevance_weight: float = option(
        0.25, "weight of the likeness to the source in the reward; 0 = leave it out", least=0
    )
    fluency_weight: float = option(
        0.5, "weight of the probability by a language model in the reward; 0 = leave it out", least=0
    )
    sari_forward: float = option(
        0.1,
        "share of SARI(source, output, target) in the simplicity, the rest is SARI(source, target, output)",
        least=0,
    )
    auto_encoder: Optional[str] = option(  # fairseq cannot read `str | None`
        None, "checkpoint of an arch of this package trained to give its source back, for --relevance-weight"
    )
    language_model: Optional[str] = option(
        None, "checkpoint of a --task language_modeling over the target's words, for --fluency-weight"
    )
    given_words: int = option(
        24, "first words of a target that are learnt by cross entropy in the first epoch (L)", least=0
    )
    fewer_words: int = option(3, "how many fewer they become at a time", least=0)
    fewer_every: int = option(2, "after how many epochs they become fewer", least=1)
    baseline_width: int = option(
        0,
        "learn the baseline as a linear function of the decoder's features, which have this width; "
        "0 = the mean reward of the other sentences of the batch",
        least=0,
    )


@register_criterion("policy_gradient", dataclass=PolicyGradientConfig)
class PolicyGradientCriterion(ModelLossCriterion):
    """In training the loss of sentences that are drawn; in validation that of the targets, and greedy outputs' rewards.

    Losses are sums over words; gradients are divided by sentences.

    Raises:
        UserError: if an option is out of range, or a model that rewards is missing or cannot be used.
    """

    def __init__(self, task: FairseqTask, cfg: PolicyGradientConfig) -> None:
        super().__init__(task, ModelLossConfig(sentence_avg=False))
        check_values(PolicyGradientConfig, cfg)
        if cfg.sari_forward > 1:
            raise UserError(f"--sari-forward is a share, 1 at most, but is {cfg.sari_forward}.")
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
        if cfg.simplicity_weight and describe(words[0]) != describe(words[1]):
            raise UserError(
                "SARI compares the words of both sides, and here they have two dictionaries: binarise the data with "
                "--joined-dictionary, or give --simplicity-weight 0."
            )
        # These are no modules, which would be trained and saved with the criterion.
        self.auto_encoder = AutoEncoder(cfg.auto_encoder, "--auto-encoder", words) if cfg.auto_encoder else None
        self.language_model = (
            LanguageModel(cfg.language_model, "--language-model", words[1:]) if cfg.language_model else None
        )
        set_tf32(task.cfg.tf32)  # the tasks of those two have set their own
        self.baseline = nn.Linear(cfg.baseline_width, 1) if cfg.baseline_width else None
        if self.baseline is not None:  # nothing is expected at first
            nn.init.zeros_(self.baseline.weight)
            nn.init.zeros_(self.baseline.bias)

    def load_state_dict(self, state_dict: Mapping[str, Any] | None, strict: bool = True, assign: bool = False) -> Any:
        """Load a baseline; the checkpoint of another criterion, which a training begins with, has none."""
        return super().load_state_dict(state_dict, strict, assign) if state_dict is not None else None

    def forward(
        self, model: BaseFairseqModel, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """See ``ModelLossCriterion``."""
        if not isinstance(getattr(model, "decoder", None), StepDecoder):
            raise UserError(
                f"criterion policy_gradient is for the archs of this package, and {type(model).__name__} is none."
            )
        sample = {**sample, "target": model.get_targets(sample, None)}  # as the model can write them
        if model.training:
            return self._policy_loss(model, sample)
        loss, size, logged = super().forward(model, sample, reduce)
        words = self._draw(model, sample, given=0, greedy=True)
        _, rewards = self.reward(sample, words)
        return loss, size, logged | _sums(rewards, words.new_ones(len(words), dtype=torch.bool))

    def _policy_loss(self, model: BaseFairseqModel, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
        given = given_words(self.task.epoch, self.cfg.given_words, self.cfg.fewer_words, self.cfg.fewer_every)
        words = self._draw(model, sample, given)  # (B, T)
        is_word = words.ne(self.padding_idx)
        is_given = is_word & (torch.arange(words.size(1), device=words.device) < given)
        drawn = is_word & ~is_given
        rewarded = drawn.any(dim=1)  # (B,)
        reward, rewards = self.reward(sample, words)
        end = words.new_full((len(words), 1), self.task.target_dictionary.eos())
        read = torch.cat([end, words[:, :-1]], dim=1)
        scores, extra = model(**{**sample["net_input"], "prev_output_tokens": read})
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
        """b_t, linear in features (B, T, D), which do not learn from it: (B, T)."""
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
        """r of the sentences ``words`` (B, T), and what it is made of by name: (B,) each."""
        sources, outputs, targets = (
            self._sentences(tokens) for tokens in (sample["net_input"]["src_tokens"], words, sample["target"])
        )
        parts: dict[str, Tensor] = {}
        if self.cfg.simplicity_weight:
            parts["simplicity"] = simplicity(sources, outputs, targets, self.cfg.sari_forward).to(words.device)
        if self.auto_encoder is not None:
            parts["relevance"] = self.auto_encoder(sources, outputs, words.device)
        if self.language_model is not None:
            parts["fluency"] = self.language_model(outputs, words.device)
        total = sum(
            (getattr(self.cfg, f"{name}_weight") * part for name, part in parts.items()),
            torch.zeros_like(words[:, 0], dtype=torch.float),
        )
        return total, {"reward": total, **{f"reward_{name}": part for name, part in parts.items()}}

    def _sentences(self, tokens: Tensor) -> Sentences:
        """The words of each row of (B, T), without padding and end symbols."""
        no_words = (self.padding_idx, self.task.target_dictionary.eos())
        return [[word for word in row if word not in no_words] for row in tokens.tolist()]

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[dict[str, Any]]) -> None:
        """As ``model_loss``, and means of the rewards over the sentences that have some."""
        ModelLossCriterion.reduce_metrics(logging_outputs)
        names = sorted({key for log in logging_outputs for key in log if key.startswith(_REWARD)})
        count = sum(log.get("rewarded", 0) for log in logging_outputs)
        for name in names if count else ():
            total = sum(log.get(name, 0) for log in logging_outputs)
            metrics.log_scalar(name.removeprefix(_REWARD), total / count, count, round=4)


def _sums(rewards: dict[str, Tensor], rewarded: Tensor) -> dict[str, Any]:
    """Sums of rewards (B,) each for the log, over the sentences where ``rewarded`` (B,) is ``True``."""
    sums = {f"{_REWARD}{name}": (values * rewarded).sum() for name, values in rewards.items()}
    return {**sums, "rewarded": int(rewarded.sum())}


@torch.no_grad()
def draw(
    model: BaseFairseqModel, net_input: dict[str, Any], target: Tensor, given: int, longest: int, greedy: bool = False
) -> Tensor:
    """Go on from the beginning of each target: a word after the other from P(y_t), without dropout and noise.

    Args:
        model: its decoder is a ``StepDecoder``.
        net_input: of the batch.
        target: (B, T), the end symbol included.
        given: ``L``; a target that is not longer is given whole.
        longest: most words, the end symbol included.
        greedy: take the most probable word instead.

    Returns:
        Words with what was given, (B, T'), padded after the end symbol; a sentence that got too long has none.
    """
    training = model.training
    model.eval()
    encoder: Any = model.encoder
    decoder: StepDecoder[Any, Any] = model.decoder
    padding, end = decoder.padding_idx, decoder.dictionary.eos()
    sources = {name: value for name, value in net_input.items() if name != "prev_output_tokens"}
    memory = decoder.remember(encoder(**sources))
    state = decoder.begin(memory)
    words = target[:, :given]  # (B, L)
    read = torch.cat([target.new_full((len(target), 1), end), words], dim=1)
    done = (words.eq(end) | words.eq(padding)).any(dim=1)  # (B,)
    while words.size(1) < longest and not done.all():
        step, state = decoder.step(read, memory, state)
        scores = decoder.scores(step, memory)[:, -1:]
        lprobs = decoder.get_normalized_probs((scores, None), log_probs=True, sample=None)[:, 0]  # (B, V)
        lprobs[:, padding] = -torch.inf  # a word like others to a model that has never seen it as a target
        # A model that has diverged draws anything, and its loss says so.
        chosen = lprobs.argmax(dim=1) if greedy else lprobs.exp().nan_to_num(nan=1.0).multinomial(1).squeeze(1)
        read = chosen.masked_fill(done, padding).unsqueeze(1)
        words = torch.cat([words, read], dim=1)
        done |= chosen.eq(end)
    model.train(training)
    return words
