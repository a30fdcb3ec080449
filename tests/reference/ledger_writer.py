"""A third program: writes ledgers and watches from docs/ledger.md alone, in loops that take their time.

It imports neither program. Numbers of statements come from sums over all possible counts, by bisection; so a
table should have at most a few hundred rows. ``forged`` chains changed lines again.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from mpmath import mp

mpmath = mp.clone()  # a precision of its own: other tests have theirs
mpmath.dps, mpf = 50, mpmath.mpf
FACTORS = ["1.20", "1.30", "1.41", "1.53", "1.65", "1.79", "1.94", "2.10", "2.28", "2.47"]
FACTORS += ["2.68", "2.90", "3.14", "3.41", "3.69", "4.00"]
FIRST = "0" * 64


def line_of(record: dict) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()


def forged(records: list[dict]) -> bytes:
    """Lines in a chain that is right, whatever the lines say."""
    content, previous = b"", FIRST
    for record in records:
        line = line_of({**record, "previous": previous})
        previous = hashlib.sha256(line).hexdigest()
        content += line + b"\n"
    return content


def clean(cell: str) -> str:
    cell = cell.strip(" \t\r\n")
    if re.fullmatch(r"[+-]?[0-9]{1,15}(\.0*)?", cell):
        digits = cell.split(".")[0].lstrip("+-").lstrip("0") or "0"
        return "-" + digits if cell[0] == "-" and digits != "0" else digits
    return "" if cell.lower() == "nan" else cell


def number(cell: str) -> float | None:
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", cell):
        value = float(cell)
        return value if math.isfinite(value) else None
    return None


def hash_of(cells: list[str]) -> str:
    text = b"".join(str(len(clean(c).encode())).encode() + b":" + clean(c).encode() for c in cells)
    return hashlib.sha256(text).hexdigest()


# limits


@cache
def mass(n: int, k: int, q: Any) -> Any:
    return math.comb(n, k) * mpf(q) ** k * (1 - mpf(q)) ** (n - k)


def at_most(n: int, k: int, q: Any) -> Any:
    return mpmath.fsum(mass(n, i, q) for i in range(min(k, n) + 1)) if k >= 0 else mpf(0)


def at_least(n: int, k: int, q: Any) -> Any:
    return mpmath.fsum(mass(n, i, q) for i in range(max(k, 0), n + 1))


def largest(is_so: Callable[[Any], bool], low: Any, high: Any) -> Any:
    """The largest number at which something holds, which holds up to there."""
    low, high = mpf(low), mpf(high)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if is_so(middle) else (low, middle)
    return low


@cache
def upper(k: int, n: int, level: Any) -> Any:
    return mpf(1) if k >= n else largest(lambda q: at_most(n, k, q) >= level, 0, 1)


def chance(x: int, y: int, n: int, t: Any, level: Any) -> Any:
    """P(t) of section 7."""
    e, both = level / 20, x + y
    v = upper(y, n, e)
    if t * (n - 1) > x - y - 1:
        few = mpf(1)
    elif v < -t:
        few = e
    else:
        root = (1 - t) ** 2 - 4 * v
        b = (1 - t) / 2 if root < 0 else (1 - t - mpmath.sqrt(root)) / 2
        few = e + mpmath.fsum(mass(n, j, b) * at_least(n, x - y + j, b + t) for j in range(n + 1))
    s = upper(both, n, e)
    if s <= mpf(1) / 2:
        return few
    if t > 0:
        s = max(mpf(1) / 2, 1 - upper(n - both, n, e))
    q = min(mpf(1), mpf(1) / 2 + t / (2 * s))
    return max(few, 2 * e + (at_least(both, x, q) if q >= 0 else 0))


def gain(x: int, y: int, n: int, level: Any) -> tuple[bool, Any]:
    """Whether B is shown to be better, and the limit."""
    if at_least(x + y, x, mpf(1) / 2) <= level:
        if chance(x, y, n, mpf(0), level) > level:
            return True, mpf(0)
        return True, largest(lambda t: chance(x, y, n, t, level) <= level, 0, 1)
    worst = upper(y, x + y, level * 19 / 20) if x + y else mpf(1)
    return False, -upper(x + y, n, level / 20) * max(mpf(1) / 20, 2 * worst - 1)


def up(value: Any) -> float:
    return min(1.0, float(value * (1 + mpf("2e-8"))))


def down(value: Any) -> float:
    return float(value - mpf("2e-8")) + 0.0


# data and losses


@dataclass
class Ledger:
    """A ledger with the table that it seals; ``at`` is the time of the next line."""

    table: dict[str, list[str]]
    settings: dict[str, Any]
    label: str = "label"
    groups: str | None = None
    clusters: str | None = None
    claim: str = "row"
    inputs: str | None = None
    planned: tuple[dict, ...] = ()
    records: list[dict] = field(default_factory=list)
    bits: Any = 0

    def __post_init__(self) -> None:
        seal = {"kind": "seal", "version": 1, "date": "2026-01-01T00:00:00Z", "data": "made up"}
        seal |= {"delta": 0.05, "looks": 3, "levels": None, "loss": ["wrong"]}
        seal |= {"rows": len(self.cells(self.label)), "planned": list(self.planned), **self.settings}
        seal["label"] = {"column": self.label, "is": "label", "sha256": hash_of(self.table[self.label])}
        seal |= {"groups": None, "clusters": None, "inputs": None}
        self.loss = seal["loss"]
        self.stand = self.stands()
        if self.clusters:
            units = len(set(self.cells(self.clusters)))
            seal["clusters"] = {"claim": self.claim, "units": units, **self.column(self.clusters)}
        seal["n"] = len(self.units(self.about()))
        if self.groups:
            names = sorted(set(self.cells(self.groups)))
            sizes = [len(self.units(self.of_group(name) & self.about())) for name in names]
            seal["groups"] = {"names": names, "sizes": sizes, **self.column(self.groups)}
        if self.inputs:
            cells = self.cells(self.inputs)
            copies = sum(cell in cells[:i] for i, cell in enumerate(cells))
            seal["inputs"] = {"copies": copies, **self.column(self.inputs)}
        self.records.append(seal)
        told = [seal["inputs"]["copies"]] if self.inputs else []
        told += [seal["rows"]] if self.clusters else []
        self.bits = mpmath.fsum(mpmath.log((c + 1) * (c + 2), 2) for c in told)
        self.bits += len(seal["groups"]["sizes"]) * mpmath.log(seal["n"] + 1, 2) if self.groups else 0

    @property
    def seal(self) -> dict:
        return self.records[0]

    @property
    def content(self) -> bytes:
        return forged(self.records)

    def cells(self, name: str) -> list[str]:
        return [clean(cell) for cell in self.table[name]]

    def column(self, name: str) -> dict:
        return {"column": name, "sha256": hash_of(self.table[name])}

    def answers(self, name: str) -> dict:
        return {"name": name, "sha256": hash_of(self.table[name])}

    def stands(self) -> set[int]:
        rows = range(len(self.cells(self.label)))
        if not self.clusters or self.claim == "any":
            return set(rows)
        salt, cells = hash_of(self.table[self.clusters]), self.cells(self.clusters)
        drawn = {i: hashlib.sha256(f"{salt}:{i}".encode("ascii")).hexdigest() for i in rows}
        return {min((i for i in rows if cells[i] == name), key=drawn.get) for name in set(cells)}

    def units(self, rows: set[int]) -> set:
        rows = rows & self.stand
        return {self.cells(self.clusters)[i] for i in rows} if self.clusters and self.claim == "any" else rows

    def of_group(self, name: str) -> set[int]:
        return {i for i, cell in enumerate(self.cells(self.groups)) if cell == name}

    def about(self, answers: str | None = None) -> set[int]:
        kind, *named = self.loss
        rows = set(range(len(self.cells(self.label))))
        if kind in ("class", "confused"):
            return {i for i in rows if self.cells(self.label)[i] == named[0]}
        if kind == "false-alarm":
            return {i for i in rows if self.cells(self.label)[i] != named[0]}
        if kind == "precision" and answers:
            return {i for i in rows if self.cells(answers)[i] == named[0]}
        return rows

    def lost(self, answers: str) -> set[int]:
        kind, *named = self.loss
        found = set()
        for i in self.about(answers):
            y, a = self.cells(self.label)[i], self.cells(answers)[i]
            if kind in ("confused", "false-alarm"):
                is_lost = a == named[-1]
            elif kind == "residual":
                is_lost = number(a) is None or abs(number(a) - number(y)) > number(named[0])
            else:
                is_lost = a != y
            found |= {i} if is_lost else set()
        return found

    # statements

    def level(self, statement: dict, *, again: bool = False) -> Any:
        seal = self.seal
        hashes = [key(each) for each in seal["planned"]]
        if key(statement) in hashes and not again:
            return mpf(seal["delta"]) / seal["looks"]
        made = sum(key(each) not in hashes for each in self.records[1:]) + 1
        parts = made * (made + 1) if seal["looks"] is None else seal["looks"]
        return mpf(seal["delta"]) / parts / mpf(2) ** self.bits

    def add(self, statement: dict, **more: Any) -> dict:
        number = len(self.records)
        line = {**statement, **more, "date": f"2026-01-01T00:{number:02d}:00Z"}
        self.records.append(line)
        return line

    def pay(self, bins: int, times: int = 1) -> None:
        sizes = self.seal["groups"]["sizes"] if self.groups else []
        if not self.groups or self.clusters:
            sizes = [*sizes, self.seal["n"]]
        possible = math.prod(math.comb(size + bins - 1, bins - 1) for size in sizes)
        self.bits += times * mpmath.log(possible, 2)

    def parts(self, level: Any) -> list[tuple[set[int], int, Any]]:
        """Rows, size and level of the statement on all units, and of those on groups."""
        every = set(range(len(self.cells(self.label))))
        if not self.groups:
            return [(every, self.seal["n"], level)]
        told = self.seal["groups"]
        share = level / (2 * len(told["names"]))
        groups = [
            (self.of_group(n), size, share) for n, size in zip(told["names"], told["sizes"], strict=True)
        ]
        return [(every, self.seal["n"], level / 2), *groups]

    def look(self, name: str, *, final: bool = False) -> dict:
        statement = {"kind": "look", "column": self.answers(name)}
        again = final and key(statement) in map(key, self.records[1:])
        level, results = self.level(statement, again=again), []
        levels = None if final else self.seal["levels"]
        for rows, _, share in self.parts(level):
            n, errors = len(self.units(self.about(name) & rows)), len(self.units(self.lost(name) & rows))
            if levels is not None:
                told = [
                    e["result"]["errors"] for e in self.records[1:] if e["kind"] == "look" and e["result"]
                ]
                of_looks = [each for each in self.records[1:] if each["kind"] == "look"]
                odds = mpf(2 * len(told) + 1) / (2 * len(of_looks) + 2)
                fits = [each for each in levels if each >= errors]
                if not fits or (told and min(fits) >= min(told)):
                    results.append(None)
                    self.bits -= mpmath.log(1 - odds, 2)
                    continue
                errors = min(fits)
                self.bits -= mpmath.log(odds / sum(not told or each < min(told) for each in levels), 2)
            results.append({"n": n, "errors": errors, "bound": up(upper(errors, n, share))})
        if levels is None:
            self.pay(3 if self.loss[0] == "precision" else 2)
        groups = results[1:] if self.groups else None
        return self.add(statement, final=final, result=results[0], groups=groups)

    def better(self, a: str, b: str, margin: float = 0.0) -> dict:
        statement = {"kind": "better", "a": self.answers(a), "b": self.answers(b), "margin": margin}
        results = []
        for rows, size, level in self.parts(self.level(statement)):
            first, second = self.units(self.lost(a) & rows), self.units(self.lost(b) & rows)
            x, y = len(first - second), len(second - first)
            shown, limit = gain(x, y, size, level) if size else (False, mpf(-1))
            if margin:
                shown = bool(size) and bool(chance(x, y, size, -mpf(margin), level) <= level)
            told = None if margin else 0.0 if limit == 0 else max(-1.0, down(limit))
            told = 0.0 if shown and told is not None and told < 0 else told
            results.append({"n": size, "a_only": x, "b_only": y, "shown": bool(shown), "limit": told})
        self.pay(3)
        return self.add(statement, result=results[0], groups=results[1:] if self.groups else None)

    def abstain(self, name: str, scores: str, *, risk: float, rule: str, thresholds: list[float]) -> dict:
        statement = {"kind": "abstain", "column": self.answers(name), "scores": self.answers(scores)}
        statement |= {"risk": risk, "rule": rule, "thresholds": thresholds}
        level, steps = self.level(statement), len(thresholds)
        answered, wrong, chosen = [], [], None
        for threshold in thresholds:
            values = [number(cell) for cell in self.cells(scores)]
            rows = {i for i, value in enumerate(values) if value is not None and value >= threshold}
            answered.append(len(self.units(self.about(name) & rows)))
            wrong.append(len(self.units(self.lost(name) & rows)))
        for at, (found, lost) in enumerate(zip(answered, wrong, strict=True)):
            share = level / 2 if rule == "sequence" else level / (2 * steps)
            if upper(lost, found, share) <= risk:
                chosen = at
            elif rule == "sequence":
                break
        result = {"n": self.seal["n"], "answered": answered, "wrong": wrong, "chosen": chosen, "share": None}
        if chosen is not None:
            silent = self.seal["n"] - answered[chosen]
            result["share"] = max(0.0, down(1 - upper(silent, self.seal["n"], level / (2 * steps))))
        is_any = self.clusters is not None and self.claim == "any"
        self.pay(*((steps + 1, 2) if is_any else (2 * steps + 1, 1)))
        return self.add(statement, result=result)


def key(record: dict) -> str:
    """What makes two statements the same."""
    names = {"look": ["column"], "better": ["a", "b", "margin"]}
    wanted = names.get(record["kind"], ["column", "scores", "risk", "rule", "thresholds"])
    values = [record[each]["sha256"] if isinstance(record[each], dict) else record[each] for each in wanted]
    return json.dumps([record["kind"], values])


def bare(told: Any) -> Any:
    """What a seal says of a column, but its name, with sorted keys."""
    return {k: told[k] for k in sorted(told) if k != "column"} if isinstance(told, dict) else told


def says_no_more(lines: list[dict], table: dict[str, list[str]]) -> bool:
    """Make the same statements again: return True if no count differs, and no printed limit says more."""
    seal, names = lines[0], {hash_of(cells): name for name, cells in table.items()}
    clusters = seal["clusters"]
    settings = {key: seal[key] for key in ("delta", "looks", "levels", "loss")}
    own = Ledger(
        table,
        settings,
        label=names[seal["label"]["sha256"]],
        inputs=seal["inputs"] and names[seal["inputs"]["sha256"]],
        groups=seal["groups"] and names[seal["groups"]["sha256"]],
        clusters=clusters and names[clusters["sha256"]],
        claim=clusters["claim"] if clusters else "row",
        planned=tuple(seal["planned"]),
    )
    for line in lines[1:]:
        column = [names[line[each]["sha256"]] for each in ("column", "scores", "a", "b") if each in line]
        if line["kind"] == "look":
            right = own.look(*column, final=line["final"])
        elif line["kind"] == "better":
            right = own.better(*column, line["margin"])
        else:
            options = {each: line[each] for each in ("risk", "rule", "thresholds")}
            right = own.abstain(*column, **options)
        pairs = [(line["result"], right["result"])]
        pairs += list(zip(line.get("groups") or [], right.get("groups") or [], strict=True))
        for said, true in pairs:
            if (said is None) != (true is None):
                return False
            for name, value in (true or {}).items():
                if name == "bound":
                    is_fine = said[name] >= value * (1 - 1e-7)
                elif name in ("limit", "share") and value is not None:
                    is_fine = said[name] <= value + 1e-7
                else:
                    is_fine = said[name] == value
                if not is_fine:
                    return False
    told = ("n", "rows", "groups", "clusters", "inputs")
    if any(json.dumps(bare(seal[each])) != json.dumps(bare(own.seal[each])) for each in told):
        return False
    return [key(each) for each in seal["planned"]] == [key(each) for each in own.seal["planned"]]


# watches


def wealth(outcomes: list[int], bound: float) -> Any:
    """W after all outcomes, term by term."""
    b, total, begun = mpf(bound), mpf(0), 0
    rates = [min(mpf(c) * b, 1 - (1 - b) / mpf(c)) for c in FACTORS]
    while 100 * begun < len(outcomes):
        later = outcomes[100 * begun :]
        wrong, right = sum(later), len(later) - sum(later)
        mean = mpmath.fsum((q / b) ** wrong * ((1 - q) / (1 - b)) ** right for q in rates) / 16
        begun += 1
        total += mean / (begun * (begun + 1))
    return total + mpf(1) / (begun + 1)


def alarm_of(outcomes: list[int], bound: float, level: Any) -> int | None:
    return next(
        (t for t in range(1, len(outcomes) + 1) if wealth(outcomes[:t], bound) >= 1 / mpf(level)), None
    )


def write_watch(
    batches: list[list[tuple[int, str]]], *, names: list[str] | None = None, **first: Any
) -> list[dict]:
    """A watch of batches of outcomes, each with its group."""
    record = {"kind": "watch", "version": 1, "date": "2026-01-01T00:00:00Z", "stream": "made up"}
    record |= {"bound": 0.05, "alpha": 0.01, "certificate": None, "loss": ["wrong"], "clusters": None}
    record |= {"groups": None if names is None else {"column": "site", "names": names}, **first}
    records, done = [record], []

    def part(of: str | None) -> dict:
        new = [bad for bad, name in batch if of in (None, name)]
        old = [bad for bad, name in done if of in (None, name)]
        level = mpf(record["alpha"]) / (1 if names is None else 2 if of is None else 2 * len(names))
        alarm = alarm_of(old + new, record["bound"], level)
        places = [place for place, bad in enumerate(new, start=1) if bad]
        return {"labels": len(new), "errors": places, "alarm": alarm}

    for number, batch in enumerate(batches, start=1):
        groups = None if names is None else [part(name) for name in names]
        date = f"2026-01-01T00:{number:02d}:00Z"
        records.append({"kind": "batch", "date": date, "groups": groups, **part(None)})
        done += batch
    return records
