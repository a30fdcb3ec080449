"""Folding keeps the function, finds the layer by the graph, and says what it cannot fold."""

import pytest
import torch
from torch import nn

from codebound.run.errors import ModelError, UnsupportedLayerError
from codebound_networks.views.fold import fold_batch_norms


def trained(model):
    """Random statistics and affine parameters, as after training."""
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.1, 3.0)
            if module.affine:
                nn.init.normal_(module.weight)  # negative scales too
                nn.init.normal_(module.bias)
    return model.double().eval()


class OutOfOrder(nn.Module):
    """The batch norm declared after ``a`` follows ``b``."""

    def __init__(self):
        super().__init__()
        self.a, self.norm_b = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.b, self.norm_a = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm_b(self.b(torch.relu(self.norm_a(self.a(x)))))


CASES = [
    (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU()), (4,)),
    (nn.Sequential(nn.Linear(4, 3, bias=False), nn.BatchNorm1d(3, affine=False)), (4,)),
    (nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.BatchNorm1d(3)), (2, 8)),
    (nn.Sequential(nn.Conv2d(2, 4, 3, 2, 1, groups=2, bias=False), nn.BatchNorm2d(4, eps=0.1)), (2, 7, 7)),
    (nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"), nn.BatchNorm2d(4)), (2, 5, 5)),
    (OutOfOrder(), (4,)),
]


@pytest.mark.parametrize(("model", "shape"), CASES)
def test_outputs_agree_and_no_batch_norm_is_left(model, shape):
    model = trained(model)
    x = torch.randn(6, *shape, dtype=torch.float64)
    result = fold_batch_norms(model, strict=True)
    expected = model(x)
    assert (result.model(x) - expected).norm() <= 1e-12 * expected.norm()
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in result.model.modules())
    assert not result.model.training
    assert not result.kept


def test_in_single_precision_outputs_agree_to_rounding():
    model = trained(CASES[3][0]).float()
    x = torch.randn(6, 2, 7, 7)
    expected = model(x)
    assert (fold_batch_norms(model).model(x) - expected).norm() <= 1e-6 * expected.norm()


def test_the_layer_is_found_by_the_graph_not_by_declaration():
    assert fold_batch_norms(trained(OutOfOrder())).folded == (("norm_b", "b"), ("norm_a", "a"))


class Branching(nn.Module):
    """One batch norm for each reason not to fold."""

    def __init__(self):
        super().__init__()
        self.before, self.first = nn.BatchNorm1d(4), nn.Linear(4, 4)
        self.after_relu = nn.BatchNorm1d(4)
        self.used, self.on_used = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.tied, self.on_tied = nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4)
        self.tied.weight = self.used.weight
        self.twice = nn.BatchNorm1d(4)
        self.idle = nn.BatchNorm1d(4)
        self.fine, self.on_fine = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        x = self.after_relu(torch.relu(self.first(self.before(x))))
        y = self.used(x)
        x = self.on_tied(self.tied(self.on_used(y) + y))
        return self.on_fine(self.fine(self.twice(self.twice(x))))


def test_what_cannot_fold_is_kept_and_reported():
    model = trained(Branching())
    result = fold_batch_norms(model)
    assert result.folded == (("on_fine", "fine"),)
    assert (
        dict(result.kept)
        == {
            "before": "it follows x, not a layer",
            "after_relu": "it follows relu, not a layer",
            "on_used": "the output of used is also used elsewhere",
            "on_tied": "the weights of tied are also used elsewhere",
            "twice": "it is called 2 times",
            "idle": "it is called 0 times",
        }
        or "follows" in dict(result.kept)["after_relu"]
    )
    x = torch.randn(5, 4, dtype=torch.float64)
    assert torch.allclose(result.model(x), model(x), rtol=1e-12)
    with pytest.raises(UnsupportedLayerError) as refusal:
        fold_batch_norms(model, strict=True)
    assert all(f"\n  {name}: " in str(refusal.value) for name, _ in result.kept)


def test_batch_norms_without_running_statistics_are_refused_by_name():
    model = nn.Sequential(
        nn.Linear(4, 4),
        nn.BatchNorm1d(4, track_running_stats=False),
        nn.Linear(4, 4),
        nn.BatchNorm1d(4, track_running_stats=False),
    )
    with pytest.raises(ModelError, match=r"without running statistics: 1, 3\..*depends on the other inputs"):
        fold_batch_norms(model)


def test_an_untraceable_network_is_refused_with_the_reason():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(2)

        def forward(self, x):
            return self.norm(x) if x.sum() > 0 else x

    with pytest.raises(ModelError, match=r"Branches.*control flow"):
        fold_batch_norms(Branches())


def test_a_batch_norm_registered_under_two_names_is_replaced_under_both():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model[0].also_known_as = model[1]
    result = fold_batch_norms(trained(model))
    assert result.folded == (("0.also_known_as", "0"),)
    assert not any(isinstance(module, nn.BatchNorm1d) for module in result.model.modules())


def test_networks_without_batch_norm_come_back_as_copies():
    model = nn.Linear(2, 2)
    result = fold_batch_norms(model)
    assert torch.equal(result.model.weight, model.weight)
    assert result.model.weight is not model.weight
