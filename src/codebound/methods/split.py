"""Splits: the usual learner on the usual share, and the one that errs least on what is left out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codebound.bits.plain_code import SPLIT
from codebound.certificate.offers import rule_outcome
from codebound.learn.features import RoomError
from codebound.learn.picking import carry_out, compare_rules, usual_split
from codebound.methods.search import UnsuitedError
from codebound.run.errors import ModelError, UsageError
from codebound.sample.order import coded_share, usual_share

if TYPE_CHECKING:
    from codebound.methods.search import Search

_SHARES = 16  # that a message can name
_LEAST = 4  # examples that a share can be taken of


def require_own(search: Search) -> None:
    """Refuse tasks about a network that was given: a rule learns a classifier of its own.

    Raises:
        UnsuitedError: It is one, or there are too few examples.
    """
    if search.task.is_about_f:
        raise UnsuitedError(
            "a rule learns a classifier of its own. Certify it alone; holdout faithful bounds how often "
            "f differs from it."
        )
    if search.task.arranged.units < _LEAST:
        raise UnsuitedError(f"a share needs at least {_LEAST} examples. Got {search.task.arranged.units}.")


def propose_split(search: Search) -> None:
    """Carry out the usual split for one bit, and the learner that errs least on what is left out."""
    require_own(search)
    task = search.task
    given: dict[str, Any] = {"device": search.device, "progress": search.progress}
    units, least = task.arranged.units, task.made_of
    first = min((t for t in (coded_share(i, units) for i in range(_SHARES)) if least <= t < units), default=0)
    usual = reason = None
    try:
        if usual_share(units, is_rule=True) >= least:
            first = usual_share(units, is_rule=True)
            usual = usual_split(task.arranged, **given)
    except (ModelError, RoomError, UsageError) as error:
        reason = error
    if usual is not None:
        search.offer(rule_outcome(usual, task.arranged))
        if search.effort == "quick" or (search.effort == "standard" and not search.is_asked):
            return
    try:
        rule = compare_rules(task.arranged, first, **given)[0]
        if usual is None or rule != usual.rule:
            search.offer(
                rule_outcome(carry_out(rule, task.arranged, form=SPLIT, first=first, **given), task.arranged)
            )
    except (ModelError, RoomError, UsageError) as error:
        if usual is None:
            raise UnsuitedError(f"no learner suits these inputs: {reason or error}") from error
