"""Levels, prices and results of the lines of a ledger (docs/ledger.md, sections 5 and 6)."""

from __future__ import annotations

from itertools import islice, pairwise

import mpmath
from mpmath import mpf

from ..formulas import DIGITS, is_honest
from ..header import boolean, integer, or_null, record, require, sequence
from ..refusal import Refused
from .limits import chance_of_gain, is_below, is_difference, may_say, sign_tail, upper
from .rules import ANY, LINE, NULL, NUMBER, STATEMENTS, Record, adds_up, check_fitting, key_of, statement

RESULTS_LIMIT = 1 << 20
LEAST_LEVEL = 1e-300


def check_looks(seal: Record, looks: list[Record]) -> None:
    """Check, in the order of the lines, that each was allowed and says what follows."""
    if (results := len(looks) * (1 + len(_sizes(seal)))) > RESULTS_LIMIT:
        raise Refused(f"Ledger: it has {results} results; {RESULTS_LIMIT} are allowed.")
    planned, price, opened = {key_of(each) for each in seal["planned"]}, Price(seal), 0
    made = set[str]()
    for number, line in enumerate(looks, start=2):
        where, is_final = f"Ledger: line {number}", line.get("final") is True
        own = STATEMENTS.get(str(line.get("kind")), {"kind": ANY})
        found = statement({name: line[name] for name in own if name in line}, where)
        check_fitting(seal, found, where)
        if (key := key_of(found)) in made and not is_final:
            raise Refused(f"{where} makes a statement that was made before.")
        if is_final and number <= len(looks):
            raise Refused(f"{where} is the final look, and others follow.")
        is_open = key in made or key not in planned
        opened += is_open
        if is_open and seal["looks"] is not None and opened > seal["looks"] - len(planned):
            raise Refused(f"{where} is a look more than were planned.")
        with mpmath.workdps(DIGITS):
            parts = opened * (opened + 1) if seal["looks"] is None else seal["looks"]
            level = mpf(seal["delta"]) / parts * mpmath.power(2, -price.bits if is_open else 0)
            _check_line(seal, line, level, price.left, where)
            if not is_final:
                price.add(line)
        made.add(key)


def _sizes(seal: Record) -> tuple[int, ...]:
    return () if seal["groups"] is None else tuple(seal["groups"]["sizes"])


class Price:
    """Bits of the answers so far, and the levels that are left."""

    def __init__(self, seal: Record) -> None:
        self.seal, self.bits, self.left = seal, mpf(0), tuple(seal["levels"] or ())
        self.told = self.improved = 0

    def add(self, line: Record) -> None:
        """Pay for the answer of a line."""
        if line["kind"] != "look" or self.seal["levels"] is None:
            self.bits += self._bits_of_counts(line)
            return
        share = mpf(2 * self.improved + 1) / (2 * self.told + 2)
        self.told += 1
        if line["result"] is None:
            share = 1 - share
        else:
            share /= len(self.left)
            self.improved += 1
            self.left = tuple(each for each in self.left if each < line["result"]["errors"])
        self.bits -= mpmath.log(share, 2)

    def _bits_of_counts(self, line: Record) -> mpf:
        seal, times, bins = self.seal, 1, 3
        if line["kind"] == "abstain":
            steps = len(line["thresholds"])
            times, bins = (1, 2 * steps + 1) if adds_up(seal) else (2, steps + 1)
        elif line["kind"] == "look" and seal["loss"][0] != "precision":
            bins = 2
        sizes = list(_sizes(seal))
        if not sizes or seal["clusters"] is not None:
            sizes.append(seal["n"])
        return times * mpmath.fsum(_log2_choose(size + bins - 1, bins - 1) for size in sizes)


def _log2_choose(n: int, k: int) -> mpf:
    return (mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)) / mpmath.ln2


