"""Shin 2021, figure 3: stable rank of last layers against the exponent of their tail."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from codebound_papers.report.figures import Figure, Plot, Series, curves_by
from codebound_papers.reproduce.items import Reproduction, Row, Settings, item, verdict
from codebound_papers.shin21.items import shin_networks as networks
from codebound_papers.shin21.mixture import RegressionMixture, fit_regressions, released_regressions

_RELEASED_LIST = """
    resnet20_cifar10 resnet56_cifar10 resnet110_cifar10 resnet164bn_cifar10 resnet272bn_cifar10
    resnet20_cifar100 resnet56_cifar100 resnet110_cifar100 resnet20_svhn resnet56_svhn resnet110_svhn
    densenet40_k12_cifar10 densenet40_k12_cifar100 densenet40_k12_bc_svhn xdensenet40_2_k24_bc_cifar10
    xdensenet40_2_k24_bc_svhn pyramidnet110_a48_svhn pyramidnet110_a48_cifar10 pyramidnet110_a84_cifar10
    preresnet20_svhn preresnet56_svhn preresnet110_svhn preresnet20_cifar10 preresnet56_cifar10
    preresnet110_cifar10 seresnet20_cifar10 seresnet56_cifar10 seresnet110_cifar10 seresnet20_svhn
    seresnet56_svhn seresnet110_svhn sepreresnet20_cifar10 sepreresnet56_cifar10 sepreresnet110_cifar10
    sepreresnet20_svhn wrn16_10_cifar10 wrn28_10_cifar10 wrn28_10_svhn wrn40_8_cifar10 wrn40_8_svhn
    wrn16_10_svhn
