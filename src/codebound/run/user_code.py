"""Importing what a user names as ``package.module:factory``."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def current_directory_importable() -> Iterator[None]:
    """Modules in the current directory, also ones written a moment ago, can be imported inside."""
    here = str(Path.cwd())
    importlib.invalidate_caches()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def import_named(spec: str) -> Any:
    """Import the object that ``package.module:name`` names. Modules in the current directory are found too.

    Example:
        >>> import_named("math:sqrt")(9.0)
        3.0
    """
    module, _, name = spec.partition(":")
    with current_directory_importable():
        return getattr(importlib.import_module(module), name)
