"""Rewards of simplifications (Zhang and Lapata, EMNLP 2017): simplicity, relevance and fluency.

Rewards are computed from word ids, so no gradient passes through them. The models for relevance and fluency are
checkpoints of separate trainings, and their parameters stay frozen.

Legend: ``B`` sentences, ``T`` words, ``H`` hidden width.
"""

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.data import Dictionary, data_utils
from torch import Tensor

from ..checkpoints.dictionaries import fingerprint
from ..checkpoints.loading import StoredModel
from ..data.extended_vocabulary import num_base_words
from ..errors import UserError
from ..modules import base_ids
from ..text.ngrams import count_all, sentence_sari

Sentences = Sequence[list[int]]  # each sentence is a list of word ids without the end symbol


def simplicity(sources: Sentences, outputs: Sentences, targets: Sentences, forward: float) -> Tensor:
    """Return r_S = beta SARI(X, Y', Y) + (1 - beta) SARI(X, Y, Y') with beta = ``forward``, shape (B,)."""
    return torch.tensor(
        [
            forward * sentence_sari(source, output, target) + (1 - forward) * sentence_sari(source, target, output)
            for source, output, target in zip(
                *(map(count_all, side) for side in (sources, outputs, targets)), strict=True
            )
        ]
    )


class RewardModel:
    """A frozen model that was trained separately and computes a reward.

    It is not registered as a submodule of the criterion that uses it.

    Args:
        path: path of its checkpoint.
        option: command-line option that named the checkpoint.
        dictionaries: dictionaries of the words that the model will read.

    Raises:
        UserError: if the model cannot be loaded, is not a model of this kind, or was trained with another dictionary.
    """

    wanted: str  # description of the required kind of model, for messages
    kind: str  # name of an option that only the task of such a model has

    def __init__(self, path: str, option: str, dictionaries: Sequence[Dictionary]) -> None:
        try:
            model, task, *_ = StoredModel(path).load()
        except OSError as error:
            raise UserError(
                f"{option} {path} needs the dictionary of its training ({error}): restore that file."
            ) from error
        options = task.cfg or task.args  # language_modeling still stores its options in the attribute `args`
        if self.kind not in options:
            raise UserError(f"{option} {path} is of --task {options._name}, but must be {self.wanted}.")
        self.dictionary: Dictionary = task.source_dictionary
        if any(fingerprint(dictionary) != fingerprint(self.dictionary) for dictionary in dictionaries):
            raise UserError(
                f"{option} {path} was trained with other words than those of this data: binarise its text with the "
                "dictionary of this data (fairseq-preprocess --srcdict)."
            )
        self.model: Any = model.requires_grad_(False)

    def _batch(self, sentences: Sentences, device: torch.device) -> Tensor:
        """Return the padded batch (B, T) of sentences, with an end symbol after each sentence.

        Slots are replaced by <unk>, because the model does not know them.
        """
        self.model.to(device)
        rows = [torch.tensor([*words, self.dictionary.eos()]) for words in sentences]
        batch = data_utils.collate_tokens(rows, self.dictionary.pad()).to(device)
        return base_ids(batch, num_base_words(self.dictionary), self.dictionary.unk())


class AutoEncoder(RewardModel):
    """Relevance: the cosine between the encodings of two sentences by a trained auto-encoder."""

    wanted = "an encoder-decoder that was trained to reproduce its source, such as --arch stacked_lstm"
    kind = "source_lang"

    def __init__(self, path: str, option: str, dictionaries: Sequence[Dictionary]) -> None:
        super().__init__(path, option, dictionaries)
        if "final_hidden" not in self._encode(torch.tensor([[self.dictionary.eos()]])):
            raise UserError(f"{option} {path} has an encoder without a last state, but must be {self.wanted}.")

    @torch.no_grad()
    def __call__(self, sources: Sentences, outputs: Sentences, device: torch.device) -> Tensor:
        """Return r_R = cos(q_X, q_Y') (B,), where q is the last state of the top layer."""
        first, second = (
            self._encode(self._batch(sentences, device))["final_hidden"][-1] for sentences in (sources, outputs)
        )  # (B, H)
        return torch.cosine_similarity(first.float(), second.float(), dim=1)

    def _encode(self, tokens: Tensor) -> dict[str, Tensor]:
        lengths = tokens.ne(self.dictionary.pad()).sum(dim=1)
        encoded = self.model.encoder(tokens, lengths)
        return encoded if isinstance(encoded, dict) else {}


class LanguageModel(RewardModel):
    """Fluency: the geometric mean of the probabilities of the words and of the end symbol."""

    wanted = "a language model of fairseq, such as --task language_modeling --arch lstm_lm"
    kind = "self_target"

    @torch.no_grad()
    def __call__(self, outputs: Sentences, device: torch.device) -> Tensor:
        """Return r_F = exp(1/n sum_i log P(y_i)), shape (B,)."""
        target = self._batch(outputs, device)  # (B, T)
        end = target.new_full((len(target), 1), self.dictionary.eos())
        scores = self.model(torch.cat([end, target[:, :-1]], dim=1))
        lprobs = self.model.get_normalized_probs(scores, log_probs=True)
        picked = lprobs.gather(2, target.unsqueeze(2)).squeeze(2)
        is_word = target.ne(self.dictionary.pad())
        means: Tensor = (picked * is_word).sum(dim=1) / is_word.sum(dim=1)
        return means.exp()
