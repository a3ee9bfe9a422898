#!/usr/bin/env python3
"""Check docstrings, comments and Markdown for phrases that are hard to read. `make lint` runs it.

    python scripts/prose.py [PATH...]     # default: the whole project

Each finding is printed with the wording to use instead. The exit status is 1 if there are any findings. CONTRIBUTING.md
has the rules. This script finds only those phrases that are easy to find.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("wean_fairseq", "preprocess", "scripts", "benchmarks", "examples", "docs", "tests")
#: For each regular expression, this is the wording to use instead.
PHRASES = {
    r"\bg(?:o|oes|one|oing) on(?: with)?\b": "resume, continue",
    r"\banew\b": "again, from scratch",
    r"\blikewise\b": "repeat the statement",
    r"\bof (?:its|their|your|our) own\b": "its own, separate",
    r"\ban? (?:line|row|word|file|value|number|thread|seed|token) an? [a-z]+": "one line per sentence",
    r"\bas (?:it|they) (?:is|are|stands?)\b(?! (?:not|no|an?|in|the|called|needed|read))": "unchanged, verbatim",
    r"\bin the place of\b": "instead of, replaces",
    r"\bat hand\b|\bto be had\b": "available",
    r"\b(?:nobody|somebody|whoever)\b": "no caller, a user, users who",
    r"\bwhatever (?:is|was|it|they|that)\b": "name the thing",
    r"\b(?:is|are) no numbers?\b|\bnumber that is none\b": "NaN, is not a number",
    r"\b(?:is|are|was) no (?!longer|more|less|such|other)[a-z]+ (?:and|of|but|that|which)\b": "is not a",
    r"(?:^|[.:;] )what (?:is|was|it|they|has|had|a|an|the)\b": "use a noun, such as 'the options'",
    r"\bso many\b": "this number of, N",
    r"\bmends?\b|\bmended\b": "fix, correct",
    r"\btells? (?:of|that|what)\b|\btold (?:of|that|what)\b": "says, shows, reports",
    r"\bfor ever\b|\bonce and for all\b": "state the fact plainly",
    r"\bstands? (?:in for|beside|where)\b": "is, replaces, is next to",
}


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings and comments of Python code with their line numbers."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text is not None:
                yield node.body[0].lineno, text
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: ")


def line_texts(source: str, *, shell: bool) -> Iterator[tuple[int, str]]:
    """Yield the comment lines of a shell script, or the lines of Markdown outside of code, with their numbers."""
    in_code = False
    for number, line in enumerate(source.splitlines(), start=1):
        if shell:
            if line.lstrip().startswith("#"):
                yield number, line.lstrip("# ")
        elif line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, re.sub(r"`[^`]*`", "X", line)


def findings(path: Path) -> Iterator[str]:
    """Yield one message for each phrase in a file."""
    source = path.read_text(encoding="utf-8")
    texts = python_texts(source) if path.suffix == ".py" else line_texts(source, shell=path.suffix == ".sh")
    for number, text in texts:
        for pattern, instead in PHRASES.items():
            for match in re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE):
                line = number + text.count("\n", 0, match.start())
                yield f"{path}:{line}: {' '.join(match[0].split())!r}: write: {instead}"


def project_files() -> list[str]:
    """Return the names of all files with prose, relative to the root of the project."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")] + list(ROOT.glob("*.md"))
    return [path.relative_to(ROOT).as_posix() for path in sorted(paths) if path.suffix in (".py", ".sh", ".md")]


def main(arguments: Sequence[str]) -> int:
    """Print all findings. Return the exit status."""
    paths = [Path(argument) for argument in arguments] or [ROOT / name for name in project_files()]
    messages = [message for path in paths for message in findings(path)]
    sys.stdout.writelines(f"{message}\n" for message in messages)
    return int(bool(messages))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
