"""A training step of any arch and criterion, built from a fairseq command line, and batches for it.

For one batch, a step does the same work as fairseq's trainer. It clears the gradients, runs the forward and backward
pass, divides by the number of tokens, clips the norm and runs the optimiser. The overhead of the trainer itself is
excluded for every arch.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from fairseq import criterions, optim, options, tasks, utils
from fairseq.data import Dictionary
from fairseq.data.language_pair_dataset import collate
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import FairseqTask
from torch.utils._python_dispatch import TorchDispatchMode

PHASES = ("forward", "backward", "update")
ADAM = ("--optimizer", "adam", "--lr", "0.001", "--clip-norm", "5")
# Number of rows in each call of the bare matrix products. This number is large enough to reach the full rate of the
# machine.
PRODUCT_ROWS = 448
# Names of the operators that compute matrix products, without their overloads.
PRODUCTS = (
    "aten::mm aten::addmm aten::addmm_ aten::bmm aten::baddbmm aten::baddbmm_ aten::linear "
    "mkldnn::_linear_pointwise onednn::qlinear_pointwise"
).split()


@dataclass(frozen=True)
class Size:
    """Sizes that all variants share."""

    vocabulary: int = 50_000
    dim: int = 256
    layers: int = 2
    dropout: float = 0.4
    batch_size: int = 64
    source_length: int = 25
    target_length: int = 21


TOY = Size(vocabulary=300, dim=8, batch_size=4, source_length=5, target_length=7)


@dataclass(frozen=True)
class Variant:
    """A row of a table: an arch of fairseq or of the plugin, with its criterion."""

    name: str
    arch: str
    criterion: str
    flags: tuple[str, ...] = ()

    def command(self, size: Size) -> list[str]:
        """Return the options that a user would give to fairseq-train."""
        if self.arch == "lstm":
            names = "encoder-embed-dim encoder-hidden-size decoder-embed-dim decoder-hidden-size decoder-out-embed-dim"
            task = "translation"
        else:
            names, task = "embed-dim hidden-size", "paraphrase"
        widths = [word for name in names.split() for word in (f"--{name}", str(size.dim))]
        layers = ["--encoder-layers", str(size.layers), "--decoder-layers", str(size.layers)]
        parts = ["--task", task, "--arch", self.arch, "--criterion", self.criterion, "--dropout", str(size.dropout)]
        return ["--cpu", *parts, *widths, *layers, *ADAM, *self.flags]


def use_plugin() -> None:
    """Load the plugin as --user-dir does."""
    utils.import_user_module(argparse.Namespace(user_dir=str(Path(__file__).resolve().parents[1] / "wean_fairseq")))


class TrainingStep:
    """A model with its criterion and optimiser. Each call trains the model on one batch.

    Args:
        variant: variant to build.
        size: size of the model and of the batches.
        data_dir: a folder with the dictionaries.
        batches: batches to use in turn.
        seed: seed of the parameters and of dropout.
    """

    device = torch.device("cpu")

    def __init__(
        self, variant: Variant, size: Size, data_dir: Path, batches: Sequence[dict[str, Any]], seed: int
    ) -> None:
        self.batches = batches
        parser = options.get_training_parser()
        words = [str(data_dir), "--source-lang", "src", "--target-lang", "tgt", *variant.command(size)]
        cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, input_args=words))
        torch.manual_seed(seed)
        self.task = self.setup_task(cfg.task)
        self.model = self.task.build_model(cfg.model).to(self.device).train()
        self.criterion = criterions.build_criterion(cfg.criterion, self.task).to(self.device)
        self.optimizer = self.build_optimizer(cfg)
        self.clip_norm = cfg.optimization.clip_norm

    def setup_task(self, cfg: Any) -> FairseqTask:
        """Return the task with which the model is built."""
        return tasks.setup_task(cfg)

    def build_optimizer(self, cfg: Any) -> Any:
        """Return the optimiser of the model's parameters."""
        return optim.build_optimizer(cfg.optimizer, list(self.model.parameters()))

    def sample(self, index: int) -> dict[str, Any]:
        """Return batch ``index`` with all its entries."""
        return self.batches[index % len(self.batches)]

    def __call__(self, index: int) -> dict[str, float]:
        """Train on batch ``index``. Return the CPU seconds of each phase."""
        sample = self.sample(index)
        marks = [time.process_time()]
        self.optimizer.zero_grad()

        def criterion(model: torch.nn.Module, sample: dict[str, Any]) -> Any:
            result = self.criterion(model, sample)
            marks.append(time.process_time())
            return result

        _, sample_size, _ = self.task.train_step(sample, self.model, criterion, self.optimizer, index)
        marks.append(time.process_time())
        self.average(sample_size)
        self.optimizer.clip_grad_norm(self.clip_norm)
        self.optimizer.step()
        marks.append(time.process_time())
        # Free the memory of the gradients before the next variant runs. The trainer also clears them before the next
        # batch.
        self.optimizer.zero_grad()
        spans = [end - start for start, end in pairwise(marks)]
        return dict(zip(PHASES, spans, strict=True))

    def average(self, sample_size: int) -> None:
        """Divide the gradients of the summed loss, which turns them into gradients of the mean loss."""
        self.optimizer.multiply_grads(1.0 / sample_size)

    def num_parameters(self) -> int:
        """Return the number of trainable parameters. Shared parameters are counted once."""
        return sum(parameter.numel() for parameter in self.model.parameters())


