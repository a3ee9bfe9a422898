"""Draw random mutants for ``scripts/mutants.py --random``: a changed operator, comparison or constant."""

import ast
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDERS = ("modules", "models", "search", "criterions", "evaluation", "checkpoints")
OPERATORS = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.And: "or",
    ast.Or: "and",
}


def draw(root: Path, number: int, seed: int) -> list[tuple[str, str, str]]:
    """Draw mutants, with at most one mutant per line.

    Args:
        root: root directory of the project.
        number: number of mutants.
        seed: seed of the draw. The same seed and code give the same mutants.

    Returns:
        For each mutant: the file, the number and the text of the line, and the changed line.
    """
    sites: dict[tuple[str, int], list[str]] = {}
    for folder in FOLDERS:
        for path in sorted((root / "wean_fairseq" / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for line, changed in _changes(text):
                sites.setdefault((str(path.relative_to(root)), line), []).append(changed)
    chance = random.Random(seed)
    drawn = chance.sample(sorted(sites), min(number, len(sites)))
    return [(file, f"{file}:{line}", chance.choice(sites[file, line])) for file, line in drawn]


def mutate(text: str, place: str, changed: str) -> str:
    """Return ``text`` with the line at ``place`` replaced by ``changed``."""
    lines = text.splitlines(keepends=True)
    lines[int(place.rpartition(":")[2]) - 1] = changed + "\n"
    return "".join(lines)


def _changes(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number of each line (from 1), and the line with one change. Decorators are not changed."""
    lines = text.splitlines()
    tree = ast.parse(text)
    decorators = [one for node in ast.walk(tree) for one in getattr(node, "decorator_list", [])]
    kept = {id(part) for one in decorators for part in ast.walk(one)}
    for node in ast.walk(tree):
        if id(node) in kept:
            continue
        if isinstance(node, ast.BinOp):
            yield from _operator(lines, node.left, node.right, node.op)
        elif isinstance(node, ast.Compare):
            for left, right, operator in zip([node.left, *node.comparators], node.comparators, node.ops, strict=False):
                yield from _operator(lines, left, right, operator)
        elif isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from _operator(lines, left, right, node.op)
        elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
            line = lines[node.lineno - 1]
            value: Any = node.value
            other = not value if isinstance(value, bool) else value + 1
            # For example, 1e30 + 1 equals 1e30, so the number would not change. Columns are counted in bytes, and
            # inside f-strings they may be wrong, so the literal is compared first.
            if other != value and _literal(line[node.col_offset : node.end_col_offset]) == value:
                yield node.lineno, line[: node.col_offset] + repr(other) + line[node.end_col_offset :]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and node.lineno == node.operand.lineno:
            line = lines[node.lineno - 1]
            yield node.lineno, line[: node.col_offset] + line[node.col_offset + len("not") :].lstrip()


def _literal(text: str) -> Any:
    """Return the value of a literal, or None."""
    with suppress(ValueError, SyntaxError):
        return ast.literal_eval(text)
    return None


def _operator(lines: list[str], left: ast.expr, right: ast.expr, operator: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield a line's number, and the line in which ``operator`` between two operands is replaced by its opposite."""
    new = OPERATORS.get(type(operator))
    if new is None or left.end_lineno != right.lineno:
        return
    line = lines[right.lineno - 1]
    between = line[left.end_col_offset : right.col_offset]
    old = re.search(r"not in|is not|[-+*/%<>=!]+|\b(in|is|and|or)\b", between)
    if old is not None and line.isascii():  # columns are counted in bytes
        start = (left.end_col_offset or 0) + old.start()
        yield right.lineno, line[:start] + new + line[start + len(old[0]) :]
