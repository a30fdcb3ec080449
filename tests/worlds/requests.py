"""Requests to ``certify`` written as one flat list of settings, each of which goes into its record."""

from dataclasses import fields
from typing import Any

from codebound.request import Claim, Known, Run


def request(**settings: Any) -> dict[str, Any]:
    """Keywords of ``certify``: settings of what is known, of the claim and of the run in their records."""
    found = {}
    for record in (Known, Claim, Run):
        names = {each.name for each in fields(record)} & settings.keys()
        if names:
            found[record.__name__.lower()] = record(**{name: settings.pop(name) for name in names})
    return found | settings
