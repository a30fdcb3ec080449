"""Chains against torch.nn modules, and counting against plain NumPy."""

import math
import time

import cbound_writer as writer
import numpy as np
import pytest
import torch
from torch import nn
from worlds.literal import forward

from codebound_verify.header import parse_header
from codebound_verify.networks import evaluation
from codebound_verify.networks.chain import fit, parse_chain
from codebound_verify.networks.evaluation import Evaluator, Logits, chain_evaluator, count_disagreements
from codebound_verify.networks.operations import Operation
from codebound_verify.networks.rounding import Rounded
from codebound_verify.refusal import Refused
from codebound_verify.versions import VERSIONS


def header_of(x, classes=3, scaling=None):
    case = writer.linear_case(20)
    fields = case.fields
    fields["facts"]["classes"] = classes
    fields["claim"]["vacuous"] = True
    fields["helper"]["input_shape"] = list(x.shape[1:])
    fields["helper"]["scaling"] = scaling or {"divisor": 1, "mean": [0], "std": [1]}
    return parse_header(writer.canonical(fields), VERSIONS[2])


def exactly(x: Rounded) -> Logits:
    """A network whose logits are its inputs."""
    return Logits(x.values, torch.zeros(len(x.values)))


class Residual(nn.Module):
    """A basic block of He et al. (2016) with the parameter-free shortcut, option A."""

    def __init__(self, channels: int, out: int, bias: bool) -> None:
        super().__init__()
        stride = 1 if channels == out else 2
        self.a = nn.Conv2d(channels, out, 3, stride, 1, bias=bias)
        self.b = nn.Conv2d(out, out, 3, 1, 1, bias=bias)

    def forward(self, x):
        y = self.b(torch.relu(self.a(x)))
        shortcut = torch.zeros_like(y)
        front = (y.shape[1] - x.shape[1]) // 2
        kept = x if x.shape[1] == y.shape[1] else x[:, :, ::2, ::2]
        shortcut[:, front : front + x.shape[1]] = kept
        return torch.relu(y + shortcut)


class LocalConv(nn.Module):
    """Filters of their own for every output pixel, one pixel at a time."""

    def __init__(self, sizes: tuple[int, int, int, int], pixels: tuple[int, int], stride, padding, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(math.prod(pixels), *sizes))
        self.bias = nn.Parameter(torch.randn(sizes[0])) if bias else None
        self.pixels, self.stride, self.padding = pixels, stride, padding

    def forward(self, x):
        x, (_, out, _, kernel, _) = nn.functional.pad(x, (self.padding,) * 4), self.weight.shape
        y = x.new_zeros(len(x), out, *self.pixels)
        for t in range(len(self.weight)):
            row, column = divmod(t, self.pixels[1])
            top, left = row * self.stride, column * self.stride
            patch = x[:, :, top : top + kernel, left : left + kernel]
            y[:, :, row, column] = (patch[:, None] * self.weight[t]).sum(dim=(2, 3, 4))
        return y if self.bias is None else y + self.bias[:, None, None]


