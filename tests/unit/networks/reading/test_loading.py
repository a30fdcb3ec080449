"""Models and weights from outside: what fits is loaded unchanged, everything else is refused by name."""

import sys

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from codebound.run.errors import ModelError, UsageError
from codebound.run.tensor_files import load_weights, read_weights
from codebound_networks.reading.loading import install, load_model
from codebound_networks.views.zoo import build

SHAPE, CLASSES = (4,), 3


@pytest.fixture
def state():
    return build("mlp:widths=5", input_shape=SHAPE, classes=CLASSES, seed=7).state_dict()


def load(path):
    return load_model("mlp:widths=5", input_shape=SHAPE, classes=CLASSES, weights=path)


def assert_same(model, state):
    found = model.state_dict()
    assert found.keys() == state.keys()
    assert all(torch.equal(found[name], state[name]) for name in state)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"state_dict": state, "epoch": 3},
        lambda state: {"model": state, "optimizer": {"lr": 0.1}},
        lambda state: {f"module.{name}": tensor for name, tensor in state.items()},
        lambda state: {"state_dict": {f"module.{name}": tensor for name, tensor in state.items()}},
    ],
)
def test_torch_checkpoints_load_in_the_usual_wrappings(tmp_path, state, wrap):
    torch.save(wrap(state), tmp_path / "w.pt")
    assert_same(load(tmp_path / "w.pt"), state)


def test_safetensors_load(tmp_path, state):
    save_file(state, tmp_path / "w.safetensors")
    assert_same(load(tmp_path / "w.safetensors"), state)


def test_names_are_listed_up_to_eight_and_counted_beyond(tmp_path, state):
    extra = {f"extra{i}": torch.zeros(1) for i in range(11)}
    del state["linear1.bias"]
    save_file({**state, **extra}, tmp_path / "w.safetensors")
    with pytest.raises(ModelError, match=r"missing.*: linear1.bias\n.*extra0.* and 3 more"):
        load(tmp_path / "w.safetensors")


def test_wrong_shapes_are_refused(tmp_path, state):
    save_file({**state, "linear2.bias": torch.zeros(4)}, tmp_path / "w.safetensors")
    with pytest.raises(ModelError, match=r"linear2.bias \(4,\) instead of \(3,\)"):
        load(tmp_path / "w.safetensors")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_weights_are_refused(tmp_path, state, value):
    state["linear1.weight"][2, 3] = value
    save_file(state, tmp_path / "w.safetensors")
    with pytest.raises(ModelError, match=r"NaN or infinity in linear1.weight"):
        load(tmp_path / "w.safetensors")
    with pytest.raises(ModelError, match=r"NaN or infinity in linear1.weight"):
        load_weights(tmp_path / "w.safetensors")


def test_a_mask_in_a_file_may_hold_minus_infinity(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2))
    model.register_buffer("mask", torch.zeros(2, 2))
    mask = torch.full((2, 2), -torch.inf).triu(1)
    save_file({**model.state_dict(), "mask": mask}, tmp_path / "w.safetensors")
    install(model, read_weights(tmp_path / "w.safetensors"), path=tmp_path / "w.safetensors")
    assert torch.equal(model.mask, mask)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_conversions_that_keep_every_value_are_made(tmp_path, state, dtype):
    exact = {name: tensor.half().to(dtype) for name, tensor in state.items()}
    if dtype is torch.bfloat16:
        exact = {name: tensor.to(dtype) for name, tensor in state.items()}
    save_file(exact, tmp_path / "w.safetensors")
    assert_same(load(tmp_path / "w.safetensors"), {name: tensor.float() for name, tensor in exact.items()})


def test_a_conversion_that_rounds_is_refused(tmp_path, state):
    save_file({**state, "linear1.bias": torch.full((5,), 0.1).double() + 1e-12}, tmp_path / "w.safetensors")
    with pytest.raises(ModelError, match=r"linear1.bias \(float64 to float32\)"):
        load(tmp_path / "w.safetensors")


def test_integers_are_no_weights(tmp_path, state):
    save_file({**state, "linear1.bias": torch.zeros(5, dtype=torch.int64)}, tmp_path / "w.safetensors")
    with pytest.raises(ModelError, match=r"linear1.bias \(int64 to float32\)"):
        load(tmp_path / "w.safetensors")


def test_resnet_names_load_without_batch_norm_counters(tmp_path):
    state = build("resnet20", input_shape=(3, 32, 32), classes=10, seed=3).state_dict()
    plain = {name: tensor for name, tensor in state.items() if not name.endswith("num_batches_tracked")}
    assert len(plain) == 97
    assert {
        "conv1.weight",
        "layer3.2.bn2.running_var",
        "layer1.0.conv2.weight",
        "linear.bias",
    } <= plain.keys()
    save_file(plain, tmp_path / "r.safetensors")
    weights = tmp_path / "r.safetensors"
    assert_same(load_model("resnet20", input_shape=(3, 32, 32), classes=10, weights=weights), state)


FACTORIES = """
import torch
from torch import nn
plain = lambda: nn.Linear(4, 3)
def shaped(input_shape, classes=10): return nn.Linear(input_shape[0], classes)
def broken(): raise KeyError("no such width")
def greedy(width): return nn.Linear(width, 2)
def wrong(): return 5
net = nn.Linear(2, 2)
class Holder:
    @staticmethod
    def make(): return nn.Linear(1, 2)
"""


@pytest.fixture
def factories(tmp_path, monkeypatch):
    (tmp_path / "user_models.py").write_text(FACTORIES)
    (tmp_path / "user_exit.py").write_text("import sys; sys.exit(3)")
    monkeypatch.chdir(tmp_path)
    yield
    for name in ("user_models", "user_exit"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("spec", "shape"),
    [("user_models:plain", (3, 4)), ("user_models:shaped", (3, 6)), ("user_models:Holder.make", (2, 1))],
)
def test_a_users_factory_in_the_current_directory(factories, spec, shape):
    before, path = torch.random.get_rng_state(), list(sys.path)
    model = load_model(spec, input_shape=(6,), classes=3, seed=1)
    again = load_model(spec, input_shape=(6,), classes=3, seed=1)
    assert model.weight.shape == shape
    assert torch.equal(model.weight, again.weight)
    assert torch.equal(before, torch.random.get_rng_state())
    assert sys.path == path


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("user_models:broken", "KeyError.*no such width"),
        ("user_models:greedy", "TypeError"),
        ("user_models:wrong", "Got int"),
        ("user_models:net", "not a function"),
        ("user_models:absent", "AttributeError"),
        ("user_exit:factory", "SystemExit"),
        ("no_such_package.models:factory", "ModuleNotFoundError"),
    ],
)
def test_a_failing_factory_is_an_error_with_its_cause(factories, spec, words):
    path = list(sys.path)
    with pytest.raises(ModelError, match=words):
        load_model(spec, input_shape=(6,), classes=3)
    assert sys.path == path


@pytest.mark.parametrize("spec", ["", "nope", "a b:c", "mod:f()", "net.pt2", "os:system('x')"])
def test_an_unknown_model_lists_the_known_ones(spec):
    with pytest.raises(UsageError, match=r"resnet20.*package.module:function"):
        load_model(spec, input_shape=(4,), classes=3)


def test_a_network_beside_other_tensors_is_told(tmp_path, state):
    beside = {f"net.{name}": tensor for name, tensor in state.items()} | {"loss.weight": torch.ones(3)}
    save_file(beside, tmp_path / "w.safetensors")
    with pytest.raises(ModelError, match="there under net, beside others"):
        load(tmp_path / "w.safetensors")
