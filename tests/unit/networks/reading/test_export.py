"""Modules as plain networks: the same numbers for batches of any size, and nothing that is left to chance."""

import pytest
import torch
from torch import nn
from worlds.networks import mlp

from codebound.run.errors import ModelError
from codebound_networks.reading.export import plain_network, put
from codebound_networks.views.rebuild import with_weights

X = torch.linspace(-1.0, 1.0, 20).reshape(5, 4)


class Measured(nn.Module):
    """What torch.fx cannot follow: sizes, an assertion, and a buffer that is looked up."""

    def __init__(self):
        super().__init__()
        self.layers = mlp(4, 3, 2)
        self.register_buffer("shift", torch.arange(2.0))

    def forward(self, x):
        assert x.size(1) == 4
        return self.layers(x.reshape(len(x), -1)) + self.shift


class Chance(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


class BesideOthers(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


def test_a_network_is_read_for_batches_of_any_size():
    model = Measured().eval()
    plain = plain_network(model, X[:2])
    network = plain.module()
    with torch.no_grad():
        for n in (1, 2, 5):
            torch.testing.assert_close(network(X[:n]), model(X[:n]), rtol=1e-6, atol=1e-7)
    assert plain.tensors["layers.0.weight"] is model.layers[0].weight  # nothing has changed it
    assert set(plain.tensors) == {
        *(f"layers.{at}.{part}" for at in (0, 2) for part in ("weight", "bias")),
        "shift",
    }


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Chance(), "draws random numbers"),
        (BesideOthers(), "looks at the rest of the batch"),
        (nn.BatchNorm1d(4, track_running_stats=False), "batch norm without running statistics"),
    ],
)
def test_what_is_no_function_of_one_example_is_refused(model, reason):
    with pytest.raises(ModelError, match=reason):
        plain_network(model.eval(), X)


def test_parts_are_put_where_their_names_say():
    root, layer = nn.Module(), nn.Linear(2, 3)
    put(root, "a.b", layer)
    put(root, "a.scale", nn.Parameter(torch.ones(1)))
    put(root, "a.places", torch.arange(3))
    assert root.a.b is layer
    assert sorted(root.state_dict()) == ["a.b.bias", "a.b.weight", "a.places", "a.scale"]
    assert [name for name, _ in root.named_buffers()] == ["a.places"]
    other = nn.LayerNorm(3)
    put(root, "a", other)  # what is held under that name stays
    assert root.a is other
    assert other.b is layer


class Masked(nn.Module):
    """Attention of rows on rows under a mask that is saved with the weights."""

    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        scores = x[:, :, None] * x[:, None, :] + self.mask
        return self.layer((scores.softmax(-1) @ x[:, :, None]).flatten(1))


CAUSAL = torch.full((4, 4), -torch.inf).triu(1)


@pytest.mark.parametrize("mask", [CAUSAL, CAUSAL - 0.3 * torch.arange(4.0)], ids=["causal", "with slopes"])
def test_a_mask_of_minus_infinity_stays_a_buffer(mask):
    model = Masked(mask).eval()
    plain = plain_network(model, X)
    assert set(plain.tensors) == {"layer.weight", "layer.bias", "mask"}
    network = with_weights(plain.module(), plain.module().state_dict())  # where NaN and infinity are refused
    with torch.no_grad():
        torch.testing.assert_close(network(X), model(X), rtol=1e-6, atol=1e-7)


class Narrow(nn.Module):
    """Mixed precision, as people train and evaluate."""

    def __init__(self):
        super().__init__()
        self.layers = mlp(4, 64, 2)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.layers(x)


def test_what_is_computed_in_few_digits_is_compared_in_few_digits():
    model = Narrow().eval()
    apart = (plain_network(model, X).module()(X) - model(X)).abs().max()
    assert 1e-4 < apart < 0.05


class Noting(nn.Module):
    """Counts its calls in a buffer, and may compute with it."""

    def __init__(self, weight):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.weight = weight
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        self.calls += 1
        return self.layer(x) + self.calls if self.weight else self.layer(x)


def test_a_buffer_that_nothing_reads_may_change():
    assert set(plain_network(Noting(0).eval(), X).tensors) == {"layer.weight", "layer.bias"}
    with pytest.raises(ModelError, match="changes tensors of its own"):
        plain_network(Noting(1).eval(), X)


class OfTwoPrecisions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 3).double(), nn.Linear(3, 2).half()
        self.register_buffer("order", torch.tensor([2, 0, 1]))

    def forward(self, x):
        return self.second(self.first(x.double())[:, self.order].half()).float()


def test_weights_of_several_precisions_get_one():
    plain = plain_network(OfTwoPrecisions().eval(), X)
    assert {tensor.dtype for tensor in plain.tensors.values()} == {torch.float64, torch.int64}
    assert plain.notes[-1] == "Its tensors are of 2 precisions: it is computed in torch.float64."
    assert plain.module()(X.double()).shape == (5, 2)


def test_slopes_that_are_drawn_in_training_are_their_mean_in_evaluation():
    model = nn.Sequential(nn.Linear(4, 3), nn.RReLU(0.1, 0.4), nn.Linear(3, 2)).eval()
    with torch.no_grad():
        torch.testing.assert_close(plain_network(model, X).module()(X), model(X))
    with pytest.raises(ModelError, match="draws random numbers"):
        plain_network(AlwaysDrawing(), X)


class AlwaysDrawing(nn.Module):
    def forward(self, x):
        return torch.rrelu(x, training=True)