NETWORKS = {
    "linear": ((5,), [["linear", 4, True]], [nn.Linear(5, 4)]),
    "mlp on images": (
        (2, 3, 4),
        [["linear", 7, False], ["linear", 4, True]],
        [nn.Flatten(), nn.Linear(24, 7, bias=False), nn.ReLU(), nn.Linear(7, 4)],
    ),
    "strided convolution and pools": (
        (2, 11, 9),
        [
            ["conv", 5, 3, 2, 2, True],
            ["max pool", 2],
            ["conv", 6, 1, 1, 0, False],
            ["average pool", 2],
            ["linear", 4, True],
        ],
        [
            nn.Conv2d(2, 5, 3, 2, 2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(5, 6, 1, bias=False),
            nn.ReLU(),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(6, 4),
        ],
    ),
    "local convolution": (
        (2, 7, 6),
        [["local conv", 5, 3, 2, 1, True], ["local conv", 3, 2, 1, 0, False], ["linear", 4, True]],
        [
            LocalConv((5, 2, 3, 3), (4, 3), 2, 1, True),
            nn.ReLU(),
            LocalConv((3, 5, 2, 2), (3, 2), 1, 0, False),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(18, 4),
        ],
    ),
    "residual": (
        (3, 7, 8),
        [
            ["conv", 4, 3, 1, 1, False],
            ["residual", 4, True],
            ["residual", 7, False],
            ["global average pool"],
            ["linear", 4, False],
        ],
        [
            nn.Conv2d(3, 4, 3, padding=1, bias=False),
            nn.ReLU(),
            Residual(4, 4, True),
            Residual(4, 7, False),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(7, 4, bias=False),
        ],
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_chain_computes_what_torch_modules_compute(name):
    shape, entries, modules = NETWORKS[name]
    torch.manual_seed(0)
    module = nn.Sequential(*modules).double()
    chain = parse_chain(entries, shape, 4)
    state = list(module.state_dict().values())
    assert [shape for _, shape in chain.layout()] == [tuple(tensor.shape) for tensor in state]
    weights = [{} for _ in entries]
    for (key, _), tensor in zip(chain.layout(), state, strict=True):
        position, own = key.split(".", 1)
        weights[int(position)][own] = tensor
    x = torch.randn(3, *shape, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(forward(chain, weights, x), module(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("at_once", [1, 100, 200, 500])
def test_local_convolutions_are_computed_in_parts(at_once, monkeypatch):
    monkeypatch.setattr("codebound_verify.networks.operations.AT_ONCE", at_once)
    test_a_chain_computes_what_torch_modules_compute("local convolution")


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([["linear", 5, True]], "last operation"),
        ([["linear", 4, True], ["max pool", 1]], "last operation"),
        (
            [["linear", 5, True], ["conv", 2, 1, 1, 0, True], ["linear", 4, True]],
            "operation 1 .* needs an image",
        ),
        ([["max pool", 5], ["linear", 4, True]], "window of 5"),
        ([["conv", 2, 7, 1, 1, True], ["linear", 4, True]], "window of 7"),
        ([["residual", 1, True], ["linear", 4, True]], "cannot have fewer"),
        ([["conv", 1, 1, 1, 3000, True], ["linear", 4, True]], "more than 4194304 numbers"),
        ([["conv", 1, 99, 1, 400, True], ["linear", 4, True]], "in patches"),
        ([["conv", 64, 1, 1, 99, True], ["conv", 64, 3, 1, 0, True], ["linear", 4, True]], "multiplications"),
        ([["local conv", 2, 7, 1, 1, True], ["linear", 4, True]], "window of 7"),
        ([["local conv", 1, 1, 1, 3000, True], ["linear", 4, True]], "more than 4194304 numbers"),
        ([["local conv", 1, 1, 2000, 2000, True], ["linear", 4, True]], "more than 4194304 numbers"),
        ([["local conv", 1, 99, 1, 400, True], ["linear", 4, True]], "in patches"),
        ([["linear", 5, True], ["local conv", 2, 1, 1, 0, True], ["linear", 4, True]], "needs an image"),
        (
            [["local conv", 64, 1, 1, 99, True], ["local conv", 64, 3, 1, 0, True], ["linear", 4, True]],
            "multiplications",
        ),
        ([["local conv", 2, 1, 1, True], ["linear", 4, True]], "is no operation"),
        ([["local conv", 2, 1, 1, 0, 1], ["linear", 4, True]], "bias"),
        ([["pool", 2], ["linear", 4, True]], "is no operation"),
        ([["linear", 4]], "is no operation"),
        ([["linear", 4, 1]], "bias"),
        ([["linear", True, True]], "out"),
        ([["max pool", 0], ["linear", 4, True]], "kernel"),
        ([["conv", 2, 1, 1, -1, True], ["linear", 4, True]], "padding"),
        ([[["linear"], 4, True]], "is no operation"),
    ],
)
def test_chains_that_do_not_fit_are_refused(entries, reason):
    with pytest.raises(Refused, match=reason):
        parse_chain(entries, (2, 4, 4), 4)


def identity(scale=1.0):
    """A network whose logits are its three inputs, times a scale."""
    chain = parse_chain([["linear", 3, False]], (3,), 3)
    return chain, {"0.weight": np.float32(np.eye(3) * scale)}


def errors(logits, y, theta=0.0):
    x = np.asarray(logits, np.float64)
    network = chain_evaluator(*identity(), header=header_of(x))
    return network.count_errors(x, np.asarray(y), theta=theta)


@pytest.mark.parametrize(
    ("logits", "label", "theta", "is_error"),
    [
        ([3.0, 1.0, 0.0], 0, 0.0, False),
        ([3.0, 1.0, 0.0], 1, 0.0, True),
        ([1.0, 1.0, 0.0], 0, 0.0, True),  # a tie
        ([0.0, 0.0, 0.0], 0, 0.0, True),
        ([1.0 + 0.4e-4, 1.0, 0.0], 0, 0.0, True),  # inside the verifier's tolerance
        ([1.0 + 0.6e-4, 1.0, 0.0], 0, 0.0, False),  # outside, though inside the writer's
        ([1.0 + 0.6e-4, 1.0, -2.0], 0, 0.0, True),  # relative to the largest absolute logit
        ([3.0, 1.0, 0.0], 0, 1.9, False),
        ([3.0, 1.0, 0.0], 0, 2.0, True),
        ([np.nan, 1.0, 0.0], 1, 0.0, True),
        ([3.0, 1.0, np.nan], 0, 0.0, True),
        ([3.0, 1.0, -np.inf], 0, 0.0, True),
        ([np.inf, 1.0, 0.0], 0, 0.0, True),
    ],
)
def test_what_counts_as_an_error(logits, label, theta, is_error):
    if not np.isfinite(logits).all():  # pass through the identity without spreading
        assert errors([[5.0, 0.0, 0.0], logits], [0, label], theta) == 1
    else:
        assert errors([logits], [label], theta) == is_error


def test_counting_agrees_with_numpy_on_any_batch_size(monkeypatch):
    random = np.random.default_rng(0)
    logits, y = random.normal(size=(1000, 3)), random.integers(0, 3, 1000)
    expected = writer.count(logits, y)
    assert errors(logits, y) == expected > 100
    monkeypatch.setattr("codebound_verify.networks.evaluation.BATCH", 7)
    assert errors(logits, y) == expected


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_batches_side_by_side_keep_their_order(workers, monkeypatch):
    monkeypatch.setattr("codebound_verify.networks.evaluation.BATCH", 3)
    x, threads, seen = np.arange(60.0).reshape(20, 3), torch.get_num_threads(), []
    network = Evaluator(
        exactly,
        scaling=header_of(x).scaling,
        widest=3,
        workers=workers,
        progress=lambda *at: seen.append(at),
    )
    assert torch.cat([logits.values for _, logits in network.logits(x)]).tolist() == x.tolist()
    assert seen == [(done, 20) for done in (3, 6, 9, 12, 15, 18, 20)]
    assert torch.get_num_threads() == threads


def test_a_refusal_of_one_worker_is_that_of_all(monkeypatch):
    monkeypatch.setattr("codebound_verify.networks.evaluation.BATCH", 3)
    x, threads = np.ones((20, 3)), torch.get_num_threads()

    def refusing(x: Rounded) -> Logits:
        raise Refused("too large")

    network = Evaluator(refusing, scaling=header_of(x).scaling, widest=3, workers=2)
    with pytest.raises(Refused, match="too large"):
        network.count_errors(x, np.zeros(20, np.int64))
    assert torch.get_num_threads() == threads


def test_a_wide_network_has_few_workers_and_small_batches(monkeypatch):
    """What is held at the same time stays the same."""
    monkeypatch.setattr("codebound_verify.networks.evaluation.NUMBERS", 60)
    x = np.ones((20, 3))
    for widest, sizes in ((5, {3}), (30, {1}), (100, {1})):
        network = Evaluator(exactly, scaling=header_of(x).scaling, widest=widest, workers=4)
        assert {part.stop - part.start for part, _ in network.logits(x)} == sizes


def test_scaling_is_per_channel():
    x = np.array([[[[10]], [[20]], [[60]]]], np.uint8)
    head = header_of(x, scaling={"divisor": 10, "mean": [1, 1, 2], "std": [1, 0.5, 4]})
    chain = parse_chain([["linear", 3, False]], (3, 1, 1), 3)
    ((_, logits),) = chain_evaluator(chain, {"0.weight": np.eye(3, dtype=np.float32)}, header=head).logits(x)
    assert logits.values.tolist() == [[0.0, 2.0, 1.0]]


def test_disagreement_is_a_different_or_an_ambiguous_prediction():
    x = np.array([[3.0, 1, 0], [0, 1, 3], [1, 1, 0], [np.nan, 1, 0], [2, 1, -9]])
    head = header_of(x)
    chain, weights = identity()
    one = chain_evaluator(chain, weights, header=head)
    assert count_disagreements(one, one, x) == 2
    negative = chain_evaluator(chain, {"0.weight": -weights["0.weight"]}, header=head)
    assert count_disagreements(one, negative, x) == 5


BYTES = {"divisor": 255, "mean": [0], "std": [1]}
IMAGES = fit(
    [
        Operation("views", views=1),
        Operation("dictionary", table=3, pool=2),
        Operation("normalised conv", out=4, kernel=3),
        Operation("max pool", kernel=2),
        Operation("linear", out=3),
    ],
    (3, 8, 8),
    3,
)


def images(scaling=None, n=300, seed=0):
    random = np.random.default_rng(seed)
    x = random.integers(0, 256, (n, 3, 8, 8), dtype=np.uint8)
    tensors = {name: random.normal(size=shape).astype(np.float32) for name, shape in IMAGES.layout()}
    network = chain_evaluator(IMAGES, tensors, header=header_of(x, scaling=scaling or BYTES))
    y = torch.cat([logits.values for _, logits in network.logits(x)]).argmax(1).numpy()
    y[::5] = (y[::5] + 1) % 3
    return network, x, y


@pytest.mark.parametrize("theta", [0.0, 0.2])
@pytest.mark.parametrize("scaling", [None, {"divisor": 255, "mean": [0.3, 0.4, 0.5], "std": [1, 2, 0.5]}])
def test_float32_changes_no_count(theta, scaling, monkeypatch):
    network, x, y = images(scaling)
    evaluated = []
    monkeypatch.setattr(
        evaluation,
        "_screen",
        lambda *given, found=evaluation._screen: evaluated.append(found(*given)) or evaluated[-1],
    )
    monkeypatch.setattr(evaluation.Evaluator, "_fastest", lambda network, *_: network._narrow[0])
    with_screen = network.count_errors(x, y, theta=theta)
    shares = [float(is_open.double().mean()) for _, is_open, _ in evaluated]
    assert shares
    assert min(shares) < 0.2
    network._narrow = ()
    monkeypatch.undo()
    assert network.count_errors(x, y, theta=theta) == with_screen >= len(x) // 5


def test_a_stated_number_is_compared_as_if_all_were_counted(monkeypatch):
    """And where it is high enough, not all that is open is looked at in float64."""
    network, x, y = images()
    ways, network._narrow = network._narrow, ()
    exact, looked_at = network.count_errors(x, y), {}

    def narrow(seen):
        found = ways[-1](seen)
        return Logits(found.values, found.error + 0.2 * found.values.abs().amax(1))

    monkeypatch.setattr(evaluation.Evaluator, "_fastest", lambda *_: narrow)
    network._batch, network._workers = 16, 1  # others begin some batches ahead
    evaluated, plain = [], network._evaluate
    network._evaluate = lambda way, part: evaluated.append((way is narrow, len(part))) or plain(way, part)
    for stated in (0, exact - 1, exact, exact + 1, len(x)):
        evaluated.clear()
        found = network.count_errors(x, y, stated=stated)
        assert (found <= stated) == (exact <= stated)
        assert found == exact or found <= stated
        looked_at[stated] = sum(examples for is_narrow, examples in evaluated if not is_narrow)
    assert looked_at[0] == looked_at[exact - 1] > looked_at[exact] >= looked_at[len(x)] == 0


def test_every_way_agrees_with_float64_where_it_decides():
    network, x, y = images()
    wide = network._evaluate(network._wide, x)
    is_right = evaluation._is_right(wide, torch.from_numpy(y), 0.0)
    for function in network._narrow:
        right, is_open, _ = evaluation._screen(network._evaluate(function, x), torch.from_numpy(y), 0.0)
        assert torch.equal(right[~is_open], is_right[~is_open])
        assert not (right & is_open).any()


@pytest.mark.parametrize(
    ("logits", "error", "theta", "right", "is_open"),
    [
        ([2.0, 0.0], 1e-3, 0.0, True, False),
        ([0.0, 2.0], 1e-3, 0.0, False, False),
        ([2.0, 1.9], 0.08, 0.0, False, True),  # the two bounds overlap
        ([1.9, 2.0], 0.08, 0.0, False, True),
        ([2.0, 1.9999], 1e-9, 0.0, False, True),  # within the tolerance: float64 says
        ([2.0, -2.0], 0.6, 0.0, False, True),  # too coarse to be believed
        ([2.0, 0.0], 1e-3, 2.0, False, True),
        ([2.0, 0.0], 1e-3, 2.1, False, False),
        ([2.0, 0.0], np.nan, 0.0, False, True),
        ([2.0, 0.0], np.inf, 0.0, False, True),
        ([np.inf, 0.0], 0.0, 0.0, False, True),
        ([np.nan, 0.0], 0.0, 0.0, False, True),
    ],
)
def test_what_is_left_open(logits, error, theta, right, is_open):
    given = Logits(torch.tensor([logits], dtype=torch.float64), torch.tensor([error], dtype=torch.float64))
    found = evaluation._screen(given, torch.zeros(1, dtype=torch.int64), theta)
    assert [value.item() for value in found[:2]] == [right, is_open]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("error", "seconds", "expected"),
    [
        (10.0, 0.0, "wide"),  # leaves everything open
        (0.0, 0.0, "narrow"),
        (0.0, 0.3, "wide"),  # is slow
    ],
)
def test_the_way_is_taken_that_takes_least_time(error, seconds, expected):
    calls = []

    def carrying(name, off, pause):
        def function(x):
            calls.append(name)
            time.sleep(pause)
            return Logits(x.values, torch.full((len(x.values),), off, dtype=torch.float64))

        return function

    x = np.tile(np.array([[2.0, 0.0, 1.0]]), (200, 1))
    head = header_of(x)
    ways = carrying("wide", 0.0, 0.1), [carrying("narrow", error, seconds)]
    network = evaluation.Evaluator(*ways, scaling=head.scaling, widest=3)
    assert network.count_errors(x, np.zeros(200, np.int64)) == 0
    assert calls == ["wide", "wide", "narrow", "narrow", expected]  # the first of two trials warms up


def test_trials_are_no_larger_than_batches(monkeypatch):
    """Of a network that holds as much as is allowed for one example, eight would take eight times as much."""
    monkeypatch.setattr(evaluation, "NUMBERS", 50)
    sizes = set()

    def carrying(x):
        sizes.add(len(x.values))
        return Logits(x.values, torch.zeros(len(x.values), dtype=torch.float64))

    x = np.tile(np.array([[2.0, 0.0, 1.0]]), (200, 1))
    network = evaluation.Evaluator(carrying, [carrying], scaling=header_of(x).scaling, widest=20)
    assert network.count_errors(x, np.zeros(200, np.int64)) == 0
    assert sizes == {2}


def test_float32_that_is_shorter_than_it_says_decides_nothing(monkeypatch):
    """Some settings replace it by 16-bit numbers, or convolutions by transforms."""
    evaluation.float32_is_sound.cache_clear()
    assert evaluation.float32_is_sound()
    plain = torch.nn.functional.conv2d

    def short(x, weight, *rest, **options):
        if x.dtype == torch.float32:
            x, weight = x.bfloat16().float(), (weight * (1 + 2.0**-12)).float()
        return plain(x, weight, *rest, **options)

    network, x, _ = images(n=40)
    exact = network._evaluate(network._wide, x)
    monkeypatch.setattr("torch.nn.functional.conv2d", short)
    evaluation.float32_is_sound.cache_clear()
    assert not evaluation.float32_is_sound()
    found = network._evaluate(network._wide, x)  # nor does it sum the integers of images
    assert ((found.values - exact.values).norm(dim=1) <= found.error + exact.error).all()
    evaluation.float32_is_sound.cache_clear()
