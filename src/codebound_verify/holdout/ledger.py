"""The verdict on a ledger or a watch: from its lines alone, and counts where a table is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..refusal import Refused, quote
from .counts import recount
from .results import check_looks
from .rules import Record, read_chain, read_seal
from .wealth import check_watch

ON = {"row": "one row a cluster", "any": "any row of a cluster"}
SEALED = (
    "Rows are matched by their place: an answer belongs to the label in its row.",
    "The rows are independent draws from what the claim is about, also where inputs are equal.",
    "Every look at them is in this ledger, and its seal was fixed before any outcome was seen.",
    "Classifiers and thresholds of planned statements were made and chosen without these rows.",
    "Those of other statements: with nothing of them but the seal's numbers and the answers above.",
)
GROUPED = "Groups, known before, were formed without regard to errors."
CLUSTERED = "Clusters are independent draws; the claim is about {} row of a new one, not on a row."
NAMED = "Their names and the order of rows have no regard to errors."
WATCHED = (
    "The first line was fixed before an outcome was seen, and no other watch of the stream thrown away.",
    "The labels are all of the stream, in order, or were chosen without regard to the outcome.",
    "The outcomes are right; an alarm says that the error was above the bound at some time.",
)


@dataclass(frozen=True)
class LedgerVerdict:
    """Decision about a ledger or a watch; ``head`` is the hash of the last line.

    ``bound`` is the smallest limit of all looks. Of a watch, which bounds nothing, ``watched`` is the error
    not to be exceeded and ``alarm`` the label at which it was. ``statements`` are the lines as sentences.
    """

    verdict: Literal["ACCEPT", "REFUSE"]
    reasons: tuple[str, ...]
    checked: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    head: str | None = None
    kind: str | None = None
    looks: int | None = None
    recounted: int | None = None
    is_final: bool | None = None
    delta: float | None = None
    loss: str | None = None
    on: str = "all"
    classes: int | None = None
    n: int | None = None
    bound: float | None = None
    best_model: str | None = None
    watched: float | None = None
    alarm: int | None = None
    statements: tuple[str, ...] = ()

    @property
    def is_accepted(self) -> bool:
        """Return True if the ledger can be believed."""
        return self.verdict == "ACCEPT"


def verify_ledger(
    content: bytes, *, table: Mapping[str, Sequence[str]] | None = None, head: str | None = None
) -> LedgerVerdict:
    """Check a ledger, or a watch.

    Without the ``table``, cells by name of column, counts are taken on trust. ``head`` is what the hash of
    the last line should be, if it was written down elsewhere.
    """
    hashes: list[str] = []
    try:
        lines = read_chain(content, hashes)
        first = next(lines)
        found = (_judge_watch if first["kind"] == "watch" else _judge)(first, lines, table)
        if head not in (None, hashes[-1]):
            raise Refused(
                f"Ledger: the last line has SHA-256 {hashes[-1]}; {quote(head)} was expected, which "
                f"{'an earlier' if head in hashes else 'no'} line has. Lines were removed, added or replaced."
            )
    except Refused as refused:
        return LedgerVerdict("REFUSE", refused.reasons)
    checked = ["every line follows the one before it", *found.pop("checked")]
    assumed = found.pop("assumptions")
    if head is None:
        assumed.append("No lines were cut off at the end (give --head, written down elsewhere, to check it).")
    else:
        checked.append("the last line is the one that was expected")
    return LedgerVerdict(
        "ACCEPT", (), tuple(checked), tuple(assumed), head=hashes[-1], looks=len(hashes) - 1, **found
    )


def _judge(
    first: Record, lines: Iterator[Record], table: Mapping[str, Sequence[str]] | None
) -> dict[str, Any]:
    seal, looks = read_seal(first), [*lines]
    check_looks(seal, looks)
    counted, looks = (None, looks) if table is None else recount(seal, looks, table)
    checked = ["every statement was allowed and is paid for, and every number follows from the counts"]
    assumed = [*SEALED, *_list_special(seal)]
    if seal["label"]["is"] == "answers":
        assumed.append("The label is what another classifier answers: the claim is on how alike the two are.")
    if counted is not None:
        checked.append(f"the table is the sealed one; {counted} of {len(looks)} lines were counted again")
    if counted is None or counted < len(looks):
        assumed.append("The counts that were not made again are right (give --data with all columns).")
    known = [each for each in looks if each["kind"] == "look" and each["result"] is not None]
    best = min(known, key=lambda each: each["result"]["bound"], default=None)
    return {
        "kind": "seal",
        "checked": checked,
        "assumptions": assumed,
        "recounted": counted,
        "is_final": bool(looks and looks[-1].get("final")),
        "delta": seal["delta"],
        "loss": ":".join(["unlike"] * (seal["label"]["is"] == "answers") + [*seal["loss"]]),
        "on": "all" if seal["clusters"] is None else ON[seal["clusters"]["claim"]],
        "n": seal["n"],
        "bound": best and best["result"]["bound"],
        "best_model": best and best["column"]["name"],
        "statements": tuple(_sentence(seal, each) for each in looks),
    }


def _judge_watch(first: Record, lines: Iterator[Record], table: object) -> dict[str, Any]:
    if table is not None:
        raise Refused("Ledger: a watch has all of its labels in its lines: leave the data out.")
    first, tracks = check_watch(first, lines)
    names = ("all", *(first["groups"] or {"names": ()})["names"])
    assumed = [*WATCHED, *_list_special(first)]
    if (kept := first["certificate"]) is not None:
        whose = "" if first["groups"] is None else " of each group"
        assumed.append(
            f"The file {kept['sha256']} shows an error{whose} of at most {first['bound']} with delta "
            f"{kept['delta']}: if nothing has changed, the chance of an alarm is at most alpha + delta."
        )
    return {
        "kind": "watch",
        "checked": ["every alarm is where the outcomes put it, and none is missing"],
        "assumptions": assumed,
        "delta": first["alpha"],
        "loss": ":".join(first["loss"]),
        "n": tracks[0].labels,
        "watched": first["bound"],
        "alarm": tracks[0].alarm,
        "statements": tuple(
            f"{name}: {len(each.lost)} errors in {each.labels} labels, "
            f"{'no alarm' if each.alarm is None else f'alarm at label {each.alarm}'}."
            for name, each in zip(names, tracks, strict=True)
        ),
    }


def _list_special(first: Record) -> list[str]:
    """Declarations that groups and clusters bring."""
    told = [] if first["groups"] is None else [GROUPED]
    if first["clusters"] is not None:
        claim = first["clusters"]["claim"]
        told += [CLUSTERED.format("one random" if claim == "row" else claim), NAMED]
    return told


def _sentence(seal: Record, line: Record) -> str:
    """The claim of a line, as a sentence."""
    result, loss, kind = line["result"], ":".join(seal["loss"]), line["kind"]
    if kind == "better":
        a, b, margin = line["a"]["name"], line["b"]["name"], line["margin"]
        said = f"{b} is better than {a}; risk of {a} less that of {b}: at least {result['limit']}."
        if margin:
            said = f"{b} is worse than {a} by less than {margin}, if at all."
        return said if result["shown"] else f"not shown: {said}"
    name = line["column"]["name"]
    if kind == "abstain":
        if result["chosen"] is None:
            return f"{name}: no threshold was found for a risk of {line['risk']}."
        least, share = line["thresholds"][result["chosen"]], result["share"]
        return (
            f"{name}, where it scores {least} or more: {loss} at most {line['risk']}; share at least {share}."
        )
    if result is None:
        return f"{name}: not better than the best so far."
    said = f"{name}: {loss} at most {result['bound']} ({result['errors']} of {result['n']})."
    if line["groups"]:
        bounds = [each["bound"] for each in line["groups"]]
        said += f" Worst group, {seal['groups']['names'][bounds.index(max(bounds))]}: at most {max(bounds)}."
    return said
