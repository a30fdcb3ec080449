"""The zoo builds what the papers describe, from a seed, without side effects."""

import pytest
import torch
from torch import fx, nn

from codebound.run.errors import ModelError, UsageError
from codebound_networks.views.zoo import ZOO, build, parse_spec

SMALL = ("linear", "mlp", "lenet5", "alexnet", "resnet20", "few-bits")


def weight_counts(model: nn.Module) -> list[int]:
    return [m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]


@pytest.mark.few(1)
@pytest.mark.parametrize("batch_norm", ["false", "true"])
def test_vgg19_has_the_weight_counts_of_arora_table_1(batch_norm):
    counts = weight_counts(build(f"vgg19:batch_norm={batch_norm}", input_shape=(3, 32, 32), classes=10))
    published = {1: 1728, 4: 147456, 6: 589824, 9: 1179648, 12: 2359296, 15: 2359296, 18: 262144}
    assert {layer: counts[layer - 1] for layer in published} == published
    assert len(counts) == 19


@pytest.mark.parametrize(
    ("spec", "shape", "parameters"),
    [
        ("resnet20", (3, 32, 32), 269_722),  # as summed over the pretrained files
        ("resnet56", (3, 32, 32), 853_018),
        ("lenet5", (1, 28, 28), 61_706),  # 156 + 2416 + 48120 + 10164 + 850
        ("lenet5", (1, 32, 32), 61_706),
        ("linear", (1, 28, 28), 7_850),
        ("mlp:depth=5,width=784", (1, 28, 28), 4 * (784 * 784 + 784) + 7_850),
        ("mlp:widths=300x100,bias=false", (784,), 784 * 300 + 300 * 100 + 100 * 10),
        ("mlp:depth=1", (4,), 50),
    ],
)
def test_parameter_counts(spec, shape, parameters):
    model = build(spec, input_shape=shape, classes=10)
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize("name", ["alexnet", "vgg19"])
def test_width_scales_every_layer_but_the_ends(name):
    whole, part = (build(spec, input_shape=(3, 32, 32), classes=10) for spec in (name, f"{name}:width=8"))
    shapes = [
        [tuple(m.weight.shape[:2]) for m in model if isinstance(m, nn.Linear | nn.Conv2d)]
        for model in (whole, part)
    ]
    for place, ((rows, columns), (fewer_rows, fewer_columns)) in enumerate(zip(*shapes, strict=True)):
        assert fewer_rows == (10 if place == len(shapes[0]) - 1 else rows // 8)
        assert fewer_columns == (3 if place == 0 else columns // 8)


@pytest.mark.thorough
def test_convolutions_of_vgg19_and_alexnet_start_with_variance_2_over_fan_out():
    for name, layer, fan_out in (("vgg19", "conv12", 512 * 9), ("alexnet", "conv2", 192 * 25)):
        convolution = getattr(build(name, input_shape=(3, 32, 32), classes=10, seed=5), layer)
        assert float(convolution.weight.detach().double().var()) == pytest.approx(2.0 / fan_out, rel=0.02)
        assert not convolution.bias.any()


@pytest.mark.parametrize("name", ZOO)
def test_runs_traces_and_gives_one_logit_per_class(name):
    shape = ZOO[name].input_shape
    model = build(name, input_shape=shape, classes=7).eval()
    x = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
    assert model(x).shape == (2, 7)
    if name != "few-bits":  # its operations are those of messages, which are read as they are
        assert torch.equal(fx.symbolic_trace(model)(x), model(x))


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32)])
def test_lenet5_adapts(shape):
    assert build("lenet5", input_shape=shape, classes=10)(torch.zeros(1, *shape)).shape == (1, 10)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("spec", "shape"), [("alexnet", (3, 61, 33)), ("vgg19", (3, 33, 64)), ("resnet20", (1, 9, 7))]
)
def test_other_image_sizes_fit_the_classifier(spec, shape):
    assert build(spec, input_shape=shape, classes=3).eval()(torch.zeros(2, *shape)).shape == (2, 3)


@pytest.mark.parametrize(
    ("spec", "shape", "words"),
    [
        ("lenet5", (1, 30, 30), "28x28"),
        ("lenet5", (64,), "channels, height, width"),
        ("alexnet", (1, 8, 8), "at least 32x32"),
        ("vgg19", (1, 28, 28), "at least 32x32"),
        ("few-bits", (64,), "images of at least 4 x 4"),
        ("mlp", (0, 8), "positive"),
        ("mlp", (), "positive"),
    ],
)
def test_refuses_inputs_that_do_not_fit(spec, shape, words):
    with pytest.raises(ModelError, match=words):
        build(spec, input_shape=shape, classes=10)


def test_refuses_one_class_and_networks_beyond_memory():
    with pytest.raises(ModelError, match="2 classes"):
        build("mlp", input_shape=(4,), classes=1)
    with pytest.raises(ModelError, match="allocated"):
        build("linear", input_shape=(65536, 65536, 65536), classes=65536)
    with pytest.raises(ModelError, match="12,890,013,706 parameters"):
        build("mlp:depth=5,width=65536", input_shape=(64,), classes=10)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_refuses_a_seed_that_no_generator_takes(seed):
    with pytest.raises(UsageError, match="seed"):
        build("linear", input_shape=(4,), classes=2, seed=seed)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("mlpp", "Known: linear, mlp"),
        ("mlp:depht=3", "depth=an integer"),
        ("mlp:depth", "cannot read 'depth'"),
        ("mlp:depth=three", "integer from 1"),
        ("mlp:depth=0", "integer from 1"),
        ("mlp:depth=65537", "integer from 1"),
        ("mlp:bias=yes", "true or false"),
        ("mlp:widths=3x", "joined by x"),
        ("mlp:depth=2,depth=2", "twice"),
        ("mlp:depth=2,widths=3", "one or the other"),
        ("vgg19:dropout=1", "probability"),
        ("vgg19:dropout=nan", "probability"),
        ("resnet20:depth=3", "no options"),
        ("mlp:depth=2,", "cannot read ''"),
        ("mlp:bias=1", "true or false"),
    ],
)
def test_a_wrong_specification_says_what_is_allowed(spec, words):
    with pytest.raises(UsageError, match=words):
        build(spec, input_shape=(3, 32, 32), classes=10)


def test_options_are_typed():
    assert parse_spec("vgg19:batch_norm=true,dropout=0.25")[1] == {"batch_norm": True, "dropout": 0.25}
    assert parse_spec("mlp:depth=5,width=784")[1] == {"depth": 5, "width": 784}


@pytest.mark.parametrize("name", SMALL)
def test_the_seed_decides_and_the_global_generator_is_left_alone(name):
    shape = ZOO[name].input_shape
    before = torch.random.get_rng_state()
    first, again, other = (build(name, input_shape=shape, classes=3, seed=s).state_dict() for s in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


def test_the_generator_comes_back_after_a_refusal():
    before = torch.random.get_rng_state()
    with pytest.raises(ModelError):
        build("vgg19", input_shape=(3, 8, 8), classes=10)
    assert torch.equal(before, torch.random.get_rng_state())


def test_option_a_shortcut_takes_every_second_pixel_and_pads_channels_on_both_sides():
    shortcut = build("resnet20", input_shape=(3, 32, 32), classes=10).layer2[0].shortcut
    x = torch.randn(1, 16, 6, 6)
    y = shortcut(x)
    assert y.shape == (1, 32, 3, 3)
    assert torch.equal(y[:, 8:24], x[:, :, ::2, ::2])
    assert y[:, :8].abs().sum() == y[:, 24:].abs().sum() == 0
