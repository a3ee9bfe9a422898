"""The plugin is registered whenever fairseq is there, and text is scored without it.

How the import decides is tried on a package in small: the real `registration.py` among parts that are a line each,
with a fairseq and a torch that are a line each.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "wean_fairseq"
NEED_TORCH = {
    "wean_fairseq.evaluation.layer_mixture",
    "wean_fairseq.evaluation.neighbours",
    "wean_fairseq.evaluation.scorers",
    "wean_fairseq.reporting.trace",
}


def run(code: str, folder: Path) -> str:
    """The output of a fresh interpreter, which finds packages in `folder`."""
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(name="small")
def small_package(tmp_path: Path) -> Path:
    """Every module says its name when its code runs; the tasks read the data as a package, as the real ones do."""
    files = {
        "fairseq/__init__": "import torch, fairseq.tasks",
        "fairseq/tasks": "",
        "torch/__init__": "",
        "wean_fairseq/host/compat": "import fairseq\ninstall = lambda: print('installed')",
        "wean_fairseq/criterions/__init__": "from ..modules import mechanism",
        "wean_fairseq/models/__init__": "from . import family",
        "wean_fairseq/models/family": "import fairseq",
        "wean_fairseq/modules/__init__": "import torch\nmechanism = 1",
        "wean_fairseq/optim": "",
        "wean_fairseq/tasks": "from .data import pairs",
        "wean_fairseq/data/__init__": "from .text import pairs",
        "wean_fairseq/data/text": "import fairseq\npairs = 1",
        "wean_fairseq/host/__init__": "",
        "wean_fairseq/errors": "install_error_reports = lambda: None",
        "wean_fairseq/evaluation/__init__": "",
        "wean_fairseq/evaluation/scorers": "import fairseq",
        "wean_fairseq/evaluation/neighbours": "import torch",
        "wean_fairseq/checkpoints/__init__": "",
        "wean_fairseq/storage/__init__": "",
        "wean_fairseq/storage/files": "",
        "wean_fairseq/checkpoints/host": "import fairseq",
    }
    for name, code in files.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{code}\nprint(__name__)\n", encoding="utf-8")
    for name in ("__init__", "host/registration"):
        (tmp_path / "wean_fairseq" / f"{name}.py").write_bytes((PACKAGE / f"{name}.py").read_bytes())
    return tmp_path


REGISTERED = ["installed", *(f"wean_fairseq.{name}" for name in ("models", "tasks", "evaluation.scorers", "data"))]


@pytest.mark.parametrize(
    "code",
    [
        "import fairseq, wean_fairseq",  # as --user-dir does
        "import torch, wean_fairseq",
        "import wean_fairseq, fairseq",
        "import wean_fairseq; from fairseq import tasks",
        "import wean_fairseq.evaluation; import fairseq.tasks",
        "import wean_fairseq, torch",
        "import wean_fairseq; wean_fairseq.tasks",
        "from wean_fairseq import scorers",
        "from wean_fairseq import models",
        "import wean_fairseq.data.text",
        "from wean_fairseq.models.family import fairseq",
        "from wean_fairseq.modules import mechanism",
        "import wean_fairseq.storage.files, wean_fairseq.checkpoints.host",
        "import wean_fairseq.evaluation.scorers",
        "import wean_fairseq.evaluation.neighbours",
    ],
)
def test_whoever_could_use_the_plugin_finds_it_registered(small: Path, code: str) -> None:
    """Once, each module's code run once, and every module with the loader and specification of its own file."""
    check = (
        "\nimport sys\nassert wean_fairseq.__path__"
        "\nfor name in ('fairseq', 'torch', 'wean_fairseq.data', 'wean_fairseq.modules', 'wean_fairseq.models'):"
        "\n    module = sys.modules[name]"
        "\n    assert module.__spec__.origin == module.__file__ and module.__spec__.loader is module.__loader__"
        "\nassert not any(type(finder).__name__ == '_RegisteringFinder' for finder in sys.meta_path)"
    )
    said = run(f"{code}\nimport wean_fairseq{check}", small).split()
    assert set(REGISTERED) <= set(said)
    assert len(said) == len(set(said))


@pytest.mark.parametrize("name", ["wean_fairseq", "wean_fairseq.evaluation", "wean_fairseq.storage.files"])
def test_nothing_is_registered_where_nobody_asks(small: Path, name: str) -> None:
    said = run(f"import {name}\nassert not hasattr(wean_fairseq, 'no_such_part')", small).split()
    assert not {"fairseq", "torch", "installed"} & set(said)


