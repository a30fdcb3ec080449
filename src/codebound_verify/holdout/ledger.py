"""The ledger of looks at a test set (docs/looks.md): chain, prices and bounds, from its lines alone."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import mpmath
import numpy as np
from mpmath import mpf

from ..formulas import DIGITS, binomial, is_honest
from ..losses import DISTANCE, Question, is_about
from ..refusal import Refused
from ..sample import Inputs, as_labels, as_stored, hash_arrays

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BYTES = 1 << 24  # of a line
HASH = re.compile(r"[0-9a-f]{64}")
MOST_LINES = 1 << 16
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
WHOLE = "(0|[1-9][0-9]{0,5})"
LOSS = re.compile(rf"wrong|(?:class|false-alarm|top):{WHOLE}|confused:{WHOLE}:(?!\2$){WHOLE}")
COSTS = re.compile(r"cost-above:(0|[1-9][0-9]?):(distance|[0-9a-f]{2,342})")  # 19 classes at most
RESIDUAL = re.compile(r"residual:(?:0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?(e-?[0-9]{1,2})?")


@dataclass(frozen=True)
class LedgerVerdict:
    """Decision about a ledger: ``head`` is the hash of its last line, ``best`` its smallest bound."""

    verdict: Literal["ACCEPT", "REFUSE"]
    reasons: tuple[str, ...]
    checked: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    head: str | None = None
    looks: int | None = None
    is_final: bool | None = None
    delta: float | None = None
    loss: str | None = None
    classes: int | None = None
    n: int | None = None
    best: float | None = None
    best_model: str | None = None
    target: float | None = None
    is_met: bool | None = None
    by_class: tuple[dict[str, Any], ...] = ()  # of the last look that tells it
    by_class_model: str | None = None

    @property
    def bound(self) -> float | None:
        """The smallest bound of all looks."""
        return self.best

    @property
    def is_accepted(self) -> bool:
        """Return True if the ledger can be believed."""
        return self.verdict == "ACCEPT"


def verify_ledger(
    content: bytes,
    *,
    data: tuple[Inputs, Inputs] | None = None,
    is_cells: bool = False,
    head: str | None = None,
) -> LedgerVerdict:
    """Check a ledger of looks.

    Args:
        content: The bytes of the file.
        data: Inputs and labels of the sealed examples; without them the hash is taken on trust.
        is_cells: Whether the inputs are cells of a table.
        head: What the hash of the last line should be, if it was written down elsewhere.
    """
    checked = ["every line follows the one before it", "every answer is paid for, and every bound follows"]
    try:
        lines, hashes = _read_chain(content)
        seal = _check_seal(lines[0])
        _check_looks(seal, lines[1:])
        if data is not None:
            _check_data(seal, *data, is_cells=is_cells)
            checked.append("the data are the examples that were sealed")
        if head is not None:
            if head != hashes[-1]:
                at = f"that is line {hashes.index(head) + 1}" if head in hashes else "no line has that hash"
                raise Refused(
                    f"Ledger: the last line has SHA-256 {hashes[-1]}; {head} was expected, and {at}. "
                    "Lines were removed, added or replaced."
                )
            checked.append("the last line is the one that was expected")
    except Refused as refused:
        return LedgerVerdict("REFUSE", refused.reasons)
    known = [line for line in lines[1:] if line["bound"] is not None]
    best = min(known, key=lambda line: line["bound"], default=None)
    bound = None if best is None else best["bound"]
    told = next((line for line in reversed(lines[1:]) if line.get("by_class")), None)
    return LedgerVerdict(
        "ACCEPT",
        (),
        tuple(checked),
        _assumptions(seal, has_data=data is not None, has_head=head is not None),
        head=hashes[-1],
        looks=len(lines) - 1,
        is_final=bool(lines[1:] and lines[-1]["final"]),
        delta=seal["delta"],
        loss=seal["fault"],
        classes=seal["data"]["classes"],
        n=seal["n"],
        best=bound,
        best_model=None if best is None else best["model"]["name"],
        target=seal["target"],
        is_met=None if seal["target"] is None or bound is None else bound <= seal["target"],
        by_class=() if told is None else _class_rows(seal["by_class"], told["by_class"]),
        by_class_model=None if told is None else told["model"]["name"],
    )


def _class_rows(sizes: list[int], table: list[list[Any]]) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"label": label, "errors": errors, "n": size, "bound": bound}
        for label, ((errors, bound), size) in enumerate(zip(table, sizes, strict=True))
    )


def _read_chain(content: bytes) -> tuple[list[dict[str, Any]], list[str]]:
    """The objects of all lines, and the hash of every line."""
    if not content.endswith(b"\n"):
        raise Refused("Ledger: it does not end with a line feed, so its last line is not whole.")
    if content.count(b"\n") > MOST_LINES:
        raise Refused(f"Ledger: it has more than {MOST_LINES} lines.")
    lines, hashes = [], ["0" * 64]
    for number, line in enumerate(content[:-1].split(b"\n"), start=1):
        parsed = _parse(line, number)
        if parsed.get("previous") != hashes[-1]:
            raise Refused(
                f"Ledger: line {number} does not follow the one before it: `previous` is "
                f"{parsed.get('previous')!r}, the hash is {hashes[-1]}. A line was changed, removed or moved."
            )
        lines.append(parsed)
        hashes.append(hashlib.sha256(line).hexdigest())
    return lines, hashes[1:]


def _parse(line: bytes, number: int) -> dict[str, Any]:
    if len(line) > MOST_BYTES:
        raise Refused(f"Ledger: line {number} has more than {MOST_BYTES} bytes.")
    try:
        parsed = json.loads(line)
        written = json.dumps(parsed, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (ValueError, RecursionError) as error:
        raise Refused(f"Ledger: line {number} is no JSON ({error}).") from None
    if written != line or not isinstance(parsed, dict):
        raise Refused(f"Ledger: line {number} is no object in canonical form.")
    return parsed


def _is_whole(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _is_share(value: object) -> bool:
    return type(value) is float and 0.0 < value < 1.0


def _is_limit(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1  # type: ignore[operator]


def _is_text(value: object) -> bool:
    return type(value) is str and len(value) <= 400


def _is_hash(value: object) -> bool:
    return type(value) is str and HASH.fullmatch(value) is not None


def _is_date(value: object) -> bool:
    with suppress(ValueError):
        return DATE.fullmatch(str(value)) is not None and bool(
            datetime.strptime(str(value), "%Y-%m-%dT%H:%M:%SZ")
        )
    return False


def _has(record: object, rules: dict[str, Callable[[Any], bool]], where: str) -> None:
    """Refuse a record without exactly the keys of the rules, each with a value that its rule takes."""
    if not isinstance(record, dict) or record.keys() != rules.keys():
        raise Refused(f"Ledger: {where} must be an object with the keys {', '.join(sorted(rules))}.")
    if wrong := sorted(key for key, takes in rules.items() if not takes(record[key])):
        raise Refused(f"Ledger: {where} has values out of range: {', '.join(wrong)}.")


def _check_seal(seal: dict[str, Any]) -> dict[str, Any]:
    version = seal.get("version")
    rules: dict[str, Callable[[Any], bool]] = {
        "kind": lambda v: v == "seal",
        "version": lambda v: type(v) is int and v in (1, 2),
        "previous": _is_hash,
        "date": _is_date,
        "data": lambda v: type(v) is dict,
        "fault": lambda v: type(v) is str,
        "n": lambda v: _is_whole(v, 1, 1 << 32),
        "delta": _is_share,
        "looks": lambda v: v is None or _is_whole(v, 1, 1 << 32),
        "models": lambda v: type(v) is list and all(map(_is_hash, v)) and len(set(v)) == len(v),
        "levels": lambda v: v is None or (type(v) is list and len(v) > 0),
        "target": lambda v: v is None or _is_share(v),
    }
    if version == 2:
        rules["by_class"] = lambda v: v is None or type(v) is list
    _has(seal, rules, "the seal (line 1)")
    is_residual = version == 2 and RESIDUAL.fullmatch(seal["fault"]) is not None
    _has(
        seal["data"],
        {
            "name": _is_text,
            "sha256": _is_hash,
            "examples": lambda v: _is_whole(v, seal["n"], 1 << 32),
            "classes": lambda v: v is None if is_residual else _is_whole(v, 2, 1 << 16),
        },
        "`data` of the seal",
    )
    if is_residual:
        if float(seal["fault"].split(":")[1]) <= 0 or seal["by_class"] is not None:
            raise Refused(f"Ledger: the loss {seal['fault']} needs a positive number, and has no classes.")
    else:
        _check_loss(seal)
    if len(seal["models"]) > (seal["looks"] or 0):
        raise Refused("Ledger: the seal lists more networks than it plans looks.")
    levels = [seal["n"], *(seal["levels"] or [])]
    if not all(_is_whole(low, 0, high - 1) for high, low in pairwise(levels)):
        raise Refused("Ledger: the levels must be whole numbers that fall, from n - 1 to 0.")
    return seal


def _check_loss(seal: dict[str, Any]) -> None:
    """Check that the loss fits the classes and that the table has their sizes."""
    classes, text = seal["data"]["classes"], seal["fault"]
    is_old, costs = LOSS.fullmatch(text) is not None, COSTS.fullmatch(text)
    named = [int(each) for each in text.split(":")[1:]] if is_old else []
    spelled = costs[2] if costs else "0"
    is_fitting, largest = len(spelled) == classes * (classes - 1), int(max(spelled), 36)
    if spelled == DISTANCE:
        is_fitting, largest = True, classes - 1
    is_fitting = costs is not None and is_fitting and int(costs[1]) < largest
    if not (is_old or (seal["version"] == 2 and is_fitting)) or any(
        not text.startswith("top:") <= number < classes for number in named
    ):
        raise Refused(f"Ledger: the loss {text:.80} does not fit {classes} classes.")
    sizes = seal.get("by_class")
    if sizes is None:
        return
    examples = seal["data"]["examples"]
    if len(sizes) != classes or not all(_is_whole(each, 0, examples) for each in sizes):
        raise Refused("Ledger: `by_class` of the seal must have a number of examples for each class.")
    if sum(sizes) != examples:
        raise Refused(f"Ledger: `by_class` of the seal adds up to {sum(sizes)}; {examples} were sealed.")


def _possible_answers(seal: dict[str, Any]) -> int:
    """Number of different exact answers."""
    count, sizes = int(seal["n"]) + 1, seal.get("by_class")
    if sizes is not None:
        count = 1 if seal["fault"] == "wrong" else count
        for size in sizes:
            count *= size + 1
    return count


def _check_looks(seal: dict[str, Any], looks: list[dict[str, Any]]) -> None:
    seen: set[str] = set()
    date, unlisted, answers = seal["date"], 0, _Answers(_possible_answers(seal), seal["levels"])
    for number, look in enumerate(looks, start=2):
        where = f"line {number}"
        rules: dict[str, Callable[[Any], bool]] = {
            "kind": lambda v: v == "look",
            "previous": _is_hash,
            "date": _is_date,
            "model": lambda v: type(v) is dict,
            "listed": lambda v: type(v) is bool,
            "final": lambda v: type(v) is bool,
            "answer": lambda v: v is None or _is_whole(v, 0, seal["n"]),
            "answer_bits": lambda v: type(v) in (int, float) and v >= 0,
            "bound": lambda v: v is None or _is_limit(v),
            "meets": lambda v: v is None or type(v) is bool,
        }
        if seal["version"] == 2:
            rules["tally"] = lambda v: v is None
            rules["by_class"] = lambda v: v is None or type(v) is list
        _has(look, rules, where)
        _has(look["model"], {"name": _is_text, "sha256": _is_hash}, f"`model` of {where}")
        model = look["model"]["sha256"]
        if look["date"] < date:
            raise Refused(f"Ledger: {where} is dated before the line above it.")
        if model in seen and not look["final"]:
            raise Refused(f"Ledger: {where} tries a network that was tried before.")
        if look["listed"] != (model in seal["models"]):
            raise Refused(f"Ledger: {where} says listed = {look['listed']}, and the seal does not.")
        if number < len(looks) + 1 and look["final"]:
            raise Refused(f"Ledger: lines follow {where}, which is the final look.")
        unlisted += not look["listed"]
        if seal["looks"] is not None and unlisted > seal["looks"] - len(seal["models"]):
            raise Refused(f"Ledger: {where} is a look more than were planned.")
        _check_price(seal, look, answers.bits, unlisted, where)
        if not look["final"]:
            answers.add(look["answer"], where)
        date = look["date"]
        seen.add(model)


class _Answers:
    """The answers so far, and their length."""

    def __init__(self, possible: int, levels: list[int] | None) -> None:
        self.possible, self.left = possible, levels
        self.told = self.better = 0
        self.bits = mpf(0)

    def add(self, answer: int | None, where: str) -> None:
        with mpmath.workdps(DIGITS):
            if self.left is None:
                if answer is None:
                    raise Refused(f"Ledger: {where} has no answer, and the seal promises exact ones.")
                self.bits += mpmath.log(self.possible, 2)
                return
            improved = mpf(2 * self.better + 1) / (2 * self.told + 2)
            self.told += 1
            if answer is None:
                self.bits -= mpmath.log(1 - improved, 2)
                return
            if answer not in self.left:
                raise Refused(f"Ledger: {where} answers {answer}, which is no level below the best.")
            self.bits -= mpmath.log(improved / len(self.left), 2)
            self.better += 1
            self.left = self.left[self.left.index(answer) + 1 :]


def _check_price(seal: dict[str, Any], look: dict[str, Any], bits: mpf, unlisted: int, where: str) -> None:
    """Bits, bound and whether the target is met."""
    bits = mpf(0) if look["listed"] else bits
    if not is_honest(look["answer_bits"], bits):
        raise Refused(
            f"Ledger: {where} charges {look['answer_bits']} bits of answers; "
            f"they take {mpmath.nstr(bits, 17)}."
        )
    if look["answer"] is None:
        told = look["bound"], look["meets"], look.get("by_class")
        if look["final"] or any(each is not None for each in told):
            raise Refused(f"Ledger: {where} has no answer, so it has no bound either, and is not the last.")
        return
    parts = unlisted * (unlisted + 1) if seal["looks"] is None else seal["looks"]
    with mpmath.workdps(DIGITS):
        level = mpf(seal["delta"]) / parts * mpmath.power(2, -bits)
        if seal.get("by_class") is not None:
            level /= 2
    _check_classes(seal, look, level, where)
    exact = binomial(errors=look["answer"], n=seal["n"], bits=0, delta=level)
    if look["bound"] is None or not is_honest(look["bound"], exact):
        raise Refused(f"Ledger: {where} prints the bound {look['bound']}; it is {mpmath.nstr(exact, 17)}.")
    if look["meets"] != (None if seal["target"] is None else look["bound"] <= seal["target"]):
        raise Refused(f"Ledger: {where} says meets = {look['meets']} for the target {seal['target']}.")


def _check_classes(seal: dict[str, Any], look: dict[str, Any], level: mpf, where: str) -> None:
    """The table of all classes, which shares one level."""
    sizes, table = seal.get("by_class"), look.get("by_class")
    if (table is not None) != (sizes is not None and (look["final"] or seal["levels"] is None)):
        raise Refused(f"Ledger: {where} has a table of classes exactly where the seal promises one.")
    if table is None or sizes is None:
        return
    if len(table) != len(sizes):
        raise Refused(f"Ledger: {where} has a table of {len(table)} classes; there are {len(sizes)}.")
    with mpmath.workdps(DIGITS):
        share = level / len(sizes)
    for label, (row, size) in enumerate(zip(table, sizes, strict=True)):
        if type(row) is not list or len(row) != 2 or not _is_whole(row[0], 0, size):
            raise Refused(f"Ledger: {where} has no errors and no bound for class {label}.")
        exact = binomial(errors=row[0], n=size, bits=0, delta=share) if size else None
        is_fine = row[1] is None if exact is None else _is_limit(row[1]) and is_honest(row[1], exact)
        if not is_fine:
            raise Refused(f"Ledger: {where} prints the bound {row[1]} for class {label}; it is {exact}.")
    if seal["fault"] == "wrong" and sum(row[0] for row in table) != look["answer"]:
        raise Refused(f"Ledger: the errors of all classes in {where} do not add up to its answer.")


def canonical_values(y: Inputs, n: int) -> Inputs:
    """Values as float64, one for each of n inputs."""
    if y.shape != (n,) or y.dtype.kind not in "iuf" or y.dtype.itemsize > 8:
        raise Refused(f"Data: the values must be {n} numbers; found {y.dtype} of shape {y.shape}.")
    return y.astype(np.float64)


def _check_data(seal: dict[str, Any], x: Inputs, y: Inputs, *, is_cells: bool) -> None:
    x = as_stored(x, is_cells=is_cells)
    told = seal["data"]
    is_valued = told["classes"] is None
    labels = canonical_values(y, len(x)) if is_valued else as_labels(y, len(x))
    if (found := hash_arrays(x, labels, is_cells=is_cells)) != told["sha256"] or len(x) != told["examples"]:
        raise Refused(
            f"Data: {len(x)} examples of SHA-256 {found}; sealed were {told['examples']} of {told['sha256']}."
        )
    if is_valued:
        if len(x) != seal["n"]:
            raise Refused(f"Data: there are {len(x)} examples; the seal says {seal['n']}.")
        return
    if labels.min() < 0 or labels.max() >= told["classes"]:
        raise Refused(f"Data: labels go from {labels.min()} to {labels.max()} in {told['classes']} classes.")
    if (sizes := seal.get("by_class")) is not None:
        own = np.bincount(labels, minlength=told["classes"]).tolist()
        if own != sizes:
            raise Refused(f"Data: the classes have {own} examples; the seal says {sizes}.")
    if (count := int(is_about(Question(seal["fault"]), labels).sum())) != seal["n"]:
        raise Refused(f"Data: the loss {seal['fault']} is about {count} examples; the seal says {seal['n']}.")


def _assumptions(seal: dict[str, Any], *, has_data: bool, has_head: bool) -> tuple[str, ...]:
    lines = [
        "Independent draws from the distribution that the claim is about: the sealed examples.",
        "Every look at them is in this ledger; listed networks were fixed before the first one.",
        "Whoever chose a network knew nothing of the examples but the answers before it.",
        "The answers are right: this program has none of the networks and counts nothing.",
    ]
    if not has_data:
        lines.append(f"The examples are those of SHA-256 {seal['data']['sha256']} (give --data to check it).")
    if not has_head:
        lines.append("No lines were cut off at the end (give --head, written down elsewhere, to check it).")
    return tuple(lines)