def _check_line(seal: Record, line: Record, level: mpf, left: tuple[int, ...], where: str) -> None:
    """Check the keys of a line, its result, and those of all groups."""
    kind, sizes = line["kind"], _sizes(seal)
    rules = {**LINE, **STATEMENTS[kind], "result": ANY}
    if kind == "look":
        rules["final"] = boolean
    if kind != "abstain":
        rules["groups"] = sequence(ANY, len(sizes), len(sizes)) if sizes else NULL
    record(dict, **rules)(line, where)
    if kind != "look" and level < LEAST_LEVEL:
        raise Refused(f"{where} has a level below {LEAST_LEVEL}, too small for {kind}.")
    if kind == "abstain":
        _check_choice(line, seal["n"], level, is_exact=adds_up(seal), where=where)
        return
    result, groups = line["result"], line["groups"] or ()
    if kind == "look" and seal["levels"] is not None and not line["final"]:
        if result is None:
            return
        if type(result) is not dict or result.get("errors") not in left:
            raise Refused(f"{where} answers with no level below the best so far.")
    check = _check_pair if kind == "better" else _check_look
    told = line["margin"] if kind == "better" else seal["loss"][0] == "precision"
    check(result, seal["n"], level / 2 if sizes else level, told, f"{where}.result")
    for at, (size, each) in enumerate(zip(sizes, groups, strict=True)):
        check(each, size, level / (2 * len(sizes)), told, f"{where}.groups[{at}]")
    if sizes and adds_up(seal):
        for key in ("n", "errors") if kind == "look" else ("n", "a_only", "b_only"):
            if (total := sum(each[key] for each in groups)) != result[key]:
                raise Refused(f"{where} has groups whose {key} adds up to {total}, not to that of all.")


def _check_look(result: Record, size: int, level: mpf, is_precision: bool, where: str) -> None:
    n = integer(0 if is_precision else size, size)
    record(dict, n=n, errors=integer(0, size), bound=NUMBER)(result, where)
    require(result["errors"] <= result["n"], f"{where}.errors", "at most n", result["errors"])
    exact = upper(result["errors"], result["n"], level)
    require(is_honest(result["bound"], exact), f"{where}.bound", mpmath.nstr(exact, 17), result["bound"])


def _check_pair(result: Record, size: int, level: mpf, margin: float, where: str) -> None:
    counts, limit = integer(0, size), NULL if margin else NUMBER
    rule = record(dict, n=integer(size, size), a_only=counts, b_only=counts, shown=boolean, limit=limit)
    rule(result, where)
    a_only, b_only, shown = result["a_only"], result["b_only"], result["shown"]
    require(a_only + b_only <= size, f"{where}.b_only", f"at most {size} with a_only", b_only)
    chance, follows = mpf(1), result["limit"] in (None, -1.0)
    if size:
        told = {"a_only": a_only, "b_only": b_only, "n": size, "level": level}
        chance = chance_of_gain(-margin, **told) if margin else sign_tail(a_only, b_only)
        follows = bool(margin) or is_difference(result["limit"], is_better=shown, **told)
    expected = f"true exactly where {mpmath.nstr(chance, 9)} is at most {mpmath.nstr(level, 9)}"
    require(may_say(shown, chance, level), f"{where}.shown", expected, shown)
    require(follows, f"{where}.limit", "what follows from the counts", result["limit"])


def _check_choice(line: Record, n: int, level: mpf, *, is_exact: bool, where: str) -> None:
    """Check the choice of a threshold, and the limit of the share that it answers."""
    result, steps = line["result"], len(line["thresholds"])
    counts, chosen = sequence(integer(0, n), steps, steps), or_null(integer(0, steps - 1))
    rule = record(dict, n=integer(n, n), answered=counts, wrong=counts, chosen=chosen, share=or_null(NUMBER))
    rule(result, f"{where}.result")
    pairs = list(zip(result["answered"], result["wrong"], strict=True))
    added = [(a - b, c - d) for (b, d), (a, c) in pairwise([(0, 0), *pairs])]
    is_nested = all(min(a, c) >= 0 and (c <= a or not is_exact) for a, c in added)
    if not (is_nested and all(lost <= found for found, lost in pairs)):
        raise Refused(f"{where} has counts that fall, or more lost units than answered ones.")
    share, last, risk = (
        level / (2 * steps),
        -1 if result["chosen"] is None else result["chosen"],
        mpf(line["risk"]),
    )
    is_choice = line["rule"] == "choice"
    limits = (upper(lost, found, share if is_choice else level / 2) for found, lost in pairs)
    if is_choice:
        said = [(at == last, limit) for at, limit in enumerate(limits) if at >= last]
    else:
        said = [(at <= last, limit) for at, limit in enumerate(islice(limits, last + 2))]
    follows = all(may_say(is_yes, limit, risk) for is_yes, limit in said)
    require(follows, f"{where}.result.chosen", "the threshold that follows", result["chosen"])
    exact = 1 - upper(n - pairs[last][0], n, share) if last >= 0 else None
    is_share = result["share"] is None if exact is None else is_below(result["share"] or 0.0, exact)
    require(is_share, f"{where}.result.share", mpmath.nstr(exact, 17) if exact else "null", result["share"])
