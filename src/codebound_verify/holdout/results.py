"""Levels, prices, limits and results of the lines of a ledger (docs/ledger.md, sections 5 to 7)."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from itertools import islice, pairwise

import mpmath
from mpmath import mpf

from ..formulas import DIGITS, at_least, binomial, is_honest, log_choose, probability, tail_ratio
from ..header import boolean, integer, or_null, record, require, sequence
from ..refusal import Refused
from .rules import ANY, LINE, NULL, NUMBER, Record, adds_up, check_fitting, key_of, statement

SLACK = mpf("1e-6")  # rounding of a printed number to the safe side; of a comparison that was not met
SIDE = 20  # one part in so many of a level is for what else is unknown of a difference
NEGLIGIBLE = mpf(10) ** -45  # beside a sum of falling terms
WORK_LIMIT, WORK_OF_PAIRS = 1 << 23, 20
LEAST_LEVEL = 1e-300


def upper(errors: int, n: int, level: mpf) -> mpf:
    """U(k, n, p): the largest q with P(Bin(n, q) <= k) >= p."""
    return mpf(1) if errors >= n else binomial(errors=errors, n=n, bits=0, delta=level)


def is_below(printed: float, exact: mpf) -> bool:
    """Return True if a printed lower limit is not above the exact one, nor needlessly below."""
    with mpmath.workdps(DIGITS):
        return bool(exact - SLACK <= mpf(printed) <= exact)


def may_say(said: bool, smaller: mpf, larger: mpf) -> bool:
    """Return True if "smaller <= larger" may be printed as it was: a yes is exact, a no is near or right."""
    with mpmath.workdps(DIGITS):
        return bool(smaller <= larger if said else smaller * (1 + SLACK) > larger)


def is_difference(printed: float, *, a_only: int, b_only: int, n: int, level: mpf, is_better: bool) -> bool:
    """Return True if a printed lower limit on risk(A) - risk(B) follows from the counts."""
    with mpmath.workdps(DIGITS):
        if is_better:
            gain = mpf(printed)
            is_safe = gain == 0 or (gain > 0 and chance_of_gain(gain, a_only, b_only, n, level) <= level)
            return bool(
                is_safe and chance_of_gain(gain + SLACK, a_only, b_only, n, level) > level * (1 - SLACK)
            )
        pairs = a_only + b_only
        wrong = upper(b_only, pairs, level * (SIDE - 1) / SIDE) if pairs else mpf(1)
        return is_below(printed, -upper(pairs, n, level / SIDE) * max(mpf(1) / SIDE, 2 * wrong - 1))


def chance_of_gain(gain: mpf, a_only: int, b_only: int, n: int, level: mpf) -> mpf:
    """P(t) of section 7: the chance of such counts if A errs at most t more often than B, at its worst.

    Either A alone and B alone err like two independent binomial numbers: then the largest credible rate of B
    alone is the worst. Or just one of the two errs more often than not: then the share of A in that is least
    surprising where such errors are rarest, or most frequent if the gain is negative.
    """
    with mpmath.workdps(DIGITS):
        gain = mpf(gain)
        seen, side, pairs = a_only - b_only, level / SIDE, a_only + b_only
        if gain >= 1 or gain * (n - 1) > seen - 1:
            return mpf(1)
        rate, gap, few = upper(b_only, n, side), 1 - gain, side
        if rate >= -gain:
            root = mpmath.sqrt(max(mpf(0), gap * gap - 4 * rate))
            b = min(gap / 2, 2 * rate / (gap + root))
            few += _difference_tail(seen, n, max(NEGLIGIBLE, b + gain), b)
        if (share := upper(pairs, n, side)) <= mpf(1) / 2:
            return few
        if gain > 0:
            share = max(mpf(1) / 2, 1 - upper(n - pairs, n, side))
        is_possible = share + gain >= 0  # a difference is not larger than the share of those that differ
        return max(few, 2 * side + (at_least(a_only, pairs, (1 + gain / share) / 2) if is_possible else 0))


@lru_cache(256)
def _difference_tail(seen: int, n: int, a: mpf, b: mpf) -> mpf:
    """P(X - Y >= seen) for independent X of Bin(n, a) and Y of Bin(n, b).

    The sum over Y = j of P(Y = j) P(X >= seen + j). Its terms rise, then fall, and fall ever faster.
    """
    if seen <= -n:
        return mpf(1)
    first, last = max(0, -seen), min(n, n - seen)
    odds_a, odds_b = a / (1 - a), b / (1 - b)

    def mass(j: int) -> mpf:
        return probability(seen + j, n, a) * probability(j, n, b)

    def falls(j: int) -> bool:
        return bool(odds_a * odds_b * (n - j) * (n - seen - j) <= (j + 1) * (seen + j + 1))

    low = first + bisect_left(range(first, last), True, key=falls)  # where both together are likeliest
    least = mass(low) * NEGLIGIBLE
    j = low + bisect_left(range(low, last), True, key=lambda j: mass(j) <= least)
    mass_a, mass_b = probability(seen + j, n, a), probability(j, n, b)
    tail = mass_a * tail_ratio(n - seen - j, n, odds=odds_a)
    total = mass_b * tail
    while j > first:
        mass_a *= (seen + j) / (odds_a * (n - seen - j + 1))
        mass_b *= j / (odds_b * (n - j + 1))
        tail += mass_a
        total += mass_b * tail
        j -= 1
        if j < low and j < b * n and mass_b * tail < total * NEGLIGIBLE:
            return total
    return total + at_least(n - first + 1, n, 1 - b)  # Y < first: X cannot be less than nothing


def check_looks(seal: Record, looks: list[Record]) -> None:
    """Check, in the order of the lines, that each was allowed and says what follows."""
    planned, price, opened = {key_of(each) for each in seal["planned"]}, Price(seal), 0
    made, work, count = set[str](), 0, len(_sizes(seal))
    groups = sequence(ANY, count, count) if count else NULL
    more = {"look": {"final": boolean, "groups": groups}, "better": {"groups": groups}}
    for number, line in enumerate(looks, start=2):
        where, is_final = f"Ledger: line {number}", line.get("final") is True
        statement(line, where, **LINE, result=ANY, **more.get(str(line.get("kind")), {}))
        check_fitting(seal, line, where)
        times = {"better": WORK_OF_PAIRS, "abstain": len(line.get("thresholds", ()))}.get(line["kind"], 1)
        work += times * sum(16 + math.isqrt(size) for size in (seal["n"], *_sizes(seal)))
        if work > WORK_LIMIT:
            raise Refused(f"{where} makes more work than the {WORK_LIMIT} that a ledger may be.")
        if (key := key_of(line)) in made and not is_final:
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
            _check_results(seal, line, level, price.left, where)
            if not is_final:
                price.add(line)
        made.add(key)


def _sizes(seal: Record) -> tuple[int, ...]:
    return () if seal["groups"] is None else tuple(seal["groups"]["sizes"])


class Price:
    """Bits of the seal and of the answers so far, and the levels that are left."""

    def __init__(self, seal: Record) -> None:
        self.seal, self.left, self.told, self.improved = seal, tuple(seal["levels"] or ()), 0, 0
        counts = [] if seal["inputs"] is None else [seal["inputs"]["copies"]]
        counts += [] if seal["clusters"] is None else [seal["rows"]]
        possible = [(count + 1) * (count + 2) for count in counts] + [seal["n"] + 1] * len(_sizes(seal))
        with mpmath.workdps(DIGITS):
            self.bits = mpmath.fsum(mpmath.log(each, 2) for each in possible)

    def add(self, line: Record) -> None:
        """Pay for the answer of a line."""
        if line["kind"] != "look" or self.seal["levels"] is None:
            self.bits += bits_of_counts(self.seal, line)
            return
        is_better, share = line["result"] is not None, mpf(2 * self.improved + 1) / (2 * self.told + 2)
        self.bits -= mpmath.log(share / len(self.left) if is_better else 1 - share, 2)
        self.told, self.improved = self.told + 1, self.improved + is_better
        if is_better:
            self.left = tuple(each for each in self.left if each < line["result"]["errors"])


def bits_of_counts(seal: Record, line: Record) -> mpf:
    """The price of an answer that sorts units into bins."""
    times, bins = 1, 3
    if line["kind"] == "abstain":
        steps = len(line["thresholds"])
        times, bins = (1, 2 * steps + 1) if adds_up(seal) else (2, steps + 1)
    elif line["kind"] == "look" and seal["loss"][0] != "precision":
        bins = 2
    sizes = list(_sizes(seal))
    if not sizes or seal["clusters"] is not None:
        sizes.append(seal["n"])
    return times * mpmath.fsum(log_choose(size + bins - 1, bins - 1) for size in sizes) / mpmath.ln2


def _check_results(seal: Record, line: Record, level: mpf, left: tuple[int, ...], where: str) -> None:
    """Check the result of a line, and those of all groups."""
    kind, result, sizes = line["kind"], line["result"], _sizes(seal)
    if kind != "look" and level < LEAST_LEVEL:
        raise Refused(f"{where} has a level below {LEAST_LEVEL}, too small for {kind}.")
    if kind == "abstain":
        check_choice(line, seal["n"], level, is_exact=adds_up(seal), where=where)
        return
    if kind == "look" and seal["levels"] is not None and not line["final"]:
        if result is None:
            return
        if type(result) is not dict or result.get("errors") not in left:
            raise Refused(f"{where} answers with no level below the best so far.")
    check, told = (
        (check_look, seal["loss"][0] == "precision") if kind == "look" else (check_pair, line["margin"])
    )
    check(result, seal["n"], level / 2 if sizes else level, told, f"{where}.result")
    for at, (size, each) in enumerate(zip(sizes, line["groups"] or (), strict=True)):
        check(each, size, level / (2 * len(sizes)), told, f"{where}.groups[{at}]")
    counts = [key for key, each in result.items() if type(each) is int]
    for key in counts if sizes and adds_up(seal) else ():
        if (total := sum(each[key] for each in line["groups"])) != result[key]:
            raise Refused(f"{where} has groups whose {key} adds up to {total}, not to that of all.")


def check_look(result: Record, size: int, level: mpf, is_precision: bool, where: str) -> None:
    """Check a result of ``look``."""
    n = integer(0 if is_precision else size, size)
    record(dict, n=n, errors=integer(0, size), bound=NUMBER)(result, where)
    require(result["errors"] <= result["n"], f"{where}.errors", "at most n", result["errors"])
    exact = upper(result["errors"], result["n"], level)
    require(is_honest(result["bound"], exact), f"{where}.bound", mpmath.nstr(exact, 17), result["bound"])


def check_pair(result: Record, size: int, level: mpf, margin: float, where: str) -> None:
    """Check a result of ``better``."""
    counts, limit = integer(0, size), NULL if margin else NUMBER
    rule = record(dict, n=integer(size, size), a_only=counts, b_only=counts, shown=boolean, limit=limit)
    rule(result, where)
    a_only, b_only, shown = result["a_only"], result["b_only"], result["shown"]
    require(a_only + b_only <= size, f"{where}.b_only", f"at most {size} with a_only", b_only)
    chance, follows = mpf(1), result["limit"] in (None, -1.0)
    if size:
        told = {"a_only": a_only, "b_only": b_only, "n": size, "level": level}
        sign = at_least(a_only, a_only + b_only, mpf(1) / 2)
        chance = chance_of_gain(-margin, **told) if margin else sign
        follows = bool(margin) or is_difference(result["limit"], is_better=shown, **told)
    expected = f"true exactly where {mpmath.nstr(chance, 9)} is at most {mpmath.nstr(level, 9)}"
    require(may_say(shown, chance, level), f"{where}.shown", expected, shown)
    require(follows, f"{where}.limit", "what follows from the counts", result["limit"])


def check_choice(line: Record, n: int, level: mpf, *, is_exact: bool, where: str) -> None:
    """Check a result of ``abstain``: the choice of a threshold, and the limit of the share it answers."""
    result, steps, is_choice = line["result"], len(line["thresholds"]), line["rule"] == "choice"
    counts, index = sequence(integer(0, n), steps, steps), or_null(integer(0, steps - 1))
    rule = record(dict, n=integer(n, n), answered=counts, wrong=counts, chosen=index, share=or_null(NUMBER))
    rule(result, f"{where}.result")
    pairs = list(zip(result["answered"], result["wrong"], strict=True))
    added = [(a - b, c - d) for (b, d), (a, c) in pairwise([(0, 0), *pairs])]
    is_nested = all(min(a, c) >= 0 and (c <= a or not is_exact) for a, c in added)
    if not (is_nested and all(lost <= found for found, lost in pairs)):
        raise Refused(f"{where} has counts that fall, or more lost units than answered ones.")
    part, risk = level / (2 * steps), mpf(line["risk"])
    chosen = -1 if result["chosen"] is None else result["chosen"]
    limits = (upper(lost, found, part if is_choice else level / 2) for found, lost in pairs)
    if is_choice:
        said = [(at == chosen, limit) for at, limit in enumerate(limits) if at >= chosen]
    else:
        said = [(at <= chosen, limit) for at, limit in enumerate(islice(limits, chosen + 2))]
    follows = all(may_say(is_yes, limit, risk) for is_yes, limit in said)
    require(follows, f"{where}.result.chosen", "the threshold that follows", result["chosen"])
    exact = None if chosen < 0 else 1 - upper(n - pairs[chosen][0], n, part)
    is_share = result["share"] is None if exact is None else is_below(result["share"] or 0.0, exact)
    require(is_share, f"{where}.result.share", mpmath.nstr(exact, 17) if exact else "null", result["share"])