class OutputProducts:
    """Only the three matrix products of an output layer. Every exact softmax over all words needs them.

    Args:
        size: size of the layer.
        seed: seed of the random operands.
        library: function that creates a context in which PyTorch uses the chosen library for the products.
    """

    def __init__(
        self, size: Size, seed: int, library: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self.library = library
        generator = torch.Generator().manual_seed(seed)
        rows = size.batch_size * size.target_length
        self.query = torch.randn(rows, size.dim, generator=generator)
        self.weight = torch.randn(size.vocabulary, size.dim, generator=generator)
        self.flops = 3 * 2 * rows * size.dim * size.vocabulary
        # Results are written into preallocated memory, so that no time is spent on allocation.
        self.chunks = self.query.split(PRODUCT_ROWS)
        self.scores = torch.empty(len(self.chunks[0]), size.vocabulary)
        self.grad_query = torch.empty_like(self.chunks[0])
        self.grad_weight = torch.zeros_like(self.weight)

    def __call__(self, index: int) -> dict[str, float]:
        """Compute the scores, the gradient of the queries and the gradient of the weights."""
        with self.library():
            for chunk in self.chunks:
                scores = torch.mm(chunk, self.weight.t(), out=self.scores[: len(chunk)])
                torch.mm(scores, self.weight, out=self.grad_query[: len(chunk)])
                self.grad_weight.addmm_(scores.t(), chunk)
        return {}


class _ProductRecorder(TorchDispatchMode):
    """Records the calls of matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[[], Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = partial(func, *args, **(kwargs or {}))
        if func._schema.name in PRODUCTS:
            self.calls.append(call)
        return call()


class ProductsAlone:
    """Only the matrix products of another step, computed by the same operators.

    No variant with these products can be faster.

    Args:
        step: step whose products for batch 0 are recorded.
        library: function that creates a context in which PyTorch uses the chosen library for the products.
    """

    def __init__(
        self, step: Callable[[int], Any], library: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self.library = library
        with _ProductRecorder() as recorder:
            step(0)
        self.calls = recorder.calls

    @torch.no_grad()
    def __call__(self, index: int) -> dict[str, float]:
        """Recompute the products."""
        with self.library():
            for call in self.calls:
                call()
        return {}


class OutputLayer:
    """Only the loss and the gradients of the output layer, as in training.

    They include the matrix products and the softmax.

    Args:
        size: size of the layer.
        seed: seed of the random operands.
        loss: function that computes a scalar from queries (N, D), rows of candidates (V, D), no bias, and targets (N,).
    """

    def __init__(self, size: Size, seed: int, loss: Callable[..., torch.Tensor]) -> None:
        generator = torch.Generator().manual_seed(seed)
        rows = size.batch_size * size.target_length
        self.query = torch.randn(rows, size.dim, generator=generator).requires_grad_()
        self.weight = torch.randn(size.vocabulary, size.dim, generator=generator).requires_grad_()
        self.target = torch.randint(size.vocabulary, (rows,), generator=generator)
        self.loss = loss

    def __call__(self, index: int) -> dict[str, float]:
        """Run the forward and backward pass. The gradients are dropped."""
        self.loss(self.query, self.weight, None, self.target).backward()
        self.query.grad = self.weight.grad = None
        return {}


@contextmanager
def built_steps(
    variants: Iterable[Variant], size: Size, count: int, seed: int, step: type[TrainingStep] = TrainingStep
) -> Iterator[dict[str, TrainingStep]]:
    """Yield a ``step`` for each variant. All steps use the same ``count`` batches.

    The files exist until the context ends.
    """
    with tempfile.TemporaryDirectory() as folder:
        write_dictionaries(Path(folder), size.vocabulary)
        batches = make_batches(size, count, seed)
        yield {variant.name: step(variant, size, Path(folder), batches, seed) for variant in variants}


def write_dictionaries(folder: Path, vocabulary: int) -> None:
    """Write the same dictionary for both sides. It has ``vocabulary`` entries, including the special symbols."""
    dictionary = Dictionary()
    for number in range(vocabulary - len(dictionary)):
        dictionary.add_symbol(f"w{number}")
    for side in ("src", "tgt"):
        dictionary.save(str(folder / f"dict.{side}.txt"))


def make_batches(size: Size, count: int, seed: int) -> list[dict[str, Any]]:
    """Return ``count`` batches, collated by fairseq.

    Every sentence has exactly the length in ``size``, including the end symbol. Words are random, and their frequencies
    follow Zipf's law.
    """
    symbols = Dictionary()
    generator = torch.Generator().manual_seed(seed)
    ranks = torch.arange(1, size.vocabulary - symbols.nspecial + 1, dtype=torch.float64)

    def sentence(length: int) -> torch.Tensor:
        words = torch.multinomial(1.0 / ranks, length - 1, replacement=True, generator=generator)
        return torch.cat([words + symbols.nspecial, torch.tensor([symbols.eos()])])

    def batch() -> dict[str, Any]:
        pairs = [
            {"id": number, "source": sentence(size.source_length), "target": sentence(size.target_length)}
            for number in range(size.batch_size)
        ]
        collated: dict[str, Any] = collate(pairs, symbols.pad(), symbols.eos())
        return collated

    return [batch() for _ in range(count)]
