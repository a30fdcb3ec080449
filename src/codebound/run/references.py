"""Registry of theorems and their functions: one entry per ID of docs/references.md."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

Kind = Literal["certificate", "published-form", "algorithm", "measure", "numerics"]
F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Implementation:
    """A function and the statement it implements."""

    ref: str
    kind: Kind
    function: Callable[..., object]

    @property
    def path(self) -> str:
        """Dotted path of the function, as docs/references.md prints it."""
        return f"{self.function.__module__}.{self.function.__qualname__}"


REGISTRY: dict[str, Implementation] = {}


def implements(*refs: str, kind: Kind) -> Callable[[F], F]:
    """Tie a function to its IDs, such as C-2; tests/test_references.py checks both directions.

    A ``certificate`` is true as printed; a ``published-form`` reproduces a paper and is no guarantee.
    """

    def register(function: F) -> F:
        for ref in refs:
            made = Implementation(ref, kind, function)
            if (known := REGISTRY.setdefault(ref, made)).path != made.path:
                raise ValueError(f"{ref!r} is already implemented by {known.path}.")
        return function

    return register
