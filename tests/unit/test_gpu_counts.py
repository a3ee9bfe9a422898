"""Test on a simulated GPU that no family mixes devices or dtypes, and that waits and kernels do not increase.

``python -m tests.unit.test_gpu_counts`` updates the table. ``tests/simulated_gpu.py`` defines the counts.
"""

import json
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY

from tests.copy_contract import FIRST, copy_task
from tests.families import families
from tests.model_contract import EOS, UNK, build_model, collate, make_task, task_inputs
from tests.simulated_gpu import SimulatedGpu
from wean_fairseq.modules import gru_update, lstm_update
from wean_fairseq.modules.output_matmul import OutputProducts
from wean_fairseq.search.fast_generator import FastSequenceGenerator
from wean_fairseq.search.generator import PaperSequenceGenerator

TABLE = Path(__file__).resolve().parents[2] / "benchmarks/results/gpu_counts.json"
PAGE = TABLE.with_suffix(".md")
# The models are small, because the counts do not depend on the sizes.
SIZES = {"embed_dim": 12, "hidden_size": 12, "ffn_dim": 12, "attention_heads": 2, "attention_dim": 6, "local_dim": 6}
SIZES |= {"phrase_dim": 12, "phrase_heads": 2, "sentence_dim": 6, "sentence_heads": 3, "separator_dim": 4}
SIZES |= {"aggregator_dim": 4, "chunk_symbol": "w7", "bert_layers": "none"}
SIZES |= {"edit_dim": 12, "micro_dim": 6, "pair_symbol": "w7"}
VARIANTS = "seq2seq_lstm rnnsearch enc_dec enc_dec_a paraphrase_transformer tat_lstm tav_lstm".split()
VARIANTS += [f"granularity_transformer_{kind}" for kind in ("resonance", "scope", "product", "mean")]
SYSTEMS: dict[str, tuple[str, dict[str, Any]]] = {arch: (arch, {}) for arch in sorted({*families(), *VARIANTS})} | {
    "wean_lstm, six chunks": ("wean_lstm", {"loss_chunk_size": 4}),
    "pointer_generator, coverage": ("pointer_generator", {"coverage": True}),
    "copynet, queries": ("copynet", {"output_layer": "query_embedding"}),
}
# These are numbers of words per sentence, and the targets have 24 words with their end symbols.
SOURCES, TOPICS, TARGETS = (9, 12, 7), (3, 4, 2), (10, 6, 5)
SEARCHES = {"decoded word": FastSequenceGenerator, "decoded word, --stock-search": PaperSequenceGenerator}
LENGTHS = (4, 6)  # lengths of outputs, whose difference gives the cost of a word


def make_model(arch: str, options: dict[str, Any]) -> torch.nn.Module:
    known = {option.name for option in fields(MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[arch]])}
    task = copy_task() if hasattr(ARCH_MODEL_REGISTRY[arch], "num_slots") or "copy" in arch else make_task()
    return build_model(arch, task, **{name: value for name, value in (SIZES | options).items() if name in known})


