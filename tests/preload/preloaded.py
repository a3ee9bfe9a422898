"""Imports, and parsed lines of Hydra, that the parent processes of ``warm.py`` load once.

For the first optimiser of a training, PyTorch imports _dynamo, which imports SymPy. rouge-score imports NLTK, which
imports SciPy and scikit-learn. The folder also contains quick_hydra, but no other test module that a command could
import.
"""

import contextlib
import importlib
import warnings
from argparse import Namespace

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
from fairseq.utils import import_user_module


def parse(*model: str) -> None:
    """Parse the command lines of a decoding and of a training."""
    training = ["data", *model, "--optimizer", "adam", "--lr-scheduler", "fixed"]
    # Hide the warnings here, because each command prints its own, and Python would otherwise treat them as repeated.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for parser, line in ((options.get_generation_parser(), ["data"]), (options.get_training_parser(), training)):
            convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, line))


def register(plugin: str) -> None:
    """Register the plugin as ``--user-dir`` does, and import the classes of BERT."""
    import_user_module(Namespace(user_dir=plugin))
    hide_broken_torchaudio = importlib.import_module("wean_fairseq.optional").hide_broken_torchaudio
    hide_broken_torchaudio()
    with contextlib.suppress(ImportError):
        transformers = importlib.import_module("transformers")
        _ = transformers.AutoModel, transformers.AutoTokenizer, transformers.BertModel, transformers.BertTokenizer
    parse("--task", "paraphrase", "--arch", "wean_lstm", "--criterion", "query_embedding")


def make_settings() -> None:
    """Apply the settings of the registered plugin again, with the streams and the environment of a command."""
    from wean_fairseq.host.table import PATCHES

    for patch in PATCHES:
        if not patch.source:
            patch.replacement()


parse("--task", "translation", "--arch", "lstm", "--criterion", "cross_entropy")
