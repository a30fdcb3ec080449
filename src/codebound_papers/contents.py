"""Tables of contents whose names are loaded on first use, so that importing a package stays fast."""

import importlib
from collections.abc import Callable


def lazily(package: str, table: str) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """``__all__``, ``__getattr__`` and ``__dir__`` of a package: modules, each with a colon, and names."""
    homes, module = dict[str, str](), ""
    for word in table.split():
        if word.endswith(":"):
            module = word[:-1]
        else:
            homes[word] = module

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(homes[name]), name, None)
        return importlib.import_module(f"{homes[name]}.{name}") if found is None else found

    return sorted(homes), get, lambda: sorted(homes)
