"""The networks of Guha et al. 2023, tables 1 and 2: trained by the code and by the text, and measured."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal, NamedTuple

import torch

from codebound.bounds.held_out import holdout
from codebound.bounds.risk import HoldoutFacts
from codebound.run.files import finite
from codebound.sample.dataset import Sample, Scaling
from codebound.sample.load import split
from codebound_networks.train.config import Constant, TrainConfig, preset
from codebound_papers.baselines import guha_code, literature, parameter_counting
from codebound_papers.guha23.items import released
from codebound_papers.guha23.items.printed import BARS, EXAMPLES
from codebound_papers.guha23.items.printed import MNIST as PRINTED
from codebound_papers.guha23.pruning import strength_for
from codebound_papers.measure.outputs import margin_report
from codebound_papers.measure.record import Measured
from codebound_papers.reproduce.items import Row, Settings, Size
from codebound_papers.reproduce.training import Samples, Trained, load_samples, make_samples, train

Data = Literal["mnist", "cifar10"]

CODE, TEXT = "SGD (code)", "Adam (text)"
"""Names of the settings: those of the released configurations, and of the text (G-E29)."""

_RELEASED, _MNIST_TEXT, _CIFAR10_TEXT = (
    replace(preset(name), checkpoint_every=20)  # 0.2 GB of the widest network: not every epoch
    for name in ("guha23-released", "guha23", "guha23-cifar10")
)
_SETTINGS: dict[Data, dict[str, TrainConfig]] = {
    "mnist": {
        CODE: replace(_RELEASED, learning_rate=0.02, schedule=Constant(), batch_size=256),
        TEXT: _MNIST_TEXT,
    },
    "cifar10": {CODE: _RELEASED, TEXT: replace(_CIFAR10_TEXT, batch_size=64)},
}
_SHAPES: dict[Data, tuple[int, int, int]] = {"mnist": (1, 8, 8), "cifar10": (3, 8, 8)}  # of made-up images
_DELTA = 0.05
PLOTTED = 100
"""Epochs after which the released code draws its two plots of a network (G-ExpX1, G-ExpX2)."""
USUAL_SHARE = 0.8  # of the weights, about what the printed values imply at every width


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """Networks to train, and their settings."""

    data: Data  # what they classify
    depth: int  # their layers
    widths: tuple[int, ...]  # widths of their hidden layers
    watched: int  # the width of the network that is looked at over its epochs, and in plots of its own
    keep_every: int  # epochs between two states of that network that are kept
    trainings: Mapping[str, TrainConfig]  # settings by name
    taken: int | None = None  # examples of the training set that are used; None: all
    deviations: tuple[str, ...]  # from the published settings


def network_settings(data: Data, size: Size) -> NetworkSettings:
    """The networks that an item of this size needs."""
    is_mnist = data == "mnist"
    full = NetworkSettings(
        data=data,
        depth=5,
        widths=tuple(PRINTED) if is_mnist else (2000,),
        watched=784 if is_mnist else 2000,
        keep_every=10 if is_mnist else PLOTTED,
        trainings=_SETTINGS[data],
        deviations=tuple(_known_deviations(data)),
    )
    if size == "full":
        on_gpus = "On a GPU, products of the trainings round their factors to 10 bits (TF32)."
        coarse = {name: replace(each, precision="tensorfloat32") for name, each in full.trainings.items()}
        return replace(full, trainings=coarse, deviations=(*full.deviations, on_gpus))
    often = replace(full, keep_every=2)
    if size == "tiny":
        rate = 0.1 if is_mnist else 0.01  # one with a positive margin in the end, one without
        code, text = (replace(config, epochs=8, batch_size=20) for config in full.trainings.values())
        return replace(
            often,
            depth=3,
            widths=(8, 12) if is_mnist else (12,),
            watched=12,
            trainings={CODE: replace(code, learning_rate=rate), TEXT: text},
            deviations=("Made-up images.",),
        )
    few, taken = ((100, 200, 500), 6000) if is_mnist else ((200,), 2500)
    listed, published = (", ".join(map(str, widths)) for widths in (few, full.widths))
    cut = f"""Hidden width {listed} in place of {published}, {taken * 4 // 5:,} examples in place of
        {EXAMPLES[data]:,}, at most 60 epochs in place of 300, batch size 32: on few examples small networks
        reach a positive margin in minutes."""
    shorter = {name: replace(each, epochs=60, batch_size=32) for name, each in full.trainings.items()}
    told = (cut, *full.deviations)
    return replace(often, widths=few, watched=200, trainings=shorter, taken=taken, deviations=told)


def _known_deviations(data: Data) -> Iterator[str]:
    if data == "cifar10":
        yield """Batch size 64, as in the second version of the code, with either optimiser; the text and the
            first version have 4, and 300 epochs of 10,000 steps of 0.06 s are two days of one core."""
        yield "Width 2000 as in the code; the text says 784 (G-E22)."
    else:
        yield """By the code: SGD with momentum 0.9, weight decay 1e-4, learning rate 0.02 without steps. Its
            loop begins anew, momentum included, before it looks at the network; here there is one
            training."""
    yield """Pixels in [-1, 1], and a fifth of the training set held out; there it is for validation, here for
        a certificate. Beside the text's optimiser stands the code's (G-E29)."""


class Parts(NamedTuple):
    """Samples of training and testing, and examples that nothing was chosen with."""

    samples: Samples
    held_out: Sample


def parts_of(wanted: NetworkSettings, *, size: Size) -> Parts:
    """The data of these networks: four fifths to train on, as the released code leaves, scaled to [-1, 1]."""
    if size == "tiny":
        train, test = make_samples(_SHAPES[wanted.data], n=250)
    else:
        train, test = load_samples(wanted.data)
    if wanted.taken is not None:
        train = train.select(range(wanted.taken), role="train")
    halves = (0.5,) * train.input_shape[0]
    scaling = Scaling(divisor=255.0, mean=halves, std=halves)
    cut = split(replace(train, scaling=scaling), {"train": 0.8, "prior": 0.2})
    scaled = None if test is None else replace(test, scaling=scaling)
    return Parts(Samples(cut["train"], scaled), cut["prior"])


@dataclass(frozen=True)
class Networks:
    """The networks that are wanted; data is loaded when the first of them is needed."""

    wanted: NetworkSettings
    settings: Settings

    @cached_property
    def parts(self) -> Parts:
        """The data."""
        return parts_of(self.wanted, size=self.settings.size)

    def rows(self, widths: Sequence[int] | None = None, *, on_the_way: bool = False) -> list[Row]:
        """Return a row for each network, or for those of some widths.

        It is measured now, or found finished; some rows are missing when time is out. On the way: the watched
        network too, after as many epochs as the plots have, where it is trained for more.
        """
        parts: dict[str, Callable[[], Row]] = {
            f"{training}, width {width}": partial(self._row, training, width)
            for width in widths or self.wanted.widths
            for training in self.wanted.trainings
        }
        trained = self.wanted.trainings[CODE].epochs
        if on_the_way and min(trained, self.settings.epochs or trained) > PLOTTED:
            parts[f"{CODE}, width {self.wanted.watched}, {PLOTTED} epochs"] = self._plotted_row
        return self.settings.cells.get_some(parts)

    def train(self, training: str, width: int) -> Trained:
        """One of the networks; of the one that is watched, states on the way are kept."""
        wanted, settings = self.wanted, self.settings
        config = replace(wanted.trainings[training], seed=settings.seed)
        every = wanted.keep_every if (training, width) == (CODE, wanted.watched) else 0
        spec = f"mlp:depth={wanted.depth},width={width}"
        return train(spec, self.parts.samples, config, settings, keep_every=every)

    @cached_property
    def watched(self) -> Trained:
        """The network of the figures that look at one, trained by the code's settings."""
        return self.train(CODE, self.wanted.watched)

    def measure(self, what: str, parts: Mapping[str, Callable[[], Row]]) -> list[Row]:
        """Measurements of that network, which several processes share out; some, when time is out."""

        def compute(name: str, measure: Callable[[], Row]) -> Row:
            return self.watched.measure(f"{name}, {what}, {self.settings.size}", measure)

        shared = {name: partial(compute, name, measure) for name, measure in parts.items()}
        return self.settings.cells.get_some(shared)

    @cached_property
    def plotted_epoch(self) -> int:
        """The epoch of the plots, or the last where a training was cut short."""
        kept = self.watched.kept_epochs
        return PLOTTED if PLOTTED in kept else kept[-1]

    @cached_property
    def plotted(self) -> Measured:
        """That network as it was then, with its norms and margins."""
        network, sample = self.watched.at(self.plotted_epoch), self.parts.samples.train
        return released.measure_smallest_margin(network, sample, device=self.settings.device)

    def plotted_record(self) -> Row:
        """Return the record of the plotted network, with its errors."""
        measured, (train, test) = self.plotted, self.parts.samples
        assert test is not None
        tested = margin_report(measured.network.predictor, test.on(self.settings.device))
        return {
            "model": self.watched.record["model"],
            "data": train.name,
            "n": train.n,
            "epochs": self.plotted_epoch,
            "train_error": measured.margins.loss(0.0),
            "test_error": tested.loss(0.0),
        }

    def _row(self, training: str, width: int) -> Row:
        """Natural logarithms of all bounds, None where one is infinite, and how they came about."""
        subject = self.train(training, width)
        found = subject.measure(f"bounds, {self.settings.size}", partial(self._measure, subject))
        return {"width": width, "training": training, **found}

    def _plotted_row(self) -> Row:
        """The same of the network that is watched, as it was at the epoch of the plots."""
        subject, seen = self.watched, self.plotted_record()
        then = replace(subject, network=subject.at(seen["epochs"]), record={**subject.record, **seen})
        what = f"bounds after {PLOTTED} epochs, {self.settings.size}"
        found = subject.measure(what, partial(self._measure, then))
        return {"width": self.wanted.watched, "training": f"{CODE}, {PLOTTED} epochs", **found}

    def _measure(self, subject: Trained) -> Row:
        settings, (samples, _) = self.settings, self.parts
        measured = released.measure_smallest_margin(subject.network, samples.train, device=settings.device)
        facts, margins = measured.facts, measured.margins
        found = by_image = released.released_bound(measured, seed=settings.seed)
        by_code = self.by_code(measured)
        if by_code is not measured:
            found = released.released_bound(by_code, seed=settings.seed)
        seed, device, strength = settings.seed, settings.device, strength_for(USUAL_SHARE)
        by_change = released.bound_by_change(by_code, samples.train, seed=seed, device=device)
        usual = released.draw_pruning(measured.network, strength=strength, seed=seed)
        bars = (finite(bar.log_value) for bar in (*guha_code(facts), found.bound))
        # counting takes any margin above zero: its loss is the plain training error
        counting = parameter_counting(replace(facts, margin=1.0, margin_loss=margins.loss(0.0)))
        return {
            "n": facts.examples,
            "epochs": subject.record["epochs"],
            "train_error": subject.record["train_error"],
            "test_error": subject.record["test_error"],
            "smallest_margin": facts.margin,
            "strength": found.pruned.strength,
            "chi": found.pruned.chi,
            "kept_share": found.pruned.kept_share,
            "needed": found.needed,
            "needed_loss": margins.loss(found.needed),
            "needed_for_usual_share": released.needed_margin(by_code, usual),
            "chi_by_change": by_change.pruned.chi,
            "guha_by_change": by_change.bound.log_value,
            "input_norm": measured.facts.input_norm,
            "pixel_norm": self._pixel_norm,
            "strength_by_input_norm": by_image.pruned.strength,
            "guha_by_input_norm": by_image.bound.log_value,
            "released": dict(zip(BARS, bars, strict=True)),
            "literature": {risk.name: finite(risk.log_value) for risk in literature(facts)},
            "parameter_counting": counting.log_value,
            "hold_out": math.log(self._held_out_bound(subject.network.predictor)),
        }

    @cached_property
    def _pixel_norm(self) -> float:
        """Largest norm over the channels of a pixel: what the code takes for the norm of a colour image."""
        chunks = self.parts.samples.train.on(self.settings.device).chunks(4096)
        return max(float(torch.linalg.vector_norm(x, dim=1).max()) for x, _ in chunks)

    def by_code(self, measured: Measured) -> Measured:
        """The same with the code's own norm of a colour image."""
        if self.wanted.data != "cifar10":
            return measured
        assert measured.outputs is not None
        return replace(measured, outputs=replace(measured.outputs, input_norm=self._pixel_norm))

    def _held_out_bound(self, network: torch.nn.Module) -> float:
        """A certificate for f by the examples that were held out; it holds for all that are wanted."""
        fresh = self.parts.held_out.on(self.settings.device)
        facts = HoldoutFacts(
            errors=margin_report(network, fresh).errors,
            n=fresh.n,
            delta=_DELTA / (len(self.wanted.widths) * len(self.wanted.trainings)),
            classes=self.parts.held_out.classes,
            subject="f",
        )
        return holdout(facts).value
