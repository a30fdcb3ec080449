"""Shin 2021, table 1: accuracy when the small weights of the last layer are drawn anew."""

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean

from codebound_networks.train.rng import numpy_stream
from codebound_papers.measure.tails import estimate_tail
from codebound_papers.report.figures import Figure, Plot, Series
from codebound_papers.reproduce.items import Reproduction, Row, Settings, Size, item
from codebound_papers.shin21.compressor import replacement_trials
from codebound_papers.shin21.items import shin_networks as networks

_PUBLISHED = {  # alpha, accuracy in %, accuracy with redrawn weights in %, its deviation
    "densenet40_k12_cifar10": (2.84, 94.46, 94.26, 0.09),
    "resnet20_cifar10": (3.22, 93.90, 89.19, 3.03),
    "resnet56_cifar10": (3.02, 95.32, 94.74, 0.30),
    "resnet110_cifar10": (2.98, 96.26, 95.63, 0.63),
    "resnet164bn_cifar10": (4.65, 96.24, 95.78, 0.15),
    "resnet272bn_cifar10": (2.89, 96.63, 96.51, 0.06),
    "densenet40_k12_svhn": (1.39, 96.99, 96.99, 0.02),
    "xdensenet40_2_k24_bc_svhn": (2.99, 97.08, 96.97, 0.05),
    "resnet20_svhn": (3.34, 96.60, 94.60, 0.71),
    "resnet56_svhn": (2.63, 97.19, 96.58, 0.39),
    "resnet110_svhn": (2.33, 97.48, 97.16, 0.14),
    "pyramidnet110_a48_svhn": (3.64, 97.56, 97.28, 0.11),
}
_INPUTS = {"resnet164bn": 256, "resnet272bn": 256, "densenet40_k12": 256, "xdensenet40_2_k24_bc": 264}
_USUAL_INPUTS = 64  # of the last layer, as pytorchcv builds the networks
_CLASSES, _TRIALS = 10, 10
_NULL_DRAWS: dict[Size, int] = {"tiny": 40, "quick": 200, "full": 1000}
_RARE = 0.05


def _lacks(settings: Settings) -> tuple[str, ...]:
    subjects = (*networks.published(_PUBLISHED), *networks.FILES)
    return networks.count_reasons(_obstacle(subject, settings) for subject in subjects)


def _obstacle(subject: networks.NamedNetwork, settings: Settings) -> str:
    if subject.data == "svhn" and not (path := networks.svhn_path()).is_file():
        return f"{path.name} of SVHN is not in the folder svhn of the data cache"
    return networks.obstacle(subject, settings)


_FULL = "half an hour on one core, minutes on a GPU"


@item("S-Tab1", quick="5 minutes on one core", full=_FULL, lacks=_lacks)
def shin_table1(settings: Settings) -> Reproduction:
    """Accuracy with the small weights of the last layer drawn anew (Shin 2021, table 1)

    If a layer's weights are heavy-tailed, the few large ones should do: those up to the standard deviation
    of all are replaced by Gaussian draws with the mean and deviation of all, ten times over. The table has
    the exponent of the tail, fitted to the positive weights as the released code does, and the accuracies in
    per cent. Here the fit comes with a test of it, and also for magnitudes; the draws also with the mask of
    the text, which compares signed weights and so redraws every negative one.
    """
    subjects = (*networks.published(_PUBLISHED), *networks.FILES, *networks.own(settings.size))
    found, left = networks.measure_all("replacement", subjects, settings, _measure, _obstacle)
    run = [{"network": x.name, "weights": x.source, **row, **_theirs(x)} for x, row in found]
    missing = [{"network": subject.name, **_theirs(subject), "why": why} for subject, why in left]
    draws = _NULL_DRAWS[settings.size]
    drawn = partial(gaussian_shares, draws=draws, seed=settings.seed)
    shares = settings.cells.get(f"Gaussian layers, {draws} draws", drawn)
    beside = [
        {"network": name, "weights": _CLASSES * _inputs(name), "published_alpha": alpha}
        | {"share of Gaussian layers up to it": shares[name]}
        for name, (alpha, *_) in _PUBLISHED.items()
    ]
    exponents = [{label: row[name] for label, name in _EXPONENTS.items()} for row in run]
    return Reproduction(
        tables={
            "Accuracy in %, as it is and with redrawn weights": [_accuracies(row) for row in run],
            "Exponents of the density, and whether the weights can carry a power law": exponents,
            "Published exponents beside Gaussian layers of the same size": beside,
            "Not run": missing,
        },
        sentences=_sentences(run, shares),
        deviations=(
            f"{len(run)} networks were run, {len(missing)} were not, for the reasons given.",
            "Networks from files have published architectures, but other weights: compare them in kind.",
        ),
        points={"networks": run},
        figures={"S-Tab1": _figure(run)},
    )


def _theirs(subject: networks.NamedNetwork) -> Row:
    numbers = _PUBLISHED.get(subject.like, (None, None, None, None))
    columns = ("published_alpha", "published_original", "published_redrawn", "published_deviation")
    return dict(zip(columns, numbers, strict=True))


