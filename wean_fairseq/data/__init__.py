"""Data of the tasks: checks of pairs and topics, length limits, copying's vocabulary, BERT features, word vectors."""

from .. import register

register()

from .bert_features import TopicBert
from .extended_vocabulary import DEFAULT_SLOTS, ExtendedDictionary, SlotMap
from .weak_labels import LabelledPairs, label_pairs, fill_missing_labels
from .pairs import LENGTH_POLICIES, PairLimits, check_data_dir, check_pairs, is_raw_text, limit_pairs
from .topic_features import TopicFeatures
from .topics import SEPARATOR, check_essays, check_known, check_topics, topic_ids
from .word_vectors import load_word_vectors
