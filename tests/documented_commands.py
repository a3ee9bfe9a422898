"""Check with the parsers of the programs that documented commands are valid.

Commands of fairseq are parsed unchanged, including choices and types of values. For other commands, the program must
exist and its ``--help`` must list the options. Recipes must read the variables that a documented command sets.
"""

import argparse
import contextlib
import functools
import io
import re
import runpy
import sys
import warnings
from pathlib import Path

from fairseq import options
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY

import wean_fairseq
from tests.integration.commands import BIN, ROOT, USER_DIR
from tests.markdown import Command, simple_commands
from wean_fairseq.errors import UserError

wean_fairseq.register()

OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
FAIRSEQ = {
    "fairseq-preprocess": options.get_preprocessing_parser,
    "fairseq-train": options.get_training_parser,
    "fairseq-generate": options.get_generation_parser,
    "fairseq-interactive": options.get_interactive_generation_parser,
    "fairseq-validate": options.get_validation_parser,
}
# Programs of the operating system or of the shell. Their options are not checked.
SYSTEM = set("apt-get cat cd cp cut echo env export git grep head kill ls mkdir mv nohup nproc nvidia-smi".split())
SYSTEM |= set("docker paste printf rm sed sha256sum sleep sort source srun tail timeout tr wait wc".split())
PYTHON_TOOLS = {"pip", "pytest", "ruff", "sacrebleu", "sacremoses", "subword-nmt", "torchrun", "mypy"}
# Programs that start another program.
LAUNCHERS = {"bash", "env", "nohup", "srun", "timeout", "torchrun"}
PROGRAMS = {*FAIRSEQ, "fairseq-hydra-train", "make", "bash", "python", *PYTHON_TOOLS}
# Environment variables that the underlying tools read.
FOREIGN_VARIABLES = {"OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PYTHONPATH", "WANDB_MODE"}
# Options in the documents that do not belong to our commands, with the programs that they belong to.
FOREIGN_OPTIONS = {
    "--no-build-isolation": "pip",
    "--extra-index-url": "pip",
    "--ignore-missing": "sha256sum",
    "--requeue": "Slurm",
    "--build-arg": "Docker",
    "--gpus": "Docker",
    "--time": "Slurm",
    "--cpus-per-task": "Slurm",
}


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def help_text(*line: str) -> str:
    """Return the ``--help`` text of a Python program without starting a process.

    ``line`` is the program and its subcommand.

    Raises:
        AssertionError: if the program prints no help.
    """
    out, err = io.StringIO(), io.StringIO()
    before, status = (sys.argv, sys.path[:]), 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # runpy warns about modules that have been imported before
            _answer(*line)
    except SystemExit as end:
        status = end.code
    finally:
        sys.argv, sys.path[:] = before
    assert not status, f"{' '.join(line)} --help: {err.getvalue().strip()}"
    return out.getvalue()


def _answer(program: str, *rest: str) -> None:
    sys.argv = [program, *rest, "--help"]
    if program.endswith(".py"):
        sys.path.insert(0, str((ROOT / program).parent))
        runpy.run_path(str(ROOT / program), run_name="__main__")
    elif program in entry_points():
        module, function = entry_points()[program].split(":")
        getattr(sys.modules.get(module) or __import__(module, fromlist=[function]), function)()
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


@functools.cache
def entry_points() -> dict[str, str]:
    """Return our commands by name. The values have the form module:function."""
    return dict(re.findall(r'"(wean-[\w-]+) = ([\w.]+:\w+)"', read(ROOT / "setup.py")))


@functools.cache
def fairseq_options() -> set[str]:
    """Return all options of fairseq's commands with the plugin, for every ``--arch``, ``--task``, and so on."""
    found = {name for build in FAIRSEQ.values() for name in build()._option_string_actions}
    chosen = [*MODEL_DATACLASS_REGISTRY.values(), *TASK_DATACLASS_REGISTRY.values()]
    chosen += [kind for registry in REGISTRIES.values() for kind in registry["dataclass_registry"].values()]
    for kind in filter(None, chosen):
        parser = argparse.ArgumentParser(conflict_handler="resolve")
        gen_parser_from_dataclass(parser, kind())
        found |= set(parser._option_string_actions)
    return found


