"""For one answer a network is traced, wrapped, folded and exported once."""

import sys
from collections import Counter
from contextlib import contextmanager
from functools import cache

import pytest
import torch
from torch import nn
from worlds.bright_rows import images
from worlds.networks import mlp

from codebound.certification import certify
from codebound.known.provenance import Pretrained
from codebound.request import Known, Run
from codebound_networks.reading.export import plain_network
from codebound_networks.reading.walk import Network, wrap
from codebound_networks.views.fold import fold_batch_norms
from codebound_networks.views.graphs import _Tracer
from codebound_papers.compare.table import compare
from codebound_papers.measure.record import MeasureSettings, measure_facts
from codebound_papers.measure.steps import fold_and_wrap

SAMPLE, TEST = images(), images(60, 2, "test")
PLACES = {
    _Tracer.trace.__code__: "trace",
    wrap.__code__: "wrap",
    fold_batch_norms.__code__: "fold",
    plain_network.__code__: "export",
}


class Normed(nn.Module):
    """A convolution, a batch norm and a linear layer, whose steps only a trace shows."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Linear(16, 3)

    def forward(self, x):
        return self.out(torch.relu(self.norm(self.conv(x))).flatten(1))


class Skipping(Normed):
    """The same with a way around: no chain, also for whoever reads it with torch.export."""

    def __init__(self):
        super().__init__()
        self.around = nn.Linear(16, 3)

    def forward(self, x):
        return super().forward(x) + self.around(x.flatten(1))


def made(kind):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind().eval()


@contextmanager
def counted():
    """How often work was done: folds of what has batch norms."""
    found, before = Counter(), sys.getprofile()

    def look(frame, event, result):
        name = PLACES.get(frame.f_code)
        if name == "fold":
            found[name] += event == "return" and result is not None and bool(result.folded)
        elif name == "trace":  # torch.export has tracers of its own
            found[name] += event == "call" and isinstance(frame.f_locals["self"], _Tracer)
        elif name is not None:
            found[name] += event == "call"

    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(before)


def compared(network, **given):
    return compare(network, SAMPLE, TEST, settings=MeasureSettings(examples=20), **given)


def measured(network):
    families = ("margins", "norms", "spectra", "stability")
    return measure_facts(network, SAMPLE, MeasureSettings(families=families, examples=SAMPLE.n))


def certified(network, method="prune"):
    return certify(SAMPLE, network=network, method=method, test=TEST, run=Run(effort="quick"))


@cache
def certificate_of_normed():
    return certified(made(Normed)).certificate


def scored(network):
    """By declared scores, as a base that is no chain is certified."""
    module = network.model if isinstance(network, Network) else network
    base = Pretrained(module, "made by hand")
    return certify(
        SAMPLE, network=network, method="scores", test=TEST, known=Known(base=base), run=Run(effort="quick")
    )


def trained():
    return mlp(16, 8, 3, flat=True)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("answer", "network", "most"),
    [
        (compared, trained, {"trace": 1, "wrap": 1}),
        (compared, lambda: made(Normed), {"trace": 1, "wrap": 1, "fold": 1, "export": 1}),
        (compared, lambda: made(Skipping), {"trace": 1, "wrap": 1, "fold": 1, "export": 1}),
        (measured, trained, {"trace": 1, "wrap": 1}),
        (measured, lambda: made(Normed), {"trace": 1, "wrap": 1, "fold": 1}),
        (certified, trained, {"trace": 1}),
        (certified, lambda: made(Normed), {"trace": 1, "fold": 1, "export": 1}),
        (scored, lambda: made(Skipping), {"trace": 1, "fold": 1, "export": 1}),
        # f as it is given, and as every compressor takes it
        (lambda f: certified(f, "auto"), trained, {"trace": 2, "wrap": 1}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_nothing_is_done_twice_for_one_answer(answer, network, most):
    network = network()
    with counted() as found:
        answer(network)
    assert {name: count for name, count in found.items() if count} == most


def test_what_has_come_to_a_network_since_it_was_wrapped_is_seen():
    """Hooks above all: they may answer otherwise on inputs that no check happens to try."""
    model = made(Normed)
    network = wrap(model, example=torch.zeros(1, 1, 4, 4), classes=3)
    with counted() as found:
        certificate = certified(network).certificate
    assert found["trace"] == 1
    assert found["wrap"] == 0
    assert certificate.message == certificate_of_normed().message
    last = [part for part in model.modules() if isinstance(part, nn.Linear)][-1]
    last.register_forward_hook(
        lambda _, inputs, outputs: torch.where(outputs.abs() > 1e-3, -outputs, outputs)
    )
    errors = [certified(each, "constant").original_errors for each in (network, model, made(Normed))]
    assert errors[0] == errors[1] != errors[2]


def test_a_network_without_its_batch_norms_has_the_message_of_the_one_with_them():
    """``compare`` prunes it: what is folded for the measures is not folded again for the message."""
    found = certified(fold_and_wrap(made(Normed), SAMPLE).network).certificate
    assert found.message == certificate_of_normed().message
    assert found.known == certificate_of_normed().known


def test_certificates_that_are_compared_share_the_trace():
    certificates = [certified(trained()).certificate, certificate_of_normed()]
    network = trained()
    with counted() as found:
        table = compared(network, certificates=certificates)
    assert len([row for row in table.rows if "through the margin" in row.name]) == 2
    assert found["trace"] == 1
