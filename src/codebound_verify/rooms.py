"""Rooms beside the kernel, by name: the kernel imports none of them, and loads each where it is reached."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .refusal import Refused

ROOMS = {
    "network": "networks.network",  # word 111110
    "evaluation": "networks.evaluation",  # the same, to be counted
    "original network": "networks.original",  # section 9
    "codes of the papers": "networks.papers.random_tensors",  # tensor modes 8 to 13
    "rule": "learn.rule",  # words 0, 1110 and 11110
    "picks": "learn.picking",  # the same, to be learned
    "classes": "questions.classes",  # --by-class
    "test": "questions.refutation",  # --test
    "requirements": "questions.requirements",  # --max-error and others
    "arrays": "sources.arrays",  # --data sample.npz
    "named data": "sources.datasets",  # --data mnist
    "folder": "sources.folder",  # certificate.cbound
    "ledger": "holdout.ledger",  # .jsonl
    "table": "sources.csv_files",  # the same, with --data
}
"""The module behind each name: the only place where kernel and rooms meet."""


def room(name: str) -> Any:
    """Load a room. One that was left out is a reason to refuse what needs it."""
    try:
        return import_module(f".{ROOMS[name]}", __package__)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(f"{__package__}."):
            raise  # it is there, and lacks something else
        raise Refused(f"Program: {error.name}, which this needs, is not installed.") from None
