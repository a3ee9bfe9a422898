"""Adapt the options for half precision and TF32 to the machine, or explain in one sentence why they cannot be used."""

import importlib.util
import logging
from typing import Any

import torch
from omegaconf import DictConfig, open_dict

from ..errors import UserError

logger = logging.getLogger(__name__)
# These optimisers keep their parameters in float32. fairseq's `adam` converts them at each update.
_FLOAT32_OPTIMIZERS = ("adagrad_accumulator", "adamw", "fused_adam")


def adapt_precision(cfg: DictConfig) -> None:
    """Let ``--bf16`` run on GPUs and CPUs, and refuse options that cannot run.

    Args:
        cfg: the configuration of a training. Its section ``common`` is changed in place.

    Raises:
        UserError: for ``--fp16`` without a GPU, or for memory-efficient half precision with an optimiser that needs
            float32.
    """
    common = cfg.common
    on_gpu = torch.cuda.is_available() and not common.cpu
    if common.fp16 and not on_gpu:
        raise UserError(
            "--fp16 needs a GPU, but there is none or --cpu is given: leave it out, or use --bf16, which runs on CPUs."
        )
    if common.amp and not on_gpu:
        logger.warning("--amp does nothing without a GPU: this training computes in float32 (--bf16 runs on CPUs)")
    optimizer = getattr(cfg.optimizer, "_name", None)
    if (common.memory_efficient_fp16 or common.memory_efficient_bf16) and optimizer in _FLOAT32_OPTIMIZERS:
        kind = "fp16" if common.memory_efficient_fp16 else "bf16"
        raise UserError(
            f"--memory-efficient-{kind} keeps no parameters in float32, which --optimizer {optimizer} updates: use "
            f"--{kind}, or --optimizer adam."
        )
    if common.tpu and importlib.util.find_spec("torch_xla") is None:
        if not common.bf16:
            raise UserError("--tpu needs torch_xla, which is not installed: leave it out.")
        with open_dict(common):
            common.tpu = False  # fairseq turns this on with --bf16, because in the past only TPUs had bfloat16
            # By default, fairseq builds one vector of all parameters per GPU, which fails without a GPU.
            common.fp16_no_flatten_grads = common.fp16_no_flatten_grads or not on_gpu


def set_tf32(enabled: bool) -> None:
    """Enable or disable TF32 on a GPU, which rounds the factors of products in float32.

    PyTorch's defaults differ: cuDNN's recurrent networks use TF32, and matrix products do not.
    """
    chosen = "tf32" if enabled else "ieee"
    backends: Any = torch.backends  # untyped, because the type stubs of torch do not contain ``cudnn.conv``
    for library in (backends.cuda.matmul, backends.cudnn.rnn, backends.cudnn.conv):
        library.fp32_precision = chosen
