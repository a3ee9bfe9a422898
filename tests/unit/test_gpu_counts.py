"""Every family on a simulated GPU: no operand of another device, and no more waits and kernels than the table has.

``python -m tests.unit.test_gpu_counts`` writes the table anew. What the counts are: ``tests/simulated_gpu.py``.
"""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY

from tests.copy_contract import FIRST, copy_task
from tests.model_contract import EOS, UNK, build_model, collate, make_task, task_inputs
from tests.simulated_gpu import SimulatedGpu
from wean_fairseq.search import FastSequenceGenerator

TABLE = Path(__file__).resolve().parents[2] / "benchmarks/results/gpu_counts.json"
# Small sizes: counts do not depend on them.
SIZES = {"embed_dim": 12, "hidden_size": 12, "ffn_dim": 12, "attention_heads": 2, "attention_dim": 6, "local_dim": 6}
SIZES |= {"phrase_dim": 12, "phrase_heads": 2, "sentence_dim": 6, "sentence_heads": 3, "separator_dim": 4}
SIZES |= {"aggregator_dim": 4, "chunk_symbol": "w7", "bert_layers": "none"}
SYSTEMS: dict[str, tuple[str, dict[str, Any]]] = {
    arch: (arch, {})
    for arch in (
        *("wean_lstm", "seq2seq_lstm", "copynet", "rnnsearch", "enc_dec", "pointer_generator", "residual_lstm"),
        *("srb", "rnn_distract", "nts", "enc_dec_a", "paraphrase_transformer", "copy_transformer", "dnpg"),
        *(f"granularity_transformer_{kind}" for kind in ("resonance", "scope", "product", "mean")),
        *("mta_lstm", "tat_lstm", "tav_lstm", "sc_lstm", "ppg", "pc_san"),
    )
} | {
    "wean_lstm, six chunks": ("wean_lstm", {"loss_chunk_size": 4}),
    "pointer_generator, coverage": ("pointer_generator", {"coverage": True}),
    "copynet, queries": ("copynet", {"output_layer": "query_embedding"}),
}
SOURCES, TOPICS, TARGETS = (9, 12, 7), (3, 4, 2), (10, 6, 5)  # words; 24 with the ends in the targets
LENGTHS = (8, 12)  # of outputs: what a word takes is the difference


def make_model(arch: str, options: dict[str, Any]) -> torch.nn.Module:
    known = {option.name for option in fields(MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[arch]])}
    task = copy_task() if hasattr(ARCH_MODEL_REGISTRY[arch], "num_slots") or "copy" in arch else make_task()
    return build_model(arch, task, **{name: value for name, value in (SIZES | options).items() if name in known})


def make_batch(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Three pairs; where the model copies, with unknown words."""
    generator = torch.Generator().manual_seed(5)
    most = FIRST + 1 if getattr(model.decoder, "num_slots", 0) else FIRST

    def words(length: int) -> torch.Tensor:
        return torch.cat([torch.randint(UNK, most, (length,), generator=generator), torch.tensor([EOS])])

    lengths = TOPICS if "topic" in type(model).__doc__.lower() else SOURCES
    return collate([words(length) for length in lengths], [words(length) for length in TARGETS])


def count_step(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> dict[str, int]:
    """A training step, forward and backward, without the optimiser, which is the same for all."""
    more = task_inputs(model, batch)
    if model.__class__.__name__ == "DnpgModel":
        more |= {f"{side}_labels": batch[name] % 2 for side, name in (("source", "src_tokens"), ("target", "target"))}
    with SimulatedGpu() as gpu:
        model.train()(**batch, **more).loss.backward()
    return {"launches": gpu.launches.total(), "waits": gpu.waits.total(), "copies": gpu.copies}


def count_word(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> dict[str, float]:
    """A decoded word: beam 4, three sentences."""
    model = model.eval()
    inputs = {name: batch[name] for name in ("src_tokens", "src_lengths", "prev_output_tokens")}
    inputs |= task_inputs(model, batch)
    found = []
    for length in LENGTHS:
        generator = FastSequenceGenerator(
            [model], model.decoder.dictionary, beam_size=4, max_len_b=length, min_len=length
        )
        with SimulatedGpu() as gpu, torch.no_grad():
            generator.generate([model], {"net_input": dict(inputs)})
        found.append((gpu.launches.total(), gpu.waits.total(), gpu.copies))
    words = LENGTHS[1] - LENGTHS[0]
    differences = ((after - before) / words for before, after in zip(*found, strict=True))
    return dict(zip(("launches", "waits", "copies"), differences, strict=True))


def count(name: str) -> dict[str, dict[str, float]]:
    model = make_model(*SYSTEMS[name])
    batch = make_batch(model)
    return {"training step": count_step(model, batch), "decoded word": count_word(model, batch)}


def test_every_family_is_counted():
    ours = {arch for arch, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith("wean_fairseq")}
    counted = {ARCH_MODEL_NAME_REGISTRY[arch] for arch, _ in SYSTEMS.values()}
    assert counted == {ARCH_MODEL_NAME_REGISTRY[arch] for arch in ours}
    assert set(json.loads(TABLE.read_text())) == set(SYSTEMS)


@pytest.mark.parametrize("name", SYSTEMS)
def test_no_count_has_grown(name):
    recorded = json.loads(TABLE.read_text())[name]
    for kind, counts in count(name).items():
        grown = {
            what: (number, recorded[kind][what]) for what, number in counts.items() if number > recorded[kind][what]
        }
        assert not grown, f"{kind}, now and in {TABLE.name}: {grown}"


def main() -> None:
    """Write the table."""
    TABLE.write_text(json.dumps({name: count(name) for name in SYSTEMS}, indent=1) + "\n")


if __name__ == "__main__":
    main()
