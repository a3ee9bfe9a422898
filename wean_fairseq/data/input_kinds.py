"""The extra inputs of each task, and the options that request them.

To remove a model family's inputs, remove their lines from this file.
"""

from dataclasses import dataclass

from fairseq.dataclass import FairseqDataclass

from .bert_inputs import BertConfig, BertInputs, TopicBertConfig
from .extra_inputs import ExtraInputs
from .weak_labels import WeakLabels, WeakLabelsConfig

PAIR_INPUTS: tuple[type[ExtraInputs], ...] = (  # extra inputs of the task paraphrase
    WeakLabels,
    BertInputs,
)
TOPIC_INPUTS: tuple[type[ExtraInputs], ...] = (  # extra inputs of the task topic_essay
    BertInputs,
)


@dataclass
class PairInputsConfig(
    WeakLabelsConfig,
    BertConfig,
    FairseqDataclass,
):
    """Options of the extra inputs of the task paraphrase."""


@dataclass
class TopicInputsConfig(
    TopicBertConfig,
    FairseqDataclass,
):
    """Options of the extra inputs of the task topic_essay."""
