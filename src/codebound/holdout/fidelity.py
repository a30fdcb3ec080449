"""Fidelity: how often a compressed classifier answers unlike the original, from answers alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from codebound.holdout.answers import as_table
from codebound.holdout.ledger import SUFFIX
from codebound.holdout.seals import Plan, seal
from codebound.holdout.statements import look

if TYPE_CHECKING:
    from codebound.holdout.ledger import Ledger


def faithful(
    inputs: object,
    original: str,
    compressed: str,
    *,
    delta: float = 0.05,
    out: Path | None = None,
) -> Ledger:
    """Bound how often a compressed classifier answers unlike the original one: one sealed look.

    Args:
        inputs: A file, a mapping of columns or a data frame with the answers of both, on inputs that took no
            part in making or choosing the compressed one. No labels are needed.
        original: Column of answers of the original.
        compressed: Column of answers of the compressed one.
        delta: Failure probability.
        out: The ledger, a new file.
    """
    table = as_table(inputs, name="answers")
    path = out or Path(Path(table.name).stem + SUFFIX)
    plan = Plan(look=(compressed,), delta=delta, label_is="answers")
    ledger = seal(table, plan, label=original, out=path)
    return look(ledger.path, compressed, data=table)
