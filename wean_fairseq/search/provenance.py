"""Where each word of an output came from, as JSON lines: the copy provenance of ``--copy-provenance FILE``."""

import json
from pathlib import Path
from typing import IO, Any

import torch

from ..data import SlotMap
from ..errors import UserError

SMALLEST_SHARE = 0.005  # of a position, to be written


class ProvenanceWriter:
    """Writes one line an output: its words, how probably each was copied, and from which source positions.

    A line is ``{"id": number of the sentence, "source": [word, ...], "output": [{"word": ..., "copied": probability
    that the word was copied given that it was written, "positions": {source position from 0: share, ...}}, ...]}``; of
    the n best outputs of a sentence the best one is described. ``fairseq-interactive`` does not number its batches;
    then the number is that of the line written.

    Args:
        path: file to write; must not exist. It is made with the first line.

    Raises:
        UserError: if it cannot be made.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._file: IO[str] | None = None
        self._written = 0
        if self._path.exists():
            raise UserError(f"{path} exists already: give another file to --copy-provenance, or remove it.")
        if not self._path.parent.is_dir():
            raise UserError(
                f"--copy-provenance cannot write {path}: there is no directory {self._path.parent}; make it."
            )

    @torch.no_grad()
    def write(
        self,
        model: torch.nn.Module,
        sample: dict[str, Any],
        slot_map: SlotMap,
        finalized: list[list[dict[str, Any]]],
    ) -> None:
        """Describe the best output of each sentence.

        Args:
            model: a model whose decoder has ``distribution``.
            sample: the batch, with spelling ids.
            slot_map: of the batch.
            finalized: what the search found, with slots.
        """
        if self._file is None:
            self._file = self._path.open("x", encoding="utf-8")
        dictionary = slot_map.dictionary
        tokens = sample["net_input"]["src_tokens"]
        for row, hypotheses in enumerate(finalized):
            output = hypotheses[0]["tokens"].unsqueeze(0)  # (1, T)
            previous = torch.cat([output[:, -1:], output[:, :-1]], dim=1)  # fairseq starts from the end symbol
            source = slot_map.src_tokens[row : row + 1]
            encoder_out = model.encoder(source, source.ne(dictionary.pad()).sum(dim=1))
            distribution = model.decoder.distribution(previous, encoder_out)
            copied, positions = (part[0] for part in distribution.provenance(output))
            words = tokens[row].tolist()
            left = next(index for index, word in enumerate(words) if word != dictionary.pad())
            spelt = slot_map.spell(row, output[0]).tolist()
            steps = [
                {
                    "word": dictionary[word],
                    "copied": round(copied[step].item(), 4),
                    "positions": {
                        str(position - left): round(share, 4)
                        for position, share in enumerate(positions[step].tolist())
                        if share >= SMALLEST_SHARE
                    },
                }
                for step, word in enumerate(spelt)
            ]
            number = sample["id"][row].item() if "id" in sample else self._written
            source_words = [dictionary[word] for word in words if word != dictionary.pad()]
            print(
                json.dumps({"id": number, "source": source_words, "output": steps}, ensure_ascii=False), file=self._file
            )
            self._written += 1
        self._file.flush()