@functools.cache
def all_options() -> set[str]:
    """Return every option of all commands of the project and of fairseq."""
    sources = [
        path
        for folder in ("preprocess", "benchmarks", "examples", "wean_fairseq")
        for path in (ROOT / folder).rglob("*.py")
    ]
    ours = {name for path in sources for name in re.findall(r'["\'](--[a-z][\w-]*)["\']', read(path))}
    generated = "".join(help_text(name) for name in entry_points())
    return fairseq_options() | ours | set(OPTION.findall(generated)) | set(FOREIGN_OPTIONS)


@functools.cache
def script_text(script: Path) -> str:
    """Return the text of a shell script together with the files that it sources."""
    text, seen, waiting = "", set(), [script]
    while waiting:
        path = waiting.pop().resolve()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        content = re.sub(r"^\s*#.*$", "", read(path), flags=re.MULTILINE)
        text += content
        for name in re.findall(r"[\w./$-]+\.sh", content):
            plain = re.sub(r"^\$\w+", "", name).lstrip("/").removeprefix("examples/")
            pattern = re.sub(r"\$\w+", "*", plain)  # $family/quora.sh may be any of these files
            waiting += [path.parent / plain, *(ROOT / "examples").glob(pattern)]
    return text


def knows(script: str, variable: str, systems: str = "") -> bool:
    """Return True if a recipe reads a variable. For RATES_<system>, ``systems`` must also contain the system."""
    if variable.startswith("RATES_"):
        names = re.sub(r"[^\w\s]", "_", systems).split()
        return variable.removeprefix("RATES_") in names and knows(script, "RATES", systems)
    return re.search(rf"\$\{{?!?{variable}\b|\b{variable}=", script) is not None


@functools.cache
def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):", read(ROOT / "Makefile"), flags=re.MULTILINE))


def check_make(command: Command) -> None:
    targets = [word for word in command.words[1:] if re.fullmatch(r"[\w-]+", word)]
    assert set(targets) <= make_targets(), f"no such target in the Makefile: {targets}"
    assigned = [word.split("=")[0] for word in command.words[1:] if "=" in word]
    known = read(ROOT / "Makefile") + read(ROOT / "scripts" / "setup.sh")
    assert all(re.search(rf"\b{name}\b", known) for name in [*assigned, *command.variables])


def check_bash(command: Command) -> None:
    script = ROOT / command.words[1]
    assert script.is_file(), f"no such script: {command.words[1]}"
    systems = command.variables.get("SYSTEMS", "")
    unknown = [
        name
        for name in command.variables
        if name not in FOREIGN_VARIABLES and not knows(script_text(script), name, systems)
    ]
    assert unknown == [], f"{command.words[1]} does not read these variables"


def check_python(command: Command) -> None:
    if command.words[1] == "-c":
        return
    line = command.words[2:] if command.words[1] == "-m" else command.words[1:]
    if line[0].endswith(".py"):
        assert (ROOT / line[0]).is_file(), f"no such script: {line[0]}"
    named = [word for word in line if OPTION.fullmatch(word.split("=")[0])]
    if named or command.words[1] == "-m":
        check_names(named, help_text(line[0]))


def check_names(words: list[str], text: str) -> None:
    unknown = {word.split("=")[0] for word in words if word.startswith("--")} - {*OPTION.findall(text), "--help"}
    assert unknown == set(), "unknown option"


