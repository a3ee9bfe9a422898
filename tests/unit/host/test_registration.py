"""Test when the plugin is registered with fairseq, and that texts are scored without importing fairseq.

Most tests use a small package: the real ``wean_fairseq/__init__.py``, and modules, fairseq and torch of one line each.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documented_commands import entry_points
from wean_fairseq import commands

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "wean_fairseq"
NEED_TORCH = {
    "wean_fairseq.evaluation.layer_mixture",
    "wean_fairseq.evaluation.neighbours",
    "wean_fairseq.evaluation.scorers",
    "wean_fairseq.reporting.checkpoint_figures",
    "wean_fairseq.reporting.trace",
}


def run(code: str, folder: Path) -> str:
    """Return the output of a fresh interpreter, which finds packages in `folder`."""
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python_without_assertions_is_refused(tmp_path: Path):
    """fairseq writes ``checkpoint_last.pt`` inside an assertion."""
    line = [sys.executable, "-O", "-c", "import fairseq, wean_fairseq"]
    done = subprocess.run(line, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("wean_fairseq: error: fairseq saves checkpoints inside assertions")


@pytest.fixture(name="small")
def small_package(tmp_path: Path) -> Path:
    """Return a package whose modules print their names when their code runs."""
    register = "from .. import register\nregister()\n"
    files = {
        "fairseq/__init__": "import torch",
        "torch/__init__": "",
        "wean_fairseq/plugin": "import fairseq\nfrom . import models, tasks",
        "wean_fairseq/models/__init__": f"{register}from . import family",
        "wean_fairseq/models/family": "import fairseq",
        "wean_fairseq/modules/__init__": "import torch",
        "wean_fairseq/tasks/__init__": f"{register}from ..data.pairs import pairs",
        "wean_fairseq/data/__init__": f"{register}from .pairs import pairs",
        "wean_fairseq/data/pairs": "import fairseq\npairs = 1",
        "wean_fairseq/generation/__init__": f"{register}load = str",
        "wean_fairseq/evaluation/__init__": "",
    }
    for name, code in files.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{code}\nprint(__name__)\n", encoding="utf-8")
    (tmp_path / "wean_fairseq" / "__init__.py").write_bytes((PACKAGE / "__init__.py").read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    "code",
    [
        "import fairseq, wean_fairseq",  # fairseq imports the plugin in this order for --user-dir
        "import wean_fairseq; wean_fairseq.register()",
        "import wean_fairseq; wean_fairseq.register(); wean_fairseq.register()",
        "import wean_fairseq, fairseq; wean_fairseq.register()",
        "import wean_fairseq; wean_fairseq.load('model')",
        "from wean_fairseq import load",
        "from wean_fairseq import models",
        "import wean_fairseq.data.pairs",
        "from wean_fairseq.models.family import fairseq",
        "import fairseq, wean_fairseq.evaluation",
    ],
)
def test_the_plugin_is_registered_once(small: Path, code: str) -> None:
    modules = run(code, small).split()
    assert {f"wean_fairseq.{name}" for name in ("plugin", "models", "models.family", "tasks", "data")} <= set(modules)
    assert len(modules) == len(set(modules))


@pytest.mark.parametrize(
    "code",
    [
        "import wean_fairseq",
        "import wean_fairseq.evaluation",
        "import wean_fairseq, fairseq",
        "import torch, wean_fairseq",
        "import wean_fairseq.modules",
        "import sys; sys.modules['fairseq'] = None; import wean_fairseq",
    ],
)
def test_nothing_is_registered_unless_it_is_asked_for(small: Path, code: str) -> None:
    assert "wean_fairseq.plugin" not in run(f"{code}\nassert not hasattr(wean_fairseq, 'no_such_part')", small).split()


ATTEMPT = "try:\n    {}\nexcept Exception as error:\n    print(repr(error))\n"


def test_a_missing_fairseq_is_reported_every_time(small: Path) -> None:
    (small / "fairseq" / "__init__.py").write_text("raise ImportError('broken')", encoding="utf-8")
    attempt = ATTEMPT.format("wean_fairseq.register()")
    assert run(f"import wean_fairseq\n{attempt}{attempt}", small).count("broken") == 2


def test_a_failed_registration_is_not_tried_again(small: Path) -> None:
    """fairseq refuses a name that is already registered, so a second attempt would only report duplicates.

    Therefore the first error is reported again.
    """
    registering = "import fairseq\nassert not hasattr(fairseq, 'tag'), 'Cannot register duplicate'\nfairseq.tag = 1\n"
    (small / "wean_fairseq" / "models" / "family.py").write_text(f"{registering}1 / 0", encoding="utf-8")
    attempts = ATTEMPT.format("wean_fairseq.register()") + ATTEMPT.format("import wean_fairseq.models")
    output = run(f"import wean_fairseq\n{attempts}", small)
    assert "ZeroDivisionError('division by zero')" in output and "duplicate" not in output
    assert "ImportError('wean_fairseq was not registered (division by zero): restart Python.')" in output


def test_the_root_logger_stays_as_it_was(small: Path) -> None:
    """``wav2vec2_classification.py`` of fairseq sets the level of the root logger to DEBUG.

    Python's default level is WARNING, which is 30.
    """
    (small / "fairseq" / "__init__.py").write_text("import logging\nlogging.basicConfig(level=logging.DEBUG)\n")
    code = "import logging, wean_fairseq; wean_fairseq.register(); root = logging.getLogger()"
    assert run(f"{code}; print(root.level, root.handlers)", small).endswith("\n30 []\n")


def test_threads_register_once(small: Path) -> None:
    """The import of each module takes some time, so that the threads overlap.

    All threads import the same module or register the plugin.
    """
    for path in small.rglob("*.py"):
        if path.parent.name != "wean_fairseq":
            path.write_text(f"import time\ntime.sleep(0.05)\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    code = (
        "import threading\nfrom importlib import import_module\nimport wean_fairseq\n"
        "failed = []\nthreading.excepthook = lambda args: failed.append(args.exc_value)\n"
        "work = [lambda: import_module('wean_fairseq.tasks'), wean_fairseq.register] * 6\n"
        "threads = [threading.Thread(target=one, daemon=True) for one in work]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join(20)\n"
        "assert not failed and not any(thread.is_alive() for thread in threads), failed"
    )
    modules = run(code, small).split()
    assert {"wean_fairseq.plugin", "wean_fairseq.models.family", "wean_fairseq.tasks"} <= set(modules)
    assert len(modules) == len(set(modules))


def test_text_is_scored_and_reported_without_torch_and_fairseq() -> None:
    """Import all modules of evaluation and reporting except those that need torch."""
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for folder in ("evaluation", "reporting")
        for path in sorted((PACKAGE / folder).rglob("*.py"))
    ]
    assert set(names) > NEED_TORCH
    imports = "\n".join(f"import {name}" for name in names if name not in NEED_TORCH)
    check = "import sys\nprint(sorted({'torch', 'fairseq', 'transformers', 'scipy', 'matplotlib'} & set(sys.modules)))"
    assert run(f"{imports}\n{check}", ROOT).strip() == "[]"


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("evaluation.cli", ["--help"]),
        ("evaluation.cli", ["--hyp", "A=hyp", "--ref", "ref", "--src", "ref", "--quiet"]),
        ("reporting.plot_cli", ["curves", "A=log", "--metric", "loss", "--output", "curves"]),
    ],
)
def test_the_command_imports_neither_torch_nor_fairseq(tmp_path: Path, module: str, arguments: list[str]) -> None:
    for name in ("hyp", "ref"):
        (tmp_path / name).write_text("a line of text\n", encoding="utf-8")
    (tmp_path / "log").write_text("epoch 001 | valid on 'valid' subset | loss 8.0 | num_updates 2\n", encoding="utf-8")
    code = (
        f"import os, sys\nfrom wean_fairseq.{module} import main\nos.chdir({str(tmp_path)!r})\n"
        f"try:\n    status = main({arguments!r})\nexcept SystemExit as stopped:\n    status = stopped.code\n"
        "print(status, [n for n in ('torch', 'fairseq') if n in sys.modules])"
    )
    assert run(code, ROOT).splitlines()[-1] == "0 []"


def test_modules_that_recipes_run_import_neither_torch_nor_fairseq() -> None:
    """A recipe runs some of these modules in every step, so they must start quickly.

    ``training.cli`` is excluded, because it trains a model and therefore needs torch.
    """
    scripts = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").rglob("*.sh")))
    names = set(re.findall(r"python -P -m (wean_fairseq[\w.]+)", scripts)) - {"wean_fairseq.training.cli"}
    assert names >= {"wean_fairseq.training.defaults", "wean_fairseq.training.state"}
    imports = "\n".join(f"import {name}" for name in sorted(names))
    check = "import sys\nprint([name for name in ('torch', 'fairseq') if name in sys.modules])"
    assert run(f"{imports}\n{check}", ROOT).strip() == "[]"


def test_checksums_of_data_are_written_without_torch_and_fairseq(tmp_path: Path) -> None:
    """Every recipe waits for these checksums, so the command must start quickly."""
    (tmp_path / "dict.src.txt").write_text("word 1\n", encoding="utf-8")
    code = (
        "import sys\nfrom wean_fairseq.storage.cli import main_checksum\n"
        f"print(main_checksum([{str(tmp_path)!r}]), [n for n in ('torch', 'fairseq') if n in sys.modules])"
    )
    assert run(code, ROOT).splitlines()[-1] == "0 []"
    assert (tmp_path / "checksums.sha256").is_file()


def test_every_part_that_needs_fairseq_registers_whichever_is_imported_first() -> None:
    """Import each package in a forked process, in which fairseq was hidden while ``wean_fairseq`` was imported."""
    parts = {path.parent.name for path in PACKAGE.glob("*/__init__.py") if "register()" in path.read_text("utf-8")}
    assert parts == set("checkpoints criterions data generation host models optim search tasks".split())
    first = sorted(f"wean_fairseq.{part}" for part in parts)
    first.append("wean_fairseq.plugin")
    code = f"""
