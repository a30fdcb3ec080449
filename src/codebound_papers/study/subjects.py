"""The network that a study is about, given or trained here, and what is true of a network made from it."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from codebound.certificate.file import Certificate
from codebound.certificate.offers import assess, issue, network_outcome
from codebound.cli.actions import load_samples
from codebound.request import Task
from codebound.run.errors import CodeboundError, DataError, UsageError
from codebound.run.progress import Progress, silent
from codebound.sample.dataset import Sample, require_certifiable
from codebound.sample.formats.catalogue import KNOWN
from codebound.sample.outputs import error_count
from codebound_networks.about_f.models import load_network
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.codes.tensors import AbstractTensorCode
from codebound_networks.methods.inputs import read_original
from codebound_networks.methods.pruned import VECTOR_LEVELS, quantise_tensor
from codebound_networks.reading.walk import Network
from codebound_networks.train import runs
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit
from codebound_networks.views.graphs import Traced
from codebound_networks.views.rebuild import with_weights
from codebound_networks.views.zoo import ZOO
from codebound_papers.compress.compressors import weight_name
from codebound_papers.measure.record import Family, Measured, MeasureSettings, measure_facts
from codebound_papers.measure.steps import FoldedNetwork, fold_and_wrap
from codebound_papers.study.settings import check_options

T = TypeVar("T")
DEFAULT = "mlp:depth=5,width=128,bias=false"
"""The network that is trained where none is given: five layers, as in Guha et al., without biases."""
EPOCHS = 20
_HELD_OUT = 0.2  # of a sample that has no test examples, where the network is trained here


@dataclass(frozen=True, eq=False, kw_only=True)
class Subject:
    """A network f with its sample."""

    name: str  # of the network
    spec: str | None  # its architecture in words, to train others like it; None for a module
    f: nn.Module = field(repr=False)  # in evaluation mode
    sample: Sample = field(repr=False)  # the sample that f was trained on
    test_set: Sample | None = field(repr=False)  # examples used for no choice; None: the truth is unknown
    by_epoch: Mapping[int, nn.Module] = field(repr=False)  # f on its way, by epochs trained; empty if unknown
    epochs: int  # of trainings here
    margin_share: float  # share of the sample whose margin may be at most gamma
    delta: float  # failure probability
    seed: int  # of everything random
    data: str | None  # options of the command line that name sample and test examples; None where none do
    held_out: float | None  # share of the sample that was kept apart for tests
    notes: tuple[str, ...]  # where network and samples come from, in sentences

    @cached_property
    def folded(self) -> FoldedNetwork:
        """f with its layers in view and its batch norms folded."""
        return fold_and_wrap(self.f, self.sample)

    @property
    def network(self) -> Network:
        """The same without what is for measuring alone."""
        return self.folded.network

    @cached_property
    def task(self) -> "Task | str":
        """The inputs of a certificate, or why none can be made."""
        try:
            require_certifiable(self.sample)
            original = read_original(Traced(self.f), self.sample, needs_chain=True)
            if original.chain is None:
                return original.unchained
            return Task(sample=self.sample, delta=self.delta, original=original)
        except CodeboundError as refusal:
            return str(refusal)

    def measure(self, *families: Family, **settings: Any) -> Measured:
        """The measures of f."""
        asked = MeasureSettings(
            families=families, margin_share=self.margin_share, delta=self.delta, seed=self.seed, **settings
        )
        return measure_facts(self.folded, self.sample, asked)

    def first(self, count: int) -> Tensor:
        """The first inputs of the sample, in the precision of f."""
        return next(self.sample.on("cpu").chunks(count, next(self.f.parameters()).dtype))[0]

    def errors(self, module: nn.Module) -> tuple[float, float | None]:
        """Shares of the sample and of the test examples that a network gets wrong; None without any."""

        def share(data: Sample) -> float:
            return error_count(module, data.on("cpu"), dtype=next(module.parameters()).dtype) / data.n

        return share(self.sample), None if self.test_set is None else share(self.test_set)

    def build(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """The network with other weights, by layer, and biases, by name; the others as a message has them."""
        if isinstance(self.task, str):
            layers = {view.name for view in self.network.layers}
            named = {weight_name(name) if name in layers else name: value for name, value in weights.items()}
            return with_weights(self.network.model, {**self.network.model.state_dict(), **named})
        tensors = {name: torch.from_numpy(code.weights()) for name, code in self._fine.items()}
        chain: Chain = self.task.chain
        return chain.build(tensors | self._renamed(weights))

    def certify(
        self, codes: Mapping[str, AbstractTensorCode], chain: Chain | None = None
    ) -> Certificate | str:
        """The certificate (C-2) of the network with these weights and biases, or the reason for none.

        With a chain, another architecture, the codes are those of all its tensors, by the names of a message.
        """
        if isinstance(self.task, str):
            return self.task
        whole = codes if chain is not None else self._fine | self._renamed(codes)
        message = Message(self.task.options, chain or self.task.chain, whole)
        try:
            return issue(assess(network_outcome(message, self.task), self.task), self.task)
        except CodeboundError as refusal:
            return str(refusal)

    def _renamed(self, weights: Mapping[str, T]) -> dict[str, T]:
        """The same by the names that a message has for the weights and biases of layers."""
        assert isinstance(self.task, Task)
        names = dict[str, str]()
        for own, coded in zip(self.network.layers, self.task.network.layers, strict=True):
            names |= {own.name: weight_name(coded.name), bias_name(own.name): bias_name(coded.name)}
        return {names[name]: value for name, value in weights.items()}

    @cached_property
    def _fine(self) -> dict[str, AbstractTensorCode]:
        assert isinstance(self.task, Task)
        return {name: quantise_tensor(name, self.task, levels=VECTOR_LEVELS) for name in self.task.f.tensors}

    def widen(self, width: int) -> str:
        """The architecture at another width."""
        spec = self.spec or "a module"
        name, _, tail = spec.partition(":")
        if self.spec is None or name not in ZOO or "width" not in ZOO[name].options or "widths=" in tail:
            raise UsageError(f"other widths are those of mlp:depth=D,width=W. Got {spec}.")
        others = [item for item in tail.split(",") if item and not item.startswith("width=")]
        return f"{name}:{','.join([*others, f'width={width}'])}"

    def like(
        self, *, spec: str | None = None, label_shuffle: float = 0.0, epochs: int | None = None
    ) -> nn.Module:
        """A network of the same or another architecture, trained here, on shuffled labels if asked for."""
        spec = spec or self.spec
        if spec is None:
            raise UsageError("other networks are trained by an architecture: give a name such as mlp.")
        config = TrainConfig(epochs=epochs or self.epochs, label_shuffle=label_shuffle, seed=self.seed)
        start = load_network(spec, self.sample, seed=self.seed)
        return fit(start, self.sample, config, progress=silent).model

    def words(self, verb: str) -> str:
        """The options of a verb that name the network and its sample."""
        network = f"--model {self.spec or 'PACKAGE.MODULE:FACTORY'} --network OUT/f.safetensors"
        if verb == "sketch":
            shape = "x".join(map(str, self.sample.input_shape))
            return f"{network} --input-shape {shape} --classes {self.sample.classes}"
        apart = self.held_out if verb in ("compare", "compress") else None
        holdout = "" if apart is None else f" --holdout {apart:g}"
        share = f" --margin-share {self.margin_share:g}" if verb in ("compare", "plan") else ""
        return f"{network} --data {self.data or 'DATA'}{holdout}{share}"

    @property
    def record(self) -> dict[str, object]:
        """The settings, for JSON."""
        kept = {name: getattr(self, name) for name in ("epochs", "margin_share", "delta", "seed")}
        test = None if self.test_set is None else self.test_set.n
        return {"model": self.name, "data": self.sample.name, "n": self.sample.n, "test_n": test, **kept}


def bias_name(layer: str) -> str:
    """Name of a layer's bias in the state of its network."""
    return weight_name(layer).removesuffix("weight") + "bias"


