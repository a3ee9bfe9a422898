"""Compare the Transformer families with fairseq, Hugging Face and CTranslate2: training, memory and beam search.

    python benchmarks/transformer_families.py              the size of C-DNPG, 1 and 2 threads, 18 minutes
    python benchmarks/transformer_families.py --quick      a toy size, as a smoke test. Ignore its numbers

All systems use Adam, and separate embeddings for encoder and decoder. The embedding of the decoder is tied to the
output layer. CTranslate2 uses the weights of fairseq's Transformer. CTranslate2 and Hugging Face Transformers are
included if they are installed (pip install ctranslate2 transformers). Each table is written after its measurement.
With ``--trained CHECKPOINT --data FOLDER``, a trained model also decodes the test sentences of its data.
"""

import argparse
import logging
import shlex
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import harness  # noqa: E402 - modules of this folder, independent of the working directory
import hugging_face  # noqa: E402
import torch  # noqa: E402
from decoding import SearchStep  # noqa: E402
from fairseq import checkpoint_utils  # noqa: E402
from granularity import PAPER, TOY, DnpgVariant, TransformerVariant  # noqa: E402
from training_step import (  # noqa: E402
    add_memory_options,
    add_run_options,
    measure_each_memory,
    memory_table,
    print_memory,
    shown,
    size_line,
    time_steps,
    time_table,
)
from workload import ADAM, ProductsAlone, Size, Variant, built_steps, use_plugin  # noqa: E402

PACKAGES = ("torch", "fairseq-fixed", "ctranslate2", "transformers")
BEAM = 8
LONGEST = 20  # maximum number of words in an output of a trained model, including the end symbol
FEW_WORDS = 8_000  # size of a vocabulary that is small enough for the layers to matter
SENTENCES = (32, 1)  # batch sizes of the search
FEW_ROUNDS = 3  # maximum number of rounds of batch searches
STOCK, INT8 = "--stock-search", "--int8-scores"
FUSED = ("--optimizer", "fused_adam")
PEER = "fairseq transformer"
OURS = "paraphrase_transformer"
OURS_INT8 = f"{OURS} {INT8}"
FLOOR, FLOOR_INT8 = (f"matrix products of {name} alone" for name in (OURS, OURS_INT8))
CT2_TYPES = ("float32", "int8")


def our_sizes(size: Size) -> dict[str, str]:
    """Return the size options of our Transformers, with their values."""
    words = TransformerVariant("", "", "model_loss").command(size)
    return dict(zip(words[3::2], words[4::2], strict=False))


class PeerVariant(Variant):
    """fairseq's Transformer in the sizes of ours.

    The embedding of the decoder is tied to the output layer, as in ours.
    """

    def command(self, size: Size) -> list[str]:
        """Return the options that a user would give to fairseq-train."""
        sizes = our_sizes(size)
        sides = [
            word
            for side in ("encoder", "decoder")
            for word in (
                *(f"--{side}-embed-dim", sizes["--embed-dim"], f"--{side}-ffn-embed-dim", sizes["--ffn-dim"]),
                *(f"--{side}-attention-heads", sizes["--attention-heads"], f"--{side}-layers", str(size.layers)),
            )
        ]
        parts = ["--task", "translation", "--arch", self.arch, "--criterion", self.criterion]
        dropout = ["--dropout", str(size.dropout), "--attention-dropout", "0.1"]
        tied = "--share-decoder-input-output-embed"
        return ["--cpu", *parts, *sides, *dropout, tied, *ADAM, *self.flags]


def ours(arch: str, *flags: str, criterion: str = "model_loss") -> TransformerVariant:
    """Return a variant of our Transformer, which is one row of the tables."""
    return TransformerVariant(" ".join((arch, *flags)), arch, criterion, flags)


