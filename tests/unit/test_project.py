"""Test rules of the project that no linter checks: import directions, sizes, registration, and messages of the set-up.

The set-up script runs here with fake tools (a Python that only records its calls, a PATH with chosen programs), so no
package is installed and every failure can be simulated.
"""

import ast
import importlib
import importlib.metadata
import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest
from packaging.specifiers import SpecifierSet

from tests import markdown

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "wean_fairseq"
# Each family is defined in a file in models/ that registers exactly one family, or a baseline.
FAMILIES = sorted(
    path.stem
    for path in (PACKAGE / "models").glob("*.py")
    if re.search("^@register_family|^register_baseline", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
)


# --- imports, sizes, registration -----------------------------------------------------------------------------------


def python_files(*folders: Path) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def imported_names(path: Path) -> Iterator[str]:
    """Yield the full dotted name of every module that a file may import. `from a import b` gives `a` and `a.b`."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def is_within(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".")


def test_relative_imports_are_resolved(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    path = tmp_path / "pack" / "models" / "one" / "model.py"
    path.parent.mkdir(parents=True)
    path.write_text("import torch.nn\nfrom . import config\nfrom ..two import model\nfrom ...modules.x import f\n")
    assert {"torch.nn", "pack.models.one.config", "pack.models.two.model", "pack.modules.x.f"} <= set(
        imported_names(path)
    )


def test_modules_import_torch_and_the_standard_library_only():
    allowed = {"torch", "wean_fairseq.modules", *sys.stdlib_module_names}
    offences = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in python_files(PACKAGE / "modules")
        for name in imported_names(path)
        if not any(is_within(name, module) for module in allowed)
    ]
    assert not offences


def test_families_do_not_import_one_another():
    offences = [
        f"{path.relative_to(ROOT)} imports {name}"
        for family in FAMILIES
        for path in [PACKAGE / "models" / f"{family}.py", *python_files(PACKAGE / "models" / family)]
        if path.exists()
        for name in imported_names(path)
        for other in FAMILIES
        if other != family and is_within(name, f"wean_fairseq.models.{other}")
    ]
    assert not offences


def test_package_imports_nothing_that_is_not_installed_with_it():
    around = ("preprocess", "examples", "tests", "benchmarks", "scripts")
    offences = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in python_files(PACKAGE)
        for name in imported_names(path)
        if any(is_within(name, module) for module in around)
    ]
    assert not offences


def test_plugin_does_not_import_evaluation():
    folders = [PACKAGE / name for name in ("modules", "models", "criterions", "tasks", "data")]
    offences = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in python_files(*folders)
        for name in imported_names(path)
        if is_within(name, "wean_fairseq.evaluation")
    ]
    assert not offences


def load_imports_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("imports", ROOT / "scripts" / "imports.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_imports_have_no_circle_and_the_drawing_is_that_of_the_code():
    assert load_imports_script().main(["--check"]) == 0


def test_a_circle_is_named(tmp_path, monkeypatch, capsys):
    """Between files, only imports at import time count.

    Between packages, imports in functions count too, but not imports for type checkers.
    """
    imports = load_imports_script()
    monkeypatch.setattr(imports, "PACKAGE", tmp_path / "pack")
    for name, code in {
        "__init__": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .high import one",
        "high/one": "from ..low import leaf",
        "high/two": "def f():\n    from . import one",
        "low/leaf": "import torch",
    }.items():
        path = tmp_path / "pack" / f"{name}.py"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(code)
    parts = imports.part_graph(imports.file_graph(deferred=True))
    assert imports.layers(parts) == {"__init__": 0, "low": 0, "high": 1}
    (tmp_path / "pack" / "low" / "leaf.py").write_text("def f():\n    from ..high.two import f")
    imports.layers(imports.file_graph(deferred=False))
    assert imports.main(["--check"]) == 1
    assert "imports: circle: " in capsys.readouterr().err


def test_imports_within_the_package_are_relative():
    """Relative imports make it possible to rename the package, and show which imports are internal."""
    offences = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in python_files(PACKAGE)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and not node.level and is_within(node.module, "wean_fairseq")
    ]
    assert not offences


def lines_without_docstring(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef, total: int) -> int:
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return total - (first.end_lineno - first.lineno + 1)
    return total


def test_files_and_functions_are_short():
    """CONTRIBUTING.md limits functions to 60 lines and files to 400 lines, not counting docstrings."""
    offences = []
    for path in python_files(PACKAGE, ROOT / "preprocess"):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        documented = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        docstrings = sum(-lines_without_docstring(node, 0) for node in ast.walk(tree) if isinstance(node, documented))
        if (lines := len(text.splitlines()) - docstrings) > 400:
            offences.append(f"{path.relative_to(ROOT)} has {lines} lines")
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = lines_without_docstring(node, node.end_lineno - node.lineno + 1)
                if lines > 60:
                    offences.append(f"{path.relative_to(ROOT)}: {node.name} has {lines} lines")
    assert not offences


def test_families_are_files():
    assert len(FAMILIES) > 10
    assert {path.parent.name for path in (PACKAGE / "models").rglob("*.py")} == {"models"}


@pytest.mark.parametrize("family", FAMILIES)
def test_family_registers_an_architecture(family):
    importlib.import_module("wean_fairseq").register()
    models = importlib.import_module("fairseq.models")
    package = f"wean_fairseq.models.{family}"
    # the model of a baseline is fairseq's, and only the function with its defaults is ours
    registered = [*models.ARCH_MODEL_REGISTRY.values(), *models.ARCH_CONFIG_REGISTRY.values()]
    assert any(is_within(item.__module__, package) for item in registered)


# --- what the documents promise -------------------------------------------------------------------------------------


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))


def mentioned_targets(document: str) -> set[str]:
    """Return the targets of every `make ...` in a code block or a code span of a Markdown document."""
    code = re.findall(r"```.*?\n(.*?)```|`([^`\n]+)`", document, flags=re.DOTALL)
    commands = [line.split("#")[0].split() for pair in code for line in "".join(pair).splitlines()]
    targets = set()
    for words in commands:
        if words[:1] == ["make"]:
            targets |= {word for word in words[1:] if re.fullmatch(r"[a-z][a-z-]*", word)}
    return targets


def test_readme_names_the_two_commands():
    assert {"quickstart", "test"} <= mentioned_targets((ROOT / "README.md").read_text(encoding="utf-8"))


def test_the_image_has_the_packages_of_the_page_and_is_set_up_by_a_user():
    page, image = ((ROOT / name).read_text(encoding="utf-8") for name in ("docs/install.md", "Dockerfile"))
    needed, installed = (re.search(r"apt-get install (.+)", text)[1].split() for text in (page, image))
    assert {"g++", "make"} <= set(needed) <= set(installed)
    assert image.index("\nUSER user\n") < image.index("make setup")


def test_readme_is_a_first_screen_and_its_links():
    """The README has at most 750 words, as counted by wc. Longer texts belong in docs/."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 750


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", ".github/pull_request_template.md"])
def test_documents_name_only_make_targets_that_exist(name):
    assert mentioned_targets((ROOT / name).read_text(encoding="utf-8")) <= make_targets()


def test_the_description_on_a_package_index_links_to_no_file_of_the_project(monkeypatch):
    """A package index shows only the README, where relative links and pictures would be broken."""
    given = {}
    monkeypatch.setattr("setuptools.setup", lambda **keywords: given.update(keywords))
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = markdown.links(readme)
    assert [link for link in links if not link.startswith("https:")], "otherwise this test shows nothing"
    assert markdown.links(given["long_description"]) == [link for link in links if link.startswith("https:")]
    assert "[tutorial](docs/tutorial.md)" in readme and "Learn: tutorial, notebook" in given["long_description"]


def setup_keywords() -> dict[str, ast.expr]:
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setup"]
    return {keyword.arg: keyword.value for keyword in calls[0].keywords}


def normalised(requirement: str) -> str:
    """Return the name of a requirement as the package index compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", re.match(r"[A-Za-z0-9._-]+", requirement)[0]).lower()


def test_every_requirement_is_pinned():
    keywords = setup_keywords()
    wanted = ast.literal_eval(keywords["install_requires"])
    wanted += [name for extra in ast.literal_eval(keywords["extras_require"]).values() for name in extra]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][^\s]*", pin) for pin in pins)
    names = [normalised(pin) for pin in pins]
    assert sorted(set(names)) == sorted(names), "a package is pinned twice"
    assert {normalised(name) for name in wanted} <= set(names)


def installed() -> Iterable[importlib.metadata.Distribution]:
    """Return the packages of the environment, without the private copies that setuptools adds to sys.path."""
    return importlib.metadata.distributions(path=[sysconfig.get_path("purelib")])


def test_every_package_of_the_environment_is_pinned_to_its_version():
    """Without a pin, a package could change at any time.

    The local part of a version, such as +cpu, is ignored, because it depends on the machine. The CUDA packages that
    torch needs for GPUs are deliberately not pinned.
    """
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {normalised(pin): pin.split("==")[1] for pin in lines if "==" in pin and not pin.startswith("#")}
    found = {normalised(found.name): found.version.split("+")[0] for found in installed()}
    own = {name: version for name, version in found.items() if not re.match("wean-fairseq$|cuda-|nvidia-", name)}
    assert own == {name: pins.get(name) for name in own}


@pytest.mark.parametrize("python", ["3.11.0", "3.12.0", "3.13.0"])
def test_every_package_installs_on_the_first_release_of_each_supported_python(python):
    """Debian 12 has Python 3.11.2, for example. A package that needed Python 3.11.5 once made the set-up fail there."""
    required = {found.name: found.metadata["Requires-Python"] for found in installed()}
    assert not {name: needs for name, needs in required.items() if needs and python not in SpecifierSet(needs)}


def test_version_is_read_from_the_package(tmp_path):
    command = [sys.executable, "-W", "ignore", ROOT / "setup.py", "--version"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    version = re.search(r'^__version__ = "(.+)"', (PACKAGE / "__init__.py").read_text("utf-8"), flags=re.MULTILINE)[1]
    assert answer.stdout.split()[-1:] == [version], answer.stderr


# --- the set-up -----------------------------------------------------------------------------------------------------

# A Python of version FAKE_VERSION that copies itself into "virtual environments" and writes every call of pip to the
# file `calls`. If a call contains the words of FAKE_FAIL, it prints FAKE_SAYS and fails, or kills the set-up if
# FAKE_KILL is set.
FAKE_PYTHON = r"""#!{bash}
if [[ -n "${{FAKE_FAIL:-}}" && "$*" == *"$FAKE_FAIL"* ]]; then
  echo "${{FAKE_SAYS:-}}"
  if [[ -n "${{FAKE_KILL:-}}" ]]; then kill -KILL "$PPID"; fi
  exit 1
fi
case "$*" in
  *version_info*) echo "${{FAKE_VERSION:-3.11.7}}" ;;
  "-m venv "*) mkdir -p "$3/bin" && cat "$0" >"$3/bin/python" && chmod +x "$3/bin/python" ;;
  "-m pip config list") echo "${{FAKE_PIP_CONFIG:-}}" ;;
  "-m pip "*) echo "${{*:3}}" >>calls ;;
