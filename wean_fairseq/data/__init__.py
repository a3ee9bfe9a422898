"""Data of the tasks: checks of pairs and topics, length limits, copying's vocabulary, BERT features, word vectors."""

from .. import register

register()
