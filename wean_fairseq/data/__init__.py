"""Data of the tasks: checks of pairs and topics, length limits, vocabulary for copying, BERT features, word vectors."""

from .. import register

register()
