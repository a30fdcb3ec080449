"""``certify``: from a trained network and its sample to a certificate that a second program accepted."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.bounds.held_out import holdout
from codebound.certificate.build import (
    AboutG,
    AfterSplit,
    ByDisagreement,
    OnDomain,
    Original,
    Setting,
    Statement,
    issue,
    prior_and_rest,
)
from codebound.certificate.decoding import graph_sha256, message_state
from codebound.certificate.evaluate import count_errors
from codebound.certificate.file import Factory
from codebound.chains.reading import chain_of
from codebound.data.duplicates import cross_duplicates
from codebound.device import resolve_device
from codebound.errors import CertificateError, DataError, ModelError, UnsupportedLayerError, UsageError
from codebound.facts import HoldoutFacts, check_delta
from codebound.nets.rebuild import with_weights
from codebound.nets.walk import Network, wrap
from codebound.progress import Progress, silent
from codebound.results import Certification
from codebound.rng import torch_stream
from codebound.search.methods import require_method
from codebound.search.search import Effort, Search, Subject, run
from codebound.train.config import TrainConfig
from codebound.train.harness import fit
from codebound.train.schedules import Cosine

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from codebound.certificate.base import Pretrained
    from codebound.chains.chain import Chain
    from codebound.data.dataset import Dataset
    from codebound.engine.job import Engine

_PRIOR_STEPS = 4000
_PRIOR_SEED = 0
EFFORTS: tuple[Effort, ...] = ("quick", "standard", "max")


def certify(
    model: nn.Module | Network,
    sample: Dataset,
    *,
    method: str = "auto",
    effort: Effort = "standard",
    delta: float = 0.05,
    test_set: Dataset | None = None,
    unlabelled: Dataset | None = None,
    input_range: tuple[float, float] | None = None,
    prior_tenths: int | None = None,
    base: Pretrained | None = None,
    factory: str = "",
    seed: int = 0,
    device: str = "cpu",
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Certification:
    """Compresses a network and bounds its error on new data by the length of the message.

    Args:
        model: The trained network f; it is not changed.
        sample: The sample it was trained on.
        method: A name of ``known_methods()``, or ``auto`` for the best of them.
        effort: ``quick`` quantises f as it is; ``standard`` and ``max`` also train the pruned network on the
            sample, for longer.
        delta: Failure probability.
        test_set: Examples used for no choice; adds the hold-out bound of g.
        unlabelled: Fresh inputs: certifies f itself, through its disagreement with g (C-12b).
        input_range: Smallest and largest stored value that any input can have: certifies f itself on that
            domain (C-12a).
        prior_tenths: Tenths of the sample that a base is trained on; errors count on the rest (C-10).
        base: A network of the same architecture that was neither trained nor selected on the sample: the
            message codes only the difference to it. The certificate declares it; nobody can check it.
        factory: ``package.module:factory`` of the model, needed where it is no chain of known layers.
        seed: Seed of the search; free, because no decoder needs it.
        device: Where pruned networks are trained; errors are always counted on the CPU, in float64.
        engine: Where errors are counted, a part of the sample on each of its workers; None: here. The count
            is the same.
        progress: Told how far the search is.

    Raises:
        CertificateError: No certificate can be issued for this network.

    Example:
        >>> from codebound.data.load import load_dataset
        >>> from codebound.nets.loading import load_model
        >>> digits = load_dataset("digits")
        >>> network = load_model("linear", input_shape=(1, 8, 8), classes=10)
        >>> certify(network, digits, effort="quick").certificate.claim.vacuous
        True
    """
    check_delta(delta)
    require_method(method)
    if effort not in EFFORTS:
        raise UsageError(f"unknown effort {effort!r}. Known: {', '.join(EFFORTS)}.")
    if sum(option is not None for option in (unlabelled, input_range, prior_tenths)) > 1:
        raise UsageError("choose one of --unlabelled, --input-range and --prior-fraction.")
    if base is not None and prior_tenths is not None:
        raise UsageError("--prior-fraction trains a base of its own: give it or --base, not both.")
    for name, other in (("test", test_set), ("unlabelled", unlabelled)):
        if other is not None and other.input_shape != sample.input_shape:
            raise DataError(
                f"the {name} inputs have the shape {other.input_shape}; "
                f"those of the sample have {sample.input_shape}."
            )
    if test_set is not None and test_set.y.max() >= sample.classes:
        raise DataError(
            f"the test sample has a label {test_set.y.max()}; the sample has {sample.classes} classes."
        )
    start = time.perf_counter()
    module = model.model if isinstance(model, Network) else model
    wrap(module, example=_example(module, sample), strict=True)
    subject, architecture = _subject(module, sample, factory)
    if subject.chain is not None and subject.chain.classes != sample.classes:
        raise ModelError(
            f"the network has {subject.chain.classes} outputs, the sample {sample.classes} classes."
        )
    original_errors = count_errors(_twin(module, subject), sample.on("cpu"), engine=engine).errors
    helper: tuple[str, dict[str, NDArray[np.float32]]] | None = None
    if prior_tenths is not None:
        subject = _trained_on_prior(module, sample, prior_tenths, progress)
        helper = "trained on the prior part of the sample", _arrays(subject.tensors)
    elif base is not None:
        helper = base.name, _base_tensors(base, sample, subject, architecture)
    setting = Setting(
        sample=sample,
        delta=delta,
        statement=_statement(subject, sample, unlabelled, input_range, prior_tenths),
        architecture=architecture,
        module=None if architecture is None else module,
        base=helper,
    )
    search = Search(
        setting, subject, effort, seed=seed, device=resolve_device(device), engine=engine, progress=progress
    )
    best = run(search, method)
    certificate = issue(best, setting, progress=progress)
    test_errors, fresh = None, None
    if test_set is not None:
        test_errors = count_errors(best.network, test_set.on("cpu"), engine=engine).errors
        fresh = holdout(
            HoldoutFacts(errors=test_errors, n=test_set.n, delta=delta, classes=sample.classes, subject="g")
        )
    return Certification(
        certificate=certificate,
        network=best.network.float(),
        sample=sample,
        settings={
            "model": factory or type(module).__name__,
            "data": sample.name,
            "method": method,
            "effort": effort,
            "delta": delta,
            "seed": seed,
            "device": device,
        },
        holdout=fresh,
        test_errors=test_errors,
        original_errors=original_errors,
        base=None if helper is None else helper[1],
        original=_arrays(subject.tensors) if certificate.claim.subject == "f" else None,
        unlabelled=unlabelled,
        copies=None if test_set is None else cross_duplicates(sample, test_set).count,
        method=search.method,
        skipped=search.skipped,
        tried=search.tried,
        is_interrupted=search.is_interrupted,
        seconds=time.perf_counter() - start,
    )


def _subject(module: nn.Module, sample: Dataset, factory: str) -> tuple[Subject, Factory | None]:
    """The network as a chain, or as the state of a factory."""
    try:
        chain, tensors = chain_of(module, sample.input_shape)
    except UnsupportedLayerError as error:
        if not factory:
            raise CertificateError(
                f"the message cannot describe this architecture: {error}\n"
                "  Give the network as package.module:factory: the architecture is then a helper, named by "
                "its hash."
            ) from error
        return Subject(None, message_state(module)), Factory(factory, graph_sha256(module))
    return Subject(chain, tensors), None


def _twin(module: nn.Module, subject: Subject) -> nn.Module:
    if subject.chain is None:
        return with_weights(module, module.state_dict())
    return subject.chain.build({name: tensor.clone() for name, tensor in subject.tensors.items()})


def _example(module: nn.Module, sample: Dataset) -> Tensor:
    """Two inputs that run a network which cannot be traced."""
    first = next(module.parameters(), torch.zeros(()))
    return torch.zeros(2, *sample.input_shape, dtype=first.dtype, device=first.device)


def _statement(
    subject: Subject,
    sample: Dataset,
    unlabelled: Dataset | None,
    input_range: tuple[float, float] | None,
    prior_tenths: int | None,
) -> Statement:
    if prior_tenths is not None:
        return AfterSplit(prior_tenths)
    if unlabelled is None and input_range is None:
        return AboutG()
    if subject.chain is None:
        raise CertificateError("a certificate for f needs a network that is a chain of known layers.")
    original = Original(subject.chain, _arrays(subject.tensors))
    if unlabelled is not None:
        return ByDisagreement(original, unlabelled)
    assert input_range is not None
    low, high = input_range
    found = float(sample.x.min()), float(sample.x.max())
    if not low < high or not low <= found[0] <= found[1] <= high:
        raise UsageError(
            f"an input range needs low < high and contains every stored value; the sample has values from "
            f"{found[0]:g} to {found[1]:g}. Got {low:g} and {high:g}."
        )
    return OnDomain(original, float(low), float(high))


def _arrays(tensors: dict[str, Tensor]) -> dict[str, NDArray[np.float32]]:
    return {name: tensor.detach().cpu().float().numpy() for name, tensor in tensors.items()}


def _base_tensors(
    base: Pretrained, sample: Dataset, subject: Subject, architecture: Factory | None
) -> dict[str, NDArray[np.float32]]:
    """The tensors of a base, if it is a network like f."""
    wrap(base.network, example=_example(base.network, sample), strict=True)
    found, other = _subject(base.network, sample, "" if architecture is None else architecture.name)
    tensors = _arrays(found.tensors)
    for name, tensor in subject.tensors.items():
        if name not in tensors or tensors[name].shape != tuple(tensor.shape):
            has = f"has shape {tensors[name].shape}" if name in tensors else "is not there"
            raise ModelError(
                f"the base is another network than f: its tensor {name} {has}; f has "
                f"{tuple(tensor.shape)} there. Give a base of the same architecture."
            )
    if (found.chain, other) != (subject.chain, architecture):
        raise ModelError(
            "the base is another network than f: their tensors are alike, but not the operations between "
            "them. Give a base of the same architecture."
        )
    return tensors


def _trained_on_prior(module: nn.Module, sample: Dataset, tenths: int, progress: Progress) -> Subject:
    """The network trained anew, from a fresh start, on the prior part alone: it may then be the helper.

    Its seed cannot be chosen: whoever picked the best of many bases would have to pay for the choice.
    """
    prior, _ = prior_and_rest(sample, tenths)
    chain, _ = chain_of(module, sample.input_shape)
    config = TrainConfig(
        epochs=max(10, math.ceil(_PRIOR_STEPS * 64 / prior.n)),
        batch_size=64,
        learning_rate=0.002,
        schedule=Cosine(),
        seed=_PRIOR_SEED,
    )
    result = fit(_fresh(chain), prior, config, progress=progress)
    tensors = {name: tensor.detach() for name, tensor in result.model.state_dict().items()}
    return Subject(chain, tensors)


def _fresh(chain: Chain) -> nn.Module:
    """The chain with new random weights: f itself has seen the whole sample."""
    stream = torch_stream(_PRIOR_SEED, "prior")
    tensors = {}
    for name, shape in chain.tensor_shapes().items():
        fan_in = max(1, int(np.prod(shape[1:])))
        scale = (2.0 / fan_in) ** 0.5 if len(shape) > 1 else 0.0
        tensors[name] = scale * torch.randn(shape, generator=stream)
    return chain.build(tensors)
