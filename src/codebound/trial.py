"""A quick run of the learners on data, so that advice rests on measured numbers in place of a guess.

Nothing here is a guarantee, and nothing that is tried may be reused without paying: whoever follows the
advice starts afresh. The examples that are tried are a part of the data, in an order that ignores them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from codebound.advice import Situation
from codebound.certification import certify
from codebound.device import exact_products
from codebound.errors import DataError
from codebound.nets.loading import load_model
from codebound.picks.network import PickedNetwork
from codebound.picks.picking import permutation
from codebound.picks.ridge import KernelRidge
from codebound.progress import Progress, silent
from codebound.scores import margins
from codebound.train.config import TrainConfig
from codebound.train.harness import fit

if TYPE_CHECKING:
    from codebound.data.dataset import Dataset
    from codebound.results import Certification

_MOST = 2000  # examples that are tried
_LEAST = 60
_HELD_OUT = 4  # one in so many
_GROWTH = 0.65  # picks grow with the sample like this power of its size
_STEPS = 600
_ROWS = 500
_MOST_SLOPE = 1.0


@dataclass(frozen=True, slots=True)
class Trial:
    """What a quick run found.

    Attributes:
        situation: The same as advice needs it, for all labels.
        tried: Examples that were tried.
        held_out: Of these, examples that errors were measured on.
        errors: Errors there of the learner that learned from all others.
        certified: Certified error on the examples that were tried, by way.
    """

    situation: Situation
    tried: int
    held_out: int
    errors: int
    certified: dict[str, float]


def try_learners(
    data: Dataset,
    *,
    labels: int | None = None,
    delta: float = 0.05,
    looks: int = 1,
    progress: Progress = silent,
) -> Trial:
    """Learns from a part of the data in three ways, and measures what each would come to.

    Args:
        data: Labelled examples.
        labels: How many there will be; by default as many as there are.
        delta: Failure probability.
        looks: Networks that will be tried on held-out examples.
        progress: Told what is running.

    Raises:
        DataError: There are too few to try anything.
    """
    if data.n < _LEAST:
        raise DataError(
            f"{data.n} examples are too few to try anything: at least {_LEAST} are needed. Guess the error."
        )
    n = data.n if labels is None else labels
    part = data.select(permutation(data.n)[:_MOST], role="train")
    progress(0, 3, "picks")
    picked = certify(None, part, method="picks", effort="quick", delta=delta)
    progress(1, 3, "a hold-out set")
    held_out = part.n // _HELD_OUT
    errors, slope = _measured(picked, part, held_out)
    progress(2, 3, "a message")
    message = _message(part, delta)
    facts = picked.certificate.facts
    error = (errors + 0.5) / (held_out + 1)  # never 0, where none was seen
    situation = Situation(
        n=n,
        error=min(1.0, error * math.pow(part.n * (1 - 1 / _HELD_OUT) / n, slope)),
        delta=delta,
        slope=slope,
        looks=looks,
        bits=message.certificate.facts.code_bits,
        train_error=message.certificate.facts.errors / part.n,
        picks=min(n, math.ceil(facts.extra["picks"] * math.pow(n / part.n, _GROWTH))),
        picked_error=facts.errors / facts.n,
        rule_bits=facts.code_bits,
    )
    certified = {"picks": picked.certificate.claim.bound, "message": message.certificate.claim.bound}
    return Trial(situation, part.n, held_out, errors, certified)


@torch.no_grad()
def _measured(picked: Certification, part: Dataset, held_out: int) -> tuple[int, float]:
    """Errors on held-out examples of the picks' own learner, and how fast they fall with the examples."""
    network = picked.network
    assert isinstance(network, PickedNetwork)  # it was made from picks
    labels, order = torch.from_numpy(part.y), torch.from_numpy(permutation(part.n))
    rest, learned = order[part.n - held_out :], order[: part.n - held_out]  # features know the first ones
    features = network.features
    stored = torch.from_numpy(part.x)
    chunks = [features(stored[at : at + _ROWS]).to(torch.int16) for at in range(0, part.n, _ROWS)]
    vectors = torch.cat(chunks)
    counts = []
    for rows in (learned, learned[: len(learned) // 2]):
        with exact_products():
            learner = KernelRidge(
                vectors,
                labels,
                classes=part.classes,
                gamma=network.rule.gamma,
                unit=features.unit,
                ridge=network.rule.ridge,
                is_joined=False,
                capacity=len(rows),
            )
            learner.add(rows)
            outputs = learner.outputs(learner.coefficients())[rest]
        counts.append(int((margins(outputs, labels[rest]) <= 0.0).sum()))
    whole, half = counts
    return whole, min(_MOST_SLOPE, max(0.0, math.log2((half + 0.5) / (whole + 0.5))))


def _message(part: Dataset, delta: float) -> Certification:
    """A linear network, trained for some steps and compressed."""
    model = load_model("linear", input_shape=part.input_shape, classes=part.classes)
    epochs = max(1, math.ceil(_STEPS * 64 / part.n))
    trained = fit(model, part, TrainConfig(epochs=epochs, batch_size=64, learning_rate=0.005)).model
    return certify(trained, part, method="prune", effort="quick", delta=delta)
