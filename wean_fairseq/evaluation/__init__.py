"""Evaluate outputs: file reader, metrics with signatures, presets, paired tests, tables and human evaluation.

The command line is ``wean-evaluate``. From Python, use `evaluate` with `columns_for`, or a single metric::

    metric = Sari()
    metric.sources = sources
    metric.corpus_score(hypotheses, [references])
"""

from .corpus import COPY_ROW, Corpus, read_corpus
from .evaluate import Resampling, evaluate
from .output_reader import SystemOutput, read_generated, read_plain
from .presets import METRIC_PRESETS, columns_for
from .score_file import Evaluation
