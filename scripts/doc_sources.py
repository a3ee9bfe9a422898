"""Create tables of documents from the code: options, variables of recipes, recipes, benchmarks and packages."""

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import Parameter, getdoc, isclass, ismodule, signature
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from unittest.mock import patch

import yaml
from page_block import read_record, table

import wean_fairseq

ROOT = Path(__file__).resolve().parents[1]
_VARIABLE = re.compile(r"#   ([A-Z][A-Z_]+\S*(?:, [A-Z_]+)*)  +(\S.*)")


def first_sentence(path: Path) -> str:
    """Return the first sentence of a module's docstring without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return re.split(r"\.(?=\s|$)", " ".join(text.split()))[0].replace("``", "`")


def head(path: Path) -> list[str]:
    """Return the comment at the top of a shell script, without the lines that are meant for tools."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if not re.match(r"#!|# shellcheck", line):
            lines.append(line)
    return lines


# --- recipes --------------------------------------------------------------------------------------------------------


def recipe_rows(folder: Path) -> Iterable[list[str]]:
    """Yield one row for each recipe: the first paragraph of its comment, and its first command with a link."""
    for path in sorted(folder.rglob("*.sh")):
        if not path.read_text(encoding="utf-8").startswith("#!"):
            continue
        text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in head(path))
        purpose, _, rest = text.partition("\n\n")
        command = re.search(r"^  (\S.*)$", rest, flags=re.MULTILINE)
        name = path.relative_to(folder).as_posix()
        shown = re.sub(r"  +#.*", "", command[1]) if command else f"bash examples/{name}"
        yield [" ".join(purpose.split()).rstrip("."), f"[`{shown}`](../examples/{name})"]


def recipes(_content: object) -> str:
    """Return the table of recipes."""
    return table(["experiment", "command"], list(recipe_rows(ROOT / "examples")))


def variable_rows(path: Path) -> list[list[str]]:
    """Return the variables listed in the comment at the top of a script, with their meanings."""
    rows: list[list[str]] = []
    for line in head(path):
        if start := _VARIABLE.fullmatch(line):
            rows.append([", ".join(f"`{name}`" for name in start[1].split(", ")), start[2]])
        elif rows and (more := re.fullmatch(r"#     +(\S.*)", line)):
            rows[-1][1] += f" {more[1]}"
    return [[names, escaped(meaning)] for names, meaning in rows]


def variables(script: str) -> Callable[[object], str]:
    """Return a function that writes the table of the variables listed at the top of a script in examples/."""
    return lambda _content: table(["variable", "meaning"], variable_rows(ROOT / "examples" / script))


def scripts(_content: object) -> str:
    """Return the table of preprocessing scripts. Each row has the command and the text of --help, without examples."""
    rows = []
    for path in sorted((ROOT / "preprocess").glob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8"):
            prose = [part for part in text.split("\n\n") if not part.startswith("    ")]
            rows.append([f"`{path.name}`", escaped(" ".join(" ".join(prose).split())).replace("``", "`")])
    return table(["script", "purpose"], rows)


# --- packages and benchmarks ----------------------------------------------------------------------------------------


def benchmarks(_content: object) -> str:
    """Return the table of the benchmarks that write a result."""
    rows = []
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        result = path.parent / "results" / f"{path.stem}.md"
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8"):
            link = f"[table](results/{result.name})" if result.exists() else ""
            rows.append([f"`{path.name}`", escaped(first_sentence(path)), link])
    return table(["script", "measures", "result"], rows)


def speed(_content: object) -> str:
    """Return the recorded tables of a training step and of beam search."""
    step, search = (read_record(f"benchmarks/results/{name}.json") for name in ("training_step", "decoding"))
    one, two = (step["time"][threads] for threads in "12")
    rows = [
        [
            f"`{name}`",
            f"{one[name]['cpu_ratio']:.2f}",
            f"{two[name]['wall_ratio']:.2f}",
            f"{memory['above_idle_mib']:,.0f}",
        ]
        for name, memory in step["memory"].items()
        if name in one
    ]
    head = ["training step", "CPU time, 1 thread", "wall time, 2 threads", "peak memory above idle, MiB"]
    steps = table(head, rows)
    size = search["size"]["batch_size"]
    found = [[f"`{name}`", f"{1000 * size / times['cpu_ms']:.0f}"] for name, times in search["time"]["1"].items()]
    return f"{steps}\n{table(['beam search', 'sentences per second, 1 thread'], found)}"


def citations(_content: object) -> str:
    """Return the software and the papers in CITATION.cff as BibTeX.

    A comment names the archs that implement a paper.
    """
    content = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    author = " and ".join(author["name"] for author in content["authors"])
    software = {"title": f"{{{content['title']}}}", "author": f"{{{author}}}", "year": content["date-released"].year}
    software["version"] = content["version"]
    lines = [f"  {name} = {{{value}}}" for name, value in software.items()]
    entries = ["@software{wean-fairseq,\n" + ",\n".join(lines) + "\n}\n"]
    for paper in content["references"]:
        names = [f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]]
        first = paper["authors"][0]["family-names"].lower().replace(" ", "-")
        kind, place = ("article", "journal") if "journal" in paper else ("inproceedings", "booktitle")
        values = {
            "title": paper["title"],
            "author": " and ".join(names),
            place: paper.get("journal") or paper.get("collection-title"),
            "year": paper["year"],
            "doi": paper.get("doi"),
        }
        lines = [f"  {name} = {{{value}}}" for name, value in values.items() if value]
        comment = f"% {paper['notes']}\n" if "notes" in paper else ""
        word = re.sub(r"\W", "", paper["title"].split()[0]).lower()
        entries.append(f"{comment}@{kind}{{{first}-{paper['year']}-{word},\n" + ",\n".join(lines) + "\n}\n")
    return "```bibtex\n" + "\n".join(entries) + "```\n"


