"""Data of the tasks: checks of pairs and topics, length limits, slots for copying, BERT features and word vectors."""

from .. import register

register()
