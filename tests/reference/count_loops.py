"""Counts of limits by loops over rows (docs/format.md, 6.1 to 6.3).

Rows have ``inputs``, labels ``y``, scores (``values``) of the columns ``classes``, the ``room`` of each
difference, and ``theta``; those in ``known`` and ``counted`` are places.
"""

from typing import Any

from loss_loops import difference_of


def flags_of(rows: Any, question: Any) -> tuple[list[bool], list[bool], list[bool]]:
    """For each row: is the limit about it, and is it right; and the same of silence (6.1, 7.8)."""
    about, right, silent = [], [], []
    for z, label, room in zip(rows.values.tolist(), rows.y.tolist(), rows.room.tolist(), strict=True):
        named = question.numbers[0] if question.kind in ("class", "confused", "false-alarm") else None
        own = named is None or (label == named) != (question.kind == "false-alarm")
        fine = label in rows.classes and difference_of(question, z, label, rows.classes) - rows.theta > room
        lead = None
        if question.threshold is not None:
            top = sorted(z)
            lead = top[-1] - top[-2] - question.threshold
        if question.predicted is not None:
            column = rows.classes.index(question.predicted)
            lead = z[column] - max(z[:column] + z[column + 1 :])
        if lead is not None:
            own, fine = own and lead > -room, fine and lead > room
        about.append(own)
        right.append(fine)
        silent.append(lead is not None and lead > room)
    return about, right, silent


def limits_of(rows: Any, question: Any, copies: str, picked: Any = None) -> list[tuple[Any, ...]]:
    """What each limit is about, its errors, its rows, and the picks among them."""
    about, right, silent = flags_of(rows, question)
    labels, groups = rows.y.tolist(), rows.groups.tolist()
    parts = {question.loss: about}
    if question.on == "each class":
        parts = {
            f"class {c}": [a and y == c for a, y in zip(about, labels, strict=True)] for c in rows.classes
        }
    if question.on == "each group":
        names = sorted(set(groups))
        parts = {f"group {g}": [a and own == g for a, own in zip(about, groups, strict=True)] for g in names}
    if question.threshold is not None:
        parts = {"answered": about, "silent": [True] * len(labels)}
    found, places = [], [] if picked is None else picked.tolist()
    for of, mask in parts.items():
        errors, good = count(rows, mask, silent if of == "silent" else right, copies, places)
        own = None if picked is None else sum(bool(mask[i]) for i in places)
        found.append((of, errors, errors + good + (own or 0), own))
    return found


def count(rows: Any, about: list[bool], right: list[bool], copies: str, picked: list[int]) -> tuple[int, int]:
    """Errors and right rows by 6.3, in sets."""
    counted = [i for i in rows.counted.tolist() if about[i] and i not in picked]
    seen = {int(rows.inputs[i]) for i in (*rows.known.tolist(), *picked)}
    wrong = [i for i in counted if not right[i]]
    good = [i for i in counted if right[i]]
    if copies == "independent":
        return len(wrong), len(good)
    good = [i for i in good if rows.inputs[i] not in seen]
    if copies == "any":
        return len(wrong), len({int(rows.inputs[i]) for i in good})
    labels = {(int(i), int(label)) for i, label in zip(rows.inputs, rows.y, strict=True)}
    good = [i for i in good if sum(each == rows.inputs[i] for each, _ in labels) == 1]
    records = {(int(rows.inputs[i]), int(rows.y[i])) for i in wrong}
    return len(records), len({(int(rows.inputs[i]), int(rows.y[i])) for i in good} - records)
