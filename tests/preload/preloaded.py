"""Loaded once by the process that ``warm.py`` forks commands off: imports, and Hydra's parser of command lines.

PyTorch imports _dynamo, and SymPy with it, when the first optimiser is made: in every training. The parser keeps what
it has learnt of the grammar; the first command line takes it twice as long. The folder holds nothing else, so that
nothing of the tests is found in its place or goes into the commands.
"""

import warnings

import fairseq.criterions
import fairseq.models
import fairseq.optim
import fairseq.tasks
import fairseq.trainer  # noqa: F401
import sacrebleu  # noqa: F401
import torch._dynamo  # noqa: F401
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

with warnings.catch_warnings():  # each command gives its own, which Python would take for repeated
    warnings.simplefilter("ignore")
    convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_generation_parser(), ["data"]))
