"""One rule for all papers: when an item agrees with its paper, when it does not, and when it stays open.

A statement is checked in some cases: layers, networks, strengths. Where it holds in all of them we agree,
where in at least half of them we agree in part. Where in fewer, we do not agree only if the run has the
published size and length, and the networks are the published ones or trained as those; otherwise the
question stays open.
"""

from __future__ import annotations

from codebound_papers.reproduce.items import Settings

AGREE, IN_PART, DISAGREE = "We agree", "We agree in part", "We do not agree"


def verdict(agreed: int, *, of: int, settings: Settings, differs: str = "") -> str:
    """Whether we agree, by the number of cases in which a statement holds.

    Args:
        agreed: Cases in which it holds.
        of: All cases.
        settings: How the item was run.
        differs: What else keeps a run from speaking about the published one, such as other networks.

    Example:
        >>> from codebound_papers.reproduce.items import Settings
        >>> [verdict(agreed, of=3, settings=Settings(size="full")) for agreed in (3, 2, 1)]
        ['We agree', 'We agree in part', 'We do not agree']
        >>> verdict(1, of=3, settings=Settings(size="quick"))
        'Open (this run is smaller than the published one)'
    """
    if agreed == of:
        return AGREE
    if 2 * agreed >= of:
        return IN_PART
    reasons = [*shortfalls(settings), *filter(None, (differs,))]
    return f"Open ({'; '.join(reasons)})" if reasons else DISAGREE


def shortfalls(settings: Settings) -> tuple[str, ...]:
    """What keeps a run below the published one."""
    words = ["smaller"] * (settings.size != "full") + ["shorter"] * (settings.epochs is not None)
    return (f"this run is {' and '.join(words)} than the published one",) if words else ()
