"""Search with CTranslate2 instead of PyTorch, for Transformers that do not copy.

The converted model computes the same probabilities. Its beam search may end earlier or later than fairseq's beam
search, so some outputs differ. Only the search runs in CTranslate2. ``TextModel`` does the text steps, the batches and
the outputs.
"""

import copy
import math
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import torch
from torch import Tensor

from ..checkpoints.ctranslate2_format import convert
from ..checkpoints.dictionaries import padding_words
from ..errors import UserError
from ..optional import import_optional
from ..storage.search import NO_UNKNOWN

# Options that CTranslate2 does not support, with fairseq's default values. CTranslate2 supports sampling, but reads its
# seed only when it starts.
_UNSUPPORTED: dict[str, Any] = {"constraints": None}
_UNSUPPORTED |= {"sampling": False, "diverse_beam_groups": -1, "diverse_beam_strength": 0.5}


class CTranslate2Engine:
    """A model in CTranslate2's format that has the interface of fairseq's generators.

    Args:
        model: model in evaluation mode, on the CPU.
        task: task of the model.
        device: device for the search.
        compute_type: number type for matrix products, such as ``"float32"`` or ``"int8"``.

    Raises:
        UserError: if the library is not installed, or does not support the model, its search preset or the number type.
    """

    def __init__(self, model: Any, task: Any, device: torch.device, compute_type: str) -> None:
        library = import_optional("ctranslate2")
        types = sorted(library.get_supported_compute_types(device.type))
        if compute_type not in types:
            raise UserError(
                f"CTranslate2 has no compute type {compute_type!r} on this machine: choose from {', '.join(types)}."
            )
        preset = task.cfg.search_preset
        if preset != "fairseq":
            raise UserError(f"CTranslate2 has no search preset {preset}: search with the preset fairseq, or PyTorch.")
        with TemporaryDirectory(prefix="wean-") as folder:
            convert(model, task, Path(folder, "model"))
            self._translator = library.Translator(
                str(Path(folder, "model")),
                device=device.type,
                device_index=device.index or 0,
                compute_type=compute_type,
                intra_threads=torch.get_num_threads(),
            )
        self._longest = int(model.max_decoder_positions()) - 1  # without the end symbol
        self._source, self._target = task.source_dictionary, task.target_dictionary
        self._options: Mapping[str, Any] = {}

    def build_generator(self, options: Mapping[str, Any]) -> Self:
        """Return an engine that searches with these generation options of fairseq.

        Raise ``UserError`` for unsupported options.
        """
        for name, default in _UNSUPPORTED.items():
            if options.get(name, default) != default:
                raise UserError(f"CTranslate2 has no option {name}: leave it out, or search with PyTorch.")
        if options.get("unkpen", 0) not in (0, NO_UNKNOWN):
            raise UserError(
                f"CTranslate2 has no option unkpen: leave it out, give {NO_UNKNOWN:g}, or search with PyTorch."
            )
        generator = copy.copy(self)
        generator._options = options
        return generator

    def generate(self, models: Any, sample: dict[str, Any], **_kwargs: Any) -> list[list[dict[str, Any]]]:
        """Search for a batch.

        Returns:
            The hypotheses of each line, best first, in fairseq's format. CTranslate2 returns no scores of single
            tokens, so ``positional_scores`` is NaN. A score differs from fairseq's in two details. If the output was
            truncated, the score does not include the end symbol. Its probabilities are normalised over the words that
            CTranslate2 may
            write: all but the padding words, and for the first word also without the end symbol. ``attention`` has
            shape (S, T) with the padding of the batch, and is 0 for end symbols. It is NaN for the first word if it
            is not available.
        """
        source = sample["net_input"]["src_tokens"]
        special = (self._source.pad(), self._source.eos())
        lines = [[self._source[index] for index in row if index not in special] for row in source.tolist()]
        settings = self._settings(source.size(1))
        results = self._translator.translate_batch(lines, **settings)
        # In beam search, CTranslate2 returns wrong attention for the first word of all lines but the first: it repeats
        # the first line's attention. Therefore a line is searched alone if its first word is <unk>, which the word with
        # most attention will replace.
        shared = set(range(len(lines)) if len(lines) > 1 and settings["beam_size"] > 1 else ())
        unknown = self._target[self._target.unk()]
        for line in sorted(shared):
            if any(tokens[:1] == [unknown] for tokens in results[line].hypotheses):
                results[line] = self._translator.translate_batch([lines[line]], **settings)[0]
                shared.remove(line)
        is_token = source.ne(self._source.pad())
        hypotheses = []
        for line, result in enumerate(results):
            outputs = zip(result.hypotheses, result.scores, result.attention, strict=True)
            hypotheses.append([self._hypothesis(*output, is_token[line]) for output in outputs])
            for hypothesis in hypotheses[-1] if line in shared else ():
                hypothesis["attention"][:, 0] = math.nan
        return hypotheses

    def _settings(self, source_length: int) -> dict[str, Any]:
        options = self._options
        longest = int(options.get("max_len_a", 0) * source_length + options.get("max_len_b", 200))
        longest, least = min(longest, self._longest), options.get("min_len", 1)
        if least > longest:
            raise UserError(f"--min-len {least} is more than the {longest} words that an output may have.")
        return {
            "beam_size": options["beam"],
            "num_hypotheses": options["nbest"],
            "length_penalty": 0.0 if options.get("unnormalized") else options.get("lenpen", 1.0),
            "max_decoding_length": longest,
            "min_decoding_length": least,
            "no_repeat_ngram_size": options.get("no_repeat_ngram_size", 0),
            "max_input_length": 0,
            "suppress_sequences": [[word] for word in padding_words(self._target)],
            "disable_unk": options.get("unkpen", 0) == NO_UNKNOWN,
            "return_scores": True,
            "return_attention": True,
        }

    def _hypothesis(
        self, tokens: list[str], score: float, attention: list[list[float]], is_token: Tensor
    ) -> dict[str, Any]:
        ids = torch.tensor([*(self._target.index(token) for token in tokens), self._target.eos()])
        weights = torch.zeros(len(is_token), len(ids))
        places = is_token.nonzero().squeeze(1).cpu()
        for step, row in enumerate(attention[: len(ids)]):
            weights[places[: len(row)], step] = torch.tensor(row)
        return {
            "tokens": ids,
            "score": score,
            "attention": weights,
            "positional_scores": torch.full((len(ids),), math.nan),
        }