def subject(
    model: nn.Module | str = DEFAULT,
    sample: Any = "digits",
    test_set: Any = None,
    *,
    weights: Path | str | None = None,
    holdout: float | None = None,
    data_folder: Path | None = None,
    epochs: int = EPOCHS,
    margin_share: float = 0.05,
    delta: float = 0.05,
    seed: int = 0,
    progress: Progress = silent,
) -> Subject:
    """Network and sample of a study: as given, or trained here where there are no weights.

    ``model`` is a trained module, or an architecture with the file of its ``weights``, or with the folder of
    a training that kept its epochs. The test examples are by default known ones, or a fifth is held out.

    >>> found = subject("linear", epochs=1)
    >>> found.sample.n, found.test_set.n, sorted(found.by_epoch)
    (1437, 360, [0, 1])
    """
    check_options(holdout=holdout, epochs=epochs, margin_share=margin_share, delta=delta)
    trains = isinstance(model, str) and weights is None
    known = KNOWN.get(sample.lower()) if isinstance(sample, str) else None
    notes = []
    if test_set is None and holdout is None and known is not None and known.sizes.get("test"):
        test_set = sample
    elif test_set is None and holdout is None and trains:
        holdout = _HELD_OUT
        notes.append(f"A share of {holdout:g} of the sample was held out before the training.")
    options = {"data": sample, "data_folder": data_folder, "test": test_set, "holdout": holdout}
    data, fresh = load_samples(options)
    if data.is_cells:
        raise DataError(f"{data.name} has gaps or words, and a network reads numbers: fill or encode them.")
    by_epoch: dict[int, nn.Module] = {}
    if isinstance(model, nn.Module):
        f, spec = copy.deepcopy(model).eval(), None
    elif weights is not None:
        spec, folder = model, Path(weights)
        if folder.is_dir():
            by_epoch = {each: load_network(model, data, at) for each, at in runs.load_epochs(folder).items()}
            if not by_epoch:
                raise UsageError(f"{folder} has no weights: the training is not finished, or kept no epochs.")
        f = by_epoch[max(by_epoch)] if by_epoch else load_network(model, data, weights)
    else:
        spec, start = model, load_network(model, data, seed=seed)
        by_epoch[0] = copy.deepcopy(start)
        config = TrainConfig(epochs=epochs, seed=seed)

        def keep(epoch: int, network: nn.Module) -> None:
            by_epoch[epoch] = copy.deepcopy(network)

        f = fit(start, data, config, on_epoch=keep, progress=progress).model
        notes.append(f"The network was trained here, {epochs} epochs of Adam at {config.learning_rate:g}.")
    name = type(model).__name__ if isinstance(model, nn.Module) else model
    return Subject(
        name=name, spec=spec, f=f, sample=data, test_set=fresh, by_epoch=by_epoch, epochs=epochs,
        margin_share=margin_share, delta=delta, seed=seed, notes=tuple(notes), held_out=holdout,
        data=sample if isinstance(sample, str) else None,
    )  # fmt: skip
