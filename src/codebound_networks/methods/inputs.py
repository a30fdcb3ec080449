"""Networks that were given, read for a search: f, a base of it, or the helper of a split."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from codebound.certificate.evaluate import sure_share
from codebound.known.provenance import MAX_WORDS, Pretrained, origin_of_parts
from codebound.known.share_scores import make_helper, maker_of, refuse_seen
from codebound.methods.inputs import SCORES, Networks
from codebound.methods.search import find_method
from codebound.run.errors import CertificateError, DataError, ModelError, UsageError
from codebound.sample.dataset import Made
from codebound_networks.about_f.base import require_unseen_base
from codebound_networks.about_f.batch_independence import require_one_example
from codebound_networks.chains.message import MAX_ELEMENTS
from codebound_networks.chains.original import Original
from codebound_networks.reading.callables import runs_on
from codebound_networks.train.config import Cosine, TrainConfig
from codebound_networks.train.harness import fit
from codebound_networks.train.rng import torch_stream
from codebound_networks.views.graphs import Traced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

    from codebound.known.messages import Tensors
    from codebound.run.progress import Progress
    from codebound.sample.dataset import Sample
    from codebound_networks.chains.chain import Chain

_PRIOR_STEPS = 4000
_PRIOR_SEED = 0
_FEW = 64  # examples that show how sure predictions are
_INSTEAD = (
    " If it was neither trained nor selected on the sample, give it as a base (methods auto, scores): "
    "its scores are then declared and counted. Else certify a network of another kind (methods auto, picks, "
    "split), and add how often this one differs from it on fresh inputs (codebound holdout faithful); or "
    "use a hold-out set."
)
_THROUGH = (
    "Certify without this claim, and add how often f differs from what is certified: on a test sample, or on "
    "fresh inputs (codebound holdout faithful)."
)
_MOST_COUNTING = 1 << 46  # multiplications, over all examples (docs/format.md, 8.9)
_SCORED = " What is certified are its scores, as they are declared."
_TOO_DEEP = "At worst, rounding errors of so many layers are larger than every margin."


def read_networks(
    f: Traced,
    base: Pretrained | None,
    sample: Sample,
    *,
    is_about_f: bool,
    trains_base: bool,
    method: str,
    has_helper: bool,
) -> Networks:
    """Reads the networks that were given, as far as the claim and the method need them.

    Args:
        base: A network that its message may code the difference to.
        is_about_f: Whether the claim is about f itself.
        trains_base: Whether f is trained anew on the known share.
        method: Of the search.
        has_helper: Whether something else than f is made of the known share.
    """
    if sample.is_cells:
        raise DataError(f"{sample.name} has words or gaps, and networks read numbers: leave out the model.")
    makes_own = method == "auto" or find_method(method).is_own
    can_do_without = makes_own if base is None else method in SCORES
    needs_chain = is_about_f or (trains_base and not has_helper) or not can_do_without
    try:
        original = read_original(f, sample, needs_chain=needs_chain)
    except ModelError as reason:
        needs_f = base is not None or is_about_f or trains_base or not makes_own
        if needs_f or not runs_on(f.model, sample.input_shape, sample.classes):
            raise
        return Networks(None, f"{reason}\n  Methods that make a network of their own go on without it.")
    uncoded = explain_no_message(original, sample.n)
    if uncoded and needs_chain:
        raise CertificateError(uncoded + _INSTEAD)
    if is_about_f:
        _require_subject(original, sample)
    if uncoded:
        uncoded += _INSTEAD if base is None else _SCORED
    tensors = None
    if base is not None:
        require_unseen_base(origin_of_parts(base.network), sample)
        tensors = original.arrays if base.network is f.model else base_tensors(base, original, sample)
    return Networks(original, uncoded=uncoded, base=base, base_tensors=tensors)


def _read_helper(network: nn.Module, prior: Sample, unseen: Sequence[Sample]) -> Original:
    """A helper to which a message codes the difference."""
    refuse_seen(network, unseen, prior)
    original = read_original(network, prior)
    if uncoded := explain_no_message(original, max(each.n for each in unseen)):
        raise CertificateError(f"{uncoded}\n  Its scores can be declared: give the method auto.")
    return original


def known_of_prior(
    helper: Callable[[Sample], Any] | Pretrained | None,
    original: Original | None,
    prior: Sample,
    *,
    unseen: Sequence[Sample],
    progress: Progress,
) -> tuple[Made, Original]:
    """A helper that was made of the known share, and has seen nothing of ``unseen``.

    Of how many rows it was made, whoever asks puts in.
    """
    of = "data of your own"
    if isinstance(helper, Pretrained):
        says, found = helper.name, _read_helper(helper.network, prior, unseen)
    elif helper is not None:
        made = make_helper(helper, prior)
        if not isinstance(made, torch.nn.Module):
            raise UsageError(f"a helper is a torch module. Got {type(made).__name__}.")
        says = f"made by {maker_of(helper)} of the known share"[:MAX_WORDS]
        found = _read_helper(made.eval(), prior, unseen)
    elif original is not None:
        of, says = "no other data", "the same architecture, trained anew"
        found = _train_on_prior(original, prior, progress)
    else:
        raise UsageError(
            "nothing is trained on the known share: give a helper, or a model that a message describes. The "
            "methods split and picks learn from a share by themselves."
        )
    return Made(says, of, 0, found.sha256), found


def read_original(model: nn.Module | Traced, sample: Sample, *, needs_chain: bool = False) -> Original:
    """The network f, if it is a function of one example with as many outputs as there are classes.

    The bound of what rounding does to a chain grows with every layer. Where it leaves most predictions open,
    f is no chain that could be certified: unless the claim ``needs_chain``.
    """
    read = partial(
        Original.read,
        model if isinstance(model, Traced) else Traced(model),
        sample.input_shape,
        classes=sample.classes,
    )
    original = read()
    if original.chain is not None and not needs_chain and _is_too_deep(original, sample):
        original = read(unchained=_TOO_DEEP)
    if original.module is not None:
        require_one_example(original.module, sample)
    return original


def _require_subject(original: Original, sample: Sample) -> None:
    """Refuses a network that no certificate is about: an operation is none of f, or its rounding is open."""
    assert original.chain is not None  # a claim about f needs one
    for position, operation in enumerate(original.chain.operations):
        if not operation.describes_f:
            raise CertificateError(
                f"no certificate is about a network f with such an operation: {position} ({operation}). "
                + _THROUGH
            )
    if _is_too_deep(original, sample):
        raise CertificateError(
            "no proof covers the rounding of f on most examples: at worst, rounding errors of so many "
            f"layers are larger than its margins, and each would count against it. {_THROUGH}"
        )


def explain_no_message(original: Original, rows: int) -> str:
    """Say why no message is made of a network. Empty where one can be."""
    numbers = sum(math.prod(array.shape) for array in original.tensors.values())
    if original.chain is None:
        why = f"The network is no chain of layers that a message describes ({original.unchained.rstrip('.')})"
    elif numbers > MAX_ELEMENTS:
        why = f"The network has {numbers:,} numbers and a message holds {MAX_ELEMENTS:,}"
    elif rows * original.chain.work().products > _MOST_COUNTING:
        why = f"To count its errors on {rows:,} examples takes more than 2^46 multiplications"
    else:
        return ""
    return f"{why}: none is made of it."


def _is_too_deep(original: Original, sample: Sample) -> bool:
    """Return True if most first predictions have no rounding proof."""
    if original.chain is None or original.chain.classes != sample.classes:
        return False
    return (
        sure_share(original.build(), sample.select(range(min(_FEW, sample.n)), role="train").on("cpu")) < 0.5
    )


def base_tensors(base: Pretrained, original: Original, sample: Sample) -> Tensors:
    """The tensors of a base, if it is a network like f."""
    try:
        found = Original.read(
            base.network,
            sample.input_shape,
            classes=sample.classes,
            unchained=original.unchained,
        )
    except ModelError as reason:
        raise ModelError(f"the base is no network like f: {reason}") from reason
    for name, tensor in original.arrays.items():
        if name not in found.arrays or found.arrays[name].shape != tensor.shape:
            has = f"has shape {found.arrays[name].shape}" if name in found.arrays else "is not there"
            raise ModelError(
                f"the base is another network than f: its tensor {name} {has}; f has {tensor.shape} there. "
                "Give a base of the same architecture."
            )
    if found.computes != original.computes:
        raise ModelError(
            "the base is another network than f: their tensors are alike, but not the operations between "
            "them. Give a base of the same architecture."
        )
    return found.arrays


def _train_on_prior(original: Original, prior: Sample, progress: Progress) -> Original:
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
    result = fit(_reinitialise(original.chain), prior, config, progress=progress)
    return Original(
        original.chain, {name: tensor.detach() for name, tensor in result.model.state_dict().items()}
    )


def _reinitialise(chain: Chain) -> nn.Module:
    """The chain with new random weights: f itself has seen the whole sample."""
    stream = torch_stream(_PRIOR_SEED, "prior")
    tensors = {}
    for name, shape in chain.tensor_shapes().items():
        fan_in = max(1, int(np.prod(shape[1:])))
        scale = (2.0 / fan_in) ** 0.5 if len(shape) > 1 else 0.0
        tensors[name] = scale * torch.randn(shape, generator=stream)
    return chain.build(tensors)
