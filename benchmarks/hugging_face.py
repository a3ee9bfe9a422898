"""Compare with Hugging Face Transformers: Bart and T5 with random weights, in the sizes of our Transformers.

The models use the batches of another training step. As usual in that library, both sides and the output layer share one
embedding, and the optimiser is PyTorch's AdamW.
"""

from collections.abc import Callable
from itertools import pairwise
from time import process_time
from typing import Any

import torch
from workload import PHASES, Size, TrainingStep

# the ids of these symbols in fairseq
SPECIAL = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}


def is_installed() -> bool:
    """Return True if Transformers can be imported."""
    try:
        import transformers  # noqa: F401 - optional
    except ImportError:
        return False
    return True


def bart(size: Size, inner: int, heads: int) -> torch.nn.Module:
    """Return a Bart model of these sizes."""
    from transformers import BartConfig, BartForConditionalGeneration

    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", size.layers), ("attention_heads", heads), ("ffn_dim", inner))
    }
    config = BartConfig(
        vocab_size=size.vocabulary,
        d_model=size.dim,
        dropout=size.dropout,
        attention_dropout=0.1,
        activation_function="relu",
        forced_eos_token_id=None,
        max_position_embeddings=256,
        **sides,
        **SPECIAL,
    )
    model: torch.nn.Module = BartForConditionalGeneration(config)
    return model


def t5(size: Size, inner: int, heads: int) -> torch.nn.Module:
    """Return a T5 model of these sizes."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=size.vocabulary,
        d_model=size.dim,
        d_kv=size.dim // heads,
        d_ff=inner,
        num_layers=size.layers,
        num_decoder_layers=size.layers,
        num_heads=heads,
        dropout_rate=size.dropout,
        **SPECIAL,
    )
    model: torch.nn.Module = T5ForConditionalGeneration(config)
    return model


MODELS: dict[str, Callable[[Size, int, int], torch.nn.Module]] = {"Hugging Face Bart": bart, "Hugging Face T5": t5}


class HuggingFaceStep:
    """A training step with AdamW and the loss of the model itself. Each call trains on one batch of another step.

    Args:
        model: model of Transformers.
        step: step that provides the batches, and the norm for gradient clipping.
    """

    def __init__(self, model: torch.nn.Module, step: TrainingStep) -> None:
        self.model, self.step = model, step
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)

    def __call__(self, index: int) -> dict[str, float]:
        """Train on batch ``index``. Return the CPU seconds of the phases."""
        sample = self.step.sample(index)
        target = sample["target"]
        marks = [process_time()]
        self.optimizer.zero_grad()
        output = self.model(
            **self.inputs(sample["net_input"]),
            decoder_input_ids=sample["net_input"]["prev_output_tokens"],
            labels=target.masked_fill(target == SPECIAL["pad_token_id"], -100),
        )
        marks.append(process_time())
        output.loss.backward()
        marks.append(process_time())
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.step.clip_norm)
        self.optimizer.step()
        marks.append(process_time())
        self.optimizer.zero_grad()
        return dict(zip(PHASES, (end - start for start, end in pairwise(marks)), strict=True))

    def inputs(self, net_input: dict[str, Any]) -> dict[str, torch.Tensor]:
        """Return the source ids (B, S), and the mask of the ids that are not padding."""
        tokens = net_input["src_tokens"]
        return {"input_ids": tokens, "attention_mask": (tokens != SPECIAL["pad_token_id"]).long()}

    def num_parameters(self) -> int:
        """Return the number of trainable parameters. Shared parameters are counted once."""
        return sum(parameter.numel() for parameter in self.model.parameters())


class HuggingFaceSearch(HuggingFaceStep):
    """A search with ``generate``. Each call decodes one batch of another step, with outputs of the same length.

    Args:
        model: model of Transformers.
        step: step that provides the batches.
        beam: number of hypotheses per sentence.
        length: number of words of each output, including the end symbol.
    """

    def __init__(self, model: torch.nn.Module, step: TrainingStep, beam: int, length: int) -> None:
        self.model, self.step = model.eval(), step
        self.options = {"num_beams": beam, "min_new_tokens": length, "max_new_tokens": length}

    @torch.inference_mode()
    def __call__(self, index: int) -> dict[str, float]:
        """Search with batch ``index``."""
        self.found = self.model.generate(**self.inputs(self.step.sample(index)["net_input"]), **self.options)
        return {}
