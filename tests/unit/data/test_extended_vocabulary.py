"""Test words outside the dictionary: their spelling ids, the slots that models see, and the mapping back to words."""

import pytest
import torch
from fairseq.data import Dictionary
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulated_gpu import SimulatedGpu
from wean_fairseq.data.extended_vocabulary import ExtendedDictionary, SlotMap
from wean_fairseq.errors import UserError

KNOWN = ["the", "a", "met", "The"]
PAD, EOS, UNK = 1, 2, 3


def plain_dictionary() -> Dictionary:
    dictionary = Dictionary()
    for word in KNOWN:
        dictionary.add_symbol(word)
    return dictionary


def extended(slots: int = 2, fold_case: bool = False) -> ExtendedDictionary:
    dictionary = ExtendedDictionary(plain_dictionary(), fold_case)
    dictionary.reserve_slots(slots)
    return dictionary


def padded(rows: list[torch.Tensor], left: bool) -> torch.Tensor:
    width = max(len(row) for row in rows)
    filled = []
    for row in rows:
        missing = width - len(row)
        filled.append(torch.nn.functional.pad(row, (missing, 0) if left else (0, missing), value=PAD))
    return torch.stack(filled).long()


def test_known_words_have_the_dictionarys_ids_and_unknown_ones_come_back_as_typed():
    dictionary, plain = extended(), plain_dictionary()
    line = "the Zorblax met the Quimby Zorblax"
    ids = dictionary.encode_line(line, add_if_not_exist=False)
    assert dictionary.string(ids) == line
    assert ids[[0, 2, 3]].tolist() == [plain.index(word) for word in ("the", "met", "the")]
    assert ids[1] == ids[5] != ids[4]
    assert ids[-1] == EOS


def test_the_dictionary_never_grows():
    dictionary = extended(slots=2)
    before = len(dictionary)
    dictionary.encode_line("Zorblax Quimby", add_if_not_exist=True)
    assert len(dictionary) == before == len(plain_dictionary()) + 2
    assert dictionary.first_slot == len(plain_dictionary())
    assert plain_dictionary() != dictionary  # they differ, because a model is built for a fixed number of slots


def test_without_slots_it_equals_the_dictionary_it_was_made_from():
    assert extended(slots=0) == plain_dictionary()


@pytest.mark.parametrize("word", ["<s>", "<pad>", "</s>", "<oov-0>", "<oov-1>"])
def test_a_word_spelt_like_a_symbol_is_a_word_like_others(word):
    dictionary = extended()
    ids = dictionary.encode_line(f"the {word}")
    assert ids[1] >= len(dictionary)
    assert dictionary.string(ids) == f"the {word}"


def test_slots_are_reserved_once_and_must_be_free():
    dictionary = extended(slots=2)
    dictionary.reserve_slots(2)
    with pytest.raises(ValueError, match="once"):
        dictionary.reserve_slots(3)
    taken = plain_dictionary()
    taken.add_symbol("<oov-1>")
    with pytest.raises(UserError, match="<oov-1>"):
        ExtendedDictionary(taken).reserve_slots(2)


def test_slots_by_hand():
    """The expected ids follow from the definition: duplicates share a slot, and the third word gets no slot."""
    dictionary = extended(slots=2)
    first = dictionary.first_slot
    source = dictionary.encode_line("X the Y X Z a Z").unsqueeze(0)
    target = dictionary.encode_line("Y W Z X the").unsqueeze(0)
    slot_map = SlotMap(dictionary, dictionary, source)
    the, a = dictionary.index("the"), dictionary.index("a")
    assert slot_map.src_tokens.tolist() == [[first, the, first + 1, first, UNK, a, UNK, EOS]]
    assert slot_map.slots(target).tolist() == [[first + 1, UNK, UNK, first, the, EOS]]
    output = slot_map.spell(0, torch.tensor([first + 1, the, first, UNK, EOS]))
    assert dictionary.string(output) == "Y the X <unk>"