PEERS = (PeerVariant(PEER, "transformer", "cross_entropy"),)
FAMILIES: tuple[Variant, ...] = (
    ours(OURS),
    ours("granularity_transformer_product"),
    ours("copy_transformer"),
    ours("copy_transformer", "--copy-mode=shared-softmax"),
    DnpgVariant("dnpg", "dnpg", "model_loss"),
)
TRAINED_STEPS = (
    *PEERS,
    PeerVariant(f"{PEER} --optimizer fused_adam", "transformer", "cross_entropy", FUSED),
    *FAMILIES,
    ours(OURS, *FUSED),
)
SEARCHES = (
    *PEERS,
    ours(OURS, STOCK),
    *FAMILIES,
    *(ours(family.arch, INT8) for family in FAMILIES[:3]),
    DnpgVariant(f"dnpg {INT8}", "dnpg", "model_loss", (INT8,)),
)


class BeamSearchStep(SearchStep):
    """A beam search with the beam size of C-DNPG. Each call decodes one batch."""

    beam = BEAM


class CTranslate2Step:
    """A beam search with CTranslate2. Each call decodes one batch of another step, and outputs have the same lengths.

    Args:
        step: step that provides the batches and the model to convert.
        kind: compute type of CTranslate2.
        threads: number of threads.
    """

    def __init__(self, step: SearchStep, kind: str, threads: int) -> None:
        import ctranslate2  # ctranslate2 is optional

        from wean_fairseq.checkpoints.ctranslate2_format import convert

        self.step = step
        with tempfile.TemporaryDirectory() as folder:
            convert(step.model, step.task, Path(folder) / "model")
            self.translator = ctranslate2.Translator(
                str(Path(folder) / "model"), device="cpu", compute_type=kind, inter_threads=1, intra_threads=threads
            )

    def __call__(self, index: int) -> dict[str, float]:
        """Search with batch ``index``."""
        dictionary, written = self.step.task.source_dictionary, self.step.length - 1
        special = (dictionary.pad(), dictionary.eos())
        tokens = self.step.sample(index)["net_input"]["src_tokens"].tolist()
        words = [[dictionary.symbols[token] for token in row if token not in special] for row in tokens]
        self.translator.translate_batch(
            words, beam_size=BEAM, max_decoding_length=written, min_decoding_length=written, max_batch_size=len(words)
        )
        return {}


def has_ctranslate2() -> bool:
    """Return True if CTranslate2 is installed."""
    try:
        import ctranslate2  # noqa: F401
    except ImportError:
        return False
    return True


def hugging_face_models(size: Size) -> dict[str, torch.nn.Module]:
    """Return models of Hugging Face in the sizes of ours, or none if the library is not installed."""
    if not hugging_face.is_installed():
        return {}
    sizes = our_sizes(size)
    inner, heads = int(sizes["--ffn-dim"]), int(sizes["--attention-heads"])
    return {name: build(size, inner, heads) for name, build in hugging_face.MODELS.items()}


def has_int8() -> bool:
    """Return True if this processor supports scores computed with 8-bit integers."""
    from wean_fairseq.search.packed_linear import int8_is_exact

    return int8_is_exact()


def measure_steps(size: Size, threads: int, rounds: int, warmup: int, seed: int) -> dict[str, dict[str, Any]]:
    """Time the training steps in turn in this process."""
    # The plugin is already loaded here.
    from wean_fairseq.modules.output_matmul import exact_products

    torch.set_num_threads(threads)
    with built_steps(TRAINED_STEPS, size, warmup + rounds, seed) as steps:
        others = {
            name: hugging_face.HuggingFaceStep(model, steps[PEER]) for name, model in hugging_face_models(size).items()
        }
        floor = ProductsAlone(steps[OURS], exact_products)
        return time_steps({**steps, **others, FLOOR: floor}, rounds, warmup, PEER)


