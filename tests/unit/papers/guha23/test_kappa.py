"""The kappa factors of Guha's Appendix C, and that they are not to be trusted."""

import math

import pytest
from torch import nn

from codebound.run.errors import UnsupportedLayerError, UsageError
from codebound_networks.reading.walk import wrap
from codebound_papers.guha23.kappa import kappa_diagnostics


def test_released_values_solve_their_equation():
    """a = b = 1 and 1 - n exp(-t^2 d_in) = 0.99; kappa = min(1, t sqrt(d_out)) where the layer narrows."""
    net = wrap(
        nn.Sequential(nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, 10))
    )
    first, second, last = kappa_diagnostics(net, n=48_000)
    for kappa in (first, second, last):
        assert 1.0 - 48_000 * math.exp(-(kappa.t**2) * kappa.inputs) == pytest.approx(0.99)
        assert kappa.proved == pytest.approx(kappa.t * math.sqrt(kappa.outputs))
        assert kappa.printed == pytest.approx(math.sqrt(kappa.outputs * kappa.t))
    assert (first.inputs, first.outputs) == (784, 500)
    assert (first.released, second.released) == (1.0, 1.0)
    assert last.released == pytest.approx(last.proved)
    assert last.released < 1.0


def test_constants_move_the_proved_value_only():
    net = wrap(nn.Sequential(nn.Linear(400, 10)))
    (plain,), (other,) = (
        kappa_diagnostics(net, n=100),
        kappa_diagnostics(net, n=100, a=2.0, b=0.5, failure=0.1),
    )
    assert other.t == pytest.approx(math.sqrt(math.log(2000) / 200))
    assert other.released == plain.released
    assert other.proved != plain.proved


def test_layers_that_widen_have_kappa_one():
    (kappa,) = kappa_diagnostics(wrap(nn.Sequential(nn.Linear(5, 9))), n=10)
    assert (kappa.proved, kappa.printed, kappa.released) == (1.0, 1.0, 1.0)


def test_bad_questions_are_refused():
    conv = wrap(nn.Sequential(nn.Conv2d(1, 2, 3)))
    with pytest.raises(UnsupportedLayerError, match="layer 0"):
        kappa_diagnostics(conv, n=10)
    net = wrap(nn.Sequential(nn.Linear(2, 2)))
    for n, failure, a in ((0, 0.1, 1.0), (10, 0.0, 1.0), (10, 0.1, -1.0), (1, 0.5, 0.1)):
        with pytest.raises(UsageError):
            kappa_diagnostics(net, n=n, failure=failure, a=a)
