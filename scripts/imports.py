#!/usr/bin/env python3
"""Write the drawing of the package's imports into docs/architecture.md.

With --check, only compare it with the document.

A part is a folder or a file directly inside wean_fairseq/. The layer of a part is one above the highest layer that it
imports, so every arrow points down. Import cycles are errors. Between parts, imports inside functions count as well. In
the check for cycles between files, only imports outside functions count.
"""

import argparse
import ast
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from page_block import update_block

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "wean_fairseq"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- imports: scripts/imports.py -->\n", "<!-- end of imports -->\n"


def module_name(path: Path) -> str:
    """Return the dotted name of a file below the package's parent."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path, modules: Mapping[str, Path], *, deferred: bool) -> Iterator[str]:
    """Return the package's modules that a file imports. ``deferred`` includes imports inside functions."""
    package = path.relative_to(PACKAGE.parent).parts[:-1]
    for node in _running_nodes(ast.parse(path.read_text(encoding="utf-8")), deferred=deferred):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{module}.{alias.name}"
                yield from [name for name in (full, module) if name in modules][:1]


def _running_nodes(node: ast.AST, *, deferred: bool) -> Iterator[ast.AST]:
    """Yield all nodes outside ``if TYPE_CHECKING``. Unless ``deferred`` is set, also skip nodes inside functions."""
    for child in ast.iter_child_nodes(node):
        for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not for_types and (deferred or not isinstance(child, ast.FunctionDef)):
            yield child
            yield from _running_nodes(child, deferred=deferred)


def file_graph(*, deferred: bool) -> dict[str, set[str]]:
    """Return, for each module, the modules of the package that it imports."""
    modules = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
    return {name: set(imported_modules(path, modules, deferred=deferred)) - {name} for name, path in modules.items()}


def part_graph(files: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return, for each part, the parts that it imports. The ``__init__`` of the package is a part with that name."""

    def part(name: str) -> str:
        return name.split(".")[1] if "." in name else "__init__"

    parts: dict[str, set[str]] = {part(name): set() for name in files}
    for name, imported in files.items():
        parts[part(name)] |= {part(other) for other in imported} - {part(name), "__init__"}
    return parts


def layers(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """Return the layer of each part. A part without imports has layer 0.

    Raises:
        CycleError: if there is a cycle. The message names the parts in the cycle.
    """
    layer_of: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        layer_of[name] = 1 + max((layer_of[other] for other in graph[name]), default=-1)
    return layer_of


def draw(graph: Mapping[str, set[str]]) -> str:
    """Return the drawing, with one line per part and the highest layer first."""
    layer_of = layers(graph)
    width = max(map(len, graph))
    lines = []
    for layer in range(max(layer_of.values()), -1, -1):
        for name in sorted(name for name in graph if layer_of[name] == layer):
            below = sorted(graph[name], key=lambda other: (-layer_of[other], other))
            lines.append(f"{layer}  {name:<{width}}  {', '.join(below)}".rstrip())
    return "\n".join(["```text", *lines, "```\n"])


def main(arguments: list[str] | None = None) -> int:
    """Write or check the drawing. Return the exit status."""
    parser = argparse.ArgumentParser(description="Write the drawing of imports into docs/architecture.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if the page is out of date")
    args = parser.parse_args(arguments)
    try:
        layers(file_graph(deferred=False))
        drawing = draw(part_graph(file_graph(deferred=True)))
    except CycleError as error:
        print(f"imports: circle: {' <- '.join(error.args[1])}", file=sys.stderr)
        return 1
    if not update_block(PAGE, (BEGIN, END), drawing, check=args.check) and args.check:
        print("imports: docs/architecture.md has another drawing: run python scripts/imports.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
