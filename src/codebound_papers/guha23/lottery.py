"""Lottery tickets (Guha et al. 2023, section 6): weights of a random network that stand for a target.

The better code of a ticket names its mask and no values: K-LT, ``masks.ticket_bits``.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from codebound.run.errors import UsageError
from codebound.run.references import implements
from codebound_networks.reading.walk import Network
from codebound_networks.train.rng import torch_stream
from codebound_papers.facts import NetworkFacts, has_no_biases, is_fully_connected, separates
from codebound_papers.framework import big_o_risk
from codebound_papers.logs import safe_log
from codebound_papers.value import BIG_O, Constant, Hypothesis, PublishedValue, expression

_MOST = 2**24  # random weights of a layer that is built
_WIDENING = 16  # of the random network over the target; the paper says "poly"
_WIDTH = Constant("D_G", 0.0, "width of the random network")


@implements("G-Thm6.1", kind="published-form")
def published_active_weights(*, inputs: int, random_width: int, depth: int) -> int:
    """``d_0 D_G + D_G^2 L``, as printed: weights of the whole random network, not of the ticket (G-E21)."""
    return inputs * random_width + random_width**2 * depth


@implements("G-Thm6.1:corrected", kind="numerics")
def active_weights(*, inputs: int, width: int, depth: int) -> int:
    """``d_0 n_M + n_M^2 L``, n_M the width of the target: what the proof has, up to a constant."""
    return inputs * width + width**2 * depth


@implements("G-Thm6.2:sketch", kind="published-form")
def published_sketch_side(*, width: int, random_width: int) -> float:
    """``m = n_M ln D_G``: the side of the sketch of a middle layer in G-Thm6.2, without its constant."""
    return width * math.log(random_width)


@implements("G-Thm6.2:corrected", kind="numerics")
def least_sketch_side(*, random_width: int) -> float:
    """``sqrt(D_G) ln D_G``: the least side for G-Thm5.1, which needs a non-zero diagonal (G-E21).

    >>> round(least_sketch_side(random_width=10_000))
    921
    """
    return math.sqrt(random_width) * math.log(random_width)


@expression("G-Thm6.1:network", name="Guha 6.1: weights of a ticket", unit="numbers")
def ticket_weights(facts: NetworkFacts, *, random_width: int | None = None) -> PublishedValue:
    """Weights of a ticket that stands for this network, the target M, as printed.

    The theorem says that D_G, the width of the random network, is polynomial; by default it is 16 times.
    """
    random_width = _random_width(facts, random_width)
    numbers = published_active_weights(inputs=facts.input_size, random_width=random_width, depth=facts.depth)
    corrected = active_weights(inputs=facts.input_size, width=facts.width, depth=facts.depth)
    return PublishedValue(
        log_value=math.log(numbers),
        sentence=f"Weights of a ticket as printed; with the width of the target there are {corrected:,}.",
        failure_published=facts.delta,
        hypotheses=_target_conditions(facts),
        constants=(BIG_O, replace(_WIDTH, value=float(random_width))),
        errata=("G-E21",),
    )


@expression("G-Thm6.2", name="Guha 6.2: ticket")
def ticket_risk(
    facts: NetworkFacts,
    *,
    random_width: int | None = None,
    step: float = 1.0 / 256.0,
    distance: float | None = None,
    exponent: float = 2.0,
) -> PublishedValue:
    """``margin loss + sqrt((n_M d_0 + L n_M^2) ln^2(D_G) ln(1/rho) / n)``: risk of a sketched ticket.

    The margin loss is that of the target; the printed one, of the ticket itself, bounds nothing (G-E21). A
    step rho of 1 or more counts as zero (G-E10); ``distance`` is eps + eps_rho, to the rounded ticket.
    """
    random_width = _random_width(facts, random_width)
    if not 0.0 < step < math.inf:
        raise UsageError(f"`step` is a distance above 0. Got {step}.")
    weights = active_weights(inputs=facts.input_size, width=facts.width, depth=facts.depth)
    nats = weights * math.log(random_width) ** 2 * max(0.0, -math.log(step))
    unrecovered = facts.depth * random_width**-exponent
    side = published_sketch_side(width=facts.width, random_width=random_width)
    least = least_sketch_side(random_width=random_width)
    is_large = "the side of a sketch is at least what theorem 5.1 needs"
    not_recovered = Constant("c", exponent, "exponent of the probability that a sketch is not recovered")
    return PublishedValue(
        log_value=big_o_risk(facts, log_nats=safe_log(nats)),
        sentence="""Margin loss of the target plus the root of the numbers in the sketches of a ticket, times
        the logarithm of their levels, over n.""",
        margin_loss=facts.margin_loss,
        failure_published=facts.delta + unrecovered,
        failure_corrected=2.0 * facts.delta + unrecovered,
        hypotheses=(
            separates(facts),
            *_target_conditions(facts),
            _is_close(facts, distance),
            Hypothesis(is_large, side >= least, f"{side:.4g} of {least:.4g}"),
            Hypothesis("the step rho is below 1", step < 1.0, f"{step:.4g}"),
        ),
        constants=(BIG_O, replace(_WIDTH, value=float(random_width)), not_recovered),
        errata=("G-E10", "G-E18", "G-E20", "G-E21"),
    )


def _target_conditions(facts: NetworkFacts) -> tuple[Hypothesis, ...]:
    layer = max(facts.layers, key=lambda each: each.spectral)
    found = f"layer {layer.name}: {layer.spectral:.4g}"
    return (
        Hypothesis("spectral norms are at most 1", layer.spectral <= 1.0, found),
        Hypothesis("entries of a layer are at most 1 over the root of its units", None),
        Hypothesis("inputs have a norm of at most 1", facts.input_norm <= 1.0, f"{facts.input_norm:.4g}"),
        Hypothesis("the random network is wide enough, by a polynomial that is not given", None),
        has_no_biases(facts),
        is_fully_connected(facts),
    )


def _is_close(facts: NetworkFacts, distance: float | None) -> Hypothesis:
    statement = "gamma is at least 2 (eps + eps_rho), the distance of ticket and target"
    if distance is None:
        return Hypothesis(statement, None)
    needed = 2.0 * distance
    return Hypothesis(statement, facts.margin >= needed, f"{facts.margin:.4g} against {needed:.4g}")


def _random_width(facts: NetworkFacts, given: int | None) -> int:
    random_width = _WIDENING * facts.width if given is None else given
    if random_width < facts.width:
        raise UsageError(
            f"`random_width` is at least the width of the target, {facts.width}. Got {random_width}."
        )
    return random_width


@implements("G-Thm6.1:ticket", kind="algorithm")
def find_ticket(
    target: Sequence[Tensor], *, random_width: int, seed: int = 0
) -> tuple[nn.Sequential, int, int]:
    """The ticket of theorem 6.1 for a ReLU network, in a wide one of uniform weights in [-1, 1].

    As in the proof (Malach et al. 2020), a unit of every first of two layers takes one input, and the nearest
    product of two random weights stands for a weight of the target, unless zero is nearer. An input of either
    sign needs units of both signs, one behind a ReLU the positive ones. Beside it: weights kept, and drawn.
    """
    stream, modules, active, drawn = torch_stream(seed, "wide ticket"), list[nn.Module](), 0, 0
    for place, matrix in enumerate(target):
        rows, columns = matrix.shape
        into, out = (2.0 * torch.rand(size, generator=stream) - 1.0
                     for size in ((random_width, columns), (rows, random_width)))  # fmt: skip
        takes, gives = torch.zeros_like(into), torch.zeros_like(out)
        for column in range(columns):
            units = torch.arange(random_width)[column::columns]  # none where there are fewer
            positive = into[units, column] > 0.0
            for chosen in (units[positive], units[~positive][: None if place == 0 else 0]):
                if chosen.numel() == 0:
                    continue
                products = out[:, chosen] * into[chosen, column]
                least, best = (products - matrix[:, column : column + 1]).abs().min(dim=1)
                kept = (least < matrix[:, column].abs()).nonzero().flatten()
                used = chosen[best[kept]]
                takes[used, column] = gives[kept, used] = 1.0
        for weights, mask in ((into, takes), (out, gives)):
            layer = nn.Linear(weights.shape[1], weights.shape[0], bias=False).requires_grad_(False)
            layer.weight.copy_(weights * mask)
            modules += [layer, nn.ReLU()]
            active, drawn = active + int(mask.sum()), drawn + weights.numel()
    return nn.Sequential(*modules[:-1]), active, drawn


@torch.no_grad()
def ticket_distances(
    network: Network, inputs: Tensor, *, factors: Sequence[int] = (4, 16, 64), seed: int = 0
) -> list[dict[str, float]]:
    """Distances of tickets in networks so many times wider from a network; empty if it is no ReLU perceptron.

    Layers and inputs are scaled to what theorem 6.1 asks for, which keeps every label without biases.
    """
    matrices, flat = [view.matrix.detach().float() for view in network.layers], inputs.flatten(1).float()
    sides = [flat.shape[1], *(matrix.shape[0] for matrix in matrices)]
    is_chain = [matrix.shape[1] for matrix in matrices] == sides[:-1]
    outputs = network.model(inputs).float()
    if not is_chain or not torch.allclose(_forward(matrices, flat), outputs, 1e-3, 1e-4):
        return []
    sizes = [(torch.linalg.matrix_norm(m, 2), m.abs().max() * math.sqrt(m.shape[0])) for m in matrices]
    target = [matrix / max(both) for matrix, both in zip(matrices, sizes, strict=True)]
    flat = flat / float(flat.norm(dim=1).max())
    scores, width, found = _forward(target, flat), max(sides[1:]), []
    for factor in (each for each in factors if each * width * max(sides) <= _MOST):
        ticket, active, drawn = find_ticket(target, random_width=factor * width, seed=seed)
        own = ticket(flat)
        agrees = float((own.argmax(dim=1) == scores.argmax(dim=1)).float().mean())
        ends = {"distance": float((own - scores).abs().max()), "largest_score": float(scores.abs().max())}
        sums = {"random_width": factor * width, "drawn": drawn, "active": active}
        found.append({**sums, **ends, "agreement": agrees})
    return found


def _forward(matrices: Sequence[Tensor], x: Tensor) -> Tensor:
    """The scores of a ReLU network without biases."""
    *hidden, last = matrices
    for matrix in hidden:
        x = (x @ matrix.T).relu()
    return x @ last.T