def measure_search(size: Size, threads: int, rounds: int, warmup: int, seed: int) -> dict[str, dict[str, Any]]:
    """Time the searches in turn in this process."""
    torch.set_num_threads(threads)
    variants = [variant for variant in SEARCHES if INT8 not in variant.flags or has_int8()]
    with built_steps(variants, size, warmup + rounds, seed, BeamSearchStep) as built:
        steps: dict[str, harness.Step] = dict(built)
        peers = (PEER, OURS) if has_ctranslate2() else ()
        for name in peers:
            for kind in CT2_TYPES:
                steps[f"CTranslate2 {kind}, weights of {name}"] = CTranslate2Step(built[name], kind, threads)
        for name, model in hugging_face_models(size).items():
            steps[name] = hugging_face.HuggingFaceSearch(model, built[PEER], BEAM, size.target_length)
        floors = {FLOOR: OURS, FLOOR_INT8: OURS_INT8}
        steps |= {floor: ProductsAlone(built[name]) for floor, name in floors.items() if name in built}
        return harness.summarise(harness.interleave(steps, rounds, warmup), PEER)


class TrainedStep(BeamSearchStep):
    """A search with a trained model. The length of its outputs is not fixed.

    Each call decodes one batch of test sentences.

    Args:
        checkpoint: checkpoint of the model.
        data: data directory with the test sentences.
        flags: options of the task by name.
        sentences: number of sentences per batch.
    """

    def __init__(self, checkpoint: str, data: str, flags: dict[str, bool], sentences: int) -> None:
        changes = {"data": data, **flags}
        models, _, self.task = checkpoint_utils.load_model_ensemble_and_task([checkpoint], changes)
        self.model = models[0].eval()
        self.task.load_dataset("test")
        dataset = self.task.dataset("test")
        starts = range(0, len(dataset) - sentences + 1, sentences)
        self.batches = [dataset.collater([dataset[start + n] for n in range(sentences)]) for start in starts]
        self.length = LONGEST
        self.generator = self.task.build_generator(models, Namespace(beam=BEAM, max_len_a=0, max_len_b=LONGEST - 1))


def measure_trained(args: argparse.Namespace, sentences: int, rounds: int, warmup: int) -> dict[str, Any]:
    """Time the searches of a trained model in turn. Count the best outputs that are equal to those of fairseq."""
    torch.set_num_threads(1)
    ways: dict[str, dict[str, bool]] = {STOCK: {"stock_search": True}, "exact": {}}
    if has_int8():
        ways[INT8] = {"int8_scores": True}
    steps = {name: TrainedStep(args.trained, args.data, flags, sentences) for name, flags in ways.items()}
    same = dict.fromkeys(steps, 0)
    summary = harness.summarise(harness.interleave(steps, rounds, warmup), STOCK)
    for index in range(rounds):
        first = {}
        for name, step in steps.items():
            step(index)
            first[name] = [hypotheses[0]["tokens"].tolist() for hypotheses in step.found]
            same[name] += sum(one == other for one, other in zip(first[name], first[STOCK], strict=True))
    for name, row in summary.items():
        row["same_first_outputs"] = f"{same[name]} of {rounds * sentences}"
    return summary


def search_table(sentences: int, summary: dict[str, dict[str, Any]], peer: str = PEER) -> list[str]:
    """Return a table of searches, with the share of their time that our matrix products take."""
    header = ["variant", "CPU ms", "sentences / CPU s", "**times as fast**", "wall ms", "times as fast", "products"]
    rows = []
    for name, row in summary.items():
        floor = summary.get(FLOOR_INT8 if "int8" in name else FLOOR)
        cells = [name, f"{row['cpu_ms']:.0f}", f"{sentences / row['cpu_ms'] * 1e3:.1f}", f"{1 / row['cpu_ratio']:.2f}"]
        cells += [f"{row['wall_ms']:.0f}", f"{1 / row['wall_ratio']:.2f}"]
        cells.append(f"{floor['cpu_ms'] / row['cpu_ms']:.0%}" if floor else row.get("same_first_outputs", ""))
        rows.append(cells)
    if FLOOR not in summary:
        header[-1] = f"first outputs as {peer}"
    return harness.table(header, rows)


