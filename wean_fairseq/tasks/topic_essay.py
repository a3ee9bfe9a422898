"""Task ``topic_essay``: topic words as source, an essay as target, optionally with BERT's features of the topics.

PC-SAN (KSII TIIS 14(8), 2020), section 3.2, and the corpora of MTA-LSTM (Feng et al., IJCAI 2018).

Legend: ``B`` batch, ``S`` source length, ``T`` target length, ``L`` layers of BERT, ``H`` its width.
"""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.tasks import register_task
from fairseq.utils import split_paths
from torch import Tensor

from ..capabilities import capabilities_of
from ..data.bert_features import TopicBert
from ..data.topic_features import TopicFeatures
from ..data.topics import SEPARATOR, check_essays, check_known, check_topics, topic_ids
from ..errors import UserError
from ..fields import check_values, option
from .paraphrase import ParaphraseConfig, ParaphraseTask


@dataclass
class TopicEssayConfig(ParaphraseConfig):
    """Options of the paraphrase task and of this task."""

    bert: Optional[str] = option(  # fairseq cannot read `str | None`
        None, "local transformers directory of the BERT that reads the topics; it is never trained"
    )
    topic_separator: str = option("[PAD]", "token that separates two topics in BERT's input; empty = none")
    bert_cache: Optional[str] = option(None, "folder for BERT's features of the topics (default: in the data folder)")
    max_topics: int = option(5, "maximum number of topic words of an essay", least=1)
    essay_length: int = option(
        0, "length of generated essays in words, including the end symbol, for archs that plan by length", least=0
    )


@register_task("topic_essay", dataclass=TopicEssayConfig)
class TopicEssayTask(ParaphraseTask):
    """Sentence pairs whose source is topic words.

    In addition to the fields of ``paraphrase``, ``net_input`` has ``topic_features`` (B, S, L, H) with ``--bert``, and
    ``essay_lengths`` (B,) for models that declare ``needs_length``.

    Attributes:
        bert: the frozen BERT, ``None`` without ``--bert``. It is not a part of any model.
    """

    cfg: TopicEssayConfig

    def __init__(self, cfg: TopicEssayConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self.bert: TopicBert | None = None
        self._features: TopicFeatures | None = None
        self._needs_length: bool | None = None  # of the models built so far
        if cfg.bert is not None:
            self.bert = TopicBert(cfg.bert, cfg.topic_separator)
            folder = Path(cfg.bert_cache) if cfg.bert_cache else Path(split_paths(cfg.data)[0]) / "bert-features"
            self._features = TopicFeatures(self.bert, folder)

    @classmethod
    def setup_task(cls, cfg: TopicEssayConfig, **kwargs: Any) -> "TopicEssayTask":
        """Load the dictionaries and check the options.

        Raises:
            UserError: if an option is invalid, or a directory does not have the expected content.
        """
        check_values(TopicEssayConfig, cfg)
        if cfg.granularity_labels:
            raise UserError("--granularity-labels is for dnpg on the task paraphrase: leave it out.")
        if cfg.bert is None and cfg.bert_cache:
            raise UserError("--bert-cache is for --bert DIR, which is not given: leave it out.")
        return super().setup_task(cfg, **kwargs)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> torch.nn.Module:
        """Build the model. Raises ``UserError`` if it cannot use the fields of the batches."""
        model = super().build_model(cfg, from_checkpoint)
        name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
        reader = getattr(model, "encoder", model).forward
        if self.bert is not None and "topic_features" not in inspect.signature(reader).parameters:
            raise UserError(f"--bert is for archs that read its features, and {name} does not: leave it out.")
        needs_length = capabilities_of(model).needs_length
        if self._needs_length not in (None, needs_length):
            raise UserError("an ensemble is of archs that plan by length or of archs that do not: --path has both.")
        self._needs_length = needs_length
        if self.cfg.eval_bleu:  # check now instead of after the first epoch
            self._check_length()
        return model

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load and check a split. BERT computes the features of topics that are not cached.

        Raises:
            UserError: if a file is missing, or its lines are not topics and essays.
        """
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        dataset = self.datasets[split]
        dictionary = self.source_dictionary
        spelt = str(self.cfg.dataset_impl) == "raw"
        topics = topic_ids((dataset.src[index] for index in range(len(dataset.src))), dictionary)
        check_topics(split, topics, self.cfg.max_topics, _separator_id(dictionary))
        required = self.bert is None and not dictionary.num_slots
        bert_reads_unk = self.bert is not None and not spelt
        check_known(split, topics, dictionary, required=required, bert_reads_unk=bert_reads_unk)
        separator = _separator_id(self.target_dictionary)
        if dataset.tgt is not None and (spelt or separator < len(self.target_dictionary)):
            check_essays(split, (dataset.tgt[index] for index in range(len(dataset.tgt))), separator)
        if self._features is not None:
            self._features.prepare(split, {tuple(dictionary[index] for index in line) for line in set(topics)})

    def build_dataset_for_inference(
        self, src_tokens: list[Tensor], src_lengths: list[int], constraints: Tensor | None = None
    ) -> FairseqDataset:
        """A data set of topics from fairseq-interactive. Raises ``UserError`` if a line is not a list of topics."""
        dataset = super().build_dataset_for_inference(src_tokens, src_lengths, constraints=constraints)
        dictionary = self.source_dictionary
        topics = topic_ids((dataset.src[index] for index in range(len(dataset.src))), dictionary)
        first = self.typed.start + 1
        check_topics("the input", topics, self.cfg.max_topics, _separator_id(dictionary), first)
        return dataset

    def train_step(self, sample: dict[str, Any], *args: Any, **kwargs: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Like ``paraphrase``, with the features and lengths that the model reads."""
        return super().train_step(self._add_topics(sample), *args, **kwargs)

    def valid_step(self, sample: dict[str, Any], *args: Any, **kwargs: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Like ``paraphrase``, with the features and lengths that the model reads."""
        return super().valid_step(self._add_topics(sample), *args, **kwargs)

    def inference_step(
        self,
        generator: Any,
        models: list[torch.nn.Module],
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
    ) -> list[list[dict[str, Any]]]:
        """Like ``paraphrase``, with the length of ``--essay-length``.

        Raises:
            UserError: if the model needs a length and there is none.
        """
        self._check_length()
        sample = self._add_topics(sample, self.cfg.essay_length)
        return super().inference_step(generator, models, sample, prefix_tokens, constraints)

    def _check_length(self) -> None:
        if self._needs_length and not self.cfg.essay_length:
            raise UserError("this arch plans its essay by length: say with --essay-length N how many words to write.")

    def _add_topics(self, sample: dict[str, Any], length: int = 0) -> dict[str, Any]:
        """A new batch with the features of its topics.

        Its essay lengths are ``length``, or those of the targets if it is 0.
        """
        net_input = dict(sample["net_input"])
        src_tokens = net_input["src_tokens"]
        if self._features is not None and "topic_features" not in net_input:
            net_input["topic_features"] = self._features.align(src_tokens, self.source_dictionary)
        if self._needs_length:
            lengths = src_tokens.new_full((src_tokens.size(0),), length)
            net_input["essay_lengths"] = lengths if length else sample["target"].ne(self.tgt_dict.pad()).sum(dim=1)
        return {**sample, "net_input": net_input}


def _separator_id(dictionary: Dictionary) -> int:
    """Id of ``</d>``.

    If the dictionary does not contain it, the id is beyond the dictionary, and only text can contain it.
    """
    return int(dictionary.encode_line(SEPARATOR, append_eos=False))
