"""Verdicts on the comparisons in Guha et al. 2023, in sentences."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from codebound_papers.baselines import decimal_orders
from codebound_papers.guha23.items.guha_networks import CODE, TEXT, USUAL_SHARE
from codebound_papers.guha23.items.printed import BARS, EPOCHS, fair
from codebound_papers.reproduce.items import Row, Settings, verdict

_CLOSE, _SAME = 0.5, 0.1  # of natural logarithms
_GUESSING = 0.88  # errors of who guesses among ten classes, less a little
_NONE = """Open: no network here has a positive margin, so that the older bounds are infinite and the code
    prunes nothing: there is no comparison."""


def separating(rows: Iterable[Row]) -> list[Row]:
    """The networks whose smallest margin is positive: for the others the older bounds are infinite."""
    return [row for row in rows if row["smallest_margin"] > 0.0]


def on_table(
    rows: Sequence[Row],
    printed: Mapping[int, Mapping[str, float]],
    deduced: Sequence[Row],
    *,
    claimed: int,
    settings: Settings,
) -> Iterator[str]:
    """All that is said of measured networks beside a printed table, and what its numbers imply."""
    yield as_released(rows, deduced, claimed=claimed, settings=settings)
    yield at_printed_widths(rows, printed, n=deduced[0]["n"])
    yield on_one_scale(rows, deduced)
    yield on_pruning(rows, deduced)
    yield on_training(rows)
    yield on_plain_lines(rows, deduced)


def as_released(rows: Sequence[Row], deduced: Sequence[Row], *, claimed: int, settings: Settings) -> str:
    """The paper's comparison; its text sees so many decimal orders between its own bound and the next."""
    found = separating(rows)
    if not found:
        return _NONE
    orders = [decimal_orders(row["released"]["bartlett17"] - row["released"]["guha"]) for row in found]
    epochs = [row["epochs"] for row in rows]
    agreed = sum(each >= claimed for each in orders)
    least = min(row["epochs"] for row in found)
    is_long = settings.size == "full" and settings.epochs is None
    differs = f"a network after {least} epochs" if is_long and least < EPOCHS else ""
    word = verdict(agreed, of=len(found), settings=settings, differs=differs)
    return f"""{word}: as the code computes it, the bound called "Bartlett" is at least {claimed} decimal
        orders above the paper's own. It is {span(orders, ".1f")} in the {len(found)} of {len(rows)} networks
        with a positive margin. Here: {_sizes(rows)}, {span(epochs, "d")} epochs. There: {_sizes(deduced)},
        {EPOCHS} epochs."""


def at_printed_widths(rows: Sequence[Row], printed: Mapping[int, Mapping[str, float]], *, n: int) -> str:
    """Compare our numbers with the printed ones, of networks with n examples."""
    shared = [row for row in separating(rows) if row["width"] in printed]
    if not shared:
        return (
            "No network here has a width of the table and a positive margin: compare in kind, not in value."
        )
    *others, last = BARS
    older = [row["released"][name] - printed[row["width"]][name] for row in shared for name in others]
    own = [row["released"][last] - printed[row["width"]][last] for row in shared]
    by_n = span([0.5 * math.log(n / row["n"]) for row in shared], ".2f")
    why = """The older ones are products of squared norms over the squared smallest margin, so that all of the
        training is in them; what differs there stays open."""
    return f"""At width {span([row["width"] for row in shared], "d")} the older bounds, as the code computes
        them, differ from the printed logarithms by {span(older, "+.2f")}, and the paper's own by
        {span(own, "+.2f")}, of which {by_n} is due to the number of examples.
        {why if max(map(abs, older)) > _CLOSE else ""}"""


def on_one_scale(rows: Sequence[Row], deduced: Sequence[Row]) -> str:
    """The same comparison, like for like."""
    printed = [row["Guha / Bartlett, like for like"] for row in deduced]
    ours = [math.exp(bars["guha"] - bars["bartlett17"]) for bars in _finite_bars(rows)]
    here = f" Here it is {span(ours, '.3g')} times it: {_stands(ours)}." if ours else ""
    return f"""That comparison sets a bound that is divided by n and rooted beside others that are neither,
        and what is called "Bartlett" has Frobenius norms where sums of row norms belong (G-E22). Like for
        like the paper's own bound is {span(printed, ".3g")} times it in print: {_stands(printed)}.{here}"""


def _stands(factors: Sequence[float]) -> str:
    agreed = sum(factor < 1.0 for factor in factors)
    word = "stands" if agreed == len(factors) else "stands in part" if agreed else "does not stand"
    return f"the comparison {word}"


