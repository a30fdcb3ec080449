"""Networks from tensors: what is refused, with every offender named, and what is kept."""

import pytest
import torch
from torch import nn

from codebound.run.errors import ModelError
from codebound_networks.views.rebuild import with_weights


def model():
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


def test_every_problem_is_named_at_once():
    tensors = dict(model().state_dict())
    tensors["0.weight"] = torch.zeros(2, 4)
    tensors["0.bias"] = torch.zeros(2, dtype=torch.float64)
    tensors["1.weight"] = torch.tensor([1.0, float("nan")])
    tensors["1.running_var"] = torch.tensor([1.0, float("inf")])
    tensors["extra"] = torch.zeros(1)
    tensors["1.bias"] = [0.0, 0.0]
    del tensors["1.running_mean"]
    with pytest.raises(ModelError) as refusal:
        with_weights(model(), tensors)
    assert str(refusal.value).splitlines()[1:-1] == [
        "  extra: the network has no such parameter or buffer",
        "  0.weight: expected (2, 3) float32, got (2, 4) float32",
        "  0.bias: expected (2,) float32, got (2,) float64",
        "  1.weight: 1 of 2 entries are NaN or infinite",
        "  1.bias: expected a tensor, got list",
        "  1.running_mean: missing",
        "  1.running_var: 1 of 2 entries are NaN or infinite",
    ]


def test_shared_tensors_need_one_name_and_agree():
    tied = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    tied[1].weight = tied[0].weight
    rebuilt = with_weights(tied, {"1.weight": torch.eye(2)})
    assert rebuilt[0].weight is rebuilt[1].weight
    assert torch.equal(rebuilt[0].weight, torch.eye(2))
    with pytest.raises(ModelError, match=r"1\.weight: the network shares it with 0\.weight"):
        with_weights(tied, {"0.weight": torch.eye(2), "1.weight": 2 * torch.eye(2)})


def test_the_given_tensors_are_copied_and_flags_are_kept():
    source = model()
    source[0].weight.requires_grad_(False)
    tensors = {name: value.clone() for name, value in source.state_dict().items()}
    rebuilt = with_weights(source, tensors)
    tensors["0.weight"].zero_()
    assert torch.equal(rebuilt[0].weight, source[0].weight)
    assert not rebuilt[0].weight.requires_grad
    assert rebuilt[0].bias.requires_grad
    assert rebuilt[0].bias.grad_fn is None


def test_views_of_any_layout_are_accepted():
    rebuilt = with_weights(nn.Linear(3, 2, bias=False), {"weight": torch.arange(6.0).view(3, 2).T})
    assert rebuilt.weight.is_contiguous()
    assert rebuilt.weight.tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]


def test_an_architecture_without_values_takes_the_given_ones():
    empty = nn.Sequential(nn.Linear(3, 2, device="meta"), nn.BatchNorm1d(2, device="meta"))
    source = model().eval()
    rebuilt = with_weights(empty, dict(source.state_dict()))
    x = torch.randn(4, 3)
    assert torch.equal(rebuilt(x), source(x))
    with pytest.raises(ModelError, match=r"0\.weight: has no values"):
        with_weights(model(), dict(empty.state_dict()))


def test_buffers_outside_the_state_dict_keep_their_values():
    source = model()
    source.register_buffer("table", torch.arange(3.0), persistent=False)
    assert torch.equal(with_weights(source, dict(source.state_dict())).table, torch.arange(3.0))
    assert torch.equal(
        with_weights(source, {**source.state_dict(), "table": torch.ones(3)}).table, torch.ones(3)
    )


def test_training_the_copy_leaves_the_original_alone():
    source = model()
    before = {name: value.clone() for name, value in source.state_dict().items()}
    rebuilt = with_weights(source, before).train()
    rebuilt(torch.randn(8, 3)).sum().backward()
    torch.optim.SGD(rebuilt.parameters(), lr=1.0).step()
    assert all(torch.equal(value, before[name]) for name, value in source.state_dict().items())
    assert not torch.equal(rebuilt[1].running_mean, before["1.running_mean"])
