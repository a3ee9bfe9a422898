"""Read those parts of Markdown that the tests of the documents need: code, commands, links, headings and tables."""

import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```[ \t]*$", re.MULTILINE | re.DOTALL
)
SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(
    r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*)>?(?:\s+\"[^\"]*\")?\s*\)"
)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
SHELL = ("sh", "bash")
_SEPARATORS = {";", "|", "||", "&&", "&", "(", ")", "do", "done", "then", "fi", "else"}
_ARRAY = re.compile(r"^(\w+)=\(((?:[^()'\"]|'[^']*'|\"[^\"]*\")*)\)[ \t]*$", re.M)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: first word after the fence.
        file: path in a code span that is alone on the line before the block, or empty.
        text: content of the block without the indentation of the fence.
        heading: last heading above the block.
    """

    language: str
    file: str
    text: str
    heading: str


@dataclass(frozen=True)
class Command:
    """A simple command in a shell line: ``NAME=value ... program argument ...``."""

    words: list[str]
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def program(self) -> str:
        return self.words[0]


def blocks(text: str) -> list[Block]:
    found = []
    for match in FENCE.finditer(text):
        before = text[: match.start()]
        named = re.search(r"^`([^`\n]+)`:?\n\n?\Z", before, flags=re.MULTILINE)
        headings = HEADING.findall(FENCE.sub("", before))
        indent = len(match["indent"])
        inside = "".join(line[indent:] for line in match["text"].splitlines(keepends=True))
        language = (match["info"].split() or [""])[0]
        found.append(Block(language, named[1] if named else "", inside, headings[-1] if headings else ""))
    return found


def shell_scripts(text: str) -> list[str]:
    """Return the shell blocks of a page.

    The values of arrays that a block sets are inserted where a block uses them.
    """
    arrays: dict[str, str] = {}
    scripts = []
    for block in blocks(text):
        if block.language in SHELL:
            arrays |= {name: " ".join(content.split()) for name, content in _ARRAY.findall(block.text)}
            script = _ARRAY.sub("", block.text)
            for name, content in arrays.items():
                script = script.replace(f'"${{{name}[@]}}"', content)
            scripts.append(script)
    return scripts


def shell_lines(script: str) -> list[str]:
    """Return the lines of a script without comments and empty lines. Lines are joined at backslashes."""
    joined = re.sub(r"\\\n\s*", "", script)
    bare = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in bare if line]


def simple_commands(line: str) -> list[Command]:
    """Return the commands in a line, without redirections and without the words that form loops.

    Raises:
        ValueError: if a quote is not closed.
    """
    lexer = shlex.shlex(re.sub(r"(?<=\s)\d(?=>)", "", line), posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[list[str]] = [[]]
    tokens = iter(lexer)
    for token in tokens:
        if token in _SEPARATORS:
            found.append([])
        elif token[0] in "<>":
            next(tokens, None)  # skip the name of the file
        else:
            found[-1].append(token)
    return [command for words in found if (command := _command(words)) is not None]


def _command(words: list[str]) -> Command | None:
    variables = {}
    while words and (match := _ASSIGNMENT.fullmatch(words[0])):
        variables[match[1]] = match[2]
        words = words[1:]
    return Command(words, variables) if words and words[0] != "for" else None


def without_blocks(text: str) -> str:
    return FENCE.sub("", text)


def code_spans(text: str) -> list[str]:
    """Return the texts between backticks outside of blocks, with spaces instead of line breaks."""
    return [" ".join(match[2].split()) for match in SPAN.finditer(without_blocks(text))]


def links(text: str) -> list[str]:
    """Return the targets of the links and pictures outside of code."""
    return LINK.findall(SPAN.sub("", without_blocks(text)))


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as GitHub writes them. Repeated anchors are numbered."""
    seen: Counter[str] = Counter()
    found = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    for heading in HEADING.findall(without_blocks(text)):
        plain = LINK.sub(lambda link: link[0].split("](")[0].lstrip("!["), heading)
        kept = (letter for letter in plain.lower() if letter in " -_" or unicodedata.category(letter)[0] in "LNM")
        slug = "".join(kept).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def tables(text: str) -> Iterator[list[list[str]]]:
    """Yield each table as a list of rows, which are lists of cells. The heading is the first row."""
    for match in re.finditer(r"(?:^\|.*\|[ \t]*\n)+", without_blocks(text) + "\n", flags=re.MULTILINE):
        rows = [_cells(line) for line in match[0].splitlines()]
        yield [row for row in rows if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