def _accuracies(row: Row) -> Row:
    return {
        "network": row["network"],
        "weights": row["weights"],
        "original": row["original"],
        "redrawn": _spread(row["redrawn"], row["deviation"]),
        "redrawn, signed mask": _spread(row["redrawn_signed"], row["deviation_signed"]),
        "published_original": row["published_original"],
        "published_redrawn": _spread(row["published_redrawn"], row["published_deviation"]),
    }


def _spread(mean: float | None, deviation: float | None) -> str | None:
    return None if mean is None else f"{mean:.2f} ± {deviation:.2f}"


_EXPONENTS = (
    {"network": "network", "shape": "shape", "positive": "alpha_positive"}
    | {"published_positive": "published_alpha", "p": "p_value_positive", "power law?": "verdict_positive"}
    | {"absolute": "alpha_absolute", "p, absolute": "p_value_absolute"}
    | {"power law, absolute?": "verdict_absolute"}
)


def _measure(subject: networks.NamedNetwork, settings: Settings) -> Row:
    network = networks.load(subject, settings)
    sample = networks.images_for(subject).on(settings.device)
    by_size, signed = (
        replacement_trials(network, sample, trials=_TRIALS, mask=mask, seed=settings.seed)
        for mask in ("absolute", "signed")
    )
    return {
        **networks.last_layer(subject, settings),
        "original": 100.0 * by_size.original,
        "redrawn": 100.0 * by_size.mean,
        "deviation": 100.0 * by_size.deviation,
        "redrawn_signed": 100.0 * signed.mean,
        "deviation_signed": 100.0 * signed.deviation,
    }


def gaussian_shares(*, draws: int, seed: int) -> dict[str, float]:
    """By published network: the share of Gaussian layers of its size whose exponent is at most its own."""
    null = {}
    for inputs in dict.fromkeys(map(_inputs, _PUBLISHED)):
        rng = numpy_stream(seed, f"Gaussian layers/{inputs}")
        layers = (rng.standard_normal(_CLASSES * inputs) for _ in range(draws))
        null[inputs] = [estimate_tail(weights[weights > 0.0]).density_exponent for weights in layers]
    return {
        name: fmean(exponent <= alpha for exponent in null[_inputs(name)])
        for name, (alpha, *_) in _PUBLISHED.items()
    }


def _inputs(name: str) -> int:
    return _INPUTS.get(name.rpartition("_")[0], _USUAL_INPUTS)


def _sentences(rows: Sequence[Row], shares: Row) -> Iterator[str]:
    for row in rows:
        if row["published_original"] is not None:
            yield f"""{row["network"]}: redrawing costs {row["original"] - row["redrawn"]:.2f} points of
                accuracy; published are {row["published_original"] - row["published_redrawn"]:.2f}."""
    small = [row["original"] - row["redrawn"] for row in rows if row["published_original"] is None]
    yield f"""Open (none of the twelve published networks is here): the small weights of a last layer hardly
        matter. In {len(small)} small networks trained here redrawing costs {min(small):.2f} to
        {max(small):.2f} points, so that it is not general."""
    below = [name for name, share in shares.items() if share <= _RARE]
    others = ", ".join(
        f"{_PUBLISHED[name][0]} of {name} ({share:.0%})" for name, share in shares.items() if share > _RARE
    )
    yield (
        f"The published exponents are heavier-tailed than Gaussian weights: for {len(below)} of "
        f"{len(shares)} networks at most {_RARE:.0%} of Gaussian layers of the same size have so small an "
        "exponent"
        + (f"; not so {others}." if others else ".")
        + " They are exponents of the density, one above those of the tail (S-E17)."
    )
    heavy = sum(row["verdict_positive"] == "power law" for row in rows)
    yield f"""That a tail is a power law is another question: the positive weights can carry that claim in
        {heavy} of the {len(rows)} networks here. Whether it is the tail that makes redrawing harmless is not
        shown by either."""
    worst = max(row["original"] - row["redrawn_signed"] for row in rows)
    yield f"""The text compares the signed weight with the deviation, so that every negative weight is
        redrawn; the released code compares magnitudes (S-E18). By the text up to {worst:.2f} points are
        lost."""
    yield """Redrawing one layer is no bound: the others stay as they are, and no value of a bound is computed
        in the paper (S-E22)."""


def _figure(rows: Sequence[Row]) -> Figure:
    theirs = [(alpha, before - after, deviation) for alpha, before, after, deviation in _PUBLISHED.values()]
    ours = [(row["alpha_positive"], row["original"] - row["redrawn"], row["deviation"]) for row in rows]
    series = []
    for label, points in (("published", theirs), ("here", ours)):
        x, y, deviations = (list(each) for each in zip(*points, strict=True))
        series.append(Series(label, x, y, "points", deviations=deviations))
    plot = Plot("points of accuracy lost", "exponent alpha of the density", "points", series)
    return Figure([plot], columns=1)
