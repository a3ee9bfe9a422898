"""Apply a table of patches to fairseq.

If a module is not imported yet, an import hook patches it after its code has run. Each replacement was written for a
function with a certain source. Before a function is replaced, the digest of its source is compared with the digest of
that source.
"""

import functools
import hashlib
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from ..checkpoints.literals import read_literal
from ..errors import UserError

#: The original function, which a replacement gets as its first argument.
Original = Callable[..., Any]
FAIRSEQ = "0.12.3.1"  # version of fairseq-fixed for which the replacements were written
_PACKAGES = ("fairseq", "fairseq_cli")


@dataclass(frozen=True)
class Patch:
    """A patch: a function of fairseq that is replaced, or a setting of a library or of Python that is changed.

    Attributes:
        target: the function, such as ``fairseq.trainer:Trainer.train_step``, or a description of the setting.
        replacement: function that is called instead of the original function, which is its first argument. For a
            setting (without ``source``), the function changes the setting and has no arguments.
        defect: reason for the patch.
        test: a test of the patch, as ``file::function`` below ``tests/``.
        source: ``digest`` of the function for which the replacement was written. It is empty for a setting.
    """

    target: str
    replacement: Callable[..., Any]
    defect: str
    test: str
    source: str = ""


def install(patches: Sequence[Patch]) -> None:
    """Change the settings, and replace the functions in all fairseq modules, also in those imported later.

    Raises:
        UserError: if a function of the installed fairseq has another source. The message names the function.
    """
    for patch in patches:
        if not patch.source:
            patch.replacement()
    functions = [patch for patch in patches if patch.source]
    for name, module in _imported_modules():
        _replace(name, module, functions)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(functions))


def read_literals_only() -> None:
    """Replace ``eval`` in all fairseq modules that are already imported.

    ``_Loader`` replaces it in modules that are imported later.
    """
    for _, module in _imported_modules():
        vars(module)["eval"] = read_literal


def digest(function: Any) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a function's source.

    Return an empty text if the source is not available.
    """
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :] if code else []
    if not lines:
        return ""
    return hashlib.sha256("".join(inspect.getblock(lines)).rstrip().encode()).hexdigest()[:16]


def _imported_modules() -> Iterator[tuple[str, ModuleType]]:
    """Yield fairseq's modules with their names.

    If Python was started with ``-m fairseq_cli.train``, this module is stored under the name ``__main__``.
    """
    for name, module in list(sys.modules.items()):
        if name == "__main__":
            name = getattr(getattr(module, "__spec__", None), "name", name)  # noqa: PLW2901 - its own name
        if name.partition(".")[0] in _PACKAGES:
            yield name, module


def _replace(name: str, module: ModuleType, patches: Sequence[Patch]) -> None:
    """Replace either all patched functions of a module or, if one of them differs, none."""
    replaced: list[tuple[Any, str, Any]] = []
    for patch in patches:
        of_module, _, function = patch.target.partition(":")
        if of_module != name:
            continue
        *path, attribute = function.split(".")
        owner: Any = module
        for part in path:
            owner = getattr(owner, part, None)
        original = inspect.getattr_static(owner, attribute, None)
        if getattr(getattr(original, "__func__", original), "patch", None) is patch:
            continue
        if digest(original) != patch.source:
            raise UserError(
                f"wean_fairseq replaces {patch.target.replace(':', '.')}, but the installed fairseq has a different "
                f"one than fairseq-fixed {FAIRSEQ}: pip install fairseq-fixed=={FAIRSEQ}, and turn off other plugins "
                "that change it."
            )
        replaced.append((owner, attribute, _replacement(patch, original)))
    for owner, attribute, function in replaced:
        setattr(owner, attribute, function)


def _replacement(patch: Patch, original: Any) -> Any:
    """Return the function that replaces ``original``, which is a function or a static method."""
    is_static = isinstance(original, staticmethod)
    function = original.__func__ if is_static else original

    @functools.wraps(function)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        return patch.replacement(function, *args, **kwargs)

    replacement.__dict__["patch"] = patch
    return staticmethod(replacement) if is_static else replacement


class _Loader(SourceFileLoader):
    """Loader of a fairseq module in which ``eval`` only reads literals."""

    patches: Sequence[Patch] = ()

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["eval"] = read_literal
        super().exec_module(module)
        _replace(module.__name__, module, self.patches)


class _Finder(MetaPathFinder):
    """Finder of fairseq modules that are imported later."""

    def __init__(self, patches: Sequence[Patch]) -> None:
        self._patches = patches

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in _PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
            spec.loader.patches = self._patches
        return spec
