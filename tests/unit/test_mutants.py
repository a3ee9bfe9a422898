"""The list of mutants fits the current package. ``make mutants`` runs the mutants."""

import ast
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


def test_random_mutants_are_those_of_the_seed_and_change_one_line_each():
    drawn, other = mutants.draw_mutants(40, 1), mutants.draw_mutants(40, 2)
    assert drawn == mutants.draw_mutants(40, 1) != other
    for mutant in drawn:
        old, new = mutant.old.splitlines(), mutant.new.splitlines()
        changed = [number for number, pair in enumerate(zip(old, new, strict=True), start=1) if pair[0] != pair[1]]
        assert [f"{mutant.file}:{number}" for number in changed] == [mutant.place]
        assert ast.dump(ast.parse(mutant.new)) != ast.dump(ast.parse(mutant.old))
        assert mutant.tests and all((ROOT / path).exists() for path in mutant.tests)


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("x = a + b", ["x = a - b"]),
        ("x = a if b < c else not d", ["x = a if b <= c else not d", "x = a if b < c else d"]),
        ("x = y is not None and f(True, 1)", ["is None", "or f", "False", ", 2)"]),
        ("x = not (a and b)", ["x = (a and b)", "x = not (a or b)"]),
        ("x = 'a' 'b'", []),
        ("x = 1e30", []),  # adding 1 to it changes nothing in double precision
    ],
)
def test_what_may_change_in_a_line(line, changes):
    found = [text for _, text in mutants.random_mutants._changes(line)]
    assert len(found) == len(changes)
    assert all(any(change in text for text in found) for change in changes)
