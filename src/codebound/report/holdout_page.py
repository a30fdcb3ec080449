"""Page about a ledger of hold-out statements: the answer, pictures, what it means.

It is made of the lines of a file (docs/ledger.md), and loads no torch.
"""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.bounds.held_out import holdout
from codebound.bounds.monitoring import Mixture
from codebound.bounds.risk import HoldoutFacts, count_of, percent, rate
from codebound.holdout.alarms import outcomes_of
from codebound.holdout.sentences import all_digits, describe_level, describe_result, percent_down
from codebound.report.templates import GROUPS, TICKS, chosen, place, render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_SHOWN = 12  # columns in the picture; the table has all
_EVEN = 0.5  # a limit above it says next to nothing
_BEGINNINGS = ("it is ", "no threshold ", "where ")  # of sentences that do not begin with a name
_FAITHFUL = (
    "The inputs took no part in making or choosing the compressed classifier.",
    "It was calibrated, or picked among several, on these inputs.",
)
_ASSUMED = (
    (
        "The rows, or the clusters if there are some, are independent draws from where new data come from.",
        "Another year, source or group of people. Or hard rows were dropped.",
    ),
    (
        "Every look at these rows is in this ledger.",
        "Somebody counted errors elsewhere, changed the prompt, and came back.",
    ),
    (
        (
            "Planned columns come from classifiers that were made and chosen without these rows; others were "
            "made with nothing of them but what the seal tells and the answers above."
        ),
        "A model was trained on these rows. Answers were repaired by hand after a look at the labels.",
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
    """The page about all lines of a file that the second program accepted; head is the hash of the last."""
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
    known.sort(key=lambda each: each["result"]["bound"])
    best = known[0] if known else None
    rows = [_look_row(seal, line) for line in known]
    cells = [(row["name"], row["value"], row["words"]) for row in rows]
    answers = [_answer(seal, line) for line in (*([best] if best else []), *pairs, *choices)]
    return {
        "title": ", ".join(words for words, found in kinds.items() if found) or "sealed, and not looked at",
        "subtitle": f"{seal['rows']:,} rows, sealed on {seal['date'][:10]}; "
        f"{count_of(len(lines), 'statement')} made, {left}; "
        f"failure probability {seal['delta']!r} for all of them together",
        "answers": answers,
        "how_sure": _confidence(seal["delta"]),
        "looks_title": "How often they differ" if is_faithful else "How often each errs",
        "best": rows[0]["name"] if len(rows) > 1 else "",
        "looks": rows,
        "silent": [line["column"]["name"] for line in looks if not line["result"]],
        "shown": _SHOWN,
        "unit": "clusters" if seal["clusters"] else "rows",
        "ticks": TICKS,
        "pairs": [_pair_picture(line) for line in pairs],
        "tables": [
            *(
                [_table("All columns", "", ("column", "at most", "counted"), cells)]
                if len(rows) > _SHOWN
                else []
            ),
            *map(_choice_table, choices),
            *(_group_table(seal, line) for line in (*([best] if best else []), *pairs) if line["groups"]),
        ],
        "means": _means(looks, pairs, choices),
        "not_means": _not_means(seal),
        "assumed": list_assumed(seal),
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
    result, kind = line["result"], line["kind"]
    words = f"{describe_result(seal, line, result)}."
    if words.startswith(_BEGINNINGS):
        words = words[0].upper() + words[1:]
    if kind == "look":
        return {"words": words, "is_shown": result["bound"] < _EVEN}
    return {"words": words, "is_shown": result["shown"] if kind == "better" else result["chosen"] is not None}


def _look_row(seal: Mapping[str, Any], line: Mapping[str, Any]) -> dict[str, Any]:
    """One column on the scale."""
    result, (errors, n) = line["result"], (line["result"]["errors"], line["result"]["n"])
    is_level = seal["levels"] is not None and not line["final"]
    alone = holdout(HoldoutFacts(errors=errors, n=n, delta=seal["delta"])).value if n else 1.0
    words = f"{'at most ' if is_level else ''}{errors:,} of {n:,}"
    if alone < result["bound"]:
        words += f"; as the only look it would be {percent(alone)}"
    return {
        "name": line["column"]["name"],
        "value": percent(result["bound"]),
        "at": place(result["bound"]),
        "dot": None if is_level or not n else place(errors / n),
        "words": words,
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


def _table(title: str, caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Values of a table; the first column names the rows."""
    return {"title": title, "caption": caption, "columns": columns, "rows": rows}


def _choice_table(line: Mapping[str, Any]) -> dict[str, Any]:
    result = line["result"]
    rows: list[tuple[str, ...]] = []
    for threshold, answered, wrong in zip(
        line["thresholds"], result["answered"], result["wrong"], strict=True
    ):
        mark = " (chosen)" if len(rows) == result["chosen"] else ""
        share = rate(wrong / answered) if answered else ""
        rows.append((f"{threshold:g}{mark}", f"{answered:,}", f"{wrong:,}", share))
    caption = (
        f"Of {result['n']:,} those with {line['scores']['name']} of at least the threshold are answered."
    )
    columns = ("threshold", "answered", "wrong", "of these")
    return _table(f"{line['column']['name']}: answer or abstain", caption, columns, rows)


def _group_table(seal: Mapping[str, Any], line: Mapping[str, Any]) -> dict[str, Any]:
    """The groups of a statement, the worst first."""
    column, results = seal["groups"]["column"], zip(seal["groups"]["names"], line["groups"], strict=True)
    if line["kind"] == "look":
        rows = sorted(results, key=lambda row: -row[1]["bound"])
        cells = [(each, percent(r["bound"]), f"{r['errors']:,} of {r['n']:,}") for each, r in rows]
        title, head = line["column"]["name"], "at most"
    else:
        rows = sorted(results, key=lambda row: (row[1]["limit"] or 0.0, row[1]["shown"]))
        cells = [
            (each, _gain(r), f"{r['a_only']:,} against {r['b_only']:,} of {r['n']:,}") for each, r in rows
        ]
        title, head = f"{line['a']['name']} minus {line['b']['name']}", "gain"
    caption = f"All hold at once, with all other statements. The worst group is {cells[0][0]}."
    return _table(f"Each {column}: {title}", caption, (column, head, "counted"), cells)


def _gain(result: Mapping[str, Any]) -> str:
    """The cell of a group in a comparison."""
    if result["limit"] is None:
        return "not worse" if result["shown"] else "not shown"
    if result["shown"] and not result["limit"]:
        return "better"
    return f"at least {percent_down(result['limit'])}"


def _seal_rows(seal: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, value and meaning of what was fixed in the seal."""
    rows = [
        ("rows", f"{seal['rows']:,}", f"of {seal['data']}"),
        ("counted", f"{seal['n']:,}", f"that the loss {' '.join(seal['loss'])} is about"),
        ("delta", f"{seal['delta']!r}", "probability that any statement is false"),
        ("planned", str(len(seal["planned"])), "statements fixed before the first outcome was seen"),
    ]
    if seal["inputs"] is not None:
        rows.append(("copies", f"{seal['inputs']['copies']:,}", "rows whose input occurs in an earlier row"))
    if seal["clusters"] is not None:
        rows.append(("clusters", f"{seal['clusters']['units']:,}", f"values of {seal['clusters']['column']}"))
    return rows


def list_assumed(seal: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Assumptions that no program can check, and how they could fail."""
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


_POINTS = 200  # of a curve
_STREAM = (
    (
        "Bound, level and loss were fixed before an outcome was seen; no other watch was thrown away.",
        "A watch that had raised an alarm was started anew.",
    ),
    (
        "The labels are all that there are, or were chosen without regard to the outcome.",
        "Only complaints were labelled, or only answers that looked doubtful.",
    ),
    (
        (
            "As long as the error is at most the bound, each outcome is a loss with at most that "
            "probability, whatever came before."
        ),
        "One cause makes a hundred errors at once: an outage, a user who asks the same again and again.",
    ),
)


def watch_values(first: Mapping[str, Any], batches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Values of the page about a stream of labels."""
    bound, alpha = first["bound"], first["alpha"]
    alarm = batches[-1]["alarm"] if batches else None
    mixture = Mixture(bound=bound, alpha=alpha / 2 if first["groups"] else alpha)
    picture = _picture(mixture, batches, alarm) if batches else None
    labels, errors = mixture.labels, mixture.errors
    names = first["groups"]["names"] if first["groups"] else ()
    limit = percent(mixture.upper_limit()) if labels else "none"
    said, raised = all_digits(bound), "none" if alarm is None else f"label {alarm:,}"
    if not labels:
        words = "No label has been seen yet."
    elif alarm is None:
        words = f"No alarm in {labels:,} labels: nothing shows that the error ever exceeded {said}."
    else:
        words = f"Alarm at {raised}: the error exceeded {said} at some time up to then."
    return {
        "title": "watch",
        "subtitle": f"{count_of(labels, 'label', form=',')} from {first['date'][:10]} to "
        f"{(batches[-1] if batches else first)['date'][:10]}; bound {said}, alpha {alpha!r}",
        "answers": [
            {"words": words, "is_shown": alarm is None},
            *(
                {"words": f"Alarm for {name} at its label {each['alarm']:,}.", "is_shown": False}
                for name, each in zip(names, batches[-1]["groups"] if names and batches else (), strict=False)
                if each["alarm"] is not None
            ),
        ],
        "how_sure": describe_level(first),
        "picture": picture,
        "numbers": [
            ("labels", f"{labels:,}", "in the order of the stream"),
            ("errors", f"{errors:,}", rate(errors / labels) if labels else ""),
            ("alarm", raised, f"valid at every look, level {alpha!r}"),
            ("upper limit", limit, f"if the error never changes; by itself, at level {mixture.alpha!r}"),
        ],
        "tables": [_alarm_table(first, batches)] if first["groups"] and batches else [],
        "means": [
            "You may look after every label, and stop or go on as you like: the level is for all looks.",
            f"An alarm says that the error exceeded {said} at some time: look at what changed.",
            f"The upper limit, {limit}, is for an error that is the same all the time.",
        ],
        "not_means": [
            "No alarm is no proof: a small or short rise goes unnoticed for a while.",
            "An alarm does not say when it began, why, nor that it still lasts.",
            "Nothing about the answers whose labels were not seen.",
        ],
        "assumed": [*_STREAM, *([GROUPS] if first["groups"] else [])],
    }


def _picture(mixture: Mixture, batches: Sequence[Mapping[str, Any]], alarm: int | None) -> dict[str, Any]:
    """Error and upper limit along a stream, which fills the mixture."""
    outcomes = np.concatenate([outcomes_of(each) for each in batches])
    end, so_far = len(outcomes), np.concatenate([[0], np.cumsum(outcomes)])
    step, window = -(-end // _POINTS), max(100, end // 20)
    recent, limits = [], []
    for start in range(0, end, step):
        mixture.update(outcomes[start : start + step])
        seen = mixture.labels
        first = max(0, seen - window)
        limits.append((seen, mixture.upper_limit()))
        if seen >= min(100, end):
            recent.append((seen, float(so_far[seen] - so_far[first]) / (seen - first)))
    bound = mixture.bound
    top = min(1.0, 1.15 * max(1.6 * bound, 1.2 * limits[-1][1], *(value for _, value in recent)))

    def line(values: Sequence[tuple[int, float]]) -> str:
        return " ".join(
            f"{100.0 * seen / end:.2f},{100.0 - 100.0 * value / top:.2f}" for seen, value in values
        )

    return {
        "title": "Error along the stream",
        "lines": [("limit", line(limits)), ("recent", line(recent))],
        "level": round(100.0 - 100.0 * bound / top, 2),
        "up": [(f"{100 * each:g} %", round(100.0 * each / top, 2)) for each in _marks(top)],
        "across": [(f"{each:,.0f}", round(100.0 * each / end, 2)) for each in _marks(end)],
        "alarm": None if alarm is None else round(100.0 * alarm / end, 2),
        "legend": [
            ("limit", "upper limit, if the error is the same all the time"),
            ("recent", f"error of the last {window:,} labels"),
            ("level", f"bound, {all_digits(bound)}"),
        ],
    }


def _marks(end: float) -> list[float]:
    """Round numbers from 0 to an end, at most six.

    Example:
        >>> _marks(4500)
        [0.0, 1000.0, 2000.0, 3000.0, 4000.0]
    """
    power = 10.0 ** math.floor(math.log10(end))
    step = next(each * power for each in (0.2, 0.5, 1.0, 2.0) if end / (each * power) < 6)
    return [round(each * step, 12) for each in range(int(end / step + 1e-9) + 1)]


def _alarm_table(first: Mapping[str, Any], batches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One row for each group, those with an alarm first."""
    rows = []
    for number, name in enumerate(first["groups"]["names"]):
        parts = [each["groups"][number] for each in batches]
        labels, errors = (sum(each["labels"] for each in parts), sum(len(each["errors"]) for each in parts))
        alarm = parts[-1]["alarm"]
        said = "none" if alarm is None else f"label {alarm:,} of the group"
        rows.append((alarm is None, name, said, f"{errors:,} of {labels:,}"))
    rows.sort(key=lambda row: row[:2])
    column, alpha = first["groups"]["column"], first["alpha"]
    caption = f"A false alarm, of any group or of all together, has a chance of at most {alpha!r}."
    return _table(f"Each {column}: alarms", caption, (column, "alarm", "errors"), [row[1:] for row in rows])
