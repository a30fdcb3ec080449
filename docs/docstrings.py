"""Docstrings as the site shows them: examples as code, the parts of a statement as paragraphs."""

from __future__ import annotations

import re
from textwrap import indent
from typing import Any

import griffe

_PARTS = "Statement|Reference|Differs|Needs|Direction|Method|Proof|Checked by"


class Docstrings(griffe.Extension):
    """Makes Markdown of what the source says in its own layout."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrites one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)


def readable(text: str) -> str:
    r"""A docstring in Markdown.

    Example:
        >>> readable("Short.\n\nStatement.  It holds.\nNeeds.      Luck.\n\nExample:\n    >>> 1\n    1")
        'Short.\n\n\n**Statement.** It holds.\n\n**Needs.** Luck.\n\nExamples:\n    >>> 1\n    1'
    """
    text = re.sub(rf"^({_PARTS})\.\s+", r"\n**\1.** ", text, flags=re.MULTILINE)
    text = re.sub(r"^ *\.\. math:: (.*)$", r"\n    \1\n", text, flags=re.MULTILINE)
    text = re.sub(r":[a-z]+:`([^`]*)`", r"`\1`", text)
    text = re.sub(r"^>>> .*(?:\n.+)*", _as_section, text, flags=re.MULTILINE)
    return re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)


def _as_section(bare: re.Match[str]) -> str:
    """An example without a heading, under one."""
    return "Examples:\n" + indent(bare.group(), "    ")
