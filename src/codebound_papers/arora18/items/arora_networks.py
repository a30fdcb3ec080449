"""The networks of Arora et al. 2018, VGG-19 and AlexNet on CIFAR-10, and what is measured of them.

A measurement is kept beside the weights of its network, so that all items with that network share it: by
layer as histograms of noise stability, of the whole network as the facts that the expressions are told.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Literal, NamedTuple

import numpy as np
import torch

from codebound.sample.dataset import Scaling
from codebound_networks.reading.walk import Network
from codebound_networks.train.config import Step, TrainConfig, preset
from codebound_papers.arora18.items import layer_rows
from codebound_papers.measure.noise.meter import stability
from codebound_papers.measure.noise.quantities import Perturb, Smoothness, StabilitySettings
from codebound_papers.measure.noise.result import Distribution, Key, Stability
from codebound_papers.measure.outputs import margin_report
from codebound_papers.measure.record import Family, MeasureSettings, measure_facts
from codebound_papers.measure.steps import draw_examples, fold_and_wrap
from codebound_papers.reproduce.items import Row, Settings, Size, item
from codebound_papers.reproduce.training import Samples, Trained, load_samples, make_samples, train

Layers = Sequence[str] | None
Labels = Literal["true", "control", "corrupted"]
_CONTROL = "true labels, settings of the corrupted run"
LABELS: dict[Labels, str] = {"true": "true labels", "control": _CONTROL, "corrupted": "corrupted labels"}
"""Labels of an AlexNet's training. The control differs from the corrupted run in its labels alone."""

_PUBLISHED = replace(preset("arora18"), checkpoint_every=10)  # 0.2 GB each
_SCALING = Scaling(255.0, mean=(0.4914, 0.4822, 0.4465), std=(0.247, 0.2435, 0.2616))
_ACCURACIES = {  # in per cent, as published
    "VGG-19": (100.0, 92.45),
    "AlexNet, true labels": (100.0, 77.22),
    "AlexNet, corrupted labels": (100.0, 9.86),
}
vgg19_item = partial(
    item,
    quick="3 minutes on one core, seconds after another item with VGG-19",
    full="half an hour on a GPU, seconds after another item with VGG-19",
)
"""Registers an item that needs VGG-19 at the end of its training alone."""
_BIASES = """Biases, and batch norms after folding, stay out of cushions as in the paper, although the theory
    needs them inside (A-E20)."""
_POOLING = """The contraction is that of everything between two layers, max pooling included, because the next
    layer is applied to its result; definition 6 has the activation alone. Pooling raises it."""
_ALEXNET = """The paper names AlexNet and not its layers: five convolutions and one linear layer are our
    choice. Corrupted labels are redrawn uniformly, not permuted, so that a tenth of them stay true."""
GAMMA = """gamma is the margin that a tenth of the training images stays below, besides those that are errors;
    the paper does not say."""
"""Choice of the margin, for the list of deviations."""

