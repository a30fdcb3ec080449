"""Exceptions for failures that a user can cause.

A message has up to four parts: what is wrong, what was found, why it matters, what to do.
Refusals and vacuous bounds are results, not exceptions.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The name that was perhaps meant, as a question with a space before it; empty if none is near.

    Example:
        >>> did_you_mean("pick", ("auto", "picks"))
        " Did you mean 'picks'?"
    """
    near = get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


class CodeboundError(Exception):
    """Base of all errors raised on purpose; the command line prints it without a traceback.

    Example:
        >>> import codebound as cb
        >>> try:
        ...     cb.Run(effort="some")
        ... except cb.CodeboundError as error:
        ...     print(error)
        unknown effort 'some'. Known: quick, standard, max.
    """

    exit_code = 1


class UsageError(CodeboundError, ValueError):
    """An argument lies outside its stated range, or two arguments contradict each other."""

    exit_code = 2


class DataError(CodeboundError):
    """A dataset is missing, damaged, of the wrong shape, or not what its checksum says."""


class ModelError(CodeboundError):
    """A network cannot be built, or its weights are missing, of the wrong shape, or not finite."""


class UnsupportedLayerError(ModelError):
    """A network contains a layer or tensor that has no registered view."""


class DependenceError(ModelError):
    """A network's output for an example depends on more than that example."""


class FormatError(CodeboundError):
    """A file does not follow its format: truncated, too long, or with unknown fields."""


class CertificateError(CodeboundError):
    """A certificate cannot be issued, or is refused."""


class RefusedError(CertificateError):
    """The second program refuses a certificate, for these reasons."""

    def __init__(self, message: str, *, reasons: Sequence[str]) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)


def brief(error: Exception) -> str:
    """The first line of what somebody's code says when it fails."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
