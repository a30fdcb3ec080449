"""``certify``: from a trained network and its sample to a certificate that a second program accepted."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.bounds.held_out import holdout
from codebound.certificate.claims import (
    AboutG,
    AbstractClaim,
    AfterSplit,
    ByDisagreement,
    OnDomain,
    require_shape,
)
from codebound.certificate.evaluate import count_errors
from codebound.certificate.issuing import issue
from codebound.certificate.task import Original, Task
from codebound.data.dataset import cross_duplicates
from codebound.device import resolve_device
from codebound.errors import CertificateError, DataError, ModelError, UsageError
from codebound.facts import HoldoutFacts, check_delta
from codebound.nets.walk import Network, wrap
from codebound.progress import Progress, silent
from codebound.results import Certification
from codebound.rng import torch_stream
from codebound.search.methods import require_method
from codebound.search.search import EFFORTS, Effort, Search, run
from codebound.train.config import Cosine, TrainConfig
from codebound.train.harness import fit

if TYPE_CHECKING:
    from torch import nn

    from codebound.bounds.risk import RiskBound
    from codebound.certificate.base import Pretrained
    from codebound.certificate.task import Tensors
    from codebound.chains.chain import Chain
    from codebound.data.dataset import Dataset
    from codebound.engine.job import Engine

_PRIOR_STEPS = 4000
_PRIOR_SEED = 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Request:
    """What was asked for, checked as far as that goes without looking at the network."""

    sample: Dataset
    claim: AbstractClaim
    method: str
    effort: Effort
    delta: float
    test_set: Dataset | None
    base: Pretrained | None
    factory: str
    seed: int
    device: torch.device
    engine: Engine | None
    progress: Progress

    def __post_init__(self) -> None:
        check_delta(self.delta)
        require_method(self.method)
        if self.effort not in EFFORTS:
            raise UsageError(f"unknown effort {self.effort!r}. Known: {', '.join(EFFORTS)}.")
        if self.base is not None and self.claim.trains_base:
            raise UsageError("a claim after a split trains a base of its own: give it or a base, not both.")
        if self.test_set is None:
            return
        require_shape("test", self.test_set, self.sample)
        if self.test_set.y.max() >= self.sample.classes:
            raise DataError(
                f"the test sample has a label {self.test_set.y.max()}; the sample has {self.sample.classes} "
                "classes."
            )

    def settings(self, module: nn.Module) -> dict[str, object]:
        """The request in words and numbers."""
        return {
            "model": self.factory or type(module).__name__,
            "data": self.sample.name,
            "claim": str(self.claim),
            "method": self.method,
            "effort": self.effort,
            "delta": self.delta,
            "seed": self.seed,
            "device": str(self.device),
        }


def certify(
    model: nn.Module | Network,
    sample: Dataset,
    *,
    claim: AbstractClaim | None = None,
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
        claim: What to certify, one of ``codebound.certificate.claims``; by default ``AboutG()``, the error of
            the compressed network.
        method: A name of ``known_methods()``, or ``auto`` for the best of them.
        effort: ``quick`` quantises f as it is; ``standard`` and ``max`` also train the pruned network on the
            sample, for longer.
        delta: Failure probability.
        test_set: Examples used for no choice; adds the hold-out bound of g.
        unlabelled: Fresh inputs: short for ``ByDisagreement(unlabelled)``, the error of f itself (C-12b).
        input_range: Smallest and largest stored value that any input can have: short for
            ``OnDomain(low, high)``, the error of f itself on that domain (C-12a).
        prior_tenths: Tenths of the sample that a base is trained on: short for ``AfterSplit(tenths)``; errors
            count on the rest (C-10).
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
    request = _Request(
        sample=sample,
        claim=_claim(claim, unlabelled, input_range, prior_tenths),
        method=method,
        effort=effort,
        delta=delta,
        test_set=test_set,
        base=base,
        factory=factory,
        seed=seed,
        device=resolve_device(device),
        engine=engine,
        progress=progress,
    )
    return _certified(model.model if isinstance(model, Network) else model, request)


def _claim(
    claim: AbstractClaim | None,
    unlabelled: Dataset | None,
    input_range: tuple[float, float] | None,
    prior_tenths: int | None,
) -> AbstractClaim:
    """The claim, from itself or from its short spellings."""
    claims = [] if claim is None else [claim]
    if unlabelled is not None:
        claims.append(ByDisagreement(unlabelled))
    if input_range is not None:
        claims.append(OnDomain(*input_range))
    if prior_tenths is not None:
        claims.append(AfterSplit(prior_tenths))
    if len(claims) > 1:
        raise UsageError(
            "a certificate has one claim: choose one of unlabelled inputs, an input range and a prior part."
        )
    return claims[0] if claims else AboutG()


def _certified(module: nn.Module, request: _Request) -> Certification:
    """Reads the network, says what is to be certified, searches, issues, and tests what was found."""
    start = time.perf_counter()
    original = _read(module, request.sample, request.factory)
    if original.chain is not None and original.chain.classes != request.sample.classes:
        raise ModelError(
            f"the network has {original.chain.classes} outputs, the sample {request.sample.classes} classes."
        )
    original_errors = count_errors(original.build(), request.sample.on("cpu"), engine=request.engine).errors
    task = _task(original, request)
    search = Search(
        task,
        request.effort,
        seed=request.seed,
        device=request.device,
        engine=request.engine,
        progress=request.progress,
    )
    best = run(search, request.method)
    certificate = issue(best, task, progress=request.progress)
    test_errors, fresh, copies = _tested(best.network, request)
    return Certification(
        certificate=certificate,
        network=best.network.float(),
        sample=request.sample,
        settings=request.settings(module),
        holdout=fresh,
        test_errors=test_errors,
        original_errors=original_errors,
        base=task.base_tensors,
        original=task.f.arrays if task.claim.is_about_f else None,
        unlabelled=task.claim.unlabelled,
        copies=copies,
        method=search.method,
        skipped=search.skipped,
        tried=search.tried,
        is_interrupted=search.is_interrupted,
        seconds=time.perf_counter() - start,
    )


def _read(module: nn.Module, sample: Dataset, factory: str) -> Original:
    """The network, every tensor of which is known."""
    first = next(module.parameters(), torch.zeros(()))
    # two inputs run a network that cannot be traced
    example = torch.zeros(2, *sample.input_shape, dtype=first.dtype, device=first.device)
    wrap(module, example=example, strict=True)
    return Original.read(module, sample.input_shape, factory=factory)


def _task(original: Original, request: _Request) -> Task:
    """What messages are made for: the claim, and the base that they may code differences to."""
    base: tuple[str, Tensors] | None = None
    prior, _ = request.claim.split(request.sample)
    if prior is not None:
        original = _trained_on_prior(original, prior, request.progress)
        base = "trained on the prior part of the sample", original.arrays
    elif request.base is not None:
        base = request.base.name, _base_tensors(request.base, original, request)
    return Task(sample=request.sample, delta=request.delta, claim=request.claim, original=original, base=base)


def _tested(network: nn.Module, request: _Request) -> tuple[int | None, RiskBound | None, int | None]:
    """Beside the certificate: errors and hold-out bound of g on the test sample, and copies in it."""
    test_set = request.test_set
    if test_set is None:
        return None, None, None
    errors = count_errors(network, test_set.on("cpu"), engine=request.engine).errors
    facts = HoldoutFacts(
        errors=errors, n=test_set.n, delta=request.delta, classes=request.sample.classes, subject="g"
    )
    return errors, holdout(facts), cross_duplicates(request.sample, test_set).count


def _base_tensors(base: Pretrained, original: Original, request: _Request) -> Tensors:
    """The tensors of a base, if it is a network like f."""
    factory = "" if original.architecture is None else original.architecture.name
    found = _read(base.network, request.sample, factory)
    for name, tensor in original.arrays.items():
        if name not in found.arrays or found.arrays[name].shape != tensor.shape:
            has = f"has shape {found.arrays[name].shape}" if name in found.arrays else "is not there"
            raise ModelError(
                f"the base is another network than f: its tensor {name} {has}; f has {tensor.shape} there. "
                "Give a base of the same architecture."
            )
    if (found.chain, found.architecture) != (original.chain, original.architecture):
        raise ModelError(
            "the base is another network than f: their tensors are alike, but not the operations between "
            "them. Give a base of the same architecture."
        )
    return found.arrays


def _trained_on_prior(original: Original, prior: Dataset, progress: Progress) -> Original:
    """The network trained anew, from a fresh start, on the prior part alone: it may then be the helper.

    Its seed cannot be chosen: whoever picked the best of many bases would have to pay for the choice.
    """
    if original.chain is None:
        raise CertificateError("a base is trained for networks that are chains of known layers.")
    config = TrainConfig(
        epochs=max(10, math.ceil(_PRIOR_STEPS * 64 / prior.n)),
        batch_size=64,
        learning_rate=0.002,
        schedule=Cosine(),
        seed=_PRIOR_SEED,
    )
    result = fit(_fresh(original.chain), prior, config, progress=progress)
    return Original(
        original.chain, {name: tensor.detach() for name, tensor in result.model.state_dict().items()}
    )


def _fresh(chain: Chain) -> nn.Module:
    """The chain with new random weights: f itself has seen the whole sample."""
    stream = torch_stream(_PRIOR_SEED, "prior")
    tensors = {}
    for name, shape in chain.tensor_shapes().items():
        fan_in = max(1, int(np.prod(shape[1:])))
        scale = (2.0 / fan_in) ** 0.5 if len(shape) > 1 else 0.0
        tensors[name] = scale * torch.randn(shape, generator=stream)
    return chain.build(tensors)
