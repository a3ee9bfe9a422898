"""Test the table of patches.

Each patch replaces the expected function of fairseq, has a test, and is listed in the documentation.
"""

import ast
import importlib
import importlib.metadata
import importlib.util
import linecache
import sys
from pathlib import Path

import pytest

from wean_fairseq.errors import UserError
from wean_fairseq.host.patches import FAIRSEQ, Patch, digest, install
from wean_fairseq.host.table import PATCHES

ROOT = Path(__file__).resolve().parents[3]
FUNCTIONS = [patch for patch in PATCHES if patch.source]


def function_of(patch: Patch) -> object:
    module, _, name = patch.target.partition(":")
    function = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    return function


@pytest.mark.parametrize("patch", FUNCTIONS, ids=lambda patch: patch.target)
def test_a_function_of_fairseq_is_replaced_and_is_the_expected_one(patch):
    """If this fails with a new version of fairseq, compare the function and change the digest in the table."""
    function = function_of(patch)
    assert function.patch is patch
    assert digest(function.__wrapped__) == patch.source


def test_the_version_in_the_message_is_the_installed_and_the_required_one():
    assert importlib.metadata.version("fairseq-fixed") == FAIRSEQ
    assert f'"fairseq-fixed=={FAIRSEQ}"' in (ROOT / "setup.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.target)
def test_every_patch_names_a_test_that_exists(patch):
    name, _, function = patch.test.partition("::")
    tree = ast.parse((ROOT / "tests" / name).read_text(encoding="utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Write a module of fairseq that is imported later, with functions for the patches to replace."""
    name = "fairseq.patched_module"
    source = (
        'def add(a, b):\n    """Add."""\n    return a + b\n\n\n'
        "class Files:\n    @staticmethod\n    def copy(path):\n        return path\n\n"
        "    def size(self, unit=1):\n        return 2 * unit\n"
    )
    (tmp_path / "patched_module.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr(sys.modules["fairseq"], "__path__", [*sys.modules["fairseq"].__path__, str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # bytecode would hide a change that is made within a second
    monkeypatch.setattr(sys, "meta_path", [item for item in sys.meta_path if type(item).__name__ != "_Finder"])
    monkeypatch.delitem(sys.modules, name, raising=False)
    yield tmp_path / "patched_module.py"
    sys.modules.pop(name, None)


def patches_of(replacement, **sources: str) -> list[Patch]:
    return [
        Patch(f"fairseq.patched_module:{name.replace('_', '.')}", replacement, "", "", source)
        for name, source in sources.items()
    ]


def rewrite(path: Path, text: str) -> None:
    path.write_bytes(text.encode())
    importlib.invalidate_caches()
    linecache.clearcache()


def source_digests() -> dict[str, str]:
    """Return the digests of the functions of the unpatched module ``host``."""
    module = importlib.import_module("fairseq.patched_module")
    functions = {"add": module.add, "Files_copy": module.Files.copy, "Files_size": module.Files.size}
    del sys.modules["fairseq.patched_module"]
    return {name: digest(function) for name, function in functions.items()}


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("imported", [False, True], ids=["imported later", "imported before"])
def test_functions_methods_and_static_methods_are_replaced_once(imported):
    sources = source_digests()
    if imported:
        importlib.import_module("fairseq.patched_module")
    patches = patches_of(lambda original, *args, **kwargs: ("new", original(*args, **kwargs)), **sources)
    install(patches)
    install(patches)
    module = importlib.import_module("fairseq.patched_module")
    assert module.add(1, b=2) == ("new", 3)
    assert module.Files.copy("a") == ("new", "a") == module.Files().copy("a")
    assert module.Files().size(unit=3) == ("new", 6)
    assert module.add.__doc__ == "Add."


@pytest.mark.parametrize(
    ("old", "new"),
    [("a + b", "a - b"), ("add(a, b)", "add(a, b, c=0)"), ("def add", "def plus"), ('"""Add."""', '"""Sum."""')],
)
def test_another_function_than_the_expected_one_is_refused_by_name(host, old, new):
    sources = source_digests()
    rewrite(host, host.read_text(encoding="utf-8").replace(old, new))
    install(patches_of(lambda original, *args: None, **sources))
    with pytest.raises(UserError) as refused:
        importlib.import_module("fairseq.patched_module")
    assert str(refused.value) == (
        "wean_fairseq replaces fairseq.patched_module.add, but the installed fairseq has a different one than "
        f"fairseq-fixed {FAIRSEQ}: pip install fairseq-fixed=={FAIRSEQ}, and turn off other plugins that change it."
    )


@pytest.mark.usefixtures("host")
def test_nothing_of_a_module_is_replaced_if_one_function_is_refused():
    sources = source_digests() | {"Files_size": "0" * 16}
    module = importlib.import_module("fairseq.patched_module")
    with pytest.raises(UserError, match=r"replaces fairseq\.patched_module\.Files\.size, "):
        install(patches_of(lambda original, *args: None, **sources))
    assert module.add(1, 2) == 3


def test_comments_after_a_function_and_line_ends_do_not_change_its_digest(host):
    expected = source_digests()
    text = host.read_text(encoding="utf-8").replace("\n\n\nclass", "\n\n\n# Files\nclass")
    rewrite(host, text.replace("\n", "\r\n"))  # the files of fairseq-fixed have Windows line ends
    assert source_digests() == expected


def test_the_documents_print_the_table():
    spec = importlib.util.spec_from_file_location("patches", ROOT / "scripts" / "patches.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.main(["--check"]) == 0
