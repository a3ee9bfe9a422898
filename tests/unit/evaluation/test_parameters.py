"""Test the parameter counts of the output layer against Table 5 of the WEAN paper."""

import pytest

from wean_fairseq.evaluation.parameters import SETTINGS, TABLE, count_parameters, parameters_command


@pytest.mark.parametrize("place", range(len(SETTINGS)), ids=lambda place: SETTINGS[place].name)
def test_counts_are_those_of_the_paper(place):
    """The closed forms are V d for the baseline's matrix and 2 d^2 + d for concat, rounded as in the paper."""
    setting, published = SETTINGS[place], TABLE.rows["output layer"]
    bias = setting.words
    matrix = count_parameters("linear", setting.words, setting.width, specials=0) - bias
    assert matrix == setting.words * setting.width
    assert round(matrix / 1e6, 2) == published["Seq2seq"].scores[place]
    concat = count_parameters("concat", setting.words, setting.width)
    assert concat == 2 * setting.width**2 + setting.width
    assert round(concat / 1e6, 2) == published["WEAN"].scores[place]
    assert count_parameters("general", setting.words, setting.width) == setting.width**2
    assert count_parameters("dot", setting.words, setting.width) == 0


def test_the_table_has_both_numbers():
    out = parameters_command([])
    assert "12,851,028 (paper: 12.80M)" in out
    assert "524,800 (paper: 0.52M)" in out