_PIXELS = 16
GAUSSIAN_NOISES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Lengths of Gaussian noise for smoothness, relative to the activation it is added to."""
PROJECTIONS = (1.0, 100.0, 10_000.0)
"""Numbers for each weight of a layer in the noise of Matrix-Project: with 1, nothing is compressed."""
USUAL_NOISE = 0.1
"""The Gaussian noise where one is shown alone."""
_CHUNK = {"cpu": 50, "cuda": 500}  # examples at a time: what stays near a cache, or keeps a GPU busy
_MARGIN_SHARE, _MOST = 0.1, 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """Extent of the measurements of a network."""

    examples: int  # training examples, drawn at random
    # pairs of layers whose Jacobians count: each with the output, or each with all later ones
    interlayer: Literal["none", "output", "all"] = "all"
    probes: int = 16  # for norms of Jacobians to hidden layers; those to no more outputs than that are exact
    noisy: int = 0  # of these, the examples for smoothness
    draws: int = 0  # noise draws for it, at each size of noise


class _Training(NamedTuple):
    """A network of the zoo, and how it is trained."""

    spec: str
    config: TrainConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class _StudySettings:
    """One size of the study."""

    vgg19: _Training  # in the place of VGG-19
    true: _Training  # in the place of AlexNet, for true labels
    # for random labels, without dropout and weight decay, else not learned; so is the control
    corrupted: _Training
    images: int | None  # images to train on, and to count test errors on; all when None
    keep_every: int  # epochs between two points of the figure over training
    measuring: Measuring  # of networks at the end of their training
    measuring_epochs: Measuring  # of networks on the way

    @property
    def measuring_layers(self) -> Measuring:
        """Of which the items need layers by themselves alone."""
        return replace(self.measuring, interlayer="none", noisy=0, draws=0)


_TINY = _Training("lenet5", replace(_PUBLISHED, epochs=4, batch_size=20))
_QUICK = _Training(
    "alexnet:width=16,dropout=0",
    replace(_PUBLISHED, batch_size=64, epochs=40, schedule=Step(every=10, multiply=0.5)),
)
_FULL = replace(_PUBLISHED, precision="bfloat16")
_SIZES: dict[Size, _StudySettings] = {
    "tiny": _StudySettings(
        vgg19=_TINY,
        true=_TINY,
        corrupted=_TINY,
        images=60,
        keep_every=2,
        measuring=Measuring(examples=12, noisy=6, draws=2),
        measuring_epochs=Measuring(examples=6, interlayer="output"),
    ),
    "quick": _StudySettings(
        vgg19=_Training(
            "vgg19:width=8,batch_norm=true,dropout=0.1",
            replace(_QUICK.config, epochs=60, schedule=Step(every=12, multiply=0.5)),
        ),
        true=_QUICK,
        corrupted=_QUICK,
        images=2000,
        keep_every=6,
        measuring=Measuring(examples=100, noisy=20, draws=2),
        measuring_epochs=Measuring(examples=50, interlayer="output"),
    ),
    "full": _StudySettings(
        vgg19=_Training("vgg19", replace(_FULL, augment="flip-crop")),
        true=_Training("alexnet", _FULL),
        corrupted=_Training("alexnet:dropout=0", replace(_FULL, learning_rate=0.01, weight_decay=0.0)),
        images=None,
        keep_every=20,
        measuring=Measuring(examples=2000, probes=32, noisy=500, draws=3),
        measuring_epochs=Measuring(examples=500, interlayer="output"),
    ),
}


def deviations(size: Size, *, of: Literal["vgg19", "vgg19 over epochs", "alexnet"]) -> tuple[str, ...]:
    """List the deviations of networks and measurements from the paper. It is silent about some."""
    sized, random_labels = _SIZES[size], ""
    (spec, config), measuring = {
        "vgg19": (sized.vgg19, sized.measuring),
        "vgg19 over epochs": (sized.vgg19, sized.measuring_epochs),
        "alexnet": (sized.true, sized.measuring_layers),
    }[of]
    if size == "full":
        images = "shifted and mirrored images" if config.augment != "none" else "the images as they are"
        network = f"""{spec} is trained on {images}, from Gaussian weights of variance 2 / fan-out, with
            products in bfloat16; the paper does not say."""
        if of == "alexnet":
            random_labels = f"""Random labels: {sized.corrupted.spec}, without weight decay, at learning rate
                {sized.corrupted.config.learning_rate}. With dropout 1/2, weight decay and
                {config.learning_rate} it does not learn them: 10.5 % training accuracy after 136 epochs. So
                these two networks differ in more than their labels; the control has the settings of the
                second and the labels of the first."""
    else:
        network = f"""{spec} is trained on {sized.images} images for at most {config.epochs} epochs with batch
            size {config.batch_size} and learning rate {config.learning_rate}, {config.schedule}; theirs on
            50,000 for {_PUBLISHED.epochs}, {_PUBLISHED.batch_size}, {_PUBLISHED.learning_rate},
            {_PUBLISHED.schedule}."""
    measured = f"Measured on {measuring.examples} training images drawn at random; the paper does not say."
    jacobians = {
        "all": f"Jacobians to hidden layers by {measuring.probes} probes; smoothness on {measuring.noisy} of "
        f"the images by {measuring.draws} draws of noise at each size.",
        "output": "Jacobians to the output alone, where the definition has all later layers.",
        "none": "",
    }[measuring.interlayer]
    layout = _ALEXNET if of == "alexnet" else ""
    return tuple(filter(None, (network, layout, random_labels, measured, jacobians, _POOLING, _BIASES)))


def accuracies(name: str, found: Row) -> Row:
    """The accuracies in per cent of a network, beside the published ones."""
    training, validation = _ACCURACIES.get(name, (None, None))
    return {
        "network": name,
        "training accuracy": 100.0 * (1.0 - found["train_error"]),
        "published_training": training,
        "test accuracy": 100.0 * (1.0 - found["test_error"]),
        "published_validation": validation,
        "examples without a value": found["undefined"],
    }


@dataclass(frozen=True)
class Study:
    """The networks, trained or loaded when a part of an item first needs one."""

    settings: Settings

    @property
    def sized(self) -> _StudySettings:
        """Its size."""
        return _SIZES[self.settings.size]

    @cached_property
    def samples(self) -> Samples:
        """Training and test images."""
        if self.settings.size == "tiny":
            return make_samples(n=60)
        train, test = load_samples("cifar10")
        assert test is not None
        if (count := self.sized.images) is not None:
            train, test = train.select(range(count), role="train"), test.select(range(count), role="test")
        return Samples(replace(train, scaling=_SCALING), replace(test, scaling=_SCALING))

    @cached_property
    def vgg19(self) -> Trained:
        """VGG-19 with true labels, and its weights on the way."""
        return self._train(self.sized.vgg19, keep_every=self.sized.keep_every)

    @property
    def labels(self) -> tuple[Labels, ...]:
        """Labels of the AlexNets. The control exists only where the settings of the other two differ."""
        return ("true", "corrupted") if self.sized.true == self.sized.corrupted else tuple(LABELS)

    def alexnet(self, labels: Labels) -> Trained:
        """AlexNet, with true labels or with random ones."""
        if labels == "true":
            return self._train(self.sized.true)
        return self._train(self.sized.corrupted, label_shuffle=float(labels == "corrupted"))

    def _train(self, training: _Training, *, label_shuffle: float = 0.0, keep_every: int = 0) -> Trained:
        config = replace(training.config, seed=self.settings.seed, label_shuffle=label_shuffle)
        return train(training.spec, self.samples, config, self.settings, keep_every=keep_every)

    def measure_vgg19(self) -> Row:
        """Histograms of every layer of VGG-19 after its training, facts, and errors."""
        measuring = self.sized.measuring

        def compute() -> Row:
            return self._measure(self.vgg19.network, measuring, initial=self.vgg19.at(0))

        return self._keep("VGG-19", f"end, {measuring}", compute)

    def _keep(self, part: str, what: str, compute: Callable[[], Row]) -> Row:
        """A part that is a measurement of VGG-19, which is kept beside its weights."""
        return self.settings.cells.get(part, lambda: self.vgg19.measure(what, compute))

    def measure_random(self) -> Row:
        """Cushions and contractions of every layer of VGG-19 before its training."""
        asked = self.sized.measuring_layers
        what = f"start, {asked}"
        return self._keep("VGG-19, random", what, lambda: self.measure_layers(self.vgg19.at(0), asked))

    def measure_random_layer(self, layer: str) -> Row:
        """Histograms of one layer of VGG-19 before its training, its smoothness at the usual noise."""

        def compute() -> Row:
            subject, measuring = self.vgg19, self.sized.measuring
            (found,) = self.measure_layers(subject.at(0), measuring, layers=(layer,))["layers"]
            (noisy,) = self._measure_noise(subject.at(0), USUAL_NOISE, layers=(layer,))["layers"]
            return {**noisy, **found}

        return self.settings.cells.get(f"VGG-19, random, {layer}", compute)

    def measure_noises(self, only: str = "") -> dict[str, list[Row]]:
        """By noise, or for one of them: the smoothness of every layer but the last of the trained VGG-19."""

        def compute(label: str, noise: Perturb | float) -> Row:
            subject, what = self.vgg19, f"noise {label}, {self.sized.measuring}"
            return subject.measure(what, lambda: self._measure_noise(subject.network, noise))

        noises: dict[str, Perturb | float] = {layer_rows.gaussian(size): size for size in GAUSSIAN_NOISES}
        noises |= {layer_rows.projection(each): layer_rows.projection_noise(each) for each in PROJECTIONS}
        chosen = {label: noise for label, noise in noises.items() if only in ("", label)}
        parts = {f"VGG-19, {label}": partial(compute, label, noise) for label, noise in chosen.items()}
        return {name.removeprefix("VGG-19, "): row["layers"] for name, row in self._some(parts).items()}

    def _some(self, parts: Mapping[str, Callable[[], Row]]) -> dict[str, Row]:
        """The finished ones of some parts, by name."""
        rows = self.settings.cells.get_some(parts)
        return dict(zip((name for name in parts if name in self.settings.cells), rows, strict=True))

    def measure_alexnets(self) -> dict[Labels, Row]:
        """By labels: histograms of every layer of AlexNet, and its errors on what it was trained on."""

        def compute(labels: Labels) -> Row:
            subject, measuring = self.alexnet(labels), self.sized.measuring_layers
            measure = partial(self.measure_layers, subject.network, measuring)
            found = subject.measure(f"end, {measuring}", measure)
            return {**found, **{name: subject.record[name] for name in ("train_error", "test_error")}}

        parts = {f"AlexNet, {LABELS[labels]}": partial(compute, labels) for labels in self.labels}
        return dict(zip(self.labels, self.settings.cells.get_all(parts), strict=True))

    def measure_epochs(self) -> dict[int, Row]:
        """Facts and errors of VGG-19 by the epochs whose weights are there; of some, when time is out."""

        def compute(epoch: int) -> Row:
            subject, measuring = self.vgg19, self.sized.measuring_epochs

            def measure() -> Row:
                found = self._measure(subject.at(epoch), measuring)
                return {name: found[name] for name in ("train_error", "test_error", "facts")}

            return subject.measure(f"epoch {epoch}, {measuring}", measure)

        kept = self.settings.cells.get("epochs", lambda: {"kept": self.vgg19.kept_epochs[1:]})["kept"]
        parts = {f"epoch {epoch}": partial(compute, epoch) for epoch in kept}
        return {int(name.removeprefix("epoch ")): row for name, row in self._some(parts).items()}

    def measure_layers(
        self, network: Network, measuring: Measuring, *, layers: Layers = None, initial: Network | None = None
    ) -> Row:
        """Histograms, quantiles and worst values of the layers named, or of all; labels are not looked at."""
        asked = StabilitySettings(layers=layers, interlayer=measuring.interlayer, biases="separate")
        asked = replace(asked, probes=measuring.probes, pixels=_PIXELS, seed=self.settings.seed)
        found = self._stability(network, asked, measuring.examples, initial=initial)
        return layer_rows.describe_layers(found, network)

    def _measure_noise(self, network: Network, noise: Perturb | float, *, layers: Layers = None) -> Row:
        """The smoothness under one noise, as defined and with the power 1.5 of it, and how long it is."""
        settings, measuring = self.settings, self.sized.measuring
        smoothness = Smoothness(noise, draws=measuring.draws, seed=settings.seed)
        asked = StabilitySettings(layers=layers, interlayer="none", biases="separate", smoothness=smoothness)
        found = self._stability(network, asked, measuring.noisy)
        whole = layer_rows.describe_layers(found, network)
        rows = [row for row in whole["layers"] if "smoothness" in row]
        for row in rows:
            rho, length = (found.columns[Key(name, row["layer"])] for name in ("smoothness", "noise"))
            row["smoothness_1.5"] = layer_rows.as_histogram(Distribution(rho * np.sqrt(length)), scale="log")
        return {**whole, "layers": rows}

    def _stability(
        self, network: Network, asked: StabilitySettings, examples: int, *, initial: Network | None = None
    ) -> Stability:
        device, progress = self.settings.device, self.settings.progress
        drawn = draw_examples(self.samples.train, examples, seed=self.settings.seed)
        chunk = _CHUNK[torch.device(device).type]
        with _exact_convolutions():
            return stability(
                network, drawn, asked, initial=initial, chunk_size=chunk, device=device, progress=progress
            )

    def _measure(self, network: Network, measuring: Measuring, *, initial: Network | None = None) -> Row:
        """Layers, errors, and the facts that the published expressions are told, at ``GAMMA``."""
        settings, samples = self.settings, self.samples
        folded = fold_and_wrap(network, samples.train)
        network = folded.network
        layers = self.measure_layers(network, measuring, initial=initial)
        families: tuple[Family, ...] = ("margins", "norms", "maps")
        asked = MeasureSettings(families=families, device=settings.device, seed=settings.seed)
        with _exact_convolutions():
            measured = measure_facts(folded, samples.train, asked)
        rows = {row["layer"]: row for row in layers["layers"]}
        stable = tuple(layer_rows.with_stability(each, rows[each.name]) for each in measured.facts.layers)
        margins = measured.margins
        train_error, test_error = margins.loss(), None
        gamma = margins.quantile(min(train_error + _MARGIN_SHARE, _MOST))
        facts = replace(measured.facts, layers=stable, margin=gamma, margin_loss=margins.loss(gamma))
        if samples.test is not None:
            test_error = margin_report(network.model, samples.test.on(settings.device)).loss()
        return {**layers, "train_error": train_error, "test_error": test_error, "facts": asdict(facts)}


@contextmanager
def _exact_convolutions() -> Iterator[None]:
    """Convolutions inside are computed in the type of their inputs, not in TF32, as is usual on a GPU."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before
