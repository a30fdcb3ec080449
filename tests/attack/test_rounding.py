"""Networks whose predictions hang on how sums are rounded: no machine may count them as right.

Two equal hidden units, with weights of 2^54 and -2^54 behind them, drown what an ordinary linear layer says
in rounding errors, which depend on the order of summation. That order differs between processors; the two
code paths of one library show it on one machine.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import cbound_writer as writer
import numpy as np
import pytest
import torch

from codebound.certificate.decoding import decode
from codebound.certificate.evaluate import count_errors as count_by_writer
from codebound.certificate.file import Certificate
from codebound.sample.load import load_dataset
from codebound_verify import verify
from codebound_verify.networks import evaluation

DIGITS = load_dataset("digits").select(range(200), role="train")
X, Y = DIGITS.x, DIGITS.y
PIXELS, CLASSES = 28, 10
LARGE = [0, 2]  # the two hidden units; the sums between them make the difference
SIXTEENTHS = {"divisor": 16.0, "mean": [0.0], "std": [1.0]}


def drowning(exponent: float) -> tuple[np.ndarray, np.ndarray]:
    """The layers: brightness twice, then bright pixels; and nearest means behind them, less a large zero."""
    flat = X.reshape(len(X), -1) / 16
    pixels = np.sort(np.argsort(-flat.std(0))[:PIXELS])
    ordinary = [unit for unit in range(PIXELS + 2) if unit not in LARGE]
    first = np.zeros((PIXELS + 2, flat.shape[1]), np.int64)
    first[LARGE] = 1
    first[ordinary, pixels] = 1
    means = np.stack([flat[label == Y][:, pixels].mean(0) for label in range(CLASSES)])
    second = np.zeros((CLASSES, PIXELS + 2), np.float32)
    second[:, ordinary] = np.rint(4 * (means - means.mean(0)))
    second[:, LARGE] = 2.0**exponent, -(2.0**exponent)
    return first, second


def coded(exponent: float) -> list[writer.Tensor]:
    first, second = drowning(exponent)
    book = sorted(set(second.ravel().tolist()) - {0.0})
    index = np.array([[book.index(value) if value else -1 for value in row] for row in second])
    return [writer.adaptive(first, kind=2), writer.codebook(book, index)]


def certificate(exponent: float, *, errors: int) -> bytes:
    tensors = dict(zip(("0.weight", "1.weight"), coded(exponent), strict=True))
    operations = [["linear", PIXELS + 2, False], ["linear", CLASSES, False]]
    message = writer.Message(operations, tensors, classes=CLASSES, scaling=SIXTEENTHS)
    return writer.write(
        message, writer.header(message, X, Y, errors=errors, classes=CLASSES, scaling=SIXTEENTHS)
    )


def verdict(exponent: float, errors: int) -> dict:
    found = verify(certificate(exponent, errors=errors), X, Y)
    return {"verdict": found.verdict, "reasons": [reason for reason in found.reasons if "errors" in reason]}


def counts(monkeypatch, exponent: float) -> tuple[int, int]:
    """Errors with the rule of the page, and without a bound of the error."""
    stated = len(X)
    reasons = verdict(exponent, 0)["reasons"]
    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "ROUNDING", np.inf)
        patch.setattr(evaluation, "float32_is_sound", lambda: False)
        without = verdict(exponent, 0)["reasons"]
    return tuple(
        int(found[0].split(" errors")[0].split()[-1]) if found else stated for found in (reasons, without)
    )


def test_without_large_zeros_it_is_an_ordinary_network(monkeypatch):
    with_bound, without = counts(monkeypatch, 0.0)
    assert with_bound == without < len(X) / 3
    assert verdict(0.0, with_bound)["verdict"] == "ACCEPT"


@pytest.mark.parametrize("exponent", [40.0, 54.0, 60.0])
def test_what_hangs_on_rounding_is_an_error_throughout(exponent, monkeypatch):
    """The bound has teeth: without it most examples would count as right."""
    with_bound, without = counts(monkeypatch, exponent)
    assert with_bound == len(X)
    assert without < len(X) / 2 or exponent > 54
    network = decode(Certificate.from_bytes(certificate(exponent, errors=len(X))))
    assert count_by_writer(network, DIGITS.on("cpu")).errors == len(X)


@pytest.mark.thorough
@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="this torch has no MKL to choose paths of")
def test_two_paths_of_one_library_give_one_verdict():
    """Without the bound the two paths count differently; the verdict is the same on both."""
    found = [_on_path(path, errors=40) for path in ("AUTO", "COMPATIBLE")]
    assert found[0] == found[1]
    assert found[0]["verdict"] == "REFUSE"


def _on_path(path: str, errors: int) -> dict:
    """The verdict of a fresh process whose matrix products take that path."""
    folder = Path(__file__).parent
    run = f"import json, test_rounding; print(json.dumps(test_rounding.verdict(54.0, {errors})))"
    paths = [str(folder), str(folder.parent / "reference"), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", run],
        env={**os.environ, "MKL_CBWR": path, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return json.loads(done.stdout)
