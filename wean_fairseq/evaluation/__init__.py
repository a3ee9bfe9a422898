"""Scores that can be trusted: output reader, metrics with signatures, presets, paired tests, tables, human evaluation.

The command line is ``wean-evaluate``; from Python use `evaluate` with `columns_for`, or any metric on its own::

    metric = Sari()
    metric.sources = sources
    metric.corpus_score(hypotheses, [references])
"""

from wean_fairseq.evaluation.corpus import COPY_ROW, Corpus, read_corpus
from wean_fairseq.evaluation.errors import EvaluationError
from wean_fairseq.evaluation.evaluate import Evaluation, Resampling, evaluate
from wean_fairseq.evaluation.output_reader import SystemOutput, read_generated, read_plain
from wean_fairseq.evaluation.presets import PRESETS, columns_for

__all__ = [
    "COPY_ROW",
    "PRESETS",
    "Corpus",
    "Evaluation",
    "EvaluationError",
    "Resampling",
    "SystemOutput",
    "columns_for",
    "evaluate",
    "read_corpus",
    "read_generated",
    "read_plain",
]
