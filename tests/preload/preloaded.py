"""Imports and parsed Hydra lines that the parent process of ``warm.py`` loads once.

PyTorch imports _dynamo and with it SymPy when the first optimiser is created, which is in every training. rouge-score
imports NLTK, which imports SciPy and scikit-learn. The folder also contains quick_hydra, and no other test module that
commands could import.
"""

import warnings

import fairseq.criterions
import fairseq.models
import fairseq.optim
import fairseq.tasks
import fairseq.trainer  # noqa: F401
import matplotlib.figure  # noqa: F401
import quick_hydra  # noqa: F401
import rouge_score.rouge_scorer  # noqa: F401
import sacrebleu  # noqa: F401
import torch._dynamo  # noqa: F401
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

TRAINING = ["data", "--task", "translation", "--arch", "lstm", "--criterion", "cross_entropy", "--optimizer", "adam"]
with warnings.catch_warnings():  # each command gives its own, which Python would take for repeated
    warnings.simplefilter("ignore")
    for parser, line in (
        (options.get_generation_parser(), ["data"]),
        (options.get_training_parser(), [*TRAINING, "--lr-scheduler", "fixed"]),
    ):
        convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, line))
