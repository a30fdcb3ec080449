"""Tables of contents whose names are loaded on first use, so that importing a package stays fast."""

import importlib
from collections.abc import Callable, Mapping


def lazily(
    package: str, table: Mapping[str, str]
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """``__all__``, ``__getattr__`` and ``__dir__`` of a package.

    The table has for each module the names that the package takes from it, in one string.
    """
    homes = {name: module for module, names in table.items() for name in names.split()}

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return sorted(homes), get, lambda: sorted(homes)
