"""Every kind of views, through a file: the same network and the same count on both sides."""

import numpy as np
import pytest
import torch

from codebound.certificate.decoding import decode
from codebound.certificate.offers import assess, issue, network_outcome
from codebound.certificate.verification import verify
from codebound.request import Task
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Scaling
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.message import decode as decode_message
from codebound_networks.chains.operations import Dictionary, Linear, NormalisedConv, Shifts
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.random_subspace import Subspace

FRONTS = {
    "a stack": (Dictionary(3, 2), NormalisedConv(24, 1)),
    "no stack": (Linear(5, False),),
}
SCALINGS = {
    "grey": Scaling(255.0),
    "colours, none of them black at zero": Scaling(255.0, (0.5, 0.3, 0.1), (0.25, 0.35, 0.4)),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_it_saves_decodes_and_counts_the_same(kind, front, scaling, tmp_path):
    channels = len(SCALINGS[scaling].mean)
    stream = np.random.default_rng(kind)
    y = stream.integers(0, 3, 60)
    x = stream.integers(0, 60, (60, channels, 8, 8)) + 60 * y[:, None, None, None] * np.tri(8, dtype=int)
    sample = from_arrays(x.astype(np.uint8), y, name="shades", classes=3, scaling=SCALINGS[scaling])
    chain = Chain((channels, 8, 8), (Shifts(kind), *FRONTS[front], Linear(3, False)))
    integers = stream.integers(-3, 4, 20).astype(np.int32)
    task = Task(sample=sample, delta=0.05)
    message = Message(task.options, chain, Subspace(best_tensor_code(integers, step=0), 2, 0, True, 0))
    again = decode_message(message.encode()[0], input_shape=(channels, 8, 8))
    assert again.chain == chain
    outcome = network_outcome(message, task)
    found = assess(outcome, task)
    path = issue(found, task).save(tmp_path / "g.cbound")
    network = decode(path)
    states = network.state_dict(), outcome.classifier.state_dict()
    assert all(torch.equal(states[0][name], value) for name, value in states[1].items())
    verdict = verify(path, sample)
    assert verdict.is_accepted, verdict
    assert verdict.limits[0].errors == found.tally.errors
