"""Test that each option of half precision is refused in one sentence or works on a machine without a GPU.

``tests/integration/test_distributed.py`` tests that every family trains with ``--bf16``.
"""

import logging

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from omegaconf import DictConfig, OmegaConf

from wean_fairseq.errors import UserError
from wean_fairseq.host import interruption, precision


def configuration(optimizer: str = "adam", **common: bool) -> DictConfig:
    """Return the configuration of a training on the CPU. ``parse_args_and_arch`` sets ``tpu`` if ``bf16`` is set."""
    cfg = OmegaConf.structured(FairseqConfig())
    OmegaConf.update(cfg, "common", {"cpu": True, **common})
    cfg.optimizer = {"_name": optimizer}
    return cfg


def test_bf16_runs_on_cpus_and_gpus():
    cfg = configuration(bf16=True, tpu=True)
    precision.adapt_precision(cfg)
    assert not cfg.common.tpu
    assert cfg.common.fp16_no_flatten_grads


def test_bf16_on_a_gpu_keeps_the_flat_gradients(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    cfg = configuration(bf16=True, tpu=True, cpu=False)
    precision.adapt_precision(cfg)
    assert (cfg.common.tpu, cfg.common.fp16_no_flatten_grads) == (False, False)


def test_a_tpu_is_left_to_fairseq(monkeypatch):
    monkeypatch.setattr(precision.importlib.util, "find_spec", lambda name: name)
    cfg = configuration(bf16=True, tpu=True)
    precision.adapt_precision(cfg)
    assert cfg.common.tpu


def test_fp16_without_a_gpu_is_one_sentence():
    with pytest.raises(UserError, match=r"--fp16 needs a GPU.* --bf16, which runs on CPUs"):
        precision.adapt_precision(configuration(fp16=True))


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@pytest.mark.parametrize("optimizer", ["fused_adam", "adamw", "adagrad_accumulator"])
def test_memory_efficient_training_names_a_possible_optimiser(monkeypatch, kind, optimizer):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    cfg = configuration(optimizer, cpu=False, **{kind: True, f"memory_efficient_{kind}": True})
    with pytest.raises(UserError, match=f"--optimizer {optimizer} updates: use --{kind}, or --optimizer adam"):
        precision.adapt_precision(cfg)
    cfg.optimizer._name = "adam"
    precision.adapt_precision(cfg)


def test_tpu_without_its_library_is_refused():
    with pytest.raises(UserError, match="--tpu needs torch_xla, which is not installed: leave it out"):
        precision.adapt_precision(configuration(tpu=True))


def test_amp_on_a_cpu_warns_that_it_does_nothing(caplog):
    with caplog.at_level(logging.WARNING):
        precision.adapt_precision(configuration(amp=True))
    assert "--amp does nothing without a GPU" in caplog.text


def test_tf32_changes_products_and_recurrent_networks():
    libraries = (torch.backends.cuda.matmul, torch.backends.cudnn.rnn)
    before = [library.fp32_precision for library in libraries]
    try:
        for enabled, expected in ((True, "tf32"), (False, "ieee")):
            precision.set_tf32(enabled)
            assert {library.fp32_precision for library in libraries} == {expected}
    finally:
        for library, value in zip(libraries, before, strict=True):
            library.fp32_precision = value


def test_a_command_starts_with_valid_half_precision():
    """fairseq sets ``tpu`` if ``--bf16`` is given, so the command must reset it."""
    started = []
    cfg = configuration(bf16=True, tpu=True)
    interruption.run_command(lambda cfg, main, **_: started.append(cfg.common.tpu), cfg, print)
    assert started == [False]