def make_batch(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a batch of three pairs, with slots for unknown words if the model copies."""
    generator = torch.Generator().manual_seed(5)
    most = FIRST + 1 if getattr(model.decoder, "num_slots", 0) else FIRST

    def words(length: int) -> torch.Tensor:
        return torch.cat([torch.randint(UNK, most, (length,), generator=generator), torch.tensor([EOS])])

    lengths = TOPICS if "topic" in type(model).__doc__.lower() else SOURCES
    return collate([words(length) for length in lengths], [words(length) for length in TARGETS])


def count_step(
    model: torch.nn.Module, batch: dict[str, torch.Tensor], amp: bool = False
) -> tuple[dict[str, float], float]:
    """Count a training step, forward and backward, without the optimiser, which is the same for all.

    Return the counts and the loss.
    """
    more = task_inputs(model, batch)
    if model.__class__.__name__ == "DnpgModel":
        more |= {f"{side}_labels": batch[name] % 2 for side, name in (("source", "src_tokens"), ("target", "target"))}
    torch.manual_seed(1)
    model.zero_grad(set_to_none=True)
    with SimulatedGpu() as gpu:
        with gpu.autocast(torch.float16) if amp else nullcontext():
            loss = model.train()(**batch, **more).loss
        loss.backward()
    assert all(one.grad is None or one.grad.isfinite().all() for one in model.parameters())
    return gpu.counts(), loss.item()


def count_word(model: torch.nn.Module, batch: dict[str, torch.Tensor], search: type) -> dict[str, float]:
    """Count a decoded word with beam 4 and three sentences."""
    model = model.eval()
    inputs = {name: batch[name] for name in ("src_tokens", "src_lengths", "prev_output_tokens")}
    inputs |= task_inputs(model, batch)
    found = []
    for length in LENGTHS:
        generator = search([model], model.decoder.dictionary, beam_size=4, max_len_b=length, min_len=length)
        with SimulatedGpu() as gpu, torch.no_grad():
            generator.generate([model], {"net_input": dict(inputs)})
        found.append(gpu.counts())
    before, after = found
    return {what: (after[what] - before[what]) / (LENGTHS[1] - LENGTHS[0]) for what in after}


def count(name: str) -> dict[str, dict[str, float]]:
    """Return the table rows of a system, after checking that its losses in half precision are close to float32."""
    model = make_model(*SYSTEMS[name])
    batch = make_batch(model)
    counts = {kind: count_word(model, batch, search) for kind, search in SEARCHES.items()}
    steps = {"training step": count_step(model, batch), "training step, amp": count_step(model, batch, amp=True)}
    for option, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        steps[f"training step, {option}"] = count_step(model.to(dtype), batch)
    losses = [loss for _, loss in steps.values()]
    assert losses == pytest.approx(losses[:1] * len(losses), rel=0.01)
    return {kind: step for kind, (step, _) in steps.items()} | counts


# Each goal has a system, the place where it is counted, a maximum, and the reason if the goal is missed. The goal for
# the stepwise decoders was to halve their launches per step, with cells and dropout counted as on CUDA. The counts of a
# step among their 11 and of its parts, forward and backward, are from ``count_step`` with targets that are four words
# longer.
LAUNCHES, WAITS = "launches", "waits"
STEP = "training step"
GOALS: tuple[tuple[str, str, str, float, str], ...] = (
    ("wean_lstm", "decoded word", LAUNCHES, 45, ""),
    ("wean_lstm", "decoded word", WAITS, 1, ""),
    ("wean_lstm", STEP, WAITS, 3, ""),
    ("ppg", STEP, WAITS, 3, ""),
    (
        *("ppg", "decoded word", WAITS, 1),
        "the host asks which hypotheses begin a chunk, for which alone the text is encoded",
    ),
    ("nts", STEP, LAUNCHES, 1208 / 2, ""),
    ("enc_dec_a", STEP, LAUNCHES, 1233 / 2, ""),
    ("tat_lstm", STEP, LAUNCHES, 1181 / 2, ""),
    ("mta_lstm", STEP, LAUNCHES, 1360 / 2, ""),
    (
        *("sc_lstm", STEP, LAUNCHES, 1110 / 2),
        "63 a step, 38 of them two cells that take keywords: CUDA's kernel, which is 3 of 19, has no room for these",
    ),
    (
        *("copynet", STEP, LAUNCHES, 885 / 2),
        "45 a step; the goal leaves 16, and the attention alone takes 19. CUDA graphs are not used, see above",
    ),
    (
        *("pointer_generator", STEP, LAUNCHES, 839 / 2),
        "37 a step; the goal leaves 13, and the attention alone takes 19. CUDA graphs are not used, see above",
    ),
)

INTRODUCTION = """\
Kernels launched / waits of the host, forward and backward without the optimiser, 24 words, three sentences;
a decoded word is for beam 4. `tests/simulated_gpu.py` defines the counts. CI fails if a count grows;
`tests/unit/test_gpu_counts.py`, run as a module, updates them.
CUDA graphs and compilation are not used: the shapes of a search change when a sentence ends, those of training change
with each batch, and no GPU was available to show a benefit. For the search only the words are counted: fairseq prints
each sentence separately and waits six times for it, and our code waits once more for the ids of its source, which leave
the GPU together."""

# These goals are checked by other tests.
TESTED = (
    (
        *("output layer in fp16 and bf16: products of 16 bits, summed in float32", "3 of 3", "3 of 3"),
        "reached; in float16 the gradient at a score is multiplied by 2^15, and off by 2^-11 of itself or 2^-40",
    ),
)


def render(table: dict[str, dict[str, dict[str, float]]]) -> str:
    """Return the Markdown page with the counts."""

    def rows(header: list[str], cells: list[list[object]]) -> list[str]:
        lines = [header, ["---", *["---:"] * (len(header) - 1)], *cells]
        return ["| " + " | ".join(map(str, line)) + " |" for line in lines]

    goals: list[list[object]] = []
    for name, kind, what, goal, reason in GOALS:
        found = table[name][kind][what]
        assert reason or found <= goal, (name, kind, what, found)
        goals.append([f"{name}, {kind}, {what}", f"{goal:g}", f"{found:g}", reason if found > goal else "reached"])
    goals += [list(row) for row in TESTED]
    kinds = list(next(iter(table.values())))
    counts = [
        [name, *(" / ".join(f"{table[name][kind][w]:g}" for w in (LAUNCHES, WAITS)) for kind in kinds)]
        for name in table
    ]
    lines = ["# Counts on a simulated GPU", "", *INTRODUCTION.splitlines(), ""]
    lines += ["## Goals", ""]
    lines += rows(["what", "goal", "count", "result"], goals)
    return "\n".join([*lines, "", "## All", "", *rows(["system", *kinds], counts), ""])


def test_every_family_is_counted():
    assert set(json.loads(TABLE.read_text())) == set(SYSTEMS), "run python -m tests.unit.test_gpu_counts"


@pytest.mark.parametrize("name", SYSTEMS)
def test_no_count_has_grown(name):
    recorded = json.loads(TABLE.read_text())[name]
    for kind, counts in count(name).items():
        grown = {
            what: (number, recorded[kind][what]) for what, number in counts.items() if number > recorded[kind][what]
        }
        assert not grown, f"{kind}, now and in {TABLE.name}: {grown}"


@pytest.mark.parametrize("name", SYSTEMS)
def test_output_products_under_amp_are_of_16_bits(name, monkeypatch):
    """The output layer must use half precision even for the float32 output of a layer normalisation under amp."""
    found = []
    for product in ("_product", "add_gradients"):
        plain = getattr(OutputProducts, product)

        def record(products, *operands, plain=plain):
            found.append(products.dtype)
            assert products.query.dtype == products.weight.dtype == products.dtype
            return plain(products, *operands)

        monkeypatch.setattr(OutputProducts, product, record)
    model = make_model(*SYSTEMS[name])
    count_step(model, make_batch(model), amp=True)
    assert set(found) <= {torch.float16}
    assert found


def test_the_host_waits_but_a_few_times():
    """A training step may wait three times, and a decoded word once.

    PPG waits once more per word, to check which hypotheses begin a chunk.
    """
    for name, kinds in json.loads(TABLE.read_text()).items():
        for kind, counts in kinds.items():
            if kind.startswith("training step"):
                assert counts["waits"] <= 3, (name, kind)
        assert kinds["decoded word"]["waits"] <= 1 + (name == "ppg"), name
        assert kinds["decoded word"]["copies"] == 0, name


def test_the_simulated_gpu_casts_and_refuses_as_cuda_does():
    """As in PyTorch's lists, products are in half precision, softmax is in float32, and mixed dtypes use the widest."""
    layer, values = torch.nn.Linear(3, 5), torch.ones(2, 3)
    with SimulatedGpu() as gpu:
        with gpu.autocast(torch.float16):
            product = layer(values)
            found = [product, product.softmax(dim=1), torch.cat([product, values], dim=1)]
            with torch.autocast("cuda", enabled=False):
                found.append(layer(values))
        found.append(layer(values))
        assert torch.mm(product.half(), product.t(), out_dtype=torch.float32).dtype == torch.float32
        with pytest.raises(RuntimeError, match="lstm_cell has operands of several dtypes"):
            torch.nn.LSTMCell(3, 5)(values, (values.new_zeros(2, 5), values.new_zeros(2, 5).half()))
    assert [one.dtype for one in found] == [torch.float16, *[torch.float32] * 4]


def test_the_page_has_the_counts_and_their_goals():
    assert PAGE.read_text() == render(json.loads(TABLE.read_text()))


def test_the_kernel_of_a_cell_is_the_cell():
    """The expected values come from the same function on the CPU, where this kernel does not exist."""
    torch.manual_seed(1)
    gates, hidden_gates, cell, added = (torch.randn(3, width * 5) for width in (4, 4, 1, 1))
    for more in (None, added):
        expected = lstm_update(gates, cell, more, hidden_gates)
        with SimulatedGpu():
            found = lstm_update(gates, cell, more, hidden_gates)
        for mine, other in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, other)
    expected = gru_update(gates[:, 5:], hidden_gates[:, 5:], cell)
    with SimulatedGpu():
        found = gru_update(gates[:, 5:], hidden_gates[:, 5:], cell)
    torch.testing.assert_close(found, expected)


def main() -> None:
    """Write the table and its page."""
    table = {name: count(name) for name in SYSTEMS}
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
    PAGE.write_text(render(table))


if __name__ == "__main__":
    main()
