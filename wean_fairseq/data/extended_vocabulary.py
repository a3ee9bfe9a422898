"""Keep the spelling of words outside the dictionary, so that models can copy them through slots.

An ``ExtendedDictionary`` gives each unknown word that it reads an id above all ids of the dictionary. These *spelling
ids* exist only in this process and never reach a model. ``SlotMap`` replaces spelling ids by slots, which models can
read: in a sentence pair, the k-th distinct unknown word of the source becomes slot k on both sides. Two kinds of words
become ``<unk>``: source words beyond the last slot, and unknown target words that the source does not contain.
Training, generation and interactive use share this code. After the search, ``SlotMap`` turns the slots in the outputs
back into words.

Legend: ``B`` batch, ``S`` source length, ``T`` target length, ``V`` dictionary size without slots.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.tokenizer import tokenize_line
from torch import Tensor

from ..errors import UserError
from ..modules import base_ids

DEFAULT_SLOTS = 64  # 64 slots are sufficient for sentences A paragraph split into characters may need 128


class ExtendedDictionary(Dictionary):
    """A copy of a dictionary that can have slots at its end and that stores the spellings of unknown words.

    Its length includes the slots, but not the spelling ids. There are no slots until ``reserve_slots`` is called. With
    ``fold_case``, unknown words that differ only in case share a slot. The output contains the first spelling of such a
    word in the source sentence.
    """

    def __init__(self, dictionary: Dictionary, fold_case: bool = False) -> None:
        super().__init__()
        for name, value in vars(dictionary).items():
            setattr(self, name, copy(value))
        self.num_slots = 0
        self.fold_case = fold_case
        self.forget_spellings()
        no_words = (self.bos_word, self.pad_word, self.eos_word)
        self._words = {word: index for word, index in self.indices.items() if word not in no_words}

    def forget_spellings(self) -> None:
        """Remove the stored spellings of all words outside the dictionary.

        A server that reads text for days must call this method to free memory.
        """
        self._spellings: list[str] = []
        self._spelling_ids: dict[str, int] = {}
        # for each spelling, the number of the first spelling of the same word (see ``fold_case``)
        self._same: list[int] = []
        self._same_numbers = torch.tensor(self._same)  # `_same` as a tensor, updated when it is needed
        self._folded: dict[str, int] = {}

    @property
    def first_slot(self) -> int:
        """Id of the first slot, which equals the size ``V`` of the dictionary without slots."""
        return len(self) - self.num_slots

    def reserve_slots(self, number: int) -> None:
        """Append ``number`` slots. This must happen once, before any text is read.

        Raise ``UserError`` if a word of the dictionary looks like a slot.
        """
        if self.num_slots == number:
            return
        if self.num_slots or self._spellings:
            raise ValueError("slots must be reserved once, before any text is read.")
        for slot in range(number):
            name = f"<oov-{slot}>"
            if name in self:
                raise UserError(
                    f"the dictionary has the word {name}, which is reserved: the text it was made from had slots "
                    "written into it; run fairseq-preprocess on the original text."
                )
            self.add_symbol(name, n=0)
        self.num_slots = number

    def encode_line(
        self,
        line: str,
        line_tokenizer: Any = tokenize_line,
        add_if_not_exist: bool = True,
        consumer: Any = None,
        append_eos: bool = True,
        reverse_order: bool = False,
    ) -> Tensor:
        """Encode a line as fairseq does, but give every unknown word a spelling id. The dictionary never grows.

        A word of the text that is spelt like a boundary symbol or a slot counts as unknown, too.
        """
        words = line_tokenizer(line)
        if reverse_order:
            words = list(reversed(words))
        base_ids = self._words
        ids = [base_ids[word] if word in base_ids else self._spelling_id(word) for word in words]
        if consumer is not None:
            for word, index in zip(words, ids, strict=True):
                consumer(word, index)
        if append_eos:
            ids.append(self.eos())
        return torch.tensor(ids, dtype=torch.int32)

    def __getitem__(self, index: int) -> str:
        """Return the word with this id. The id may be a spelling id."""
        spelling = int(index) - len(self)
        if 0 <= spelling < len(self._spellings):
            return self._spellings[spelling]
        return str(super().__getitem__(index))

    def string(self, tensor: Tensor | list[int], *args: Any, **kwargs: Any) -> str:
        """Return the words of a tensor, as fairseq's method does.

        The ids are first copied off a GPU, because fairseq's method reads each id up to five times.
        """
        if torch.is_tensor(tensor) and tensor.dim() == 1:
            tensor = tensor.tolist()
        return str(super().string(tensor, *args, **kwargs))

    def same_word(self, tokens: Tensor) -> Tensor:
        """Return ids of the same shape. Words that share a slot have equal ids."""
        if not self.fold_case or not self._same:
            return tokens
        if len(self._same_numbers) != len(self._same):
            self._same_numbers = torch.tensor(self._same)
        same = self._same_numbers.to(tokens.device) + len(self)
        return torch.where(tokens >= len(self), same[(tokens - len(self)).clamp(min=0)], tokens)

    def _spelling_id(self, word: str) -> int:
        number = self._spelling_ids.get(word)
        if number is None:
            number = self._spelling_ids[word] = len(self._spellings)
            self._spellings.append(word)
            self._same.append(self._folded.setdefault(word.casefold(), number))
        return len(self) + number


def num_base_words(dictionary: Dictionary) -> int:
    """Return ``V``, the size of the dictionary without slots."""
    return int(getattr(dictionary, "first_slot", len(dictionary)))


class SlotMap:
    """Maps between spelling ids and slots for the sentences of one batch.

    Args:
        target: dictionary of the target. It is the same object as ``source`` if the dictionary has slots.
        src_tokens: source ids (B, S), which may include spelling ids.

    Attributes:
        src_tokens: source ids (B, S), in which slots replace spelling ids.
    """

    def __init__(self, source: ExtendedDictionary, target: ExtendedDictionary, src_tokens: Tensor) -> None:
        self.dictionary = target
        self.src_keys = source.same_word(src_tokens)
        slots = source.num_slots
        # Row b will contain the spelling id of each slot in sentence b. The last column is used for words without a
        # slot.
        self._words = src_tokens.new_full((src_tokens.size(0), slots + 1), source.unk())
        if not slots:
            self.src_tokens = base_ids(src_tokens, len(source), source.unk())
            return
        # For every source word, find its first occurrence in the sentence. An unknown word's slot number is the number
        # of distinct unknown words before its first occurrence. Words beyond the last slot become <unk>.
        unknown = src_tokens >= len(source)
        first = self.src_keys.unsqueeze(2).eq(self.src_keys.unsqueeze(1)).int().argmax(dim=2)  # (B, S)
        position = torch.arange(src_tokens.size(1), device=src_tokens.device)
        opens = unknown & first.eq(position)  # True at the first occurrence of an unknown word
        number = (opens.cumsum(dim=1) - 1).gather(1, first)  # number of the word among the distinct unknown words
        slot = torch.where(number < slots, source.first_slot + number, source.unk())
        self.src_tokens = torch.where(unknown, slot, src_tokens)
        self._words.scatter_(1, torch.where(opens, number.clamp(max=slots), slots), src_tokens)

    def slots(self, tokens: Tensor) -> Tensor:
        """Replace spelling ids by slots in target ids: (B, T) -> (B, T)."""
        if not self.dictionary.num_slots:
            return base_ids(tokens, len(self.dictionary), self.dictionary.unk())
        matches = self.dictionary.same_word(tokens).unsqueeze(2).eq(self.src_keys.unsqueeze(1))  # (B, T, S)
        copied = self.src_tokens.gather(1, matches.int().argmax(dim=2))
        unknown = torch.where(matches.any(dim=2), copied, self.dictionary.unk())
        return torch.where(tokens >= len(self.dictionary), unknown, tokens)

    def spell(self, rows: int | Tensor, tokens: Tensor) -> Tensor:
        """Return the ids (T,), in which the spelling ids of the copied words replace the slots.

        ``rows`` is the row of the sentence to which all ids belong, or one row for each id.
        """
        if not self.dictionary.num_slots:
            return tokens
        slot = tokens - self.dictionary.first_slot
        is_slot = (slot >= 0) & (slot < self.dictionary.num_slots)
        return torch.where(is_slot, self._words.to(tokens)[rows, slot.clamp(min=-1)], tokens)

    def spell_all(self, outputs: Sequence[tuple[int, Tensor]]) -> Sequence[Tensor]:
        """Apply ``spell`` to many outputs, each given with the row of its sentence.

        One call for all outputs needs only a few GPU kernels, although a batch has hundreds of outputs.
        """
        if not self.dictionary.num_slots or not outputs:
            return [tokens for _, tokens in outputs]
        sentences, tokens = zip(*outputs, strict=True)
        lengths = torch.tensor([len(output) for output in tokens])
        rows = torch.tensor(sentences).repeat_interleave(lengths).to(tokens[0].device)
        return torch.split(self.spell(rows, torch.cat(tokens)), lengths.tolist())
