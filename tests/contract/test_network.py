"""What wrapping, folding and rebuilding promise for any network: nothing changes, nothing is skipped."""

import copy
import warnings

import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parametrizations, prune

from codebound.run.errors import CodeboundError
from codebound_networks.reading.walk import wrap
from codebound_networks.views.fold import fold_batch_norms
from codebound_networks.views.rebuild import with_weights
from codebound_papers.measure.steps import activations


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(4, 4), nn.Linear(4, 4)
        self.decode.weight = self.encode.weight

    def forward(self, x):
        return self.decode(torch.relu(self.encode(x)))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(self.layer(x))


class Assorted(nn.Module):
    """Tensors in every place PyTorch knows, and in one it does not."""

    def __init__(self):
        super().__init__()
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(1))])
        self.register_buffer("mask", torch.full((4,), float("-inf")))
        self.register_buffer("steps", torch.tensor(3))
        self.register_buffer("table", torch.zeros(2, 2), persistent=False)
        self.register_buffer("phase", torch.zeros(2, dtype=torch.complex64))
        self.hidden = torch.ones(3)
        self.inner = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), nn.PReLU(4))

    def forward(self, x):
        return self.inner(x * self.scales[0])


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(9, 4), nn.LSTM(4, 3), nn.Linear(3, 2)

    def forward(self, x):
        return self.head(self.lstm(self.embed(x))[0])


def pruned():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    prune.l1_unstructured(model[0], "weight", amount=0.5)
    return model


def images():
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.GroupNorm(1, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(2), nn.Dropout(0.5), nn.Linear(2, 3),
    )  # fmt: skip


def weight_normed():
    return nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 4)), nn.Linear(4, 2))


def transformer():
    return nn.TransformerEncoderLayer(4, 2, dim_feedforward=8, batch_first=True)


VECTORS = torch.linspace(-1, 1, 12).view(3, 4)
MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), VECTORS),
    "single layer": (lambda: nn.Linear(4, 2), VECTORS),
    "images": (images, torch.linspace(-1, 1, 108).view(3, 1, 6, 6)),
    "tied": (Tied, VECTORS),
    "twice": (Twice, VECTORS),
    "assorted": (Assorted, VECTORS),
    "sequence": (Sequence, torch.arange(8).view(4, 2)),
    "transformer": (transformer, VECTORS.view(1, 3, 4)),
    "weight norm": (weight_normed, VECTORS),
    "pruned": (pruned, VECTORS),
}

every_model = pytest.mark.parametrize("name", MODELS)


