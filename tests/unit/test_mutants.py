"""Test that the list of mutants matches the current package. ``make mutants`` runs the mutants."""

import ast
import importlib.util
import os
import subprocess
import sys
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
    covering = mutants.mutant_tests.Covering(ROOT, {}, {})
    drawn, other = (mutants.draw_mutants(40, seed, covering) for seed in (1, 2))
    assert drawn == mutants.draw_mutants(40, 1, covering) != other
    for mutant in drawn:
        old, new = mutant.old.splitlines(), mutant.new.splitlines()
        changed = [number for number, pair in enumerate(zip(old, new, strict=True), start=1) if pair[0] != pair[1]]
        assert [f"{mutant.file}:{number}" for number in changed] == [mutant.place]
        assert ast.dump(ast.parse(mutant.new)) != ast.dump(ast.parse(mutant.old))


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("x = a + b", ["x = a - b"]),
        ("x = a if b < c else not d", ["x = a if b <= c else not d", "x = a if b < c else d"]),
        ("x = y is not None and f(True, 1)", ["is None", "or f", "False", ", 2)"]),
        ("x = not (a and b)", ["x = (a and b)", "x = not (a or b)"]),
        ("x = 'a' 'b'", []),
        ("x = 1e30", []),  # adding 1 changes nothing in double precision
        # after a character of two bytes, columns are ambiguous, so they are not changed
        ("x = f\"{y[:2]}\" + 'é' + z[1]", ["y[:3]"]),
    ],
)
def test_what_may_change_in_a_line(line, changes):
    found = [text for _, text in mutants.random_mutants._changes(line)]
    assert len(found) == len(changes)
    assert all(any(change in text for text in found) for change in changes)


CODE = """LIMIT = 3


def low(x):
    if x < LIMIT:
        return x + 1
    return (
        x
        - LIMIT
    )
"""
TESTS = """from wean_fairseq.modules.code import low


def test_small():
    assert low(1) == 2


def test_large():
    assert low(5) == 2


def test_that_fails_anyway():
    assert low(1) == low(5) == 0
"""


def test_a_random_mutant_gets_the_tests_that_run_its_line(tmp_path):
    """A continued line belongs to its statement.

    For a line outside of functions, all tests in the test file of the module are run.
    """
    code, test = "wean_fairseq/modules/code.py", "tests/unit/modules/test_code.py"
    for name, text in ((code, CODE), (test, TESTS), ("wean_fairseq/__init__.py", "")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    run = "from pathlib import Path; import mutant_tests; mutant_tests.measure(Path.cwd(), Path('lines.json'))"
    path = os.pathsep.join([str(ROOT / "scripts"), str(tmp_path)])
    command = [sys.executable, "-c", run]
    subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, check=True)
    covering = mutants.mutant_tests.read(tmp_path, tmp_path / "lines.json")
    small, large = f"{test}::test_small", f"{test}::test_large"
    assert covering.of_line(code, 6) == (small,)
    assert covering.of_line(code, 9) == (large,)
    assert set(covering.of_line(code, 5)) == {small, large}
    assert set(covering.of_line(code, 1)) == {test, small, large}
