"""Importing what a user names as ``package.module:factory``."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
