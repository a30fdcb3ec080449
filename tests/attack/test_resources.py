"""Tiny files that ask for huge work: refused at once, or done in bounded time and less than 1 GB.

Each case runs in a process of its own, so that its peak memory is its own.
"""

import json
import subprocess
import sys
from pathlib import Path

import cbound_writer as writer
import numpy as np
import pytest

LIMIT_MB = 1024


def zeros(operations: list[list]) -> bytes:
    """A consistent certificate for a chain whose tensors are all zero: a few bits each."""
    x, y = writer.clusters(3)
    shape, names = list(x.shape[1:]), []
    for position, (kind, *sizes) in enumerate(operations):
        if kind in ("linear", "conv", "local conv"):
            names.append(f"{position}.weight")
            names += [f"{position}.bias"] * bool(sizes[-1])
        elif kind == "residual":
            names += [f"{position}.a.weight", f"{position}.b.weight"]
    message = writer.Message(operations, {name: writer.zero(shape) for name in names})
    return writer.write(message, writer.header(message, x, y, errors=3, classes=3))


LAST = ["linear", 3, False]
REFUSED = {
    "2^28 elements": [["linear", 2**14, False], ["linear", 2**14, False], LAST],
    "2^25 and one elements in a tensor": [["linear", 2**13, False], ["linear", 2**12 + 1, False], LAST],
    "250 layers of 2^20 elements": [["linear", 2**10, False]] * 250 + [LAST],
    "an image of 2^23 numbers": [["conv", 1, 1, 1, 1500, False], LAST],
    "padding that is strided away": [["conv", 1, 1, 2**13, 2**13, False], LAST],
    "channels": [["conv", 2**16, 1, 1, 8, False], LAST],
    "patches": [["conv", 1, 1, 1, 500, False], ["conv", 1, 11, 1, 5, False], LAST],
    "multiplications": [["conv", 64, 1, 1, 100, False], ["conv", 512, 1, 1, 0, False], ["max pool", 9], LAST],
    "multiplications of residuals": [["conv", 64, 1, 1, 50, False], *[["residual", 64, False]] * 3, LAST],
    "local filters": [["local conv", 16, 5, 1, 180, False], ["max pool", 9], LAST],
    "254 pools of a large image": [["conv", 1, 1, 1, 700, False], *[["max pool", 1]] * 254, LAST],
}


@pytest.mark.parametrize("name", REFUSED)
def test_huge_work_in_a_tiny_file_is_refused_before_anything_is_allocated(name):
    from codebound.certificate.decoding import decode
    from codebound.certificate.file import Certificate
    from codebound.run.errors import FormatError
    from codebound_verify import verify

    data = zeros(REFUSED[name])
    assert len(data) < 10_000
    x, y = writer.clusters(3)
    (reason,) = verify(data, x, y).reasons
    assert "at most" in reason or "more than" in reason
    with pytest.raises(FormatError, match=r"at most|2\^25"):
        decode(Certificate.from_bytes(data))


PROBE = """
import json, sys
import numpy as np
from codebound.certificate.file import Certificate
from codebound.certificate.decoding import decode
from codebound_verify import verify

def peak():
    with open("/proc/self/status") as file:
        return int(file.read().split("VmHWM:")[1].split()[0]) / 1024

data, sample = open(sys.argv[1], "rb").read(), np.load(sys.argv[2])
if sys.argv[3] == "verify":
    print(json.dumps([verify(data, sample["x"], sample["y"]).reasons, peak()]))
else:
    print(json.dumps([type(decode(Certificate.from_bytes(data))).__name__, peak()]))
"""


def measured(data: bytes, folder: Path, program: str, seconds: float, sample=None) -> tuple[object, float]:
    x, y = sample or writer.clusters(3)
    (folder / "case.cbound").write_bytes(data)
    np.savez(folder / "case.npz", x=x, y=y)
    command = [sys.executable, "-c", PROBE, folder / "case.cbound", folder / "case.npz", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds)
    return tuple(json.loads(done.stdout))


def codebook_of_ones(coder: writer.Coder) -> None:
    """2^24 equal elements: the mask is full and the codebook has one value, so no element costs a bit."""
    count = 2**12 * (2**12 - 1)
    coder.gamma(5)
    coder.gamma(1)
    coder.float32(1.0)
    coder.uniform(count, count + 1)


def nothing_but_zeros(coder: writer.Coder) -> None:
    """2^24 elements in 26 bits: each adaptive zero is nearly free."""
    coder.gamma(1)
    coder.signed(0)
    coder.gamma(1)
    coder.bit(0)
    coder.bit(0)
    coder.uniform(0, 4)
    zeros_seen = 0
    for _ in range(2**12 * (2**12 - 1)):
        coder.symbol(0, 2 * zeros_seen + 1, 2 * zeros_seen + 2)
        zeros_seen += 1
        if zeros_seen == 2**20:
            zeros_seen = 2**19


def packed(write) -> bytes:
    x, y = writer.clusters(3)
    tensors = {
        "0.weight": writer.zero(0),
        "1.weight": writer.Tensor(lambda coder, name: write(coder), np.zeros(1)),
        "2.weight": writer.zero(0),
    }
    message = writer.Message([["linear", 2**12, False], ["linear", 2**12 - 1, False], LAST], tensors)
    return writer.write(message, writer.header(message, x, y, errors=3, classes=3))


