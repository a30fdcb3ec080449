"""Questions to a test set, from columns of answers: sealed, paid for, and checked by a second program.

The names below are resolved on first use. Nothing here loads torch, but for answers of networks.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codebound.holdout.advice import Situation as Situation
    from codebound.holdout.advice import advise as plan  # noqa: F401
    from codebound.holdout.alarms import Watch as Watch
    from codebound.holdout.alarms import WatchTerms as WatchTerms
    from codebound.holdout.fidelity import faithful as faithful
    from codebound.holdout.ledger import Ledger as Ledger
    from codebound.holdout.ledger import read_ledger as read_ledger
    from codebound.holdout.seals import Abstention as Abstention
    from codebound.holdout.seals import Plan as Plan
    from codebound.holdout.seals import seal as seal
    from codebound.holdout.statements import abstain as abstain
    from codebound.holdout.statements import better as better
    from codebound.holdout.statements import look as look
    from codebound.holdout.statements import look_at_planned as look_at_planned

_HOME = {
    "Plan": "seals:Plan",
    "Abstention": "seals:Abstention",
    "seal": "seals:seal",
    "look": "statements:look",
    "look_at_planned": "statements:look_at_planned",
    "better": "statements:better",
    "abstain": "statements:abstain",
    "faithful": "fidelity:faithful",
    "WatchTerms": "alarms:WatchTerms",
    "Watch": "alarms:Watch",
    "Ledger": "ledger:Ledger",
    "read_ledger": "ledger:read_ledger",
    "Situation": "advice:Situation",
    "plan": "advice:advise",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    from codebound.run.extensions import resolve

    if name in _HOME:
        return resolve(f"{__name__}.{_HOME[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.")


def __dir__() -> list[str]:
    return sorted(__all__)
