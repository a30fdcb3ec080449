"""The whole promise: `certify` in a world where every classifier has risk 1/2: labels are coin tosses.

Inputs are bits and labels are independent of them, so whatever network comes out, its risk is 1/2: each
certificate that says less is wrong, and at most a share delta of them may be.
"""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from worlds import rates

from codebound.bits.messages import Options
from codebound.bounds.facts import OccamFacts
from codebound.bounds.occam import occam_binomial
from codebound.certificate.assessment import assess
from codebound.certificate.task import Task
from codebound.certification import certify
from codebound.methods.search import Search
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Dataset
from codebound_networks.chains.from_module import chain_of
from codebound_networks.chains.message import Message
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.methods.hidden_units import without_biases, without_dead_units
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit
from codebound_networks.train.pruning import PruneSettings, prune

N, FEATURES, DELTA, RISK = 100, 16, 0.05, 0.5


exceeds = partial(rates.exceeds, delta=DELTA)


def coin_tosses(seed: int) -> Dataset:
    stream = np.random.default_rng(seed)
    x = stream.integers(0, 2, size=(N, FEATURES)).astype(np.float32)
    return from_arrays(x, stream.integers(0, 2, size=N), name="coins", classes=2)


def memorised(sample: Dataset, seed: int) -> nn.Module:
    """A network trained until it knows most of the labels by heart."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 2))
    config = TrainConfig(epochs=30, batch_size=N, learning_rate=0.05, seed=seed)
    return fit(model, sample, config).model


def float_errors(model: nn.Module, sample: Dataset) -> int:
    data = sample.on("cpu")
    with torch.no_grad():
        return int((model(data.x).argmax(1) != data.y).sum())


def tail(*, errors: int, code_bits: int) -> float:
    return occam_binomial(OccamFacts(errors=errors, n=N, code_bits=code_bits, delta=DELTA)).value


def luckiest_line(sample: Dataset) -> Message:
    """The best of all classifiers on one input: found by looking at the sample, paid by naming it."""
    model = nn.Sequential(nn.Linear(FEATURES, 2, bias=True))
    chain, _ = chain_of(model, (FEATURES,))
    best: tuple[int, Message] | None = None
    for feature in range(FEATURES):
        for sign in (-1, 1):
            weight = np.zeros((2, FEATURES), dtype=np.int32)
            weight[1, feature] = 2 * sign
            bias = np.array([0, -sign], dtype=np.int32)
            predicted = (sample.x[:, feature] * 2 * sign - sign > 0).astype(int)
            errors = int((predicted != sample.y).sum())
            if best is None or errors < best[0]:
                codes = {
                    "0.weight": best_tensor_code(weight, step=0),
                    "0.bias": best_tensor_code(bias, step=0),
                }
                best = errors, Message(Options(), chain, codes)
    assert best is not None
    return best[1]


def found_by_training(sample: Dataset, seed: int, epochs: int) -> Message:
    """Pruned and quantised on the sample, as the standard effort does, with very little training."""
    chain, tensors = chain_of(memorised(sample, seed), (FEATURES,))
    bare = without_biases(chain)
    weights = {name: tensors[name] for name in bare.tensor_shapes()}
    plan = PruneSettings(keep=8, levels=1, epochs=epochs, batch_size=N, seed=seed)
    integers = {
        name: each.integers
        for name, each in prune(bare.build(weights), list(weights), sample.on("cpu"), plan).items()
    }
    small, kept = without_dead_units(bare, integers)
    return Message(Options(), small, {name: best_tensor_code(q.numpy(), step=0) for name, q in kept.items()})


def worlds(reps: int, epochs: int):
    """Per repetition: the certified value, and what three broken programs would have printed."""
    for seed in range(reps):
        sample = coin_tosses(seed)
        task = Task(sample=sample, delta=DELTA, allow_copies=True)
        search = Search(task, "quick")
        for message in (luckiest_line(sample), found_by_training(sample, seed, epochs)):
            search.propose(message)
        best = search.best
        assert best is not None
        model = memorised(sample, seed)
        yield {
            "honest": best.bound.value,
            "no bits": tail(errors=best.facts.errors, code_bits=0),
            "errors of the float network": tail(
                errors=float_errors(model, sample), code_bits=best.facts.code_bits
            ),
        }


def misses(reps: int, epochs: int = 40) -> dict[str, int]:
    count = {"honest": 0, "no bits": 0, "errors of the float network": 0}
    for values in worlds(reps, epochs):
        for name, value in values.items():
            count[name] += value < RISK
    return count


SMALL = 25


@pytest.fixture(scope="module")
def small_world() -> dict[str, int]:
    return misses(SMALL)


@pytest.mark.thorough
def test_certificates_hold(small_world):
    assert not exceeds(small_world["honest"], reps=SMALL)


@pytest.mark.thorough
@pytest.mark.parametrize("broken", ["no bits", "errors of the float network"])
def test_a_broken_program_is_caught(small_world, broken):
    assert exceeds(small_world[broken], reps=SMALL)


@pytest.mark.thorough
def test_the_command_itself_never_promises_too_much_here():
    """The quick effort on memorising networks, with everything that `certify` does."""
    found = []
    for seed in range(4):
        sample = coin_tosses(seed)
        result = certify(
            memorised(sample, seed), sample, effort="quick", delta=DELTA, seed=seed, allow_copies=True
        )
        assert result.original_errors < N // 4
        found.append(result.certificate.claim.bound)
    assert min(found) >= RISK


@pytest.mark.slow
def test_certificates_hold_at_full_size():
    count = misses(600)
    assert not exceeds(count["honest"], reps=600)
    assert exceeds(count["no bits"], reps=600)
    assert exceeds(count["errors of the float network"], reps=600)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_the_standard_effort_never_promises_too_much_here(seed):
    sample = coin_tosses(1000 + seed)
    result = certify(
        memorised(sample, seed), sample, effort="standard", delta=DELTA, seed=seed, allow_copies=True
    )
    assert result.certificate.claim.bound >= RISK


def test_an_assessed_message_is_what_the_world_counts():
    sample = coin_tosses(0)
    assessed = assess(luckiest_line(sample), Task(sample=sample, delta=DELTA, allow_copies=True))
    assert assessed.facts.errors < N // 2
    assert assessed.bound.value >= assessed.facts.errors / N
