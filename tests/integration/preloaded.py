"""Loaded once by the process that `warm.py` forks commands off: imports, and the parser that Hydra builds as it reads.

PyTorch imports _dynamo, and SymPy with it, when the first optimiser is made: in every training. Hydra's parser of a
command line knows what it has read before, and the first command line takes it twice as long.
"""

import fairseq.criterions
import fairseq.models
import fairseq.optim
import fairseq.tasks
import fairseq.trainer  # noqa: F401
import sacrebleu  # noqa: F401
import torch._dynamo  # noqa: F401
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_generation_parser(), ["data"]))
