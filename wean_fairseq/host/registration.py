"""Registers the plugin with fairseq, at the moment when fairseq or torch is wanted and not before.

Importing fairseq and torch takes seconds and hundreds of megabytes, and text is scored and reports are written without
either. So ``import wean_fairseq`` registers at once where the process has one of them already, as it always has when
fairseq reads ``--user-dir``. Elsewhere the first import of fairseq, of torch, or of a part of this package that is not
in ``LIGHT`` registers before it goes on. A program sees no difference, but for the time that it saves: whatever could
use the archs, the tasks or the safe checkpoint loader finds them there.

The means is the import system's own: a finder that stands before the others and asks them, so that it finds what they
find. Its loader, asked to create the module, registers first (which imports that module too, in the usual way) and then
hands over what is there. Meanwhile all threads, this one too, import in the usual way: one that waited here would hold
the lock of a module that is needed for the registration. Threads whose first imports are different parts of the package
and of fairseq can meet in a circle, which Python's import system ends with an error: import once before starting them.
"""

import sys
from collections.abc import Sequence
from copy import copy
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from threading import Lock
from types import ModuleType
from typing import Any

_PACKAGE = __name__.partition(".")[0]
#: What needs the plugin to be registered when it is imported, besides the parts of this package.
_HOSTS = ("fairseq", "torch")
#: The parts that can be imported without torch and fairseq. Some of their files import torch; that registers then.
_LIGHT = (
    *("checkpoints.cli", "console", "errors", "evaluation", "host.registration", "optional", "reporting", "storage"),
    *("templates", "text"),
)
LIGHT = tuple(f"{_PACKAGE}.{name}" for name in _LIGHT)


def register_before_use() -> None:
    """Register now if fairseq or torch is imported already, else just before the first import that needs it."""
    if any(name in sys.modules for name in _HOSTS):
        register()
    else:
        sys.meta_path.insert(0, _RegisteringFinder())


_half_done: list[BaseException] = []  # the error that has ended a registration


def register() -> None:
    """Prepare the host, then import everything that registers itself.

    Raises:
        ImportError: if it has failed half way before: fairseq takes nothing twice.
    """
    import_module(f"{_PACKAGE}.host.compat").install()
    if _half_done:
        raise ImportError(f"{_PACKAGE} was not registered ({_half_done[0]}): restart Python.") from _half_done[0]
    try:
        for name in ("criterions", "models", "optim", "tasks", "evaluation.scorers"):
            import_module(f"{_PACKAGE}.{name}")
    except BaseException as error:
        _half_done.append(error)
        raise


def _needs_registration(name: str) -> bool:
    if not name.startswith(f"{_PACKAGE}."):
        return name in _HOSTS
    return not any(name == light or name.startswith(f"{light}.") or light.startswith(f"{name}.") for light in LIGHT)


class _RegisteringFinder(MetaPathFinder):
    """Finder of the first module that needs the plugin; it steps aside when it has registered it."""

    def __init__(self) -> None:
        self._registering = Lock()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Take over a module that needs the plugin, if there is one; leave all others to the usual finders."""
        if self._registering.locked() or not _needs_registration(fullname):
            return None
        found = (finder.find_spec(fullname, path, target) for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, found), None)
        if spec is None:
            return None
        spec, usual = copy(spec), spec
        spec.loader = _Registering(self, usual)
        return spec

    def register(self) -> None:
        """Register, unless another thread is about to or has done it."""
        if self not in sys.meta_path or not self._registering.acquire(blocking=False):
            return
        try:
            register()
            sys.meta_path.remove(self)
        finally:
            self._registering.release()


class _Registering(Loader):
    """Loader of a module that needs the plugin; but for that it is the usual one of ``spec``."""

    def __init__(self, finder: _RegisteringFinder, spec: ModuleSpec) -> None:
        self._finder = finder
        self._spec = spec

    def __getattr__(self, name: str) -> Any:
        """As the usual loader, for whoever asks without importing."""
        return getattr(self._spec.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Register, and return the module as the usual finders have imported it."""
        self._finder.register()
        module = import_module(spec.name)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module back its own specification; its code has run."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state
