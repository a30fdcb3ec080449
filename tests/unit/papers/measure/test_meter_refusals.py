"""What a measurement of noise stability looks like from outside: what it prints, and what it refuses."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from worlds.networks import convnet, double_mlp, inputs

from codebound.run.errors import CodeboundError, DataError, ModelError, UnsupportedLayerError, UsageError
from codebound_papers.measure.noise.meter import StabilityMeter, stability
from codebound_papers.measure.noise.quantities import Smoothness, StabilitySettings
from codebound_papers.measure.noise.result import Key

ALL = StabilitySettings(interlayer="all")


def test_what_was_not_measured_is_no_result():
    model, x = convnet(bias=True), inputs(5, 2, 6, 6)
    found = stability(model, x, StabilitySettings(interlayer="all", smoothness=Smoothness(0.1, draws=2)))
    assert [row.layer for row in found.layers] == ["0", "3", "6"]
    assert found.layers[0].distance_cushion is None
    cushions = found.distribution("cushion", "0")
    assert sum(cushions.histogram()[0]) == 5
    assert cushions.quantiles()[0.0] == found.layers[0].cushion
    with pytest.raises(UsageError, match="spread at layer '6' was not measured"):
        found.distribution("spread", "6")
    with pytest.raises(UsageError, match="'0' to 'nope'"):
        found.distribution("interlayer", "0", target="nope")
    assert all(found.has(each, "0") for each in ("interlayer", "contraction", "spread", "smoothness"))


def test_an_interval_is_wide_only_where_the_norm_is_an_estimate():
    """With 20 probes the Jacobian between the convolutions, 36 x 108, is probed; the output has 5 entries."""
    model, x = convnet(bias=True), inputs(5, 2, 6, 6)
    exact = stability(model, x, ALL)
    probed = stability(model, x, StabilitySettings(interlayer="all", probes=20))
    assert exact.interval("0") == (1.0, 1.0)
    assert probed.interval("3") == (1.0, 1.0)
    assert np.array_equal(*(found.columns[Key("interlayer", "0", "6")] for found in (exact, probed)))
    low, high = probed.interval("0", confidence=0.9)
    ratios = exact.columns[Key("interlayer", "0", "3")] / probed.columns[Key("interlayer", "0", "3")]
    assert ((low < ratios) & (ratios < high)).all()
    assert not np.allclose(ratios, 1.0)
    assert (probed.probes, exact.probes) == (20, None)
    assert stability(model, x, StabilitySettings(probes=20)).probes is None  # nothing was left to estimate
    empty = StabilityMeter(model, StabilitySettings(interlayer="all", probes=20))
    other = StabilityMeter(model, StabilitySettings(interlayer="all", probes=20))
    other.update(x)
    empty.include(other.part)
    assert empty.compute().interval("0") == probed.interval("0")


def test_only_the_named_layers_are_reported():
    model, x = double_mlp(5, 6, 4, 3, bias=False), inputs(6, 5)
    every, some = (
        stability(model, x, ALL),
        stability(model, x, StabilitySettings(layers=("2",), interlayer="all")),
    )
    assert some.layers == every.layers[1:2]
    assert stability(model, x, StabilitySettings(interlayer="none")).layers[0].interlayer is None


def test_half_precision_networks_are_measured_in_single_precision():
    model, x = double_mlp(5, 6, 3, bias=False), inputs(4, 5).float()
    found = stability(model.bfloat16(), x)
    assert found.columns[Key("cushion", "0")].dtype == np.float32
    assert next(model.parameters()).dtype == torch.bfloat16


def test_a_layer_that_is_called_twice_has_a_row_per_call():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3, bias=False)

        def forward(self, x):
            return self.fc(torch.relu(self.fc(x)))

    torch.manual_seed(1)
    assert [row.layer for row in stability(Twice(), torch.rand(4, 3)).layers] == [
        "fc (call 1)",
        "fc (call 2)",
    ]


# refusals


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        return self.fc(x) if x.sum() > 0 else self.fc(-x)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"interlayer": "some"}, "none, output or all"),
        ({"biases": "ignored"}, "augmented or separate"),
        ({"probes": 0}, "probes must be at least 1"),
        ({"pixels": 0}, "pixels must be at least 1"),
        ({"outliers": 1.0}, r"\[0, 1\)"),
        ({"layers": ()}, "at least one name"),
        ({"layers": "fc"}, "at least one name"),
        ({"layers": ("fc9",)}, r"no layer 'fc9'.*0, 2"),
        (
            {"smoothness": Smoothness(lambda matrix, seed: matrix[:1])},
            r"layer 0: the noise must return.*\(6, 5\)",
        ),
        ({"smoothness": Smoothness(lambda matrix, seed: None)}, "Got NoneType"),
        ({"smoothness": Smoothness(lambda matrix, seed: matrix / 0)}, "layer 0: the noise made entries"),
    ],
)
def test_plans_that_make_no_sense_are_refused(change, message):
    with pytest.raises(UsageError, match=message):
        stability(double_mlp(5, 6, 3, bias=False), inputs(2, 5), StabilitySettings(**change))


@pytest.mark.parametrize("settings", [{"noise": 0.0}, {"noise": math.inf}, {"noise": 1.0, "draws": 0}])
def test_smoothness_needs_noise_and_draws(settings):
    with pytest.raises(UsageError, match=r"noise must be positive|at least 1 draw"):
        Smoothness(**settings)


@pytest.mark.parametrize(
    ("net", "data", "error", "message"),
    [
        ("resnet", torch.ones(1, 5), UsageError, "nn.Module"),
        (nn.Linear(5, 3), torch.ones(1, 5), ModelError, "nn.Sequential"),
        (Branching(), torch.ones(1, 5), ModelError, "cannot trace Branching.*the same steps for every input"),
        (nn.Sequential(nn.ReLU(), nn.Flatten()), torch.ones(1, 5), ModelError, "no linear"),
        (double_mlp(5, 3, bias=False), torch.ones(1, 4), ModelError, r"fails on inputs of shape \(1, 4\)"),
        (double_mlp(5, 3, bias=False), torch.ones(2, 5, dtype=torch.int64), UsageError, "floating-point"),
        (double_mlp(5, 3, bias=False), torch.ones(0, 5), CodeboundError, "Got"),
        (double_mlp(5, 3, bias=False), [], DataError, "at least one example"),
        (double_mlp(5, 3, bias=False), ["image.png"], UsageError, "batch of type str"),
        (
            nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 3)),
            torch.ones(2, 5),
            UnsupportedLayerError,
            "follows",
        ),
        (
            nn.Sequential(nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 2)),
            torch.ones(2, 5),
            UsageError,
            "separate",
        ),
    ],
)
def test_networks_and_data_that_do_not_fit_are_refused(net, data, error, message):
    with pytest.raises(error, match=message):
        stability(net, data)


def test_other_wrong_inputs_are_refused():
    model = double_mlp(5, 4, 3, bias=False)
    with pytest.raises(UsageError, match="chunk_size"):
        stability(model, inputs(2, 5), chunk_size=0)
    with pytest.raises(UsageError, match="device 'nowhere' cannot be used"):
        stability(model, inputs(2, 5), device="nowhere")
    conv = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 3)).double()
    meter = StabilityMeter(conv)
    meter.update(inputs(2, 1, 8, 8))
    with pytest.raises(UsageError, match="one size at a time"):
        meter.update(inputs(2, 1, 9, 9))
