"""Networks as other people write them, through the verbs: each works, or is refused with the reason."""

import copy
import json
import shlex

import foreign_networks as foreign
import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from typer.testing import CliRunner

from codebound.certification import certify
from codebound.cli.main import app
from codebound.known.provenance import Pretrained
from codebound.request import Known, Run
from codebound.run.errors import CodeboundError
from codebound.sample.load import load_sample
from codebound_networks.chains.from_module import chain_of
from codebound_networks.reading.export import plain_network
from codebound_networks.reading.layer_modules import with_layers
from codebound_networks.reading.loading import load_model
from codebound_networks.reading.walk import wrap
from codebound_networks.views.zoo import ResidualBlock
from codebound_verify.__main__ import main as verify

CLASSES = foreign.CLASSES
READ = (
    *("encoder_layer", "decoder", "lstm", "buffers", "cast_in_forward", "asserts", "dict_output"),
    *("factors_from_the_right", "rms_by_hand", "works_in_place", "hooked"),
    *("cells_from_zeros", "causal_mask", "complex_rotation", "complex_layer", "short_embeddings"),
)
CERTIFIED = ("decoder", "own_resnet", "plain_attribute", "scalar_parameter", "lazy_layers", "complex_layer")
VERBS = (
    *("measure", "compare --no-certify", "compress --method naive", "compress --method lowrank"),
    *("compress --method mbp", "compress --method heavytail", "sketch --keep 0.1"),
)


def all_but(quick):
    """All networks; those that are not quick are for the slow run."""
    return [
        name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in foreign.NETWORKS
    ]


def made(name):
    torch.manual_seed(0)
    return getattr(foreign, name)().eval()


def inputs(name, n):
    random = torch.Generator().manual_seed(1)
    if foreign.NETWORKS.get(name, "image") == "tokens":
        return torch.randint(0, foreign.TOKENS, (n, foreign.LENGTH), generator=random).float()
    return torch.rand(n, 1, 8, 8, generator=random)


def settled(name, x):
    """The network of a factory as commands load it: lazy layers have their sizes."""
    return load_model(f"foreign_networks:{name}", input_shape=tuple(x.shape[1:]), classes=CLASSES).eval()


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """Files of digits below 4: as images, and two rows of them as tokens."""
    digits, folder = load_digits(), tmp_path_factory.mktemp("samples")
    kept = digits.target < CLASSES
    x, y = digits.images[kept][:120].astype("uint8"), digits.target[kept][:120]
    np.savez(folder / "image.npz", x=x[:, None], y=y)
    np.savez(folder / "tokens.npz", x=x.reshape(len(x), 64)[:, 16:32].astype("int64"), y=y)
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize("name", all_but(READ))
def test_what_is_read_is_what_the_module_computes(name):
    """The oracle is the module itself, in its own precision and on a batch of another size."""
    x = inputs(name, 5)
    module = settled(name, x)
    inside = module._orig_mod if name == "compiled" else module
    weight = next(inside.parameters())
    with torch.no_grad():
        given = x.long() if foreign.NETWORKS[name] == "tokens" else x.to(weight.dtype)
        theirs = inside(given.clone())
    if name == "tuple_output":
        theirs = theirs[0]
    elif not isinstance(theirs, torch.Tensor):
        theirs = theirs["logits"] if isinstance(theirs, dict) else theirs.logits
    network = wrap(module, example=x[:1], classes=CLASSES, strict=True)
    ours = copy.deepcopy(network.predictor).double()(x.double())
    coarse = weight.dtype in (torch.float16, torch.bfloat16)
    assert torch.allclose(ours, theirs.double(), rtol=0, atol=0.02 if coarse else 1e-4, equal_nan=True)


def test_the_comparison_with_the_module_has_teeth():
    """Another weight is another function."""
    module, x = made("plain_attribute"), inputs("plain_attribute", 5)
    theirs = module(x)
    read = with_layers(plain_network(module, x))
    assert torch.allclose(read(x), theirs, atol=1e-4)
    with torch.no_grad():
        read.get_parameter("body.weight")[3, 3] += 0.5
    assert not torch.allclose(read(x), theirs, atol=1e-4)


@pytest.mark.thorough
def test_layers_are_known_by_what_they_compute():
    """A matrix is a layer from whichever side it is multiplied, unless something else reads it as it is."""
    read = with_layers(plain_network(made("factors_from_the_right"), inputs("factors_from_the_right", 2)))
    found = {name: (part.in_features, part.out_features) for name, part in read.named_children()}
    assert found == {"layer": (8, 16), "again": (16, 8), "head": (8, CLASSES)}
    assert read.get_parameter("shared").shape == (8, 8)
    reshapes = [n for n in read.graph.nodes if n.target is torch.ops.aten.reshape.default]
    assert [node.args[0].op for node in reshapes] == ["placeholder"]  # that of the image, none around a layer


@pytest.mark.thorough
def test_residual_blocks_are_known_by_what_they_compute():
    """The same function, written with other classes, has the same chain and the same tensors."""
    module = made("own_resnet")
    ours = nn.Sequential(module.conv1, module.bn1, nn.ReLU(), ResidualBlock(4, 4), ResidualBlock(4, 8))
    for block, theirs in zip(ours[3:], module.layer1, strict=True):
        block.load_state_dict(theirs.state_dict())
    twin = nn.Sequential(*ours, nn.AdaptiveAvgPool2d(1), nn.Flatten(), module.linear).eval()
    one, other = chain_of(module, (1, 8, 8)), chain_of(twin, (1, 8, 8))
    assert one[0] == other[0]
    assert all(torch.allclose(tensor, other[1][key], atol=1e-6) for key, tensor in one[1].items())


