"""Test tables in the documentation that repeat recipe comments, help texts and docstrings."""

import argparse
from dataclasses import dataclass

import doc_sources
import pytest

from wean_fairseq.fields import option

RECIPE = """#!/usr/bin/env bash
# A table of the paper: two systems
# on pairs.
#
#   DATA=path bash examples/a/b.sh    # with a comment
#   SET=x bash examples/a/b.sh
#
#   DATA, TURK  where the data is
#   RATES_<system>  rates of one system (default: RATES),
#               from a list
#   SMOKE=1     a few lines
set -euo pipefail
#   LATER       not in the head
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.sh").write_text(RECIPE, encoding="utf-8")
    (tmp_path / "lib.sh").write_text("# sourced, not run\n", encoding="utf-8")
    return tmp_path


def test_a_recipe_is_a_row_with_its_purpose_and_first_command(folder):
    expected = ["A table of the paper: two systems on pairs", "[`DATA=path bash examples/a/b.sh`](../examples/a/b.sh)"]
    assert list(doc_sources.recipe_rows(folder)) == [expected]


def test_variables_are_those_of_the_head_with_their_continued_lines(folder):
    assert doc_sources.variable_rows(folder / "a" / "b.sh") == [
        ["`DATA`, `TURK`", "where the data is"],
        ["`RATES_<system>`", "rates of one system (default: RATES), from a list"],
        ["`SMOKE=1`", "a few lines"],
    ]


def test_cells_are_shown_as_they_are_written():
    assert doc_sources.escaped("a|b <unk> C * S") == "a\\|b &lt;unk> C \\* S"


def test_options_are_the_own_ones_with_defaults():
    @dataclass
    class Parent:
        inherited: int = option(1, "of fairseq")

    @dataclass
    class Config(Parent):
        embed_dim: int = option(0, "a width")
        use_it: bool = option(False, "a switch")
        silent: int = option(1, "")

    Config.__module__ = "wean_fairseq.models.one"
    assert doc_sources.option_rows(Config) == [["`--embed-dim`", "`0`", "a width"], ["`--use-it`", "", "a switch"]]


def test_arguments_of_a_program_are_read_from_its_parser():
    def main() -> None:
        parser = argparse.ArgumentParser(description="Do it.")
        parser.add_argument("--number", type=int, default=3, help="a number (default: %(default)s)")
        parser.add_argument("--hidden", help=argparse.SUPPRESS)
        parser.add_argument("--place", choices=("here", "there"), help="a place")
        parser.add_argument("--kind", choices=("a", "b"), help="a or b")
        parser.add_subparsers().add_parser("more", help="a subcommand")
        parser.parse_args()

    rows = list(doc_sources.argument_rows(doc_sources.parser_of("program", main)))
    choices = [["`--place`", "a place; one of here, there"], ["`--kind`", "a or b"]]
    assert rows == [["`--number`", "a number (default: 3)"], *choices, ["`more`", "a subcommand"]]


def test_functions_and_methods_have_their_arguments_and_first_sentence(tmp_path, monkeypatch):
    """The expected sentences are the first sentences of docstrings in this package."""
    (tmp_path / "docs").mkdir()
    page = (
        "::: wean_fairseq.training.call.train\n\n::: wean_fairseq.text\n    options:\n      members: [TextSettings]\n"
    )
    (tmp_path / "docs" / "api.md").write_text(page, encoding="utf-8")
    monkeypatch.setattr(doc_sources, "ROOT", tmp_path)
    rows = doc_sources.api({}).splitlines()
    assert rows[2] == (
        "|`wean_fairseq.train(data=None, output=None, config=None, **settings)`"
        "|Train a model on sentence pairs, and load it|"
    )
    assert rows[3].startswith("|`wean_fairseq.text.TextSettings(unit='words', language='en', lowercase=False,")
    assert rows[4:] == [
        '|`TextSettings.describe()`|Return a short description, such as "Moses tokens (en), lower-cased"|'
    ]


def test_the_pages_have_every_arch_and_command():
    options, commands = doc_sources.options({}), doc_sources.commands({})
    assert "### wean_lstm\n" in options and "|`copynet_full`|`copynet`|" in options
    assert "### wean-plot" in commands and "|`attention`|" in commands
