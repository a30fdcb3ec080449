"""Guha et al. 2023: one network over its training (figure 2), and pruned (plots of their repository)."""

from collections.abc import Iterator, Sequence
from functools import partial

import torch

from codebound.bounds.original import LayerBounds, output_deviation
from codebound_papers.guha23.items import released
from codebound_papers.guha23.items.guha_networks import PLOTTED, Data, Networks, network_settings
from codebound_papers.guha23.items.printed import CHANGES, FULLEST_ROWS
from codebound_papers.guha23.items.verdicts import span
from codebound_papers.guha23.pruning import has_small_changes, kept_share
from codebound_papers.measure.outputs import margin_report
from codebound_papers.report.figures import Figure, Plot, Series, curves
from codebound_papers.reproduce.items import Reproduction, Row, Settings, item, verdict

_SHOWN_EPOCHS = 15  # in the table
_MNIST, _CIFAR10 = "a network of G-Tab1", "a network of G-Tab2"
_READ = "Published numbers are read off the plot for MNIST in the repository, which has none in print."
_NOT_READ = "The repository has this plot for CIFAR-10 too, as a drawing; its numbers were not read off here."


def _state(networks: Networks, epoch: int) -> Row:
    """The bound as the code computes it, and the errors, after so many epochs."""
    settings, (train, test), network = networks.settings, networks.parts.samples, networks.watched.at(epoch)
    assert test is not None
    measured = released.measure_smallest_margin(network, train, device=settings.device)
    found = released.released_bound(measured, seed=settings.seed)
    by_change = released.bound_by_change(measured, train, seed=settings.seed, device=settings.device)
    tested = margin_report(network.predictor, test.on(settings.device))
    return {
        "epoch": epoch,
        "train_error": measured.margins.loss(0.0),
        "test_error": tested.loss(0.0),
        "smallest_margin": measured.facts.margin,
        "chi": found.pruned.chi,
        "margin_loss": measured.margins.loss(found.needed),
        "bound": found.bound.value,
        "chi_by_change": by_change.pruned.chi,
        "bound_by_change": by_change.bound.value,
    }