import os, sys
from importlib import import_module
import fairseq.models, fairseq.tasks, fairseq.criterions
host = sys.modules.pop("fairseq")
import wean_fairseq
sys.modules["fairseq"] = host
for name in {first!r}:
    child = os.fork()
    if not child:
        import_module(name)
        assert "wean_lstm" in host.models.ARCH_MODEL_REGISTRY
        assert hasattr(host.checkpoint_utils.load_checkpoint, "patch")
        os._exit(0)
    print(name, os.waitpid(child, 0)[1])
"""
    assert run(code, ROOT).splitlines() == [f"{name} 0" for name in first]


@pytest.mark.parametrize("command", sorted(entry_points()))
def test_ctrl_c_while_a_command_is_imported_is_one_line(command: str, tmp_path: Path) -> None:
    """Each module raises SIGINT here, and turns it into another error, as NumPy does.

    A shell reports status 130 = 128 + SIGINT for Ctrl-C.
    """
    module, name = entry_points()[command].split(":")
    function = getattr(commands, name).args[1]
    slow = f"wean_fairseq.{function.split(':')[0]}".replace(".", "/") + ".py"
    for file in ("__init__.py", "commands.py", "console.py", "errors.py"):
        (tmp_path / "wean_fairseq").mkdir(exist_ok=True)
        (tmp_path / "wean_fairseq" / file).write_bytes((PACKAGE / file).read_bytes())
    (tmp_path / slow).parent.mkdir()
    code = "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\n{}finally:\n    pass\n"
    for handler in ("", "except KeyboardInterrupt as error:\n    raise ImportError from error\n"):
        (tmp_path / slow).write_text(code.format(handler))
        start = "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        line = [sys.executable, "-c", f"{start}from {module} import {name}\nsys.exit({name}())"]
        done = subprocess.run(line, cwd=tmp_path, env={}, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (130, f"{command}: interrupted\n")
