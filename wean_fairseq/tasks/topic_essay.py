"""Task ``topic_essay``: the source is topic words and the target is an essay. Topics may have further inputs.

Legend: ``B`` batch.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.tasks import register_task
from torch import Tensor

from ..capabilities import capabilities_of
from ..data.extended_vocabulary import SlotMap
from ..data.extra_inputs import ExtraInputs
from ..data.input_kinds import TOPIC_INPUTS, TopicInputsConfig
from ..data.pairs import word_ids
from ..data.topics import SEPARATOR, check_essays, check_known, check_topics
from ..errors import UserError
from ..fields import check_values, option
from .paraphrase import PairsConfig, ParaphraseTask


@dataclass
class TopicEssayConfig(TopicInputsConfig, PairsConfig):
    """Options for sentence pairs, for this task, and for its extra inputs."""

    max_topics: int = option(5, "maximum number of topic words of an essay", least=1)
    essay_length: int = option(
        0, "length of generated essays in words, including the end symbol, for archs that plan by length", least=0
    )


@register_task("topic_essay", dataclass=TopicEssayConfig)
class TopicEssayTask(ParaphraseTask):
    """Sentence pairs whose source consists of topic words.

    In addition to the fields of ``paraphrase``, ``net_input`` has ``essay_lengths`` (B,) for models that declare
    ``needs_length``.
    """

    cfg: TopicEssayConfig
    input_kinds: ClassVar[tuple[type[ExtraInputs], ...]] = TOPIC_INPUTS

    def __init__(self, cfg: TopicEssayConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self._needs_length: bool | None = None  # whether the models built so far need the length of the target

    @classmethod
    def setup_task(cls, cfg: TopicEssayConfig, **kwargs: Any) -> "TopicEssayTask":
        """Load the dictionaries and check the options.

        Raises:
            UserError: if an option is invalid, or a directory does not have the expected content.
        """
        check_values(TopicEssayConfig, cfg)
        return super().setup_task(cfg, **kwargs)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> torch.nn.Module:
        """Build the model. Raise ``UserError`` if the model cannot use the fields of the batches."""
        model = super().build_model(cfg, from_checkpoint)
        needs_length = capabilities_of(model).needs_length
        if self._needs_length not in (None, needs_length):
            raise UserError("an ensemble is of archs that plan by length or of archs that do not: --path has both.")
        self._needs_length = needs_length
        if self.cfg.eval_bleu:  # check the length now instead of after the first epoch
            self._check_length()
        return model

    def check_dataset(self, split: str) -> None:
        """Raise ``UserError`` if the lines of a split are not topics and essays."""
        dataset = self.datasets[split]
        dictionary = self.source_dictionary
        spelt = str(self.cfg.dataset_impl) == "raw"
        topics = word_ids((dataset.src[index] for index in range(len(dataset.src))), dictionary)
        check_topics(split, topics, self.cfg.max_topics, _separator_id(dictionary))
        are_read = any(inputs.read_words for inputs in self.extra_inputs)
        required = not are_read and not dictionary.num_slots
        check_known(split, topics, dictionary, required=required, lost_spellings=are_read and not spelt)
        separator = _separator_id(self.target_dictionary)
        if dataset.tgt is not None and (spelt or separator < len(self.target_dictionary)):
            check_essays(split, (dataset.tgt[index] for index in range(len(dataset.tgt))), separator)

    def build_dataset_for_inference(
        self, src_tokens: list[Tensor], src_lengths: list[int], constraints: Tensor | None = None
    ) -> FairseqDataset:
        """Return a data set with the topics that fairseq-interactive has read.

        Raise ``UserError`` if a line is not a list of topics.
        """
        dataset = super().build_dataset_for_inference(src_tokens, src_lengths, constraints=constraints)
        dictionary = self.source_dictionary
        topics = word_ids((dataset.src[index] for index in range(len(dataset.src))), dictionary)
        first = self.typed.start + 1
        check_topics("the input", topics, self.cfg.max_topics, _separator_id(dictionary), first)
        return dataset

    def map_slots(self, sample: dict[str, Any]) -> tuple[dict[str, Any], SlotMap]:
        """Replace unknown words by slots, like the task ``paraphrase``.

        If a model needs the lengths of the targets and the batch has none, add them.
        """
        if self._needs_length and "essay_lengths" not in sample["net_input"]:
            sample = _with_lengths(sample, sample["target"].ne(self.tgt_dict.pad()).sum(dim=1))
        return super().map_slots(sample)

    def inference_step(
        self, generator: Any, models: list[torch.nn.Module], sample: dict[str, Any], *args: Any, **kwargs: Any
    ) -> list[list[dict[str, Any]]]:
        """Run the search like the task ``paraphrase``, with the length given by ``--essay-length``.

        Raises:
            UserError: if the model needs a length and none is given.
        """
        self._check_length()
        if self._needs_length:
            lengths = torch.full_like(sample["net_input"]["src_lengths"], self.cfg.essay_length)
            sample = _with_lengths(sample, lengths)
        return super().inference_step(generator, models, sample, *args, **kwargs)

    def _check_length(self) -> None:
        if self._needs_length and not self.cfg.essay_length:
            raise UserError("this arch plans its essay by length: say with --essay-length N how many words to write.")


def _with_lengths(sample: dict[str, Any], lengths: Tensor) -> dict[str, Any]:
    """Return a copy of a batch with the lengths (B,) of its essays."""
    return {**sample, "net_input": {**sample["net_input"], "essay_lengths": lengths}}


def _separator_id(dictionary: Dictionary) -> int:
    """Return the id of ``</d>``.

    If the dictionary does not contain this word, the id is above all ids of the dictionary, and only text can contain
    it.
    """
    return int(dictionary.encode_line(SEPARATOR, append_eos=False))
