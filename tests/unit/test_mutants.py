"""The kept list of mutants fits the package as it is; running it is ``make mutants``."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("mutants", ROOT / "scripts" / "mutants.py")
mutants = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(mutants)


def test_every_row_stands_once_in_its_file_and_names_tests_that_are_there():
    rows = mutants.read_mutants(mutants.MUTANTS)
    assert len(rows) >= 60
    assert len({row[:3] for row in rows}) == len(rows)
    tests = {part for row in rows for part in row.tests if part.startswith("tests/")}
    assert [path for path in sorted(tests) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    ("old", "says"), [("no such text", "0 times in wean_fairseq/errors.py"), ("Error", "times in wean_fairseq/errors")]
)
def test_a_text_that_is_gone_or_not_the_only_one_is_named(old, says, tmp_path):
    rows = tmp_path / "mutants.toml"
    rows.write_text(f'[[group]]\nfile = "wean_fairseq/errors.py"\ntests = []\nmutants = [["{old}", "another"]]\n')
    with pytest.raises(SystemExit, match=says):
        mutants.read_mutants(rows)
