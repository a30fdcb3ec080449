"""Networks whose predictions hang on how sums are rounded: no machine may count them as right.

Two equal hidden units, with weights of 2^54 and -2^54 behind them, drown what an ordinary linear layer says
in rounding errors, which depend on the order of summation. That order differs between processors.
"""

from functools import cache

import numpy as np
import pytest
from certificate_counts import Sample as Stored
from file_judges import judged
from file_writer import World, of_network, write_file

from codebound.certificate.decoding import decode
from codebound.certificate.evaluate import count_errors
from codebound.certificate.file import Certificate
from codebound.sample.dataset import Sample, Scaling
from codebound.sample.load import load_sample
from codebound_verify.networks import evaluation

DIGITS = load_sample("digits").select(range(200), role="train")
X, Y = DIGITS.x, DIGITS.y
PIXELS, CLASSES = 28, 10
LARGE = [0, 2]  # the two hidden units; the sums between them make the difference


@cache
def drowning(exponent: float) -> dict[str, np.ndarray]:
    """The layers: brightness twice, then bright pixels; and nearest means behind them, less a large zero."""
    flat = X.reshape(len(X), -1) / 16
    pixels = np.sort(np.argsort(-flat.std(0))[:PIXELS])
    ordinary = [unit for unit in range(PIXELS + 2) if unit not in LARGE]
    first = np.zeros((PIXELS + 2, flat.shape[1]), np.float32)
    first[LARGE] = 1
    first[ordinary, pixels] = 1
    means = np.stack([flat[label == Y][:, pixels].mean(0) for label in range(CLASSES)])
    second = np.zeros((CLASSES, PIXELS + 2), np.float32)
    second[:, ordinary] = np.rint(4 * (means - means.mean(0)))
    second[:, LARGE] = 2.0**exponent, -(2.0**exponent)
    return {"0.weight": first, "1.weight": second}


def written(exponent: float, errors: int) -> tuple[World, bytes]:
    """A message that leaves a base as it is, with so many errors."""
    base = drowning(exponent)
    zeros = [np.zeros(tensor.shape, int) for tensor in base.values()]
    world = World(Stored(X, Y), base=base)
    text = of_network(CLASSES, [[1, PIXELS + 2, "0"], [1, "0"]], zeros, scaling=(2,), is_base=True)

    def lie(counts: list[dict]) -> list[dict]:
        return [each | {"errors": errors, "n": len(X)} for each in counts]

    return world, write_file(world, text, lie=lie)


def fewest(exponent: float) -> int:
    """The errors that the verifier counts: fewer are refused."""
    low, high = 0, len(X)
    while low < high:
        middle = (low + high) // 2
        is_taken = not any("error" in reason for reason in judged(*written(exponent, middle)).reasons)
        low, high = (low, middle) if is_taken else (middle + 1, high)
    return low


def test_without_large_zeros_it_is_an_ordinary_network():
    errors = fewest(0.0)
    assert errors < len(X) / 3
    assert judged(*written(0.0, errors)).is_accepted


@pytest.mark.parametrize("exponent", [40.0, 54.0, 60.0])
def test_what_hangs_on_rounding_is_an_error_throughout(exponent, monkeypatch):
    """The bound has teeth: without it many examples would count as right."""
    assert not judged(*written(exponent, len(X) - 1)).is_accepted
    world, data = written(exponent, len(X))
    assert judged(world, data).is_accepted
    network = decode(Certificate.from_bytes(data), base=world.base)
    sample = Sample("digits", "train", X, Y, CLASSES, Scaling(16.0))
    assert count_errors(network, sample.on("cpu")) == len(X)
    monkeypatch.setattr(evaluation, "ROUNDING", np.inf)
    assert fewest(exponent) < len(X) / 2 or exponent > 54