def parts(_content: object) -> str:
    """Return the table of the packages in wean_fairseq/."""
    found = sorted((ROOT / "wean_fairseq").glob("*/__init__.py"))
    return table(["part", "content"], [[f"`{path.parent.name}/`", escaped(first_sentence(path))] for path in found])


# --- Python ---------------------------------------------------------------------------------------------------------


def api(_content: object) -> str:
    """Return the functions, classes and methods of docs/api.md, with signatures and first sentences of docstrings."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    directive = r"^::: (?P<name>\S+)\n(?: +options:\n +members: \[(?P<members>.*)\]\n)?"
    rows: list[list[str]] = []
    for found in re.finditer(directive, page, flags=re.MULTILINE):
        name, part = found["name"], resolve_name(found["name"])
        members = found["members"].split(", ") if found["members"] else _public(part) if ismodule(part) else []
        for label, member in [(f"{name}.{member}", getattr(part, member)) for member in members] or [(name, part)]:
            rows += _described(label, member)
    return table(["name", "purpose"], rows)


def _public(part: Any) -> list[str]:
    """Return the names of the documented public functions and classes that a module or class defines."""
    module = part.__name__ if ismodule(part) else part.__module__
    return [
        name
        for name, member in vars(part).items()
        if callable(member) and not name.startswith("_") and member.__doc__ and member.__module__ == module
    ]


def _described(label: str, member: Any) -> Iterable[list[str]]:
    name = label.rpartition(".")[2]
    if getattr(wean_fairseq, name, None) is member:
        label = f"wean_fairseq.{name}"
    yield _row(label, member)
    if isclass(member):
        yield from (_row(f"{name}.{method}", getattr(member, method)) for method in _public(member))


def _row(label: str, member: Any) -> list[str]:
    arguments = [_argument(each) for name, each in signature(member).parameters.items() if name != "self"]
    sentence = re.split(r"\.(?=\s|$)", " ".join((getdoc(member) or "").split()))[0]
    return [f"`{label}({', '.join(arguments)})`", escaped(sentence.replace("``", "`"))]


def _argument(parameter: Parameter) -> str:
    """Return an argument without its type. Its default is included if it is a plain value."""
    default = parameter.default if isinstance(parameter.default, int | float | str | None) else Parameter.empty
    return str(parameter.replace(annotation=Parameter.empty, default=default))


# --- commands -------------------------------------------------------------------------------------------------------


class Asked(Exception):
    """Raised instead of printing the help of a command. It carries the parser of the command."""


def parser_of(program: str, main: Callable[[], object]) -> argparse.ArgumentParser:
    """Return the command-line parser of a program."""

    def ask(parser: argparse.ArgumentParser, _file: object = None) -> None:
        raise Asked(parser)

    with patch.object(argparse.ArgumentParser, "print_help", ask), patch.object(sys, "argv", [program, "--help"]):
        try:
            main()
        except Asked as asked:
            parser: argparse.ArgumentParser = asked.args[0]
            return parser
    raise RuntimeError(f"{program} --help must print its help.")


def argument_rows(parser: argparse.ArgumentParser) -> Iterable[list[str]]:
    """Return the arguments of a parser, with their meanings."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from ([f"`{choice.dest}`", escaped(choice.help or "")] for choice in action._choices_actions)
        elif action.help in (None, argparse.SUPPRESS) or "--help" in action.option_strings:
            continue
        else:
            names = ", ".join(f"`{name}`" for name in action.option_strings or [str(action.metavar or action.dest)])
            meaning = str(action.help) % {**vars(action), "prog": parser.prog}
            choices = [str(choice) for choice in action.choices or ()]
            if not all(choice in meaning for choice in choices):
                meaning += f"; one of {', '.join(choices)}"
            yield [names, escaped(meaning)]


