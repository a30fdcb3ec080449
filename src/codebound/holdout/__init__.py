"""Questions to a test set, from columns of answers: sealed, paid for, and checked by a second program.

The names below are resolved on first use. Nothing here loads torch, but for answers of networks.
"""

from codebound.run.extensions import lazily

__all__, __getattr__, __dir__ = lazily(
    __name__,
    """
    codebound.holdout.advice: Situation plan
    codebound.holdout.alarms: Watch WatchTerms with_proof
    codebound.holdout.ledger: Ledger read_ledger
    codebound.holdout.seals: Abstention Plan seal
    codebound.holdout.statements: abstain better faithful look look_at_planned
    """,
)