@item("G-Exp2", quick="a minute on one core", full="20 minutes on a GPU", of=_MNIST)
def guha_figure2(settings: Settings) -> Reproduction:
    """The bound and the true error over the epochs of a training (Guha et al. 2023, figure 2)

    The figure has the paper's bound and the true error of a network on MNIST over the epochs, each
    divided by its largest value in the released script. The text sees two drops of the bound: one when the
    training error falls, and one when the smallest margin of the sample becomes positive. Here is the same,
    the bound also stretched to the range of the error and as it is, with the margin; both by the margin that
    the code asks for, and by the measured change of scores, for which it has a search that it does not call.
    """
    wanted = network_settings("mnist", settings.size)
    networks = Networks(wanted, settings)
    epochs = settings.cells.get("epochs", lambda: {"kept": list(networks.watched.kept_epochs)})["kept"]
    parts = {f"epoch {epoch}": partial(_state, networks, epoch) for epoch in epochs}
    states = networks.measure("bound", parts)
    rows = normalise(rescale(rescale(states, "bound"), "bound_by_change"))
    watched = f"""One network of width {wanted.watched}, looked at every {wanted.keep_every} epochs, trained
        by the code's settings. The paper prints no numbers for this figure."""
    step = -(-len(rows) // _SHOWN_EPOCHS)
    return Reproduction(
        tables={"States of the training": [*rows[:-1:step], rows[-1]]},
        sentences=_epoch_sentences(rows, settings),
        deviations=(watched, *wanted.deviations),
        points={"epochs": rows},
        figures={"G-Exp2": _epoch_figure(rows)},
    )


def rescale(rows: Sequence[Row], column: str) -> list[Row]:
    """The rows with a bound moved and stretched to the range of the test error.

    >>> rows = [{"bound": 9.0, "test_error": 0.5}, {"bound": 7.0, "test_error": 0.25}]
    >>> [row["bound_rescaled"] for row in rescale(rows, "bound")]
    [0.5, 0.25]
    """
    bounds, errors = ([row[name] for row in rows] for name in (column, "test_error"))
    low, start = min(errors), min(bounds)
    stretch = (max(errors) - low) / ((max(bounds) - start) or 1.0)
    return [{**row, f"{column}_rescaled": low + (row[column] - start) * stretch} for row in rows]


def _epoch_sentences(rows: Sequence[Row], settings: Settings) -> Iterator[str]:
    begins = next((place for place, row in enumerate(rows) if row["smallest_margin"] > 0.0), len(rows))
    before, after = rows[:begins], [row for row in rows if row["smallest_margin"] > 0.0]
    lost = [row for row in rows[begins:] if row["smallest_margin"] <= 0.0]
    first, last = rows[0], rows[-1]
    if before:
        yield f"""We agree: the bound drops first with the training error. While the smallest margin is not
            positive, the code prunes nothing, and its bound is the training error plus a number that never
            changes. Up to epoch {before[-1]["epoch"]} the training error goes from
            {before[0]["train_error"]:.1%} to {before[-1]["train_error"]:.3%}, and the bound from
            {before[0]["bound"]:.2f} to {before[-1]["bound"]:.2f}."""
    if after:
        start, end = (before or after)[-1], after[-1]
        drops = [end[name] < start[name] for name in ("bound", "bound_by_change")]
        yield f"""{verdict(int(drops[0]), of=1, settings=settings)}: the bound drops again once the smallest
            margin is positive, which it is from epoch {after[0]["epoch"]} on. By the margin that the code
            asks for the search then ends at a strength that keeps {end["chi"]:.1%} of the weights and asks
            for a margin that {end["margin_loss"]:.1%} of the sample do not have at epoch {end["epoch"]}; that
            loss is part of the bound, which goes from {start["bound"]:.2f} to {end["bound"]:.2f}."""
        yield f"""{verdict(int(drops[1]), of=1, settings=settings)}: by the measured change of scores it drops
            too. {end["chi_by_change"]:.1%} of the weights are kept at epoch {end["epoch"]}, and the bound
            goes from {start["bound_by_change"]:.2f} to {end["bound_by_change"]:.2f}. The theorem asks for the
            other search."""
    else:
        yield "Open: the smallest margin does not become positive here, so that there is no second drop."
    if lost:
        worst = max(row["train_error"] for row in lost)
        yield f"""From epoch {lost[0]["epoch"]} on the margin is negative again, at {len(lost)} of the epochs
            that were looked at: the learning rate never falls, and the training was thrown back to a training
            error of {worst:.1%}. The bound is then {lost[-1]["bound"]:.2f}, as before the second drop."""
    yield f"""Over its largest value, as the released script draws both, the bound ends at
        {last["bound_relative"]:.3f} and the error at {last["error_relative"]:.3f}: the bound hardly moves,
        from {first["bound"]:.2f} to {last["bound"]:.2f}, while the test error goes from
        {first["test_error"]:.1%} to {last["test_error"]:.1%}. Its smallest value is
        {min(row["bound"] for row in rows):.1f}, and an error rate is at most 1 (G-E22)."""


def _epoch_figure(rows: Sequence[Row]) -> Figure:
    def lines(bound: str, by_change: str, error: str) -> list[Series]:
        labels = {bound: "bound", error: "test error", by_change: "bound by measured change"}
        return curves(rows, "epoch", labels)

    zero = Series("zero", [rows[0]["epoch"], rows[-1]["epoch"]], [0.0, 0.0], "dashed")
    margins = [*curves(rows, "epoch", {"smallest_margin": "smallest margin"}), zero]
    shares = lines("bound_relative", "bound_by_change_relative", "error_relative")
    stretched = lines("bound_rescaled", "bound_by_change_rescaled", "test_error")
    plain = lines("bound", "bound_by_change", "test_error")
    plots = [
        Plot("over the largest value, as released", "epoch", "share", shares, headroom=0.5),
        Plot("bound, in the range of the error", "epoch", "error", stretched, headroom=0.5),
        Plot("bound as it is", "epoch", "value", plain, y_scale="log"),
        Plot("smallest margin of the sample", "epoch", "margin", margins),
    ]
    return Figure(plots, columns=2)


def normalise(rows: Sequence[Row]) -> list[Row]:
    """The rows with bounds and error divided by their largest values, as the released script has them.

    >>> rows = [{"bound": 8.0, "bound_by_change": 8.0, "test_error": 0.5},
    ...         {"bound": 6.0, "bound_by_change": 4.0, "test_error": 0.25}]
    >>> [(row["bound_relative"], row["error_relative"]) for row in normalise(rows)]
    [(1.0, 1.0), (0.75, 0.5)]
    """
    names = {"bound": "bound_relative", "bound_by_change": "bound_by_change_relative"}
    names["test_error"] = "error_relative"
    largest = {name: max(row[name] for row in rows) or 1.0 for name in names}
    return [{**row, **{new: row[name] / largest[name] for name, new in names.items()}} for row in rows]


@item("G-ExpX1", quick="a minute on one core", full="some 10 minutes on a GPU", of=_MNIST)
def guha_exp_x1(settings: Settings) -> Reproduction:
    """Change of outputs by pruning, and the margin the theory asks for (Guha et al. 2023, code)

    The bound holds for a pruned network if the margin exceeds what pruning may do to an output. The
    repository plots, over 100 strengths d of pruning in [0, 10], the largest change of the score of an
    example's own class over the training set, beside the margin that its code asks for: the e-form of lemma
    B.2 with measured norms, times the factors kappa. The network is the one after 100 epochs. Beside it here:
    the largest change of a whole output, which is what the lemma bounds, and the recursion that needs no
    condition (G-LemB.2x), biases included.
    """
    return _changes("G-ExpX1", "mnist", settings)


@item("G-ExpX1:cifar10", quick="a minute on one core", full="some 10 minutes on a GPU", of=_CIFAR10)
def guha_exp_x1_cifar10(settings: Settings) -> Reproduction:
    """Change of outputs by pruning on CIFAR-10, and the margin asked for (Guha et al. 2023, code)

    As G-ExpX1, for the network on CIFAR-10, whose plot is in the repository too: what pruning does to
    outputs, beside the margin that the code asks for.
    """
    return _changes("G-ExpX1:cifar10", "cifar10", settings)


def _changes(id: str, data: Data, settings: Settings) -> Reproduction:
    wanted = network_settings(data, settings.size)
    networks, cells = Networks(wanted, settings), settings.cells
    trained = cells.get("network", networks.plotted_record)
    parts = {f"d={d:.6g}": partial(_change, networks, d) for d in released.strengths(settings.size)}
    points = networks.measure(f"pruned after {PLOTTED} epochs", parts)
    pruned = [row for row in points if row["d"] > 0.0]
    fewer = [f"{len(points)} strengths; the repository has 100."] * (len(points) < 100)
    fewer += _other_epochs(trained["epochs"])
    shown = [_beside_plot(_nearest(pruned, d), *theirs, data) for d, theirs in CHANGES.items()]
    norms = {"needed": "margin asked for", "recursion": "recursion", "largest_change": "largest change"}
    series = curves(pruned, "d", norms | {"score_change": "of the own score"})
    if data == "mnist":
        theirs = [{"d": d, "needed": needed, "change": change} for d, (needed, change) in CHANGES.items()]
        series += curves(theirs, "d", {"needed": "margin asked for, published"}, "points", colour=0)
        series += curves(theirs, "d", {"change": "of the own score, published"}, "points", colour=3)
    shares = {"kept_share": "here", "gaussian_kept_share": "Gaussian weights, chi(d)"}
    plots = [
        Plot("change of outputs by pruning", "strength d", "norm", series, y_scale="log", headroom=1.1),
        Plot("weights that stay", "strength d", "share", curves(pruned, "d", shares)),
    ]
    return Reproduction(
        tables={"Largest change of an output, and bounds on it": shown, "The network": [trained]},
        sentences=_change_sentences(pruned, shown if data == "mnist" else [], settings),
        deviations=(*fewer, _READ if data == "mnist" else _NOT_READ, *wanted.deviations),
        points={"strengths": points},
        figures={id.replace(":", "-"): Figure(plots, columns=2)},
    )


def _other_epochs(epochs: int) -> tuple[str, ...]:
    told = f"The network is the one after {epochs} epochs; the repository's code trains for {PLOTTED}."
    return () if epochs == PLOTTED else (told,)


def _nearest(rows: Sequence[Row], d: float) -> Row:
    return min(rows, key=lambda row: abs(row["d"] - d))


def _beside_plot(row: Row, needed: float, change: float, data: Data) -> Row:
    """With what the plot has at that strength, where it was read."""
    if data != "mnist":
        return row
    return {
        "d": row["d"],
        "needed": row["needed"],
        "published_needed": needed,
        "score_change": row["score_change"],
        "published_score_change": change,
        **{name: value for name, value in row.items() if name not in ("d", "needed", "score_change")},
    }


def _change_sentences(rows: Sequence[Row], beside: Sequence[Row], settings: Settings) -> Iterator[str]:
    if beside:
        asked = span([row["needed"] / row["published_needed"] for row in beside], ".2f")
        change = span([row["score_change"] / row["published_score_change"] for row in beside], ".2f")
        yield f"""Beside the repository's plot, at {len(beside)} strengths: the margin asked for is {asked}
            times the plotted one, the largest change of a score {change} times."""
    needed = [row["needed"] / row["largest_change"] for row in rows]
    agreed = sum(ratio >= 1.0 for ratio in needed)
    yield f"""{verdict(agreed, of=len(rows), settings=settings)}: the margin asked for is above the largest
        change. It is at {agreed} of {len(rows)} strengths, {min(needed):,.0f} to {max(needed):,.0f} times as
        large."""
    over = [row["d"] for row in rows if not row["is_small"]]
    recursion = [row["recursion"] / row["largest_change"] for row in rows]
    fails = f"that fails from d = {min(over):.2g} on" if over else "that holds at all of them"
    yield f"""The lemma behind it needs a change of every layer below its norm over the number of layers
        (G-E6): {fails}. The recursion needs no such condition and counts biases; it gives
        {min(recursion):,.0f} to {max(recursion):,.0f} times the largest change."""
    yield """The factor for the input is the norm of an input, not its dimension as printed (G-E5). The
        factors kappa, at most 1, have no proof (G-E11)."""


def _change(networks: Networks, strength: float) -> Row:
    settings, measured = networks.settings, networks.plotted
    facts = measured.facts
    pruned = released.draw_pruning(measured.network, strength=strength, seed=settings.seed)
    change = released.largest_change(pruned, networks.parts.samples.train.on(settings.device))
    bounds = []
    for view, layer, taken in zip(pruned.network.layers, facts.layers, pruned.changes, strict=True):
        bias = 0.0 if view.bias is None else float(torch.linalg.vector_norm(view.bias.detach()))
        bounds.append(LayerBounds(weight=layer.spectral, weight_change=taken.upper, bias=bias))
    return {
        "d": strength,
        "kept_share": pruned.kept_share,
        "gaussian_kept_share": pruned.chi,
        "score_change": change.score,
        "largest_change": change.output,
        "needed": released.needed_margin(networks.by_code(measured), pruned),
        "recursion": output_deviation(bounds, input_norm=facts.input_norm),
        "is_small": bool(has_small_changes(facts, [taken.upper for taken in pruned.changes]).holds),
    }


@item("G-ExpX2", quick="half a minute on one core", full="minutes on a GPU", of=_MNIST)
def guha_exp_x2(settings: Settings) -> Reproduction:
    """Non-zeros in the fullest row of a pruned layer, and the prediction (Guha et al. 2023, code)

    The size of a sketch depends on the fullest row of a pruned matrix. Lemma 5.1 predicts at most 3 lambda
    times the mean, for Gaussian weights; the repository plots the largest number of non-zeros in a row of the
    layer with the most inputs beside 3 fan_in chi(d), over strengths d in [0, 10], after 100 epochs.
    """
    return _fullest_rows("G-ExpX2", "mnist", settings)


@item("G-ExpX2:cifar10", quick="half a minute on one core", full="minutes on a GPU", of=_CIFAR10)
def guha_exp_x2_cifar10(settings: Settings) -> Reproduction:
    """Non-zeros in the fullest row of a pruned layer on CIFAR-10 (Guha et al. 2023, code)

    As G-ExpX2, for the network on CIFAR-10, whose plot is in the repository too: the fullest row of a
    pruned layer, beside what lemma 5.1 predicts.
    """
    return _fullest_rows("G-ExpX2:cifar10", "cifar10", settings)


def _fullest_rows(id: str, data: Data, settings: Settings) -> Reproduction:
    wanted = network_settings(data, settings.size)
    networks, cells = Networks(wanted, settings), settings.cells
    epochs = cells.get("epochs", lambda: {"plotted": networks.plotted_epoch})["plotted"]
    points: list[Row] = []
    for d in released.strengths(settings.size):
        points += cells.get(f"d={d:.6g}", partial(_rows, networks, d))["rows"]
    shown = [row for d in FULLEST_ROWS for row in points if row["d"] == _nearest(points, d)["d"]]
    tables, beside = {"The fullest row of each layer": shown}, list[Row]()
    if data == "mnist":
        plotted = (row for row in shown if row["layer"] == shown[0]["layer"])
        pairs = zip(plotted, FULLEST_ROWS.values(), strict=True)
        beside = [{**row, "published_fullest_row": theirs} for row, theirs in pairs]
        tables = {"The layer of the plot in the repository": beside, **tables}
    return Reproduction(
        tables=tables,
        sentences=_row_sentences(points, beside, settings),
        deviations=(*_other_epochs(epochs), _READ if data == "mnist" else _NOT_READ, *wanted.deviations),
        points={"strengths": points},
        figures={id.replace(":", "-"): Figure(list(_layer_plots(points, is_published=data == "mnist")))},
    )


def _row_sentences(points: Sequence[Row], beside: Sequence[Row], settings: Settings) -> Iterator[str]:
    if beside:
        ratios = [row["fullest_row"] / row["published_fullest_row"] for row in beside]
        yield f"""Beside the repository's plot, in {beside[0]["layer"]} at {len(beside)} strengths: the
            fullest row has {span(ratios, ".2f")} times the plotted number of non-zeros."""
    ratios = [row["fullest_row"] / row["predicted"] for row in points]
    below = sum(ratio <= 1.0 for ratio in ratios)
    above = "Where it is above, more of a row is large than in Gaussian weights." * (below < len(points))
    yield f"""{verdict(below, of=len(points), settings=settings)}: the fullest row is below the prediction. It
        is in {below} of {len(points)} cases, and has {min(ratios):.2f} to {max(ratios):.2f} of the
        prediction. {above}"""
    told = [row["d"] for row in points if row["predicted"] < row["fan_in"]]
    yield (
        f"In {len(points) - len(told)} cases the prediction is not below the length of a row and says nothing"
        + (f"; from d = {min(told):.2g} on it does say something." if told else ".")
    )
    more = max(row["with_diagonal"] - row["fullest_row"] for row in points)
    yield f"""The text keeps the diagonal, the code does not: in the same draws it adds at most {more} to the
        fullest row. The lemma leaves it out (G-E4), which matters once a row keeps about one weight."""


def _rows(networks: Networks, strength: float) -> dict[str, list[Row]]:
    network = networks.watched.at(networks.plotted_epoch)
    drawn = partial(released.draw_pruning, network, strength=strength, seed=networks.settings.seed)
    plain, with_diagonal = drawn(), drawn(keep_diagonal=True)
    rows: list[Row] = [
        {
            "d": strength,
            "layer": name,
            "fan_in": matrix.shape[1],
            "fullest_row": int(matrix.count_nonzero(dim=1).max()),
            "with_diagonal": int(with_diagonal.matrices[name].count_nonzero(dim=1).max()),
            "predicted": 3.0 * matrix.shape[1] * kept_share(strength),
        }
        for name, matrix in plain.matrices.items()
    ]
    return {"rows": rows}


def _layer_plots(points: Sequence[Row], *, is_published: bool) -> Iterator[Plot]:
    layers = list(dict.fromkeys(row["layer"] for row in points))
    for layer in layers:
        rows = [row for row in points if row["layer"] == layer]
        series = [*curves(rows, "d", {"predicted": "3 fan_in chi(d)", "fullest_row": "fullest row"})]
        if is_published and layer == layers[0]:
            theirs = list(FULLEST_ROWS), list(FULLEST_ROWS.values())
            series.append(Series("fullest row, published", *theirs, "points"))
        yield Plot(f"{layer}, {rows[0]['fan_in']} inputs", "strength d", "non-zeros", series)