@pytest.mark.slow
def test_2_to_24_elements_in_700_bytes(tmp_path):
    data = packed(codebook_of_ones)
    assert len(data) < 1000
    for program in ("verify", "decode"):
        result, peak = measured(data, tmp_path, program, seconds=60)
        assert result in ([], "Sequential")
        assert peak < LIMIT_MB


ALLOWED = {
    "2^26 elements": [["linear", 2**9, False], ["linear", 2**16, False], ["linear", 500, False], LAST],
    "patches of 2^25 numbers": [["conv", 1, 1, 1, 760, False], *[["conv", 1, 3, 1, 1, False]] * 3, LAST],
    "2^30 multiplications": [["conv", 16, 1, 1, 127, False], *[["conv", 16, 3, 1, 1, False]] * 6, LAST],
    "deep chains": [*[["linear", 500, False]] * 255, LAST],
    "pools": [["conv", 1, 1, 1, 250, False], *[["max pool", 1]] * 200, LAST],
    "local patches of 2^25 numbers": [["local conv", 1, 15, 1, 199, False], LAST],
    "local filters of 2^25 numbers": [["local conv", 16, 4, 1, 180, False], ["max pool", 9], LAST],
}


@pytest.mark.slow
@pytest.mark.parametrize("program", ["verify", "decode"])
@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_just_allowed_takes_less_than_a_gigabyte(name, program, tmp_path):
    result, peak = measured(zeros(ALLOWED[name]), tmp_path, program, seconds=120)
    assert result in ([], "Sequential")
    assert peak < LIMIT_MB


@pytest.mark.slow
@pytest.mark.parametrize("program", ["verify", "decode"])
def test_2_to_24_adaptive_zeros_take_less_than_a_gigabyte(program, tmp_path):
    result, peak = measured(packed(nothing_but_zeros), tmp_path, program, seconds=240)
    assert result in ([], "Sequential")
    assert peak < LIMIT_MB


def projection(coder: writer.Coder) -> None:
    """2^24 sums of 2^12 signs each."""
    coder.gamma(8)
    coder.bit(0)
    coder.bit(0)
    coder.gamma(2**12)
    coder.gamma(1)
    writer.dense(np.ones((1, 2**12), int)).write(coder, "")


def low_rank(coder: writer.Coder) -> None:
    """2^24 sums of 4095 products of zeros each."""
    coder.gamma(9)
    coder.gamma(2**12 - 1)
    coder.gamma(2)
    coder.gamma(2)


def mixture(coder: writer.Coder) -> None:
    """2^24 sums of 2^11 terms each, with weights that are sums themselves."""
    coder.gamma(12)
    coder.gamma(2**11)
    coder.gamma(2**8)
    coder.gamma(1)
    writer.dense(np.ones(2**11, int)).write(coder, "")


@pytest.mark.slow
@pytest.mark.parametrize("program", ["verify", "decode"])
@pytest.mark.parametrize("write", [projection, low_rank, mixture])
def test_nearly_2_to_36_products_take_less_than_a_gigabyte(write, program, tmp_path):
    data = packed(write)
    assert len(data) < 2000
    result, peak = measured(data, tmp_path, program, seconds=600)
    assert result in ([], "Sequential")
    assert peak < LIMIT_MB


@pytest.mark.slow
@pytest.mark.parametrize("program", ["verify", "decode"])
def test_2_to_26_elements_of_2_to_20_integers_take_less_than_a_gigabyte(program, tmp_path):
    """Every element is a sum of four, from a message of some 200 bits."""
    operations = [["linear", 2**9, False], ["linear", 2**16, False], ["linear", 500, False], LAST]
    message = writer.Message(operations, writer.Subspace(writer.zero((2**20,)), t=2))
    data = writer.write(message, writer.header(message, *writer.clusters(3), errors=3, classes=3))
    assert len(data) < 1000
    result, peak = measured(data, tmp_path, program, seconds=240)
    assert result in ([], "Sequential")
    assert peak < LIMIT_MB


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "operations"),
    [
        ((1, 460, 460), [["dictionary", 1, 4]]),
        ((1, 206, 206), [["views", 2], ["dictionary", 1, 1]]),
        ((3, 300, 300), [["dictionary", 3, 2]]),
        ((1, 2**11, 2**11), [["views", 2], ["max pool", 4]]),
        ((1, 2**11, 2**11), [["views", 4], ["max pool", 4]]),
    ],
)
def test_features_and_views_of_the_largest_images_take_less_than_a_gigabyte(shape, operations, tmp_path):
    x, y = np.zeros((3, *shape), np.uint8), np.zeros(3, np.int64)
    x[:, 0, 0, 0] = range(3)  # no copies
    message = writer.Message([*operations, LAST], {f"{len(operations)}.weight": writer.zero(0)})
    data = writer.write(message, writer.header(message, x, y, errors=3, classes=3))
    result, peak = measured(data, tmp_path, "verify", seconds=120, sample=(x, y))
    assert result == []
    assert peak < LIMIT_MB
