"""Arora et al. 2018, table 1 and figure 2 (middle, right): the bound by layer, beside others, over epochs."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean

from codebound_papers.arora18.items import arora_networks as networks
from codebound_papers.arora18.items.layer_rows import facts_at, facts_of
from codebound_papers.arora18.noise_stability import noise_stability_bar, table_rows
from codebound_papers.arora18.projection_plan import plan_projection
from codebound_papers.baselines import arora_figure
from codebound_papers.facts import NetworkFacts
from codebound_papers.logs import safe_log
from codebound_papers.report.figures import Figure, Mark, Marks, Plot, curves
from codebound_papers.reproduce.items import Reproduction, Row, Settings, item, verdict

PUBLISHED = {  # number of the layer: value, weights, percent (not rounded but cut off)
    1: (1644.87, 1728, 95.18),
    4: (644654.14, 147456, 437.18),
    6: (3457882.42, 589824, 586.25),
    9: (36920.60, 1179648, 3.129),
    12: (22735.09, 2359296, 0.963),
    15: (26583.81, 2359296, 1.126),
    18: (5052.15, 262144, 1.927),
}
"""The table as printed."""
_OURS, _PARAMETERS = "noise stability", "parameters"
_BEST_OLDER = 15.0  # "about 10^15", in the text
_CURVES = ("bound", "generalisation_error")
_LESS = 0.9  # what falls by less may do so by chance


@networks.vgg19_item("A-Tab1")
def arora_table1(settings: Settings) -> Reproduction:
    """Contribution of each layer of VGG-19 to the bound (Arora et al. 2018, table 1)

    For seven layers of VGG-19 the table has c^2 beta^2 ceil(kappa/s)^2 / (mu_i^2 mu_{i->}^2), called the
    effective number of parameters, beside the number of weights, and their ratio as compression in percent.
    Left out are the squared depth, logarithms, constants, and the largest output over the margin; and c and
    beta are those of the layer, where the theorem has the largest of all. The paper does not say over which
    examples: here is the value at the worst example of each factor, which the theorem needs, and beside it
    that at the medians. Section 4 says that compressing the distance from the initial weights in place of
    the weights improves the bounds: that value has ||A - A_0||_F in the cushion. Beside it also: the numbers
    that lemmas 3 and 14 ask for with everything that is left out, their open constant as 1 (A-E22).
    """
    network = networks.Study(settings).measure_vgg19()
    rows = _layer_rows(network)
    shown = [row for row in rows if row["number"] in PUBLISHED]
    ours = {
        "percent": "worst examples, here",
        "percent, medians": "medians, here",
        "percent, from the start": "worst examples, distance from the start",
        "percent with all factors": "with all factors, here",
    }
    theirs = {"published_percent": "as in the table, published"}
    series = [*curves(rows, "number", ours), *curves(rows, "number", theirs, "points")]
    plot = Plot("value in percent of the weights", "layer", "percent", series, y_scale="log", headroom=0.9)
    others = [_pick(row, _OTHERS) for row in shown]
    return Reproduction(
        tables={
            "Value, number of weights, and value in percent of them": [_pick(row, _VALUES) for row in shown],
            "By the distance from the initial weights, and with all factors": others,
            "The network": [networks.accuracies("VGG-19", network)],
        },
        sentences=_table_sentences(shown, settings),
        deviations=networks.deviations(settings.size, of="vgg19"),
        points={"all layers": rows},
        figures={"A-Tab1": Figure([plot], columns=1)},
    )


_VALUES = (
    *("number", "layer", "value", "value, medians", "published_value", "weights", "published_weights"),
    *("percent", "percent, medians", "published_percent"),
)
_OTHERS = (
    *("number", "layer", "value, 5 % quantiles", "distance / norm", "value, from the start"),
    *("value, medians, from the start", "numbers with all factors", "percent with all factors"),
)


def _pick(row: Row, columns: Sequence[str]) -> Row:
    return {column: row[column] for column in columns}


def _layer_rows(network: Row) -> list[Row]:
    facts = facts_of(network)
    planned = plan_projection(facts)
    needed = [None] * facts.depth if planned is None else [float(layer.published) for layer in planned.layers]
    typical, most = (table_rows(facts_at(network, level)) for level in (0.5, 0.05))
    moved = {layer["layer"]: layer["distance"] / layer["frobenius"] for layer in network["layers"]}
    rows: list[Row] = []
    for place, (row, numbers) in enumerate(zip(table_rows(facts), needed, strict=True)):
        value, weights, percent = PUBLISHED.get(place + 1, (None, None, None))
        share = moved[row.name]
        rows.append(
            {
                "number": place + 1,
                "layer": row.name,
                "value": row.value,
                "published_value": value,
                "weights": row.weights,
                "published_weights": weights,
                "percent": row.percent,
                "published_percent": percent,
                "value, medians": typical[place].value,
                "value, 5 % quantiles": most[place].value,
                "percent, medians": typical[place].percent,
                "distance / norm": share,
                "value, from the start": share**2 * row.value,
                "value, medians, from the start": share**2 * typical[place].value,
                "percent, from the start": share**2 * row.percent,
                "numbers with all factors": numbers,
                "percent with all factors": None if numbers is None else 100.0 * numbers / row.weights,
            }
        )
    return rows


def _table_sentences(rows: Sequence[Row], settings: Settings) -> Iterator[str]:
    theirs = [number for number, (*_, percent) in PUBLISHED.items() if percent < 100.0]
    medians = [row["number"] for row in rows if row["percent, medians"] < 100.0]
    worst = [row["number"] for row in rows if row["percent"] < 100.0]
    agreed = sum((row["number"] in medians) == (row["number"] in theirs) for row in rows)
    yield f"""{verdict(agreed, of=len(rows), settings=settings)}: the value is below the number of weights in
        layers {_list_numbers(theirs)} and above it in the others. At medians it is below in
        {_list_numbers(medians)}, at the worst examples in {_list_numbers(worst)}."""
    typical = ", ".join(f"{row['value, medians'] / row['published_value']:.2g}" for row in rows)
    larger = ", ".join(f"{row['value'] / row['published_value']:.2g}" for row in rows)
    yield f"""At the medians the values are {typical} times the published ones, layer by layer; at the worst
        examples, which the theorem needs, {larger} times. That suggests that the published table is of
        typical examples; the paper does not say."""
    moved = [row["distance / norm"] for row in rows]
    gains = [share**2 for share in moved]
    shorter = sum(gain < 1.0 for gain in gains)
    yield f"""{verdict(shorter, of=len(gains), settings=settings)}: the distance from the initial weights
        improves the bound (section 4, A-E27). It is {min(moved):.2f} to {max(moved):.2f} times the norm of
        the weights, so that the values are multiplied by {min(gains):.2g} to {max(gains):.2g}."""
    if any(row["weights"] < row["published_weights"] for row in rows):
        yield """This network is narrower than the published one: its layers have fewer weights to compare the
            value with, so that the percentages are larger."""
    planned = [row for row in rows if row["numbers with all factors"] is not None]
    factors = [row["numbers with all factors"] / row["value"] for row in planned]
    if factors:
        least = min(row["percent with all factors"] for row in rows)
        yield f"""The table is no count of parameters (A-E22): what it leaves out multiplies each value by
            {min(factors):.1e} to {max(factors):.1e}, and with it the least of these layers needs {least:.1e}
            % of its weights. With its constants the lemma compresses no layer of a realistic network
            (A-E26)."""
    yield "Its percentages are cut off, not rounded: 3.1298 % is printed as 3.129."


def _list_numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


@networks.vgg19_item("A-Fig2M")
def arora_figure2_middle(settings: Settings) -> Reproduction:
    """Noise stability beside older bounds, VGG-19 (Arora et al. 2018, figure 2, middle)

    Bars for a trained VGG-19, from the product of (1, inf) norms to noise stability, and the number of
    parameters beside them. A bar is what stands over n under the root of a bound, without depth, logarithms
    and constants: as long as it is above n, the bound says nothing. Of the numbers the paper has one in the
    text: the best of the older bounds is about 10^15.
    """
    network = networks.Study(settings).measure_vgg19()
    facts = facts_of(network)
    bars = [*_bars(facts, facts_at(network, 0.5))]
    n, published = facts.examples, Mark("best older one, published", _BEST_OLDER, "published")
    marks = Marks(
        [*(Mark(row["bar"], row["log10"], row["kind"]) for row in bars), published],
        label="decimal logarithm of the bar",
        line=(math.log10(n), f"n = {n:,}: a bound with a bar above it says nothing"),
    )
    return Reproduction(
        tables={"Bars, as decimal logarithms": bars, "The network": [networks.accuracies("VGG-19", network)]},
        sentences=_bar_sentences(bars, facts, settings),
        deviations=(networks.GAMMA, *networks.deviations(settings.size, of="vgg19")),
        figures={"A-Fig2M": marks},
    )


def _bars(facts: NetworkFacts, typical: NetworkFacts) -> Iterator[Row]:
    older = arora_figure(facts)
    named = [(value.name, _PARAMETERS if value.name == "Parameters" else "older", value) for value in older]
    for where, told in (("worst examples", facts), ("medians", typical)):
        value = noise_stability_bar(told)
        named.append((f"{value.name}, {where}", _OURS, value))
    for name, kind, value in named:
        rooted = {"log10 of sqrt(bar / n)": value.like_for_like(facts.examples).log10}
        yield {"bar": name, "kind": kind, "log10": value.log10, **rooted}


def _bar_sentences(bars: Sequence[Row], facts: NetworkFacts, settings: Settings) -> Iterator[str]:
    older = min((row for row in bars if row["kind"] == "older"), key=lambda row: row["log10"])
    worst, median = (row["log10"] for row in bars if row["kind"] == _OURS)
    parameters = next(row for row in bars if row["kind"] == _PARAMETERS)
    lower, fewer = (int(worst < row["log10"]) for row in (older, parameters))
    yield f"""{verdict(lower, of=1, settings=settings)}: noise stability gives a lower bar than all older
        bounds. At the worst examples, which the theorem needs, it is 10^{worst:.1f}; the best of those is
        {older["bar"]} with 10^{older["log10"]:.1f}. The ratio is 10^{worst - older["log10"]:.1f}. At medians,
        which prove nothing, the bar is 10^{median:.1f}; the paper does not say at which examples its bar
        is."""
    gap = _BEST_OLDER - older["log10"]
    factor = 10.0 ** (abs(gap) / (2.0 * facts.depth))
    yield f"""The published best of the older bars is about 10^{_BEST_OLDER:.0f}, {abs(gap):.1f} orders of
        magnitude {"above" if gap > 0.0 else "below"} ours. A bar has the squared spectral norms of
        {facts.depth} layers as factors, so that norms that differ by a factor of {factor:.2f} in each layer
        are enough; training, and weight decay above all, moves such norms. The paper gives neither gamma
        (here {facts.margin:.3g}, whose square divides every bar), nor the matrix of a convolution whose norm
        it takes, nor what becomes of batch norms, which are folded into the layers here: which of these it is
        cannot be told from the text."""
    log_n = math.log10(facts.examples)
    yield f"""{verdict(fewer, of=1, settings=settings)}: the bound is better than counting parameters
        (contribution 3a). The network has 10^{parameters["log10"]:.1f}; the bar is 10^{worst:.1f} at the
        worst examples and 10^{median:.1f} at medians, although depth, logarithms and constants are left out.
        A bar above n = 10^{log_n:.1f} says nothing."""
    squared = 2.0 * math.fsum(safe_log(layer.l1_inf) for layer in facts.layers) - 2.0 * math.log(facts.margin)
    yield f"""The first bar has no square where the others have one (A-E22): squared it is
        10^{squared / math.log(10.0):.1f} in place of 10^{bars[0]["log10"]:.1f}."""


@item(
    "A-Fig2R",
    quick="5 minutes on one core, three of them after another item with VGG-19",
    full="an hour on a GPU, half of it after another item with VGG-19",
)
def arora_figure2_right(settings: Settings) -> Reproduction:
    """The bound and the generalisation error over the training of VGG-19 (Arora et al. 2018, figure 2)

    The bar of noise stability, divided by n and square-rooted, beside the generalisation error of VGG-19,
    which is test error less training error, after several epochs. The bound is rescaled, so that only the
    shape of the curve counts. In the paper the training error is about 0 after 120 epochs, and both continue
    to fall. It prints no numbers.
    """
    study = networks.Study(settings)
    rows = [_epoch_row(epoch, found) for epoch, found in study.measure_epochs().items()]
    scale = fmean(row["generalisation_error"] for row in rows) / fmean(row["bound"] for row in rows)
    table = [{**row, "rescaled_bound": scale * row["bound"]} for row in rows]
    rescaled = {"rescaled_bound": "bound, rescaled", "generalisation_error": "generalisation error"}
    errors = {"train_error": "training error", "test_error": "test error"}
    plots = [
        Plot("rescaled to the same mean", "epoch", "error", curves(table, "epoch", rescaled)),
        Plot("the network", "epoch", "error", curves(table, "epoch", errors)),
    ]
    return Reproduction(
        tables={"After some epochs": table},
        sentences=_epoch_sentences(table, settings),
        deviations=(networks.GAMMA, *networks.deviations(settings.size, of="vgg19 over epochs")),
        figures={"A-Fig2R": Figure(plots, columns=2)},
    )


def _epoch_row(epoch: int, found: Row) -> Row:
    facts = facts_of(found)
    return {
        "epoch": epoch,
        "train_error": found["train_error"],
        "test_error": found["test_error"],
        "generalisation_error": found["test_error"] - found["train_error"],
        "gamma": facts.margin,
        "bound": noise_stability_bar(facts).like_for_like(facts.examples).value,
    }


def _epoch_sentences(rows: Sequence[Row], settings: Settings) -> Iterator[str]:
    first, last = rows[0], rows[-1]
    steps = [[after[name] - before[name] for name in _CURVES] for before, after in pairwise(rows)]
    together = sum(bound * error > 0.0 for bound, error in steps)
    yield f"""From epoch {first["epoch"]} to {last["epoch"]} the bound goes from {first["bound"]:.3g} to
        {last["bound"]:.3g} and the generalisation error from {first["generalisation_error"]:.1%} to
        {last["generalisation_error"]:.1%}; both rise or both fall in {together} of {len(steps)} steps."""
    fitted = [row for row in rows if row["train_error"] < 0.01]
    if len(fitted) < 2:
        yield f"""Open: whether both fall once the training error is about 0. It is below 1 % at {len(fitted)}
            of the points; in the paper it is from epoch 120 on, of 299."""
    else:
        start, end = fitted[0], fitted[-1]
        falls = [name for name in _CURVES if end[name] < _LESS * start[name]]
        yield f"""{verdict(len(falls), of=2, settings=settings)}: both fall, by a tenth or more, once the
            training error is about 0. In the {end["epoch"] - start["epoch"]} epochs from there the bound goes
            from {start["bound"]:.3g} to {end["bound"]:.3g}, the error from
            {start["generalisation_error"]:.2%} to {end["generalisation_error"]:.2%}. Theirs are some 180
            epochs."""
    least = min(row["bound"] for row in rows)
    yield f"Before it is rescaled the smallest bound is {least:.3g}; above 1 it says nothing."
