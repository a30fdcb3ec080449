"""Extensions by other packages: verbs, methods of certify, readers and forms of networks, engines.

A package offers a module under the entry point group ``codebound.extensions``; ``codebound_papers.extension``
is the example. The module is light: it names its parts as ``"package.module:attribute"``, in any of
``TABLES``, and they are loaded when they are asked for.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from codebound.run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

GROUP = "codebound.extensions"
NETWORKS = "Study a network"
"""Panel of the verbs about trained networks."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A command of another package."""

    function: str  # "package.module:attribute"
    after: str = ""  # verb that it follows in the list of all; by default it is the last
    has_config: bool = True  # its options can come from a file
    panel: str = ""  # of the help that lists it; by default the first
    is_hidden: bool = False  # the help leaves it out


@dataclass(frozen=True, slots=True)
class Method:
    """A way to make classifiers.

    Attributes:
        sentence: What it does, in words.
        function: What offers to a ``Search``, or where that is: ``"package.module:function"``.
        is_own: Whether g is a network of its own, for which f is not looked at unless there is a base.
        is_spare: Whether ``auto`` takes it only where nothing before says more than guessing, or at max.
        needs_network: Whether it starts from f: ``auto`` leaves it out where there is none.
    """

    sentence: str
    function: str | Callable[[Any], None]
    is_own: bool = False
    is_spare: bool = False
    needs_network: bool = False


@dataclass(frozen=True, slots=True)
class Extensions:
    """Tables of all extensions, and reasons for missing ones."""

    tables: dict[str, dict[Any, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, table: str) -> Mapping[Any, Any]:
        return self.tables.get(table, {})

    @property
    def advice(self) -> str:
        """A sentence for whoever asked for something unknown; empty if no extension is missing."""
        if self.missing:
            return (
                " Not available: " + "; ".join(f"{name} ({why})" for name, why in self.missing.items()) + "."
            )
        if not self.tables:
            return " No extension is installed; codebound_papers brings what belongs to the three papers."
        return ""


class Study(Protocol):
    """A paper's system on one network, as ``codebound.study`` returns it."""

    sentences: tuple[str, str, str]  # the claim of the paper, what it says here, and what is true
    record: Callable[[], dict[str, Any]]  # everything for JSON
    save_to: Callable[[Path | str], Path]  # writes record, page, networks and certificates


class Studies(Protocol):
    """``codebound.study``, for type checkers: each of the three papers as one call."""

    subject: Callable[..., Any]
    guha23: Callable[..., Study]
    arora18: Callable[..., Study]
    shin21: Callable[..., Study]
    plan: Callable[..., dict[str, Any]]
    sketch: ModuleType


TABLES = ("VERBS", "METHODS", "READERS", "FORMS", "TENSOR_CODES", "NAMES", "ENGINES", "LEARNERS", "DEMO")


@cache
def find_extensions() -> Extensions:
    """Find the extensions of this environment.

    What cannot be imported is named, not raised.
    """
    found = Extensions()
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: point.name):
        try:
            module = point.load()
        except Exception as error:  # of somebody else's package, which must not stop ours
            found.missing[point.name] = f"{type(error).__name__}: {error}"
            continue
        for name in TABLES:
            table = found.tables.setdefault(name, {})
            table.update({key: value for key, value in getattr(module, name, {}).items() if key not in table})
    return found


def resolve(home: str) -> Any:
    """Import the object that ``"package.module:attribute"`` names. Without an attribute, the module."""
    module, _, attribute = home.partition(":")
    found = importlib.import_module(module)
    return attrgetter(attribute)(found) if attribute else found


@contextmanager
def current_directory_importable() -> Iterator[None]:
    """Allow imports of modules in the current directory, new ones too."""
    here = str(Path.cwd())
    importlib.invalidate_caches()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def import_named(spec: str) -> Any:
    """Import the object that ``package.module:name`` names, in the current directory too."""
    module, _, name = spec.partition(":")
    with current_directory_importable():
        return getattr(importlib.import_module(module), name)


def reader(kind: str) -> Any:
    """The function of an extension that reads networks."""
    return _part("READERS", kind, f"nothing here reads {kind}")


def form_of(name: str) -> Any:
    """The part of an extension that knows what a message of a network needs: none is judged without it."""
    return _part("FORMS", name, f"nothing here reads or judges networks ({name})")


def _part(table: str, name: str, missing: str) -> Any:
    extensions = find_extensions()
    if name not in extensions[table]:
        raise UsageError(
            f"{missing}: codebound_networks does, and it cannot be imported. Install it, or "
            f"do without a network.{extensions.advice}"
        )
    return resolve(extensions[table][name])


class LazyModule:
    """A module that is imported with its first attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value


def lazily(package: str, table: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """``__all__``, ``__getattr__`` and ``__dir__`` of a package: modules, each with a colon, and names."""
    homes, module = dict[str, str](), ""
    for word in table.split():
        if word.endswith(":"):
            module = word[:-1]
        else:
            homes[word] = module

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(homes[name]), name, None)
        return importlib.import_module(f"{homes[name]}.{name}") if found is None else found

    return sorted(homes), get, lambda: sorted(homes)