def snapshot(model):
    state = {key: value.clone() for key, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    hooks = [(len(module._forward_hooks), len(module._forward_pre_hooks)) for module in model.modules()]
    return state, modes, hooks, [type(module) for module in model.modules()]


def assert_unchanged(model, before):
    after = snapshot(model)
    assert list(after[0]) == list(before[0])
    assert all(torch.equal(after[0][key].view(-1), before[0][key].view(-1)) for key in before[0])
    assert after[1:] == before[1:]


@pytest.mark.few(2)
@every_model
def test_coverage_lists_every_tensor_exactly_once(name):
    make, example = MODELS[name]
    model = make()
    network = wrap(model, example=example)
    coverage = network.coverage
    listed = (*coverage.tensors, *coverage.unread)
    held = {t.data_ptr(): t for t in (*model.parameters(), *model.buffers())}
    evaluated = {t.data_ptr(): t for t in (*network.model.parameters(), *network.model.buffers())}
    rows = [row for row in listed if row.kind != "attribute"]
    assert sum(row.elements for row in rows) == sum(t.numel() for t in (held | evaluated).values())
    assert len(rows) == len(held | evaluated)
    assert sum(coverage.totals.values()) == sum(row.elements for row in listed)
    assert all(row.reason for row in listed)
    assert [row["name"] for row in coverage.rows()] == [row.name for row in listed]


@pytest.mark.few(2)
@every_model
def test_nothing_the_caller_owns_changes_and_nothing_is_printed(name, capsys):
    make, example = MODELS[name]
    model = make().train()
    before = snapshot(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = wrap(model, example=example)
        activations(network, example)
        rebuilt = with_weights(model, dict(model.state_dict()))
        if network.graph is not None:
            fold_batch_norms(model)
    assert_unchanged(model, before)
    assert capsys.readouterr() == ("", "")
    assert all(not module.training for module in rebuilt.modules())
    assert all(not m._forward_hooks for m in network.predictor.modules())


@every_model
def test_with_weights_is_bit_exact_and_shares_nothing(name):
    make, example = MODELS[name]
    model = make()
    rebuilt = with_weights(model, dict(model.state_dict()))
    assert list(rebuilt.state_dict()) == list(model.state_dict())
    for key, value in model.state_dict().items():
        assert torch.equal(rebuilt.state_dict()[key].view(-1), value.view(-1))
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    assert own.isdisjoint(t.untyped_storage().data_ptr() for t in (*rebuilt.parameters(), *rebuilt.buffers()))
    model.eval()
    with torch.no_grad():
        assert torch.equal(rebuilt(example), model(example))
    before = snapshot(model)
    with torch.no_grad():
        for parameter in rebuilt.parameters():
            parameter.add_(1.0)
    assert_unchanged(model, before)


class Fails(nn.Module):
    def __init__(self, *, traceable):
        super().__init__()
        self.first, self.traceable = nn.Linear(4, 4), traceable

    def forward(self, x):
        x = self.first(x)
        if not self.traceable and x.sum() > -float("inf"):
            raise RuntimeError("on purpose")
        return x.view(2, 2)


@pytest.mark.parametrize("traceable", [True, False])
def test_hooks_are_gone_after_an_exception(traceable):
    model = Fails(traceable=traceable)
    if traceable:
        network = wrap(model)
        with pytest.raises(CodeboundError, match="Fails fails on inputs of shape"):
            activations(network, torch.randn(3, 4))
        modules = [*model.modules(), *network.predictor.modules()]
    else:
        with pytest.raises(CodeboundError, match="on purpose"):
            wrap(model, example=torch.randn(3, 4))
        modules = [*model.modules()]
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in modules)


def test_hooks_are_gone_after_an_interrupt():
    network = wrap(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    interrupted = network.predictor[1]
    interrupted.forward = lambda x: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        activations(network, torch.randn(3, 4))
    assert all(not module._forward_hooks for module in network.predictor.modules())


def test_the_unchanged_check_has_teeth():
    model = images()
    before = snapshot(model)
    model(torch.randn(3, 1, 6, 6))  # training mode: running statistics move
    with pytest.raises(AssertionError):
        assert_unchanged(model, before)


BLOCKS = st.sampled_from(
    [
        lambda: nn.Linear(4, 4),
        lambda: nn.Linear(4, 4, bias=False),
        lambda: nn.BatchNorm1d(4),
        lambda: nn.BatchNorm1d(4, affine=False),
        lambda: nn.LayerNorm(4),
        lambda: nn.PReLU(),
        lambda: nn.ReLU(),
        lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh()),
        lambda: nn.TransformerEncoderLayer(4, 2, dim_feedforward=3),
        lambda: nn.Bilinear(4, 4, 4),
    ]
)


@pytest.mark.thorough
@examples(40)
@given(st.lists(BLOCKS, min_size=1, max_size=5), st.data())
def test_coverage_accounts_for_random_networks(makers, data):
    modules = [make() for make in makers]
    modules.append(data.draw(st.sampled_from(modules)))  # one module registered twice
    model = nn.Sequential(*modules)
    try:
        coverage = wrap(model, example=torch.randn(3, 4)).coverage
    except CodeboundError:  # Bilinear takes two inputs: the forward pass itself fails
        assert any(isinstance(module, nn.Bilinear) for module in modules)
        return
    held = [*model.parameters(), *model.buffers()]
    listed = (*coverage.tensors, *coverage.unread)
    assert sum(row.elements for row in listed) == sum(t.numel() for t in held)
    assert len({row.name for row in listed}) == len(listed) == len(held)


@examples(20)
@given(st.integers(0, 2**31))
def test_with_weights_keeps_every_bit_pattern(seed):
    model = nn.Linear(8, 8)
    bits = torch.randint(-(2**31), 2**31 - 1, (8, 8), generator=torch.Generator().manual_seed(seed)).to(
        torch.int32
    )
    weight = bits.view(torch.float32)
    weight = torch.where(weight.isfinite(), weight, torch.tensor(-0.0))
    rebuilt = with_weights(model, {"weight": weight, "bias": torch.full((8,), 1e-45)})
    assert torch.equal(rebuilt.weight.detach().view(torch.int32), weight.view(torch.int32))
    assert torch.equal(rebuilt.bias, torch.full((8,), 1e-45))


def test_deepcopy_alone_cannot_copy_a_pruned_network():
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(pruned())