@pytest.mark.parametrize("slots", [0, 1, 3, 50])
@pytest.mark.parametrize("left", [False, True])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_slots_equal_the_naive_loop(slots, left, data):
    """The oracle is a dictionary of slots, filled word by word. Batches are random and padded on either side."""
    words = st.sampled_from([*KNOWN, *"UVWXYZ"])
    sides = st.tuples(st.lists(words, max_size=9), st.lists(words, max_size=9))
    pairs = data.draw(st.lists(sides, min_size=1, max_size=4))
    dictionary = extended(slots)
    source = padded([dictionary.encode_line(" ".join(side)) for side, _ in pairs], left)
    target = padded([dictionary.encode_line(" ".join(side)) for _, side in pairs], False)
    slot_map = SlotMap(dictionary, dictionary, source)
    mapped = slot_map.slots(target)
    for row, (source_words, target_words) in enumerate(pairs):
        slot_of: dict[str, int] = {}
        for word in source_words:
            if word not in KNOWN and word not in slot_of and len(slot_of) < slots:
                slot_of[word] = dictionary.first_slot + len(slot_of)
        naive = [
            [dictionary.index(word) if word in KNOWN else slot_of.get(word, UNK) for word in side] + [EOS]
            for side in (source_words, target_words)
        ]
        assert slot_map.src_tokens[row][source[row] != PAD].tolist() == naive[0]
        assert mapped[row][target[row] != PAD].tolist() == naive[1]
        spelt = dictionary.string(slot_map.spell(row, mapped[row][target[row] != PAD]))
        assert spelt.split() == [word if word in KNOWN or word in slot_of else "<unk>" for word in target_words]


def test_folding_case_joins_unknown_words_and_keeps_the_sources_spelling():
    dictionary = extended(slots=2, fold_case=True)
    first = dictionary.first_slot
    dictionary.encode_line("ZORBLAX")  # an earlier text contained the word
    source = dictionary.encode_line("Zorblax the zorblax The").unsqueeze(0)
    slot_map = SlotMap(dictionary, dictionary, source)
    the, capital = dictionary.index("the"), dictionary.index("The")
    assert slot_map.src_tokens.tolist() == [[first, the, first, capital, EOS]]
    assert slot_map.slots(dictionary.encode_line("zorBLAX").unsqueeze(0)).tolist() == [[first, EOS]]
    assert dictionary.string(slot_map.spell(0, torch.tensor([first]))) == "Zorblax"


def test_two_dictionaries_without_slots_know_their_own_words():
    source, target = ExtendedDictionary(plain_dictionary()), ExtendedDictionary(Dictionary())
    slot_map = SlotMap(source, target, source.encode_line("the X").unsqueeze(0))
    assert slot_map.src_tokens.tolist() == [[source.index("the"), UNK, EOS]]
    assert slot_map.slots(target.encode_line("the X").unsqueeze(0)).tolist() == [[UNK, UNK, EOS]]


def test_words_read_later_still_fold_case():
    """The ids of the words are cached between batches. A word that is read later must be added to the cache."""
    dictionary = extended(slots=3, fold_case=True)
    first = dictionary.first_slot
    for word in ("Zorblax", "Quimby"):
        source = dictionary.encode_line(f"{word} the {word.lower()}").unsqueeze(0)
        slot_map = SlotMap(dictionary, dictionary, source)
        assert slot_map.src_tokens.tolist() == [[first, dictionary.index("the"), first, EOS]]


def test_ids_are_spelt_with_one_look_at_a_gpu():
    """The expected text comes from fairseq's method, which reads every id separately."""
    dictionary = extended()
    ids = dictionary.encode_line("the new a new")
    with SimulatedGpu() as gpu:
        text = dictionary.string(ids.to("cuda"))
    assert text == Dictionary.string(dictionary, ids) == "the new a new"
    assert gpu.waits.total() == 1


def test_all_outputs_of_a_batch_are_spelt_by_the_kernels_of_one():
    """The oracle spells each output by itself. A batch of 64 sentences with beam 5 has 320 outputs."""
    dictionary = extended(slots=2)
    sources = padded([dictionary.encode_line(line) for line in ("X the Y", "the Z")], False)
    slot_map = SlotMap(dictionary, dictionary, sources)
    first = dictionary.first_slot
    outputs = [(0, torch.tensor([first + 1, first, EOS])), (1, torch.tensor([first, EOS])), (1, torch.tensor([UNK]))]
    expected = [slot_map.spell(*output) for output in outputs]
    counts = []
    for some in (outputs[:1], outputs * 100):
        with SimulatedGpu() as gpu:
            found = slot_map.spell_all(some)
        counts.append(gpu.launches.total())
        assert [one.tolist() for one in found] == [
            one.tolist() for one in expected[: len(some)] * (len(some) // 3 or 1)
        ]
    assert counts[0] == counts[1]
    assert slot_map.spell_all([]) == []