def check_own(command: Command) -> None:
    assert command.program in entry_points(), "no such command in setup.py"
    subcommand = [word for word in command.words[1:2] if re.fullmatch(r"[a-z-]+", word) and not word.startswith("-")]
    text = help_text(command.program, *(subcommand if command.program in ("wean-evaluate", "wean-plot") else []))
    if command.program in ("wean-evaluate", "wean-plot"):
        assert " ".join([f"usage: {command.program}", *subcommand]) in text, "no such subcommand"
    check_names(command.words, text)


def check_pip(command: Command) -> None:
    """Check that a document installs the checkout with existing extras. The project is not on a package index."""
    for word in command.words:
        assert not re.match(r"wean[-_]fairseq", word), "pip would look for it on the package index"
        for extra in re.findall(r"\.\[([\w,-]+)\]", word):
            for name in extra.split(","):
                assert f'"{name}": [' in read(ROOT / "setup.py"), f"no such extra: {name}"


def check_fairseq(command: Command, own_archs: set[str]) -> None:
    """Parse a command as fairseq does, including choices and types of values. ``...`` marks omitted arguments.

    Args:
        command: a command of fairseq.
        own_archs: archs that the document itself registers. Only the options of ``wean_lstm`` are allowed for them.
    """
    given = [word for word in command.words[1:] if word != "..."]
    # values that replace loop variables such as $arch
    instead = ["wean_lstm" if before == "--arch" else "5" for before in ["", *given]]
    words = [re.sub(r"^\$\w+$", value, word) for word, value in zip(given, instead, strict=False)]
    if "--help" in words:
        words[words.index("--help")] = "data"  # with --help, no data is needed
    if "..." in command.words:
        words = words if words and not words[0].startswith("-") else ["data", *words]
        needed = {"--task": "paraphrase"} | ({"--arch": "wean_lstm"} if command.program == "fairseq-train" else {})
        words += [word for name, value in needed.items() if name not in words for word in (name, value)]
    if "--arch" in words and words[words.index("--arch") + 1] in own_archs:
        words[words.index("--arch") + 1] = "wean_lstm"
    if "--user-dir" in words:
        assert words[words.index("--user-dir") + 1] == "wean_fairseq"
        words[words.index("wean_fairseq")] = USER_DIR
    err = io.StringIO()
    try:
        with contextlib.redirect_stderr(err):
            parser = FAIRSEQ[command.program]()
            if command.program == "fairseq-preprocess":
                parser.parse_args(words)
            else:
                options.parse_args_and_arch(parser, input_args=words)
    except SystemExit:
        raise AssertionError(err.getvalue().strip().splitlines()[-1]) from None
    except UserError as error:  # a name is wrong or missing
        raise AssertionError(str(error)) from None


def check(command: Command, whole: bool, own_archs: set[str]) -> None:
    """Fail if a command is invalid.

    Args:
        command: a command of a document.
        whole: True if the command is from a code block and must be complete. Otherwise, it may be a fragment.
        own_archs: archs that the document registers.
    """
    program = command.program
    inner = [number for number, word in enumerate(command.words) if number and word in FAIRSEQ]
    if program in LAUNCHERS and inner:
        check(Command(command.words[inner[0] :]), whole, own_archs)
    if program in FAIRSEQ and whole:
        check_fairseq(command, own_archs)
    elif program in FAIRSEQ:
        check_names(command.words, " ".join(fairseq_options()))
    elif program.startswith("wean-"):
        check_own(command)
    elif program in ("make", "bash", "python", "pip"):
        {"make": check_make, "bash": check_bash, "python": check_python, "pip": check_pip}[program](command)
    elif program in PYTHON_TOOLS or program == "fairseq-hydra-train":
        assert (BIN / program).exists(), "not installed by the set-up"
    else:
        assert program in SYSTEM, "a program that no test knows"


def problems(line: str, whole: bool, own_archs: set[str] = frozenset()) -> list[str]:
    found = []
    for command in simple_commands(line):
        try:
            check(command, whole, own_archs)
        except AssertionError as error:
            found.append(f"{' '.join(command.words)}\n    {error}")
    return found
