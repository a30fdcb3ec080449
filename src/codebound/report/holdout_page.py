"""Page about a ledger of hold-out statements: the answer, pictures, what it means.

It is made of the lines of a file (docs/ledger.md), and loads no torch.
"""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Any

from codebound.bounds.facts import HoldoutFacts
from codebound.bounds.held_out import holdout
from codebound.bounds.risk import count_of, percent, rate
from codebound.holdout.sentences import describe_result, percent_down
from codebound.report.templates import GROUPS, TICKS, chosen, place, render

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_SHOWN = 12  # columns in the picture; the table has all
_EVEN = 0.5  # a limit above it says next to nothing
_BEGINNINGS = ("it is ", "no threshold ", "where ")  # of sentences that do not begin with a name
_DRAWN = (
    "The rows, or the clusters where there are some, are independent draws from where new data come from.",
    "Another year, source or group of people. Or hard rows were dropped.",
)
_FAITHFUL = (
    "The inputs took no part in making or choosing the compressed classifier.",
    "It was calibrated, or picked among several, on these inputs.",
)
_ASSUMED = (
    _DRAWN,
    (
        "Every look at these rows is in this ledger.",
        "Somebody counted errors elsewhere, changed the prompt, and came back.",
    ),
    (
        (
            "Planned columns existed before any outcome was seen. Who made another column knew nothing of "
            "these rows but the answers in the lines above it."
        ),
        "Answers were repaired by hand after a look at the labels.",
    ),
    ("Every answer belongs to the label in its row.", "A column was sorted, or rows were lost in one file."),
)


def write_page(file: Path, page: Path) -> None:
    """Writes the page about a ledger or a watch, which is checked before."""
    from codebound.holdout.ledger import read_ledger
    from codebound.run.files import write_text

    found = read_ledger(file)
    write_text(page, lines_page(found.lines, name=file.name, head=found.head))


def lines_page(lines: Sequence[Mapping[str, Any]], *, name: str, head: str) -> str:
    """The page about the lines of a file that the second program accepted.

    Args:
        lines: All of them, the first one too.
        name: Name of the file.
        head: Hash of its last line.
    """
    from codebound.report.watch_page import watch_values

    first, *others = lines
    is_watch = first["kind"] == "watch"
    table = first["stream"] if is_watch else first["data"]
    values = watch_values(first, others) if is_watch else _ledger(first, others)
    command = ["codebound", "verify", name, "--head", head]
    command += [] if is_watch else ["--data", table]
    named = table.rpartition(":")[0] or table  # without the column of labels
    values |= {"title": f"{named}: {values['title']}", "head": head, "command": shlex.join(command)}
    return render("watch.html.j2" if is_watch else "ledger.html.j2", values)


