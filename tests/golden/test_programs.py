"""Networks as programs: what is counted is what runs, and what runs is the network of the certificate."""

import base64
import json
import random
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import OccamFacts
from codebound.certificate.decoding import decode
from codebound.certificate.file import Certificate
from codebound.run.errors import DataError
from codebound.sample.load import load_sample

RESULTS = Path(__file__).parents[2] / "results"
COUNTED = json.loads((RESULTS / "as_program" / "counted.json").read_text())
DATA = {"mnist": "mnist", "fashion": "fashion-mnist", "cifar10": "cifar10", "digits": "digits"}
QUICK = ("digits-linear", "digits-features")
pytestmark = pytest.mark.skipif(
    int(np.__version__.split(".")[0]) < 2, reason="programs count bits with NumPy 2"
)


@pytest.fixture(scope="module")
def counting():
    sys.path.insert(0, str(RESULTS))
    try:
        from as_program import counting
    finally:
        sys.path.remove(str(RESULTS))
    return counting


def certificate(name: str) -> Certificate:
    return Certificate.load(RESULTS / "certificates" / f"{name}.cbound")


def logits(counting, name: str, number: int, bits: int, x: np.ndarray) -> torch.Tensor:
    return counting.program(name)(counting.Digits(number, 1 << bits), torch.from_numpy(x))


def same_network(counting, name: str, examples: int) -> None:
    """The program gives the logits of the certificate, but for a positive factor, after its payload alone."""
    try:
        sample = load_sample(DATA[name.split("-")[0]])
    except DataError as error:
        pytest.skip(str(error))
    chosen = sample.select(np.arange(0, sample.n, sample.n // examples)[:examples], role="certify")
    number, bits = counting.payload(name, certificate(name))
    assert bits == COUNTED[name]["payload_bits"]
    tail = random.Random(0).getrandbits(200)  # whatever follows the payload
    found = logits(counting, name, (number << 200) + tail, bits + 200, chosen.x)
    x, _ = chosen.on("cpu").batch(slice(None), torch.float64)
    with torch.no_grad():
        expected = decode(certificate(name)).double()(x)
    factor = float((found * expected).sum() / (found * found).sum())
    assert factor > 0
    assert float((factor * found - expected).abs().max()) < 1e-9 * float(expected.abs().max())
    assert torch.equal(found.argmax(1), expected.argmax(1))


def test_what_is_counted_is_the_source_and_ends_by_itself(counting):
    assert set(COUNTED) == set(counting.SMALLEST)
    for name, recorded in COUNTED.items():
        stream = zlib.decompressobj(-15)
        assert stream.decompress(
            base64.b64decode(recorded["deflated"]) + b"tail"
        ).decode() == counting.source(name)
        assert stream.unused_data == b"tail"


def test_no_headline_is_left_out(counting):
    """Bases are no part of a program, and what a rule learned from the sample is in no message."""
    found = {path.stem: Certificate.load(path) for path in (RESULTS / "certificates").glob("*.cbound")}
    left_out = {name for name, each in found.items() if each.known.base or each.has_table or each.is_learned}
    assert set(COUNTED) == found.keys() - left_out
    assert {"mnist-default", "mnist-picked", "digits-from-mnist"} <= left_out


@pytest.mark.parametrize("name", QUICK)
def test_small_programs_are_the_network_of_their_certificate(counting, name):
    same_network(counting, name, 300)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(COUNTED) - set(QUICK)))
def test_programs_are_the_network_of_their_certificate(counting, name):
    same_network(counting, name, 200)


def test_another_payload_is_another_network(counting):
    name, x = "digits-linear", load_sample("digits").x[:50]
    number, bits = counting.payload(name, certificate(name))
    true, other = (logits(counting, name, each, bits, x) for each in (number, number ^ (1 << bits // 2)))
    assert not torch.equal(true.argmax(1), other.argmax(1))


def test_a_program_costs_more_than_the_message_and_the_bound_says_so(counting):
    for name, recorded in COUNTED.items():
        issued = certificate(name)
        bits = 8 * len(base64.b64decode(recorded["deflated"])) + recorded["payload_bits"]
        assert bits > issued.message.bits
        paid = OccamFacts(errors=issued.limit.errors, n=issued.limit.n, code_bits=bits, delta=0.05)
        assert occam_binomial(paid).value > issued.claim.bound