esac
"""
TOOLS = ("bash", "cat", "chmod", "cksum", "dirname", "env", "grep", "mkdir", "rm", "sed", "tail")


@dataclass
class Project:
    """A copy of the files that the set-up reads, and a PATH with only the tools that it may use."""

    root: Path
    tools: Path
    environment: dict[str, str] = field(default_factory=dict)

    def add_tool(self, name: str, script: str = "") -> Path:
        path = self.tools / name
        path.write_text(f"#!{shutil.which('bash')}\n{script}\n" if not script.startswith("#!") else script)
        path.chmod(0o755)
        return path

    def setup(self, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [shutil.which("bash"), "scripts/setup.sh"],
            cwd=self.root,
            env={"PATH": str(self.tools), **self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def calls(self) -> list[str]:
        """Return the calls of pip since this method was last called."""
        path = self.root / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def error(self, **environment: str) -> str:
        """Run the set-up, which must fail, and return its single error line."""
        result = self.setup(**environment)
        assert result.returncode == 1, result
        errors = [line for line in result.stderr.splitlines() if line.startswith("[setup] error: ")]
        assert len(errors) == 1, result.stderr
        return errors[0].removeprefix("[setup] error: ")


@pytest.fixture
def project(tmp_path) -> Project:
    root, tools = tmp_path / "a tree", tmp_path / "tools"
    (root / "scripts").mkdir(parents=True)
    tools.mkdir()
    for name in ("scripts/setup.sh", "constraints.txt", "setup.py"):
        shutil.copy(ROOT / name, root / name)
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name))
    project = Project(root, tools)
    project.add_tool("g++")
    project.add_tool("uname", "echo Linux")
    project.add_tool("python3.11", FAKE_PYTHON.format(bash=shutil.which("bash")))
    return project


def test_setup_installs_torch_then_builds_fairseq_beside_the_libraries_then_the_plugin(project):
    result = project.setup()
    assert result.returncode == 0, result.stderr
    pip, torch, *middle, plugin = project.calls()
    libraries, fairseq = sorted(middle)  # these two run in parallel, so their order may vary
    assert pip == "install --no-compile -c constraints.txt pip"
    assert torch.startswith("install --no-compile -c constraints.txt") and " torch " in torch
    assert fairseq.startswith("wheel --no-deps --no-build-isolation -c constraints.txt")
    assert libraries.endswith(" --no-build-isolation -r .venv/.setup/libraries")
    assert plugin.startswith("install --no-compile -c constraints.txt --no-build-isolation") and " -e .[" in plugin
    steps = [line.split("]")[0] for line in result.stdout.splitlines()]
    assert steps == ["[setup 1/4", "[setup 2/4", "[setup 3/4", "[setup 3/4", "[setup 4/4", "[setup"]


def test_second_setup_is_silent_and_does_nothing(project):
    project.setup()
    project.calls()
    result = project.setup()
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not project.calls()


def test_setup_builds_side_by_side_without_optimisation_and_keeps_the_users_flags(project):
    script = FAKE_PYTHON.format(bash=shutil.which("bash"))
    look = '[[ $3 != wheel ]] || { echo "$CFLAGS"; cat "$DIST_EXTRA_CONFIG"; ninja --version || echo no ninja; } >seen'
    project.add_tool("python3.11", f"{script}\n{look}\n")
    project.add_tool("ninja", "echo 1.11")
    project.setup(CFLAGS="-march=native")
    seen = (project.root / "seen").read_text().splitlines()
    assert seen == ["-DNDEBUG -fwrapv -O0 -g0 -march=native", "[build_ext]", "parallel = 6", "no ninja"]


def test_setup_takes_its_own_folder_whatever_cdpath_says(project):
    """If ``cd`` uses CDPATH, it prints the folder, so the path would appear twice."""
    result = project.setup(CDPATH=f"{project.root}:{project.root.parent}")
    assert (result.returncode, result.stderr, len(project.calls())) == (0, "", 5)


def test_no_script_asks_cdpath_where_it_is():
    scripts = [ROOT / ".ci" / "run", *ROOT.glob("scripts/*.sh"), *ROOT.glob("examples/**/*.sh")]
    own = {path: re.findall(r".*\bcd .*BASH_SOURCE.*", path.read_text(encoding="utf-8")) for path in scripts}
    assert sum(map(len, own.values())) >= 6
    assert [line for lines in own.values() for line in lines if "CDPATH='' cd" not in line] == []


def test_setup_builds_without_cuda_home(project):
    script = FAKE_PYTHON.format(bash=shutil.which("bash"))
    project.add_tool("python3.11", script + '\necho "CUDA_HOME=${CUDA_HOME:-none} $3" >>cuda\n')
    project.setup(CUDA_HOME="/usr/local/cuda")
    assert "CUDA_HOME=none wheel" in (project.root / "cuda").read_text().splitlines()


def test_setup_starts_what_was_installed_and_leaves_its_bytecode(project):
    script = FAKE_PYTHON.format(bash=shutil.which("bash"))
    look = '[[ $* != *fairseq_cli.train* ]] || echo "${PYTHONDONTWRITEBYTECODE-unset} after $(wc -l <calls)" >started'
    project.add_tool("python3.11", f"{script}\n{look}\n")
    (project.tools / "wc").symlink_to(shutil.which("wc"))
    assert project.setup(PYTHONDONTWRITEBYTECODE="1").returncode == 0
    assert (project.root / "started").read_text() == "unset after 5\n"


def test_what_cannot_be_started_is_said(project):
    message = project.error(FAKE_FAIL="fairseq_cli", FAKE_SAYS="ImportError: libgomp")
    assert message.startswith("starting the installed commands failed; the reason is in .venv/setup.log.")
    assert "ImportError: libgomp" in (project.root / ".venv/setup.log").read_text()


@pytest.mark.parametrize(
    ("environment", "with_gpu", "expected"),
    [({}, False, True), ({}, True, False), ({"FAKE_PIP_CONFIG": ":env:.index-url='https://mirror'"}, False, False)],
    ids=["no GPU", "GPU", "own index"],
)
def test_setup_takes_torch_without_cuda_where_there_is_no_gpu(project, environment, with_gpu, expected):
    if with_gpu:
        project.add_tool("nvidia-smi")
    result = project.setup(**environment)
    assert ("download.pytorch.org/whl/cpu" in project.calls()[1]) is expected
    assert ("without CUDA" in result.stdout) is expected


def test_changed_metadata_repeats_the_last_step_only(project):
    project.setup()
    project.calls()
    (project.root / "setup.py").write_text("# changed\n")
    assert project.setup().returncode == 0
    extras = "dev,meteor,zh,bert,vectors,inspect,fkgl,tensorboard"
    assert [call.split()[-1] for call in project.calls()] == [f".[{extras}]"]


def test_changed_torch_repeats_its_installation_and_the_build(project):
    project.setup()
    project.calls()
    constraints = project.root / "constraints.txt"
    constraints.write_text(re.sub(r"torch==.*", "torch==9.9.9", constraints.read_text()))
    assert project.setup().returncode == 0
    assert Counter(call.split()[0] for call in project.calls()) == {"install": 4, "wheel": 1}


@pytest.mark.parametrize("step", ["-m venv", " torch ", "-e ."], ids=["venv", "torch", "plugin"])
def test_interrupted_installation_is_never_taken_as_good(project, step):
    assert project.setup(FAKE_FAIL=step, FAKE_KILL="1").returncode == -9
    project.calls()
    result = project.setup()
    assert result.returncode == 0, result.stderr
    assert "making .venv from scratch: an earlier set-up was interrupted" in result.stdout
    assert Counter(call.split()[0] for call in project.calls()) == {"install": 4, "wheel": 1}


def test_failed_build_names_its_log_and_is_repeated(project):
    message = project.error(FAKE_FAIL="pip wheel", FAKE_SAYS="error: command 'g++' failed")
    assert message.startswith("building fairseq-fixed failed; the reason is in .venv/build.log.")
    assert "command 'g++' failed" in (project.root / ".venv/build.log").read_text()
    project.calls()
    result = project.setup()
    assert result.returncode == 0 and "anew" not in result.stdout
    assert Counter(call.split()[0] for call in project.calls()) == {"install": 2, "wheel": 1}


def test_a_build_ends_with_the_set_up(project):
    """Otherwise, after a failure, the build that runs in parallel would continue for minutes."""
    script = FAKE_PYTHON.format(bash=shutil.which("bash"))
    slow = (
        'if [[ $3 == wheel ]]; then trap "echo >ended; exit" TERM; echo >begun; until ((SECONDS > 20)); do :; done; fi'
    )
    fails = "if [[ $* == *.setup/libraries && $2 == pip ]]; then while [[ ! -s begun ]]; do :; done; exit 1; fi"
    project.add_tool("python3.11", f"{script}\n{slow}\n{fails}\n")
    assert project.error().startswith("installing the libraries failed; the reason is in .venv/setup.log.")
    until = time.monotonic() + 10
    while not (project.root / "ended").exists():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_libraries_are_all_that_the_package_asks_for_but_what_is_built(tmp_path):
    """The expected names are in setup.py, which a program in setup.sh reads."""
    script = (ROOT / "scripts/setup.sh").read_text(encoding="utf-8")
    program = re.search(r"readonly LIST_LIBRARIES='(.*?)'", script, re.DOTALL)[1]
    command = [sys.executable, "-W", "ignore", "-c", program, "bert,dev", tmp_path / "libraries"]
    subprocess.run(command, cwd=ROOT, check=True)
    keywords = setup_keywords()
    extras = ast.literal_eval(keywords["extras_require"])
    wanted = [*ast.literal_eval(keywords["install_requires"]), *extras["bert"], *extras["dev"]]
    assert wanted.pop(0).startswith("fairseq-fixed==")
    assert (tmp_path / "libraries").read_text().splitlines() == wanted


def test_no_network_is_one_sentence(project):
    said = "WARNING: Retrying after connection broken by 'NewConnectionError(...)'"
    message = project.error(FAKE_FAIL=" torch ", FAKE_SAYS=said)
    assert message.startswith(
        "installing torch failed: pip could not get a package from its index; check the connection"
    )


def test_full_disk_is_one_sentence(project):
    message = project.error(FAKE_FAIL="-e .", FAKE_SAYS="OSError: [Errno 28] No space left on device")
    assert message.startswith("installing wean_fairseq failed: the disk is full; make room")


def test_moved_tree_gets_a_new_environment(project):
    project.setup()
    project.root = project.root.rename(project.root.with_name("another tree"))
    result = project.setup()
    assert result.returncode == 0, result.stderr
    assert "making .venv from scratch: it was made in another folder" in result.stdout


def test_dead_interpreter_gets_a_new_environment(project):
    project.setup()
    (project.root / ".venv/bin/python").unlink()
    assert "making .venv from scratch: its Python does not run any more" in project.setup().stdout


def test_other_python_gets_a_new_environment_and_a_wrong_one_does_not(project):
    project.setup()
    project.add_tool("new", "echo 3.12.1")
    project.add_tool("old", "echo 3.8.18")
    message = project.error(PYTHON=str(project.tools / "old"))
    assert "is 3.8.18" in message and (project.root / ".venv/bin/python").exists()
    result = project.setup(PYTHON=str(project.tools / "new"))
    assert "making .venv from scratch: it has Python 3.11.7, and PYTHON names another version" in result.stdout


def test_environment_made_by_hand_is_kept(project):
    subprocess.run([project.tools / "python3.11", "-m", "venv", project.root / ".venv"], check=True)
    (project.root / ".venv/pyvenv.cfg").touch()
    (project.root / ".venv/mine").touch()
    assert project.setup().returncode == 0
    assert (project.root / ".venv/mine").exists()
    assert len(project.calls()) == 5


def test_foreign_folder_is_refused_and_kept(project):
    (project.root / ".venv").mkdir()
    (project.root / ".venv/mine").touch()
    assert project.error().startswith(
        ".venv must be a virtual environment of a supported Python (3.11, 3.12, 3.13), but"
    )
    assert (project.root / ".venv/mine").exists()


def test_old_python(project):
    old = project.add_tool("old", "echo 3.8.18")
    assert project.error(PYTHON=str(old)) == (
        f"Python must be one of 3.11, 3.12, 3.13, but PYTHON={old} is 3.8.18; give the path of a supported one."
    )


def test_python_that_does_not_run(project):
    assert project.error(PYTHON="/no/such/python") == (
        "PYTHON must be a Python interpreter, but `/no/such/python` does not run; give the path of a Python 3.11."
    )


def test_only_unsupported_pythons_on_path(project):
    project.add_tool("python3.11", "exit 127")
    project.add_tool("python3", "echo 3.14.0")
    message = project.error()
    assert message.startswith("Python must be one of 3.11, 3.12, 3.13, but python3 is 3.14.0; install Python 3.11")


def test_no_python(project):
    (project.tools / "python3.11").unlink()
    assert "but there is no python3 on PATH; install Python 3.11" in project.error()


def test_no_compiler(project):
    (project.tools / "g++").unlink()
    message = project.error()
    assert "needs a C++ compiler, but there is no g++, c++ or clang++ on PATH" in message
    assert "apt-get install g++" in message
    assert project.setup(CXX=str(project.add_tool("my-compiler")) + " -O1").returncode == 0


def test_no_venv_module(project):
    message = project.error(FAKE_FAIL="ensurepip")
    assert "its venv or ensurepip module is missing" in message
    assert "apt-get install python3-venv" in message


def test_no_headers(project):
    message = project.error(FAKE_FAIL="Python.h")
    assert "needs the C headers of `python3.11`, but Python.h is missing" in message
    assert "apt-get install python3-dev" in message


def test_failed_check_leaves_nothing_behind(project):
    project.error(FAKE_FAIL="ensurepip")
    assert not (project.root / ".venv").exists()


def test_target_stops_when_the_setup_fails(project):
    shutil.copy(ROOT / "Makefile", project.root / "Makefile")
    for name in ("make", "bash"):
        (project.tools / name).unlink(missing_ok=True)
        (project.tools / name).symlink_to(shutil.which(name))
    environment = {"PATH": str(project.tools), "PYTHON": "/no/such/python"}
    result = subprocess.run(
        ["make", "quickstart"], cwd=project.root, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert result.returncode != 0
    assert "`/no/such/python` does not run" in result.stderr