def test_a_host_that_fails_fails_again_and_not_half(small: Path) -> None:
    """fairseq missing: the import says so, as often as it is tried."""
    (small / "fairseq" / "__init__.py").write_text("raise ImportError('broken')", encoding="utf-8")
    attempt = "try:\n    import fairseq\nexcept ImportError as error:\n    print(error)\n"
    assert run(f"import wean_fairseq\n{attempt}{attempt}", small).count("broken") == 2


def test_a_registration_that_failed_half_way_is_not_begun_again(small: Path) -> None:
    """fairseq takes no name twice: the first error is told again, in place of one about duplicates."""
    registering = "import fairseq\nassert not hasattr(fairseq, 'tag'), 'Cannot register duplicate'\nfairseq.tag = 1\n"
    (small / "wean_fairseq" / "models" / "family.py").write_text(f"{registering}1 / 0", encoding="utf-8")
    attempt = "try:\n    import {}\nexcept Exception as error:\n    print(repr(error))\n"
    said = run(f"import wean_fairseq\n{attempt.format('fairseq')}{attempt.format('wean_fairseq.models')}", small)
    assert "ZeroDivisionError('division by zero')" in said and "duplicate" not in said
    assert "ImportError('wean_fairseq was not registered (division by zero): restart Python.')" in said


def test_looking_for_a_module_is_answered_as_without_the_plugin(small: Path) -> None:
    look = "from importlib.util import find_spec\nfound = find_spec('fairseq')\n"
    look += "print(found.origin, found.submodule_search_locations, found.loader.get_source('fairseq'))\n"
    expected = run(look, small)
    look += "print(find_spec('wean_fairseq.nothing'))"
    assert run(f"import wean_fairseq\n{look}", small) == f"wean_fairseq.errors\nwean_fairseq.host\n{expected}None\n"


def test_threads_that_import_at_once_register_once(small: Path) -> None:
    """With what takes its time at every place, so that each thread meets the others in the middle.

    All of them import the same: of modules that import one another Python lets no two threads import a part each.
    """
    slow = "import time\ntime.sleep(0.05)\n"
    for path in small.rglob("*.py"):
        if path.name not in ("registration.py", "errors.py") and path.parent.name != "wean_fairseq":
            path.write_text(slow + path.read_text(encoding="utf-8"), encoding="utf-8")
    names = ["wean_fairseq.tasks"] * 6
    code = (
        "import sys, threading, traceback\nfrom importlib import import_module\nimport wean_fairseq\n"
        "failed = []\nthreading.excepthook = lambda args: failed.append(args.exc_value)\n"
        f"threads = [threading.Thread(target=import_module, args=[name], daemon=True) for name in {names!r} * 2]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join(20)\n"
        "assert not failed and not any(thread.is_alive() for thread in threads), failed\n"
        "assert not any(type(finder).__name__ == '_RegisteringFinder' for finder in sys.meta_path)"
    )
    said = run(code, small).split()
    assert set(REGISTERED) <= set(said)
    assert len(said) == len(set(said))


def test_text_is_scored_and_reported_without_torch_and_fairseq() -> None:
    """All modules of evaluation and reporting but those that read checkpoints."""
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


def test_checksums_of_data_are_written_without_torch_and_fairseq(tmp_path: Path) -> None:
    """Every recipe waits for them."""
    (tmp_path / "dict.src.txt").write_text("word 1\n", encoding="utf-8")
    code = (
        "import sys\nfrom wean_fairseq.checkpoints.cli import main_checksum\n"
        f"print(main_checksum([{str(tmp_path)!r}]), [n for n in ('torch', 'fairseq') if n in sys.modules])"
    )
    assert run(code, ROOT).splitlines()[-1] == "0 []"
    assert (tmp_path / "checksums.sha256").is_file()


@pytest.mark.parametrize("first", ["wean_fairseq", "wean_fairseq.data.pairs"])
def test_the_real_archs_are_there(first: str) -> None:
    code = f"import {first}\nfrom fairseq.models import ARCH_MODEL_REGISTRY\nprint('wean_lstm' in ARCH_MODEL_REGISTRY)"
    assert run(code, ROOT).strip() == "True"
