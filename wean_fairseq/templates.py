"""Render pages from templates. Every text is escaped."""

from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render_template(
    package: str, name: str, *, folder: str = "", finalize: Callable[[Any], Any] | None = None, **values: Any
) -> str:
    """Fill a template with values, and return the result.

    Args:
        folder: folder of the template file within the package.
        finalize: changes each value before it is written.
        values: values by their names in the template.
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
