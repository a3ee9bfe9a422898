"""The extra inputs of each task, and their options. A family that is removed takes its inputs out of these lines."""

from .topic_features import BertConfig, BertInputs
from .weak_labels import WeakLabels, WeakLabelsConfig

PAIR_INPUTS = (WeakLabels,)  # of the task paraphrase
TOPIC_INPUTS = (BertInputs,)  # of the task topic_essay
PairInputsConfig = WeakLabelsConfig
TopicInputsConfig = BertConfig