def _ledger(seal: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Values of the page about a sealed table."""
    looks = [line for line in lines if line["kind"] == "look"]
    pairs = [line for line in lines if line["kind"] == "better"]
    choices = [line for line in lines if line["kind"] == "abstain"]
    is_faithful = seal["label"]["is"] == "answers"
    kinds = {
        ("how often they differ" if is_faithful else "how often it errs"): looks,
        "which one is better": pairs,
        "when to abstain": choices,
    }
    left = "no end" if seal["looks"] is None else f"{seal['looks']:,} planned"
    known = [each for each in looks if each["result"]]
    best = min(known, key=lambda each: each["result"]["bound"], default=None)
    answers = [_answer(seal, line) for line in (*([best] if best else []), *pairs, *choices)]
    many = len(known) > 1 and best is not None
    return {
        "title": ", ".join(words for words, found in kinds.items() if found) or "sealed, and not looked at",
        "subtitle": f"{seal['rows']:,} rows, sealed on {seal['date'][:10]}; "
        f"{count_of(len(lines), 'statement')} made, {left}; "
        f"failure probability {seal['delta']:g} for all of them together",
        "answers": answers,
        "how_sure": _confidence(seal["delta"]),
        "looks_title": "How often they differ" if is_faithful else "How often each errs",
        "best": best["column"]["name"] if many and best else "",
        "looks": [_look_row(seal, line) for line in sorted(known, key=lambda each: each["result"]["bound"])],
        "silent": [line["column"]["name"] for line in looks if not line["result"]],
        "shown": _SHOWN,
        "unit": "clusters" if seal["clusters"] else "rows",
        "ticks": TICKS,
        "pairs": [_pair_picture(line) for line in pairs],
        "choices": [_choice_table(line) for line in choices],
        "groups": list(_group_rows(seal, [*([best] if best else []), *pairs])),
        "group_column": seal["groups"] and seal["groups"]["column"],
        "means": _means(looks, pairs, choices),
        "not_means": _not_means(seal),
        "assumed": _assumed(seal),
        "numbers": _seal_rows(seal),
    }


def _confidence(delta: float) -> str:
    """Frequency of false answers, as a sentence."""
    return (
        f"Of {math.floor((1.0 + 1e-12) / delta):,} tables that might have been drawn, on average at most 1 "
        "leads to a false statement anywhere in the ledger."
    )


def _answer(seal: Mapping[str, Any], line: Mapping[str, Any]) -> dict[str, Any]:
    """The sentence of a line, and if it is what one hoped for."""
    result, kind, target = line["result"], line["kind"], seal["target"]
    words = f"{describe_result(seal, line, result)}."
    if words.startswith(_BEGINNINGS):
        words = words[0].upper() + words[1:]
    if kind == "better":
        return {"words": words, "is_shown": result["shown"]}
    if kind == "abstain":
        return {"words": words, "is_shown": result["chosen"] is not None}
    is_met = target is None or result["bound"] <= target
    if target is not None:
        words += f" The target of {chosen(target)} is {'met' if is_met else 'not met'}."
    return {"words": words, "is_shown": is_met and result["bound"] < _EVEN}


def _look_row(seal: Mapping[str, Any], line: Mapping[str, Any]) -> dict[str, Any]:
    """One column on the scale."""
    result, (errors, n) = line["result"], (line["result"]["errors"], line["result"]["n"])
    is_level = seal["levels"] is not None and not line["final"]
    alone = holdout(HoldoutFacts(errors=errors, n=n, delta=seal["delta"])).value if n else 1.0
    counted = f"{'at most ' if is_level else ''}{errors:,} of {n:,}"
    return {
        "name": line["column"]["name"],
        "value": percent(result["bound"]),
        "at": place(result["bound"]),
        "dot": None if is_level or not n else place(errors / n),
        "counted": counted,
        "rate": "" if is_level or not n else rate(errors / n),
        "alone": percent(alone),
        "words": counted
        + (f"; as the only look it would be {percent(alone)}" if alone < result["bound"] else ""),
    }


def _pair_picture(line: Mapping[str, Any]) -> dict[str, Any]:
    """Paired counts as bars, and the difference on an axis of its own."""
    result = line["result"]
    a_only, b_only, n = result["a_only"], result["b_only"], result["n"]
    longest = max(a_only, b_only, 1)
    seen: float = (a_only - b_only) / n if n else 0.0
    edge: float = -line["margin"] if result["limit"] is None else result["limit"]
    end = 1.25 * max(abs(seen), abs(edge), 0.005)

    def at(difference: float) -> float:
        return round(50.0 * (1.0 + difference / end), 2)

    return {
        "a": line["a"]["name"],
        "b": line["b"]["name"],
        "rows": [
            (f"only {line['a']['name']} errs", a_only, round(100.0 * a_only / longest, 1), "a"),
            (f"only {line['b']['name']} errs", b_only, round(100.0 * b_only / longest, 1), "b"),
        ],
        "alike": f"{n - a_only - b_only:,} of {n:,}",
        "left": at(edge),
        "dot": at(seen),
        "seen": f"{100 * seen:+.2f} %",
        "limit": None if result["limit"] is None else percent_down(result["limit"]),
        "margin": chosen(line["margin"]),
        "ticks": [
            (f"{100 * each:+.1f} %" if each else "0", at(each)) for each in (-0.8 * end, 0.0, 0.8 * end)
        ],
    }


def _choice_table(line: Mapping[str, Any]) -> dict[str, Any]:
    result = line["result"]
    rows = [
        {
            "threshold": f"{threshold:g}",
            "answered": answered,
            "width": round(100.0 * answered / result["n"], 1) if result["n"] else 0.0,
            "wrong": wrong,
            "share": rate(wrong / answered) if answered else "",
            "is_chosen": number == result["chosen"],
        }
        for number, (threshold, answered, wrong) in enumerate(
            zip(line["thresholds"], result["answered"], result["wrong"], strict=True)
        )
    ]
    return {
        "name": line["column"]["name"],
        "scores": line["scores"]["name"],
        "n": f"{result['n']:,}",
        "risk": chosen(line["risk"]),
        "rows": rows,
    }


def _group_rows(seal: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """One table for each statement with groups, the worst group first."""
    for line in lines:
        if not line.get("groups"):
            continue
        results = zip(seal["groups"]["names"], line["groups"], strict=True)
        if line["kind"] == "look":
            rows = sorted(results, key=lambda row: -row[1]["bound"])
            cells = [(each, percent(r["bound"]), f"{r['errors']:,} of {r['n']:,}") for each, r in rows]
            title, columns = line["column"]["name"], ("at most", "counted")
        else:
            rows = sorted(results, key=lambda row: (row[1]["limit"] or 0.0, row[1]["shown"]))
            cells = [
                (each, _gain(r), f"{r['a_only']:,} against {r['b_only']:,} of {r['n']:,}") for each, r in rows
            ]
            title, columns = f"{line['a']['name']} minus {line['b']['name']}", ("gain", "counted")
        yield {"title": title, "columns": columns, "rows": cells, "worst": cells[0][0]}


def _gain(result: Mapping[str, Any]) -> str:
    """The cell of a group in a comparison."""
    if result["limit"] is None:
        return "not worse" if result["shown"] else "not shown"
    return f"at least {percent_down(result['limit'])}"


def _seal_rows(seal: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, value and meaning of what was fixed in the seal."""
    rows = [
        ("rows", f"{seal['rows']:,}", f"of {seal['data']}"),
        ("counted", f"{seal['n']:,}", f"that the loss {' '.join(seal['loss'])} is about"),
        ("delta", f"{seal['delta']:g}", "probability that any statement is false"),
        ("planned", str(len(seal["planned"])), "statements fixed before the first outcome was seen"),
    ]
    if seal["inputs"] is not None:
        copies = "rows whose input occurs in an earlier row"
        rows.append(("copies", f"{seal['inputs']['copies']:,}", copies))
    if seal["clusters"] is not None:
        rows.append(("clusters", f"{seal['clusters']['units']:,}", f"values of {seal['clusters']['column']}"))
    return rows


def assumptions(seal: Mapping[str, Any]) -> tuple[str, ...]:
    """Assumptions that no program can check."""
    return tuple(line for line, _ in _assumed(seal))


def _assumed(seal: Mapping[str, Any]) -> list[tuple[str, str]]:
    faithful = [_FAITHFUL] if seal["label"]["is"] == "answers" else []
    return [*faithful, *_ASSUMED, *([GROUPS] if seal["groups"] else [])]


def _means(looks: Sequence[Any], pairs: Sequence[Any], choices: Sequence[Any]) -> list[str]:
    means = ["All statements here hold together: what was tried, and in which order, is paid for."]
    if len(looks) > 1:
        means.append("You may quote the best column: choosing it among these is paid for.")
    if pairs:
        means.append("Both were asked the same, so only the rows on which just one errs tell them apart.")
    if choices:
        means.append("The risk that was fixed beforehand is the claim, and not the share that was counted.")
    means.append("Anybody with the table can count again, with a program that shares no code with this one.")
    return means


def _not_means(seal: Mapping[str, Any]) -> list[str]:
    words = [
        "Nothing about data from elsewhere: another time, source or population.",
        "Nothing about a single row, nor that the answers are good enough for a purpose.",
        "Nothing about which of the two is right: no label was looked at."
        if seal["label"]["is"] == "answers"
        else "Not that the labels are right: an answer is counted against the label.",
    ]
    if seal["groups"] is None:
        words.append("Nothing about a part of the data by itself: a rare one may be wrong much more often.")
    if seal["clusters"] is not None:
        words.append("Not the error per row: clusters were drawn, and the claim is about a new one.")
    return words