def commands(_content: object) -> str:
    """Return the arguments of every wean-* command."""
    sections = []
    text = (ROOT / "setup.py").read_text(encoding="utf-8")
    for name, module, function in sorted(re.findall(r'"(wean-[\w-]+) = ([\w.]+):(\w+)"', text)):
        parser = parser_of(name, getattr(import_module(module), function))
        sections.append(
            f"### {name}\n\n{parser.description}\n\n{table(['argument', 'meaning'], [*argument_rows(parser)])}"
        )
    return "\n".join(sections)


# --- options --------------------------------------------------------------------------------------------------------


def escaped(text: str) -> str:
    """Escape a text for a table cell, so that Markdown and HTML show it unchanged."""
    parts = re.split(r"(`+[^`]+`+)", text.replace("|", "\\|"))  # every second part is code between backticks
    parts[::2] = [part.replace("<", "&lt;").replace("*", "\\*") for part in parts[::2]]
    return "".join(parts)


def option_rows(config: type) -> list[list[str]]:
    """Return the flag, the default and the help text of each option in a fairseq dataclass."""
    inherited = {item.name for base in config.__mro__ if not is_own(base) for item in fields_of(base)}
    rows = []
    for item in fields(config):
        if item.metadata.get("help") and item.name not in inherited:
            default = "" if item.default is None or isinstance(item.default, bool) else f"`{item.default}`"
            rows.append([f"`--{item.name.replace('_', '-')}`", default, escaped(item.metadata["help"])])
    return rows


def option_table(name: str, config: type) -> str:
    """Return a section about one choice, such as an arch, with the options that only this choice has."""
    return f"### {name}\n\n{table(['option', 'default', 'meaning'], option_rows(config))}\n"


def options(_content: object) -> str:
    """Return the options of every arch, task, criterion and optimiser of the package."""
    wean_fairseq.register()
    from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY
    from fairseq.registry import REGISTRIES
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    sections = []
    chosen = {"arch": MODEL_DATACLASS_REGISTRY, "task": TASK_DATACLASS_REGISTRY}
    chosen |= {name: REGISTRIES[name]["dataclass_registry"] for name in ("criterion", "optimizer", "scoring")}
    for kind, registry in chosen.items():
        own = {name: config for name, config in sorted(registry.items()) if is_own(config)}
        sections.append(f"## `--{kind}`\n\n{''.join(option_table(name, config) for name, config in own.items())}")
    presets = []
    for arch, model in sorted(ARCH_MODEL_REGISTRY.items()):
        values = getattr(ARCH_CONFIG_REGISTRY.get(arch), "args", None)
        if values and is_own(model):
            flags = (
                f"`--{name.replace('_', '-')}{'' if value is True else f' {value}'}`"
                for name, value in values[0].items()
            )
            presets.append([f"`{arch}`", f"`{model.family}`", " ".join(flags)])
    sections.append(f"## Presets\n\n{table(['`--arch`', 'family', 'different defaults'], presets)}")
    return "\n".join(sections)


def fields_of(config: type) -> tuple[Any, ...]:
    """Return the fields of a dataclass, or none for other classes."""
    return fields(config) if is_dataclass(config) else ()


def is_own(part: type | None) -> bool:
    """Return True if a class is defined in this package."""
    return part is not None and part.__module__.startswith("wean_fairseq.")
