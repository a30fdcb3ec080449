"""The status and the reason of each kind of tensor, and what is refused outright."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from codebound.run.errors import ModelError, UnsupportedLayerError
from codebound_networks.reading.walk import wrap
from codebound_networks.views.layers import view_of


def status(model, **options):
    return {row.name: (row.status, row.reason) for row in wrap(model, **options).coverage.tensors}


def test_layers_are_seen_and_norms_are_carried():
    found = status(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2)))
    assert {name for name, (kind, _) in found.items() if kind == "seen"} == {
        "0.weight", "0.bias", "3.weight", "3.bias",
    }  # fmt: skip
    assert {name: kind for name, (kind, _) in found.items() if kind != "seen"} == dict.fromkeys(
        ["1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"], "carried"
    )
    assert "read by an operation" in found["1.running_var"][1]


@pytest.mark.thorough
def test_transformer_weights_that_a_fused_kernel_reads_are_seen_by_what_they_do():
    layer = nn.TransformerEncoderLayer(4, 2, dim_feedforward=8, batch_first=True)
    found = status(layer, example=torch.randn(1, 3, 4))
    assert found["self_attn.in_proj.weight"][0] == "seen"
    assert found["self_attn.out_proj.weight"][0] == "seen"
    assert found["norm1.weight"][0] == "carried"


def test_recurrent_weights_are_unsupported_with_the_reason():
    found = status(nn.Sequential(nn.LSTM(4, 3)))
    assert all(kind == "unsupported" and "LSTM" in reason for kind, reason in found.values())


PAIR = torch.ones(3, 2)


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("index", torch.arange(3))
        self.register_buffer("table", torch.zeros(3), persistent=False)
        self.register_buffer("phase", torch.zeros(3, dtype=torch.complex64))
        self.gain = nn.Parameter(torch.ones(()))
        self.constant = torch.ones(5)
        self.secret = [nn.Linear(2, 1)]
        self.norm = nn.BatchNorm1d(2, track_running_stats=False)

    def forward(self, x):
        return self.norm(self.layer(x) * self.gain) + self.secret[0](x)


def test_each_odd_tensor_has_its_own_reason():
    found = status(Odd(), example=PAIR)
    assert {name for name, (kind, _) in found.items() if kind == "seen"} == {"layer.weight", "layer.bias"}
    for name, part in {
        "index": "Odd has no registered view",
        "table": "non-persistent",
        "phase": "Odd has no registered view",
        "gain": "Odd has no registered view",
        "constant": "plain attribute",
        "secret[0].weight": "plain attribute",
        "norm.weight": "without running statistics",
    }.items():
        assert found[name][0] == "unsupported", name
        assert part in found[name][1], name


def test_strict_lists_every_unsupported_tensor():
    with pytest.raises(UnsupportedLayerError) as refusal:
        wrap(Odd(), example=PAIR, strict=True)
    expected = [
        "index",
        "table",
        "phase",
        "gain",
        "constant",
        "secret[0].weight",
        "secret[0].bias",
        "norm.bias",
    ]
    assert all(f"\n  {name} (" in str(refusal.value) for name in expected)
    wrap(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), strict=True)


def test_shared_tensors_are_listed_once_with_their_other_names():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    found = status(model)
    assert "1.weight" not in found
    assert "also known as 1.weight" in found["0.weight"][1]


def test_a_weight_shared_with_an_embedding_is_seen_through_the_layer():
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5))
    model[1].weight = model[0].weight
    assert status(model)["0.weight"] == ("seen", "through its layer view; also known as 1.weight")


def test_what_a_layer_holds_beside_weight_and_bias_is_not_seen():
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))
    model[0].register_buffer("scale", torch.ones(3))
    model[0].note = torch.ones(2)
    found = status(model)
    assert found["0.scale"] == ("unsupported", "its layer has a view of weight and bias only")
    assert found["0.note"][0] == "unsupported"
    assert found["0.weight"][0] == "seen"


@pytest.mark.parametrize(
    ("disguise", "undo"),
    [
        (lambda layer: parametrizations.weight_norm(layer), "remove_parametrizations"),
        (lambda layer: parametrizations.spectral_norm(layer), "remove_parametrizations"),
        (lambda layer: prune.l1_unstructured(layer, "weight", amount=0.5), "prune.remove"),
    ],
)
def test_computed_weights_are_refused_until_made_permanent(disguise, undo):
    model = nn.Sequential(disguise(nn.Linear(4, 4)), nn.Linear(4, 2))
    with pytest.raises(UnsupportedLayerError, match=f"layer fc .*{undo}"):
        view_of("fc", model[0])
    network = wrap(model)
    assert [view.name for view in network.layers] == ["1"]
    unsupported = network.coverage.with_status("unsupported")
    assert all("permanent" in row.reason or "_SpectralNorm" in row.reason for row in unsupported)
    with pytest.raises(UnsupportedLayerError, match=r"0\.(weight_orig|parametrizations\.weight\.original)"):
        wrap(model, strict=True)


def test_a_pruned_layer_is_seen_once_the_mask_is_permanent():
    layer = nn.Linear(4, 4)
    prune.l1_unstructured(layer, "weight", amount=0.5)
    prune.remove(layer, "weight")
    assert (wrap(nn.Sequential(layer)).layers[0].weight == 0).sum() == 8


@pytest.mark.parametrize(
    ("module", "part"),
    [
        (
            nn.ConvTranspose2d(1, 1, 2),
            r"ConvTranspose2d\): ConvTranspose2d has no registered view \(registered: Conv1d",
        ),
        (nn.LazyLinear(2), "lazy"),
        (nn.Linear(2, 2, dtype=torch.complex64), "complex64"),
        (
            type("Masked", (nn.Linear,), {"forward": lambda self, x: x})(2, 2),
            "overrides the forward pass of Linear",
        ),
    ],
)
def test_refusals_name_layer_type_and_reason(module, part):
    with pytest.raises(ModelError, match=part):
        view_of("block.op", module)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_finite_are_named_with_their_count(value):
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    with torch.no_grad():
        model[0].weight[0, :2] = value
        model[1].running_var[0] = value
    with pytest.raises(ModelError, match=r"0\.weight: 2 of 9 entries\n  1\.running_var: 1 of 3 entries"):
        wrap(model)


def test_a_mask_of_minus_infinity_is_no_error_but_nan_is():
    model = Odd()
    model.register_buffer("mask", torch.full((3,), float("-inf")))
    wrap(model, example=PAIR)
    model.mask[1] = float("nan")
    with pytest.raises(ModelError, match="mask: 1 of 3"):
        wrap(model, example=PAIR)


def test_meta_and_lazy_networks_are_refused_by_name():
    with pytest.raises(ModelError, match=r"meta device.*0\.weight, 0\.bias"):
        wrap(nn.Sequential(nn.Linear(2, 2, device="meta")))
    with pytest.raises(ModelError, match=r"lazy layers without weights: 0\.weight, 0\.bias"):
        wrap(nn.Sequential(nn.LazyLinear(2)))


def test_the_sentence_sums_up():
    sentence = wrap(nn.Sequential(nn.Linear(9, 1000), nn.LayerNorm(1000))).coverage.sentence
    assert sentence == "4 tensors, entries: 10,000 seen, 2,000 carried, 0 unsupported."
