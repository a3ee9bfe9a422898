"""Registers the plugin with fairseq, at the moment when fairseq or torch is wanted and not before.

Importing fairseq and torch takes seconds and hundreds of megabytes, and text is scored and reports are written without
either. So ``import wean_fairseq`` registers at once where the process has one of them already, as it always has when
fairseq reads ``--user-dir``. Elsewhere the first import of fairseq, of torch, or of a part of this package that is not
in ``LIGHT`` registers before it goes on. A program sees no difference, but for the time that it saves: whatever could
use the archs, the tasks or the safe checkpoint loader finds them there.

The means is the import system's own: a finder that stands before the others and whose loader, asked to create the
module, registers first (which imports that module too, in the usual way) and then hands over what is there.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

_PACKAGE = __name__.rpartition(".")[0]
#: What needs the plugin to be registered when it is imported, besides the parts of this package.
_HOSTS = ("fairseq", "torch")
#: The parts that can be imported without torch and fairseq. Some of their files import torch; that registers then.
LIGHT = tuple(
    f"{_PACKAGE}.{name}"
    for name in ("console", "errors", "evaluation", "optional", "registration", "reporting", "storage", "text")
)


def register_before_use() -> None:
    """Register now if fairseq or torch is imported already, else just before the first import that needs it."""
    if any(name in sys.modules for name in _HOSTS):
        register()
    else:
        sys.meta_path.insert(0, _RegisteringFinder())


def register() -> None:
    """Prepare the host, then import everything that registers itself."""
    import_module(f"{_PACKAGE}.compat").install()
    for name in ("criterions", "models", "optim", "tasks", "evaluation.scorers"):
        import_module(f"{_PACKAGE}.{name}")


def _needs_registration(name: str) -> bool:
    if not name.startswith(f"{_PACKAGE}."):
        return name in _HOSTS
    return not any(name == light or name.startswith(f"{light}.") or light.startswith(f"{name}.") for light in LIGHT)


class _RegisteringFinder(MetaPathFinder, Loader):
    """Finder and loader of the first module that needs the plugin; it steps aside when it has registered it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Take over a module that needs the plugin, leave all others to the usual finders."""
        return spec_from_loader(fullname, self, is_package=True) if _needs_registration(fullname) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Register, and return the module as the usual finders have imported it."""
        sys.meta_path.remove(self)
        try:
            register()
            module = import_module(spec.name)
        except BaseException:
            sys.meta_path.insert(0, self)
            raise
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module back its own specification; its code has run."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state
