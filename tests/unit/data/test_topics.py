"""Test that invalid topic lines and essays are refused, and that the message names the first invalid line.

The expected numbers of unknown words are counted by hand.
"""

import pytest
import torch

from tests.model_contract import EOS, PAD, UNK, make_dictionary
from wean_fairseq.data.extended_vocabulary import ExtendedDictionary
from wean_fairseq.data.pairs import word_ids
from wean_fairseq.data.topics import check_essays, check_known, check_topics
from wean_fairseq.errors import UserError

SEPARATOR_ID = 99


def test_ids_are_those_of_words():
    lines = [torch.tensor([PAD, 5, 4, EOS]), torch.tensor([UNK, EOS, PAD]), torch.tensor([EOS])]
    assert word_ids(lines, make_dictionary()) == [(5, 4), (UNK,), ()]


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ([(4,), (), (5,), ()], r"train has 2 line\(s\) without a topic \(line 2\): remove these pairs\."),
        ([(4, 5), (4, 5, 6, 7), (4,) * 9], r"train has 2 line\(s\) with more than 3 topics \(line 2 has 4\): raise --"),
        ([(4,), (7, SEPARATOR_ID, 5)], r"train has 1 topic line\(s\) with </d> \(line 2\), .* preprocess/essay.py"),
    ],
)
def test_lines_that_are_no_topics_are_refused(topics, message):
    with pytest.raises(UserError, match=message):
        check_topics("train", topics, 3, SEPARATOR_ID)


def test_as_many_topics_as_allowed_pass():
    check_topics("train", [(4, 5, 6), (4,)], 3, SEPARATOR_ID)


def test_essays_with_their_topics_behind_them_are_refused():
    essays = [torch.tensor([4, EOS]), torch.tensor([4, SEPARATOR_ID, 5, EOS]), torch.tensor([SEPARATOR_ID, EOS])]
    with pytest.raises(UserError, match=r"valid has 2 essay\(s\) with </d> \(line 2\)"):
        check_essays("valid", essays, SEPARATOR_ID)
    check_essays("valid", essays[:1], SEPARATOR_ID)


def known(topics, caplog, required=False, lost_spellings=False):
    caplog.clear()
    dictionary = ExtendedDictionary(make_dictionary())  # the dictionary has 23 entries, so ids from 23 on are spellings
    check_known("test", topics, dictionary, required=required, lost_spellings=lost_spellings)
    return [record.getMessage() for record in caplog.records]


def test_unknown_topics_are_counted(caplog):
    assert known([(4, 22), (5,)], caplog, required=True, lost_spellings=True) == []
    counted = "test: 2 of 8 topic words (25.0%) are not in the dictionary"
    topics = [(4, UNK, 5), (23, 6, 7), (8, 9)]
    assert known(topics, caplog, required=True) == [counted]
    (said,) = known(topics, caplog, lost_spellings=True)
    assert said.startswith(counted + ", and binary data forgets")
    assert said.endswith("--dataset-impl raw")


def test_no_known_topic_at_all_is_an_error_where_nothing_else_reads_them(caplog):
    topics = [(UNK, 23), (UNK,)]
    with pytest.raises(UserError, match="none of the 3 topic words of test is in the dictionary"):
        known(topics, caplog, required=True)
    assert known(topics, caplog) == ["test: 3 of 3 topic words (100.0%) are not in the dictionary"]