@pytest.mark.thorough
def test_a_shortcut_that_computes_something_else_is_no_block_of_a_chain():
    with pytest.raises(CodeboundError, match="read more than once"):
        chain_of(made("projecting_resnet"), (1, 8, 8))


@pytest.mark.thorough
@pytest.mark.parametrize("name", foreign.REFUSED)
def test_no_certificate_is_about_these(name, samples, tmp_path):
    command = ["certify", "--model", f"foreign_networks:{name}", str(samples / "image.npz")]
    result = CliRunner().invoke(
        app, [*command, "--method", "prune", "--run", "effort=quick", "--out", str(tmp_path / "c")]
    )
    assert result.exit_code != 0
    assert isinstance(result.exception, CodeboundError)  # main prints it in one sentence
    assert foreign.REFUSED[name] in str(result.exception)


@pytest.mark.parametrize("name", ["active_dropout", "one_output", "counts_calls"])
def test_who_asks_first_is_told(name):
    """``doctor`` says what ``certify`` refuses."""
    command = ["doctor", "--model", f"foreign_networks:{name}", "--input-shape", "1x8x8", "--classes", "4"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0
    told = " ".join((result.stdout + result.stderr).split())
    assert "A certificate cannot be about this network" in told
    assert foreign.REFUSED[name] in told


@pytest.mark.parametrize(
    ("verb", "name", "words"),
    [
        ("measure", "early_exits", "which part of it are the logits"),
        ("compare --no-certify", "early_exits", "which part of it are the logits"),
        ("measure", "one_output", "For two classes"),
        ("compress --method naive", "logarithms", "outputs are NaN or infinite"),
    ],
)
def test_outputs_that_are_no_scores_are_told(verb, name, words, samples, tmp_path):
    command = [*verb.split(), "--model", f"foreign_networks:{name}", "--data", str(samples / "image.npz")]
    result = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "out")])
    assert result.exception is None or isinstance(result.exception, CodeboundError)
    assert words in f"{result.exception} {' '.join(result.stdout.split())}"


def test_a_refusal_shows_the_line(samples, tmp_path):
    command = ["certify", "--model", "foreign_networks:decides_by_values", "--method", "prune"]
    result = CliRunner().invoke(app, [*command, str(samples / "image.npz"), "--out", str(tmp_path / "c")])
    assert "foreign_networks.py, line" in str(result.exception)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["decides_by_values", "active_dropout", "batch_statistics"])
def test_methods_that_need_no_network_go_on_without_it(name, samples, tmp_path):
    """A certificate about another network needs nothing of the one that cannot be read."""
    command = ["certify", "--model", f"foreign_networks:{name}", str(samples / "image.npz")]
    result = CliRunner().invoke(app, [*command, "--run", "effort=quick", "--out", str(tmp_path / "c")])
    assert result.exit_code == 0, result.exception
    record = json.loads((tmp_path / "c" / "result.json").read_text())
    assert record["g_is_new"]
    assert foreign.REFUSED[name] in record["notes"][0]
    assert "go on without it" in record["notes"][0]


@pytest.mark.parametrize("name", ["two_inputs", "wrong_number_of_classes", "fails"])
def test_a_network_that_does_not_fit_the_sample_is_a_mistake(name, samples, tmp_path):
    command = ["certify", "--model", f"foreign_networks:{name}", str(samples / "image.npz")]
    result = CliRunner().invoke(app, [*command, "--run", "effort=quick", "--out", str(tmp_path / "c")])
    assert isinstance(result.exception, CodeboundError)
    assert foreign.REFUSED[name] in str(result.exception)


@pytest.mark.thorough
@pytest.mark.parametrize("name", all_but(CERTIFIED))
def test_certified_by_declared_scores_and_verified_from_the_folder_alone(
    name, samples, tmp_path, monkeypatch
):
    """As a base, which is said to have seen nothing: the verifier needs none of the code."""
    data = load_sample(str(samples / f"{foreign.NETWORKS[name]}.npz"))
    module = settled(name, data.x)
    base = Pretrained(module, "made by hand")
    found = certify(data, network=module, method="auto", known=Known(base=base), run=Run(effort="quick"))
    saved = found.save_to(tmp_path / "c")
    monkeypatch.setattr(foreign, name, None)
    assert verify(shlex.split(saved.result["verify"])[1:]) == 0
    assert not list(saved.folder.glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", foreign.NETWORKS)
def test_other_verbs_take_them(name, verb, samples, tmp_path):
    words = verb.split()
    command = [words[0], "--model", f"foreign_networks:{name}", *words[1:]]
    if words[0] == "sketch":
        shape = "1x8x8" if foreign.NETWORKS[name] == "image" else str(foreign.LENGTH)
        command += ["--input-shape", shape, "--classes", str(CLASSES)]
    else:
        command += ["--data", str(samples / f"{foreign.NETWORKS[name]}.npz"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0 or isinstance(result.exception, CodeboundError), result.exception