"""  # 43 entries, 41 of them different (S-E19)
_NETWORKS = networks.published(_RELEASED_LIST.split())
_RANKS = {"released_stable_rank": "as released, ||W||_F² / σ⁴", "stable_rank": "stable rank, ||W||_F² / σ²"}
_STARTS = 10  # of the released algorithm, whose end depends on its start


def _lacks(settings: Settings) -> tuple[str, ...]:
    subjects = (*_NETWORKS, *networks.FILES)
    return networks.count_reasons(networks.last_layer_obstacle(subject, settings) for subject in subjects)


@item(
    "S-Fig3",
    quick="2 minutes on one core; the networks are those of S-Tab1",
    full="half an hour on one core, minutes on a GPU",
    lacks=_lacks,
)
def shin_figure3(settings: Settings) -> Reproduction:
    """Stable rank of last layers against the exponent of their tail (Shin 2021, figure 3)

    Each point is the last dense layer of a network: the exponent alpha of its positive weights, and its
    stable rank. A mixture of two linear regressions is fitted, which the paper reads as two clusters. What
    the released script plots as stable rank is divided by the squared spectral norm twice (S-E25); here are
    both, each with the released algorithm from several starts and with expectation-maximisation from many.
    """
    subjects = (*_NETWORKS, *networks.FILES, *networks.own(settings.size))
    layers, missing = networks.measure_all(
        "last layer", subjects, settings, networks.last_layer, networks.last_layer_obstacle
    )
    found = [{"network": each.name, "source": each.source, **layer} for each, layer in layers]
    fits = [fit for rank in _RANKS for fit in _fits(found, rank, settings.seed)]
    reasons = Counter(why for _, why in missing)
    left = [{"networks": count, "reason": why} for why, count in reasons.items()]
    return Reproduction(
        tables={"Last layers": found, "Mixtures of two lines": fits, "Not run": left},
        sentences=_sentences(found, fits, settings),
        deviations=(f"{len(found)} networks, most of them small and trained here; the paper has 41.",),
        figures={"S-Fig3": Figure([_plot(found, fits, rank) for rank in _RANKS], columns=2)},
    )


def _fits(rows: Sequence[Row], rank: str, seed: int) -> Iterator[Row]:
    points = [row["alpha_positive"] for row in rows], [row[rank] for row in rows]
    released = [released_regressions(*points, seed=seed + start) for start in range(_STARTS)]
    best = max(released, key=lambda fit: fit.log_likelihood)
    ends = {tuple(round(slope, 2) for slope in fit.slopes) for fit in released}
    yield _fit_row(best, rank, f"as released, best of {_STARTS} starts", len(ends))
    yield _fit_row(fit_regressions(*points, seed=seed), rank, "expectation-maximisation", 1)


def _fit_row(fit: RegressionMixture, rank: str, algorithm: str, ends: int) -> Row:
    return {
        "of": rank,
        "algorithm": algorithm,
        "slope_1": fit.slopes[0],
        "intercept_1": fit.intercepts[0],
        "slope_2": fit.slopes[1],
        "intercept_2": fit.intercepts[1],
        "log_likelihood": fit.log_likelihood,
        "different_ends": ends,
    }


def _sentences(rows: Sequence[Row], fits: Sequence[Row], settings: Settings) -> Iterator[str]:
    correlation = {rank: _correlation(rows, rank) for rank in _RANKS}
    theirs = sum(row["source"] == "pytorchcv" for row in rows)
    other = f"{theirs} of the 41 published networks are among these" if theirs < len(_NETWORKS) else ""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["network"].partition(" on ")[2], []).append(row)
    within = {data: _correlation(each, "stable_rank") for data, each in groups.items() if len(each) > 2}
    cases = [correlation["stable_rank"], *within.values()]
    agreed = sum(each > 0.0 for each in cases)
    word = verdict(agreed, of=len(cases), settings=settings, differs=other) if theirs else f"Open ({other})"
    parts = "; ".join(f"{round(value, 2) + 0.0:.2f} on {data or 'others'}" for data, value in within.items())
    yield (
        f"{word}: a small exponent goes with a small stable rank. Over {len(rows)} last layers the "
        f"correlation of the stable rank with alpha is {correlation['stable_rank']:.2f}."
        + (f" Among networks of one dataset it is {parts}." if parts else "")
        + " In matrices of independent entries it is so without exception (S-5.3:synthetic)."
    )
    below = sum(row["released_stable_rank"] < 1.0 for row in rows)
    yield f"""What the released script plots is no stable rank (S-E25): for {below} of {len(rows)} layers it
        is below 1, which a stable rank never is, and twice the weights would have a quarter of it. Its
        correlation with alpha is {correlation["released_stable_rank"]:.2f}."""
    ends = [fit["different_ends"] for fit in fits if fit["different_ends"] > 1]
    yield (
        "Two lines can be fitted to any cloud, and where the released algorithm ends depends on its start: "
        + (f"{_STARTS} starts have up to {max(ends)} ends here." if ends else "not here, however.")
    )
    heavy = sum(row["verdict_positive"] == "power law" for row in rows)
    yield f"The tail is one that the data can call a power law in {heavy} of {len(rows)} layers."


def _correlation(rows: Sequence[Row], rank: str) -> float:
    return float(np.corrcoef([row["alpha_positive"] for row in rows], [row[rank] for row in rows])[0, 1])


def _plot(rows: Sequence[Row], fits: Sequence[Row], rank: str) -> Plot:
    alphas = [row["alpha_positive"] for row in rows]
    ends = min(alphas), max(alphas)
    fit, _ = (fit for fit in fits if fit["of"] == rank)
    series = curves_by(rows, "source", "alpha_positive", rank, "points", label="from {}")
    for line in (1, 2):
        x, y = _above_zero(fit[f"slope_{line}"], fit[f"intercept_{line}"], ends)
        series.append(Series(f"line {line} of two, as released", x, y, "dashed"))
    names = _RANKS[rank], "exponent alpha of the density", rank.replace("_", " ")
    return Plot(*names, series, headroom=0.6)


def _above_zero(slope: float, intercept: float, ends: tuple[float, float]) -> tuple[list[float], list[float]]:
    """A line between two ends, cut where it would go below zero, which no rank does.

    >>> _above_zero(1.0, -2.0, (1.0, 5.0)), _above_zero(1.0, 0.0, (1.0, 5.0))
    (([2.0, 5.0], [0.0, 3.0]), ([1.0, 5.0], [1.0, 5.0]))
    """
    values = [slope * end + intercept for end in ends]
    x = [end if value >= 0.0 else -intercept / slope for end, value in zip(ends, values, strict=True)]
    return x, [max(value, 0.0) for value in values]
