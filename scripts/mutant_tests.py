"""Choose the tests for random mutants. These are the tests that run the changed line. The quickest tests come first."""

import ast
import io
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import coverage
import pytest

# Folders of tests that are measured. Lines that run in other processes are not recorded.
FOLDERS = ("modules", "models", "search", "criterions", "evaluation", "checkpoints", "tasks", "reporting")
QUICK = 0.1  # maximum time of a quick test in seconds


class _Recorder:
    """A pytest plugin that gives each test its own coverage context, and records its duration and whether it fails."""

    def __init__(self, lines: coverage.Coverage) -> None:
        self.lines = lines
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.lines.switch_context(item.nodeid)
        start = time.perf_counter()
        result = yield
        self.seconds[item.nodeid] = time.perf_counter() - start
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)


class Covering:
    """Maps each line of the package to the tests that run it.

    Args:
        root: root directory of the project.
        tests: durations of the tests in seconds, in the order of their numbers. Failed tests are left out.
        lines: for each file and line, the numbers of the tests that run the line.
    """

    def __init__(self, root: Path, tests: dict[str, float], lines: dict[str, dict[int, list[int]]]) -> None:
        self.root, self.seconds, self.lines = root, tests, lines
        self.tests = list(tests)

    def of_line(self, file: str, line: int) -> tuple[str, ...]:
        """Return the tests that run a line, as arguments of pytest, or nothing if no test runs it.

        If a line runs when its module is imported, its tests are the tests in the folder with the name of the module,
        then the tests of all lines of the file, and then the quick tests of the folder, which may read what the line
        declares.
        """
        span = _statement((self.root / file).read_text(encoding="utf-8"), line)
        lines = self.lines.get(file, {})
        numbers = {number for place, tests in lines.items() if span is None or place in span for number in tests}
        covering = tuple(self.tests[number] for number in sorted(numbers))
        if span is not None and covering:
            return covering
        folder = f"tests/unit/{Path(file).parts[1]}/"
        quick = [test for test, seconds in self.seconds.items() if seconds < QUICK and test.startswith(folder)]
        return tuple(dict.fromkeys([*self._naming(file), *covering, *quick]))

    def _naming(self, file: str) -> list[str]:
        path = Path(file)
        stem = path.parent.name if path.stem in ("model", "decoder", "config", "__init__") else path.stem
        word = re.compile(rf"\b{stem}\b")
        files = sorted((self.root / "tests" / "unit" / path.parts[1]).glob("test_*.py"))
        naming = [test for test in files if stem in test.stem or word.search(test.read_text(encoding="utf-8"))]
        naming.sort(key=lambda test: stem not in test.stem)
        return [str(test.relative_to(self.root)) for test in naming]


def measure(root: Path, record: Path) -> None:
    """Run all tests of ``FOLDERS`` in ``root`` once, and write to ``record`` which lines each test runs."""
    lines = coverage.Coverage(data_file=None, config_file=False, include=[f"{root}/wean_fairseq/*"])
    recorder = _Recorder(lines)
    folders = [str(folder) for name in FOLDERS if (folder := Path("tests", "unit", name)).is_dir()]
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(root)]
    with lines.collect(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        pytest.main([*options, *folders], plugins=[recorder])
    order = sorted(recorder.seconds.items(), key=lambda item: item[1])
    passed = {test: round(seconds, 4) for test, seconds in order if test not in recorder.failed}
    number_of = {test: number for number, test in enumerate(passed)}
    data = lines.get_data()
    content: dict[str, Any] = {"tests": passed, "lines": {}}
    for path in data.measured_files():
        of_file: dict[int, list[int]] = defaultdict(list)
        for line, tests in data.contexts_by_lineno(path).items():
            of_file[line] = [number_of[test] for test in tests if test in number_of]
        content["lines"][str(Path(path).relative_to(root))] = of_file
    record.write_text(json.dumps(content), encoding="utf-8")


def read(root: Path, record: Path) -> Covering:
    """Read the result of ``measure``."""
    content = json.loads(record.read_text(encoding="utf-8"))
    lines = {file: {int(line): tests for line, tests in of_file.items()} for file, of_file in content["lines"].items()}
    return Covering(root, content["tests"], lines)


def _statement(text: str, line: int) -> range | None:
    """Return the lines of the statement that contains a line, without its body, or ``None`` if it runs at import."""
    functions = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _body(node).start <= line < _body(node).stop
    ]
    if not functions:
        return None
    innermost = max(functions, key=lambda node: node.lineno)
    spans = []
    for node in ast.walk(innermost):
        if isinstance(node, ast.stmt) and node is not innermost:
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else (node.end_lineno or node.lineno)
            spans.append(range(node.lineno, max(end, node.lineno) + 1))
    return min((span for span in spans if line in span), key=len, default=range(line, line + 1))


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef) -> range:
    return range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