def report(data: dict[str, Any]) -> list[str]:
    """Return the results as Markdown."""
    size = Size(**data["size"])
    rounds = f"; beam {BEAM}; {data['rounds']} rounds after {data['warmup']}, seed {data['seed']}"
    lines = ["# Transformers", "", *harness.run_lines(data["run"]), size_line(size) + rounds]
    if not data["ctranslate2"]:
        lines.append("* CTranslate2 is not installed, so that its rows are missing.")
    if not data["hugging_face"]:
        lines.append("* Hugging Face Transformers is not installed, so that its rows are missing.")
    if not data["int8"]:
        lines.append("* This processor does not multiply 8-bit integers exactly, so that their rows are missing.")
    for title, summary in data["steps"].items():
        lines += ["", f"## Training step, {title}", "", *time_table("variant", summary), ""]
        floor = summary[FLOOR]["cpu_ms"]
        shares = (f"`{name}` {floor / row['cpu_ms']:.0%}" for name, row in summary.items() if name != FLOOR)
        lines += [f"Ratios are to `{PEER}`. Share of `{FLOOR}` in CPU time: {', '.join(shares)}."]
    lines += memory_table("variant", data["memory"], PEER)
    for title, (sentences, summary) in data["search"].items():
        lines += ["", f"## Search, {title}", "", *search_table(sentences, summary), ""]
        lines += [f"Times as fast as `{PEER}` with fairseq's search; *products*: share of our matrix products alone."]
    for title, (sentences, summary) in data["trained"].items():
        lines += ["", f"## Search with trained weights, {title}", "", *search_table(sentences, summary, STOCK)]
    return lines


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_run_options(parser, "transformer_families", rounds=5, warmup=1, hint=", of searches of a batch three at most")
    add_memory_options(parser)
    parser.add_argument("--trained", metavar="CHECKPOINT", help="a trained model, whose search is timed too")
    parser.add_argument("--data", help="folder of its data, with test sentences")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = build_parser().parse_args(words)
    use_plugin()
    size = replace(TOY, batch_size=2) if args.quick else PAPER
    if args.memory_of:
        print_memory(args, TRAINED_STEPS, size)
        return
    rounds, warmup = (1, 1) if args.quick else (args.rounds, args.warmup)
    recorded = ["FILE" if word in (args.trained, args.data) else word for word in shown(words)]
    data: dict[str, Any] = {
        "run": harness.describe_run(shlex.join(["python", "benchmarks/transformer_families.py", *recorded]), PACKAGES),
        "size": asdict(size),
        "seed": args.seed,
        "rounds": rounds,
        "warmup": warmup,
        "ctranslate2": has_ctranslate2(),
        "hugging_face": hugging_face.is_installed(),
        "int8": has_int8(),
        "memory": {},
        "steps": {},
        "search": {},
        "trained": {},
    }
    harness.write_as_measured(args.output, data, measure_tables(args, words, size, rounds, warmup), report)


def measure_tables(
    args: argparse.Namespace, words: Sequence[str], size: Size, rounds: int, warmup: int
) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield each measured table with its kind."""
    for threads in args.threads:
        for vocabulary in (size.vocabulary, min(FEW_WORDS, size.vocabulary - 1)):
            times = measure_steps(replace(size, vocabulary=vocabulary), threads, rounds, warmup, args.seed)
            yield {"steps": {f"{vocabulary:,} words, threads: {threads}": times}}
        for sentences in SENTENCES:
            batch = replace(size, batch_size=min(size.batch_size, sentences))
            few = rounds if sentences == 1 else min(rounds, FEW_ROUNDS)
            summary = measure_search(batch, threads, few, warmup, args.seed)
            yield {"search": {f"{sentences} sentences, threads: {threads}": (batch.batch_size, summary)}}
    for sentences in SENTENCES if args.trained else ():
        summary = measure_trained(args, sentences, rounds, warmup)
        yield {"trained": {f"{sentences} sentences, threads: 1": (sentences, summary)}}
    if not args.no_memory:
        yield {"memory": measure_each_memory(__file__, words, TRAINED_STEPS)}


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main()
