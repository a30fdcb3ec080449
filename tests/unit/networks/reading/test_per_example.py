"""Operations that look at more than one example are found, whatever the values are that reach them."""

import pytest
import torch
from torch import nn

from codebound.run.errors import ModelError
from codebound_networks.reading.export import plain_network
from codebound_networks.reading.per_example import mixing_step

X = torch.zeros(1, 4)


class Of(nn.Module):
    """A layer and what somebody does with its batch of outputs."""

    def __init__(self, rest):
        super().__init__()
        self.layer = nn.Linear(4, 6)
        self.rest = rest

    def forward(self, x):
        return self.rest(self.layer(x), x)


def positions(x):
    return torch.arange(x.shape[0])


MIXING = {
    "where values are rare": (
        lambda h, x: torch.where(x.amax(1, keepdim=True) > 1e6, h - h.mean(0), h),
        "mean",
    ),
    "of what is nearly always zero": (lambda h, x: h + (x - 1e6).relu().sum(), "sum"),
    "of truth values": (lambda h, x: h + (x > 1e6).any(), "any"),
    "far from the first place": (lambda h, x: h + (positions(x) == 300)[:, None], "eq"),
    "of a table by place": (lambda h, x: h + torch.ones(9, 6).to(x)[positions(x)], "index"),
    "by the size of the batch": (lambda h, x: h / x.shape[0], "div"),
    "of neighbours": (lambda h, x: h + h.roll(1, 0) * (x.amax() > 1e6), "roll"),
    "squeezed": (lambda h, x: h[:, None].squeeze(), "squeeze"),
}
APART = {
    "own place": lambda h, x: h.reshape(-1, 2, 3)[positions(x), (x[:, 0] > 0).long()],
    "own place, counted on": lambda h, x: h.reshape(-1, 3)[positions(x) * 2 + (x[:, 0] > 0).long()],
    "heads first": lambda h, x: torch.cat(h.split(2, 1), 0).softmax(1).reshape(3, -1, 2).transpose(0, 1),
    "time first": lambda h, x: h.reshape(-1, 2, 3).transpose(0, 1).cumsum(0).transpose(0, 1),
    "complex": lambda h, x: torch.fft.fft(h).abs(),
    "sorted": lambda h, x: h.sort(1).values,
    "factors": lambda h, x: torch.linalg.cholesky(torch.eye(6).to(h) + h[:, :, None] * h[:, None, :]).flatten(
        1
    ),
}


@pytest.mark.parametrize(("rest", "step"), MIXING.values(), ids=MIXING)
def test_a_step_that_looks_at_others_is_named(rest, step):
    with pytest.raises(ModelError, match=rf"operation {step} looks at the rest of the batch"):
        plain_network(Of(rest).eval(), X)


@pytest.mark.parametrize("rest", APART.values(), ids=APART)
def test_what_keeps_examples_apart_is_none(rest):
    plain = plain_network(Of(rest).eval(), X)
    assert not mixing_step(plain.graph, plain.tensors, X)


def test_a_part_of_a_result_that_nothing_reads_does_not_matter():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    both = graph.call_function(torch.ops.aten.max.dim, (x, 0))
    graph.output(graph.call_function(torch.ops.aten.add.Tensor, (x, 1)))
    assert not mixing_step(graph, {}, X)
    assert both.users == {}
