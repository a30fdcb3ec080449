"""Independent verifier of codebound certificates: shares no code with ``codebound``.

It is written from docs/format.md alone. Its kernel, the modules at the top, is what any certificate passes
through, to be read in one sitting and in this order, in which each module needs only earlier ones:

* the file: ``refusal``, ``rooms``, ``header``, ``container``, ``losses`` (what is an error,
  and which rows count), ``message`` (its words);
* the data: ``sample``, ``order`` (which rows are known), ``weights`` (files of tensors), ``tables`` (declared
  scores), ``stream``;
* the claim: ``counting`` (what each limit follows from), ``formulas`` (two laws), ``claim``;
* the decision: ``checklist`` (one check after the other), ``development`` (samples that the page was made
  with), ``words`` (the claim, and what no file can show), ``verdict``;
* the command: ``files`` (what is given beside a certificate), ``__main__``.

Everything else is a room beside it, loaded where it is reached: rules that are carried out (``learn``),
networks that a message holds (``networks``), classes, test data and what a reader requires (``questions``),
data in files or known by name, whose hash the kernel checks (``sources``), and ledgers (``holdout``). The
kernel imports no room: one table is where they meet, and what needs a room that was left out is refused. No
code but its own is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .refusal import Lacking, Refused
    from .verdict import Verdict, verify

__all__ = ["Lacking", "Refused", "Verdict", "verify"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import verdict  # NumPy is loaded when it is needed, not by --help

    return getattr(verdict, name)
