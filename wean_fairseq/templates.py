"""Pages from templates, in which every text is escaped."""

from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render_template(
    package: str, name: str, *, folder: str = "", finalize: Callable[[Any], Any] | None = None, **values: Any
) -> str:
    """Return the page that a template makes of values.

    Args:
        folder: folder of the package that the file is in.
        finalize: changes each value before it is written.
        values: by the names that the template has for them.
    """
    environment = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["zip"] = zip
    return environment.get_template(name).render(values)