def on_pruning(rows: Sequence[Row], deduced: Sequence[Row]) -> str:
    """Describe the pruned share, and the share that could be pruned."""
    implied = [row["kept share by Guha 2023"] for row in deduced]
    sentence = f"The printed values imply that {span(implied, '.0%')} of the weights were kept (G-E22). "
    found = separating(rows)
    if not found:
        return sentence + "Without a positive margin nothing is pruned here."
    kept, by_change = ([row[name] for row in found] for name in ("chi", "chi_by_change"))
    word = "We find as much" if min(kept) <= max(implied) else "We do not find that"
    above = sum(row["needed"] > row["smallest_margin"] for row in found)
    short = span([row["needed_for_usual_share"] / row["smallest_margin"] for row in found], ",.0f")
    return f"""{sentence}{word} with the search that the code calls: it ends where {span(kept, ".1%")} are
        kept, and asks for more than the smallest margin there in {above} of {len(found)} networks. To keep
        {USUAL_SHARE:.0%}, that margin would have to be {short} times as large. The first version of the code
        defines another search, and does not call it: it compares the smallest margin with the measured change
        of the examples' scores, not with a bound on it. That one ends where {span(by_change, ".0%")} are kept
        here{_by_other_search(found, deduced)}."""


def _by_other_search(found: Sequence[Row], deduced: Sequence[Row]) -> str:
    printed = {row["width"]: row["Guha 2023, like for like"] for row in deduced}
    apart = [row["guha_by_change"] - printed[row["width"]] for row in found if row["width"] in printed]
    if not apart:
        return ", of networks of other widths than the printed ones"
    meaning = (
        "the printed values may well come from it, while the theorem asks for the other"
        if max(map(abs, apart)) <= _SAME
        else "that does not explain the printed values either, which stays open"
    )
    differences = f"the paper's own bound then differs from the printed logarithms by {span(apart, '+.2f')}"
    return f", and {differences}: {meaning}"


def on_training(rows: Sequence[Row]) -> str:
    """Describe the outcome of the two training settings."""

    def told(training: str) -> str:
        these = [row for row in rows if row["training"] == training]
        if not these:
            return "no network, for none was run"
        errors = {row["width"]: f"{row['train_error']:.1%}" for row in these}
        listed = ", ".join(f"{error} at width {width}" for width, error in errors.items())
        shown = listed if len(set(errors.values())) > 1 else errors.popitem()[1]
        return f"{len(separating(these))} of {len(these)} networks (training error {shown})"

    lost = [str(row["width"]) for row in rows if row["train_error"] > _GUESSING]
    guessing = f" At width {', '.join(lost)} that is no better than guessing." if lost else ""
    code = [row for row in rows if row["training"] == CODE]
    is_thrown_back = len(separating(code)) < len(code)
    setback = " A training whose rate never falls may be thrown back before its end (G-Exp2)."
    before = separating([row for row in rows if row["training"] not in (CODE, TEXT)])
    on_the_way = "".join(f" After {row['epochs']} epochs it was positive." for row in before)
    return f"""With the code's SGD the smallest margin is positive in
        {told(CODE)}.{setback * is_thrown_back}{on_the_way} With the text's Adam at learning rate 0.02 it is
        positive in {told(TEXT)} (G-E29).{guessing} The printed values are below that of a network that is not
        pruned, so theirs had a positive margin."""


def on_plain_lines(rows: Sequence[Row], deduced: Sequence[Row]) -> str:
    """Describe the bounds by counting and by held-out examples."""
    below = sum(row["parameter counting"] < row["Guha 2023, like for like"] for row in deduced)
    here = sum(row["parameter_counting"] < row["released"]["guha"] for row in rows)
    held_out = span([math.exp(row["hold_out"]) for row in rows], ".1%")
    least = math.exp(min(min(row["parameter_counting"], row["released"]["guha"]) for row in rows))
    return f"""One bit for every parameter gives less than the paper's own bound: at {below} of {len(deduced)}
        printed widths, in {here} of {len(rows)} networks here. The least of all is {least:.1f} here, and an
        error rate is at most 1; the examples held out certify {held_out}, for all networks at once with
        probability 95 % (C-11)."""


def on_probability(deduced: Sequence[Row]) -> str:
    """Describe the failure probability that the theorem leaves out."""
    lost = [row["failure probability left out"] for row in deduced]
    return f"""Theorem 5.2 leaves a part of lemma 5.1 out of its failure probability. At the printed widths
        that part alone is {span(lost, ".2f")} (G-E16): with it the theorem says nothing."""


def span(numbers: Iterable[float], form: str) -> str:
    """The smallest and the largest number, or the one there is.

    >>> span([0.5, 0.25], ".0%"), span([2.0, 2.0], ".1f")
    ('25% to 50%', '2.0')
    """
    values = list(numbers)
    ends = dict.fromkeys(format(end, form) for end in (min(values), max(values)))
    return " to ".join(ends)


def _sizes(rows: Sequence[Row]) -> str:
    width, n = (span([row[name] for row in rows], ",d") for name in ("width", "n"))
    return f"width {width}, n = {n}"


def _finite_bars(rows: Iterable[Row]) -> list[dict[str, float]]:
    return [{name: log for name, log in fair(row).items() if log is not None} for row in separating(rows)]
