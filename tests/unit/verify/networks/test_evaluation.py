"""Logits against sums in 60 digits, their error against the table of the page, and the room that follows."""

import math

import exact_chain
import numpy as np
import pytest
import torch

from codebound_verify.networks.chain import fit
from codebound_verify.networks.evaluation import Evaluator, NetworkScores, evaluate, prepare
from codebound_verify.networks.network import Network
from codebound_verify.networks.operations import Operation
from codebound_verify.networks.rounding import filter_norm, matrix_norm
from codebound_verify.networks.scaling import Scaling

U = 2.0**-53
SCALED = Scaling(255.0, (0.1, 0.2, -0.3), (0.5, 1.5, 2.0))
PLAIN = Scaling(16.0)


def gamma(k: int) -> float:
    return 1.01 * k * U


def r(f: float, v: float) -> float:
    return f * v + 2.0**-500 * (1 + f / U) * (1 + v)


OPERATIONS = {
    "linear": [Operation("linear", out=5, bias=1)],
    "conv": [Operation("conv", out=4, kernel=3, stride=2, padding=1, bias=1)],
    "conv without padding": [Operation("conv", out=2, kernel=2, stride=1)],
    "max pool": [Operation("max pool", kernel=2)],
    "average pool": [Operation("average pool", kernel=2)],
    "global average pool": [Operation("global average pool")],
    "residual": [Operation("residual", out=3, bias=1)],
    "residual that grows": [Operation("residual", out=6)],
    "local conv": [Operation("local conv", out=2, kernel=3, stride=2, padding=1, bias=1)],
    "normalised conv": [Operation("normalised conv", out=3, kernel=3)],
    "dictionary": [Operation("dictionary", table=1, pool=2)],
    "views 1": [Operation("views", views=1), Operation("conv", out=2, kernel=3, stride=1, padding=0)],
    "views 2": [Operation("views", views=2), Operation("max pool", kernel=2)],
    "views 3": [Operation("views", views=3)],
    "views 4": [Operation("views", views=4), Operation("normalised conv", out=2, kernel=3)],
    "several": [
        Operation("conv", out=4, kernel=3, stride=1, padding=1, bias=1),
        Operation("normalised conv", out=3, kernel=1),
        Operation("average pool", kernel=3),
        Operation("linear", out=4, bias=1),
    ],
}


def case(name: str, n: int = 3, shape=(3, 6, 7)):
    random = np.random.default_rng(5)
    chain = fit([*OPERATIONS[name], Operation("linear", out=4, bias=1)], shape, 4)
    tensors = {key: random.normal(size=sizes).astype(np.float32) for key, sizes in chain.layout()}
    return chain, tensors, random.integers(0, 256, (n, *shape)).astype(np.uint8)


def exact_logits(chain, tensors, x, scaling) -> np.ndarray:
    owns = [{} for _ in chain.operations]
    for name, values in tensors.items():
        position, own = name.split(".", 1)
        owns[int(position)][own] = values
    mean, std = (exact_chain.exact(np.broadcast_to(each, x.shape)) for each in scaling.constants(x.shape))
    scaled = (exact_chain.exact(x) / exact_chain.mp.mpf(scaling.divisor) - mean) / std
    return exact_chain.logits(chain, owns, scaled)


def computed(chain, tensors, x, scaling):
    evaluator = Evaluator(chain, tensors, scaling)
    ((rows, values, room),) = evaluator.blocks(x, np.arange(len(x)))
    assert rows.tolist() == list(range(len(x)))
    steps = list(zip(chain.operations, prepare(chain, tensors), strict=True))
    with torch.inference_mode():
        logits = evaluate(steps, evaluator._scale(x))
    np.testing.assert_array_equal(logits.values.numpy(), values)
    return values, logits.error.numpy(), room


@pytest.mark.parametrize("scaling", [SCALED, PLAIN], ids=["scaled", "plain"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_error_is_never_above_its_bound(name, scaling):
    chain, tensors, x = case(name, n=1)
    values, error, room = computed(chain, tensors, x, scaling)
    for row in range(len(x)):
        exact = exact_logits(chain, tensors, x[row], scaling)
        off = math.sqrt(sum(float(value - own) ** 2 for value, own in zip(exact, values[row], strict=True)))
        assert off <= error[row]
        assert error[row] <= 1e-8 * np.abs(values[row]).max()
        assert room[row] == 0.5e-4 * np.abs(values[row]).max()


class TestTable:
    """Bounds, line by line, from numbers that numpy has computed."""

    def weights(self, chain, tensors, position):
        return tensors[f"{position}.weight"].astype(float), tensors.get(f"{position}.bias")

    def norm_of_conv(self, weight, grid):
        """The largest singular value over the frequencies of the padded grid."""
        symbols = np.fft.fft2(weight, grid).transpose(2, 3, 0, 1)
        return float(np.linalg.svd(symbols, compute_uv=False).max())

    def linear(self, e, x, weight, bias):
        b, a = float(np.linalg.norm(weight)), float(np.linalg.norm(weight, 2))
        n = weight.shape[1]
        length = 0.0 if bias is None else float(np.linalg.norm(bias.astype(float)))
        return min(a, b) * e + r(gamma(n + 1) * b, np.linalg.norm(x)) + gamma(n + 1) * length

    def conv(self, e, x, weight, bias, *, padding, pixels):
        b = weight.shape[2] * float(np.linalg.norm(weight))
        a = self.norm_of_conv(weight, [side + 2 * padding for side in x.shape[1:]])
        n = math.prod(weight.shape[1:])
        length = 0.0 if bias is None else math.sqrt(pixels) * float(np.linalg.norm(bias.astype(float)))
        return min(a, b) * e + r(gamma(n + 1) * b, np.linalg.norm(x)) + gamma(n + 1) * length

    def mean(self, e, x, n):
        return (e + r(gamma(n + 1), np.linalg.norm(x))) / math.sqrt(n)

    def normalised(self, e, x):
        m, c, v = x.size, float(x.mean()), float(x.var())
        f = gamma(4) + gamma(m + 4)
        d = e + r(f, math.sqrt(m * (c**2 + v)))
        least = max(0.0, (1 - 1e-5) * math.sqrt(v) - d / math.sqrt(m))
        return d / math.sqrt(least**2 + 1e-5) + r(f, math.sqrt(m))

    def start(self, x, scaling=SCALED):
        mean, std = scaling.constants(x.shape)
        scaled = (x / scaling.divisor - mean) / std
        return gamma(4) * np.linalg.norm((np.abs(x / scaling.divisor) + np.abs(mean)) / std), scaled

    def torch_of(self, function, x, *args, **kwargs):
        return function(torch.from_numpy(x)[None], *args, **kwargs)[0].numpy()

    def expect(self, name, bound):
        chain, tensors, x = case(name)
        _, error, _ = computed(chain, tensors, x, SCALED)
        for row in range(len(x)):
            e, values = bound(chain, tensors, *self.start(x[row]))
            last = self.linear(e, values.ravel(), *self.weights(chain, tensors, len(chain.operations) - 1))
            assert math.isclose(error[row], last, rel_tol=1e-7)

    def test_input_and_linear(self):
        def bound(chain, tensors, e, x):
            weight, bias = self.weights(chain, tensors, 0)
            return self.linear(e, x.ravel(), weight, bias), np.maximum(weight @ x.ravel() + bias, 0)

        self.expect("linear", bound)

    @pytest.mark.parametrize("name", ["conv", "conv without padding", "normalised conv"])
    def test_conv(self, name):
        def bound(chain, tensors, e, x):
            operation = chain.operations[0]
            weight, bias = self.weights(chain, tensors, 0)
            stride, padding = operation.stride or 1, operation.padding
            if name == "normalised conv":
                padding = 1
            conv = torch.nn.functional.conv2d
            sums = self.torch_of(conv, x, torch.from_numpy(weight), stride=stride, padding=padding)
            sums = sums + (0 if bias is None else bias.astype(float)[:, None, None])
            e = self.conv(e, x, weight, bias, padding=padding, pixels=sums[0].size)
            if name == "normalised conv":
                e, sums = self.normalised(e, sums), (sums - sums.mean()) / np.sqrt(sums.var() + 1e-5)
            return e, np.maximum(sums, 0)

        self.expect(name, bound)

    def test_local_conv(self):
        def bound(chain, tensors, e, x):
            weight, bias = self.weights(chain, tensors, 0)
            size = 3 * max(float(np.linalg.norm(filters)) for filters in weight)
            pad = np.pad(x, ((0, 0), (1, 1), (1, 1)))
            sums = np.empty((2, 3, 4))
            for t, (i, j) in enumerate(np.ndindex(3, 4)):
                patch = pad[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
                sums[:, i, j] = (weight[t] * patch).sum((1, 2, 3)) + bias
            n = 27
            e = size * e + r(gamma(n + 1) * size, np.linalg.norm(x))
            return e + gamma(n + 1) * math.sqrt(12) * np.linalg.norm(bias.astype(float)), np.maximum(sums, 0)

        self.expect("local conv", bound)

    def test_pools(self):
        pools = torch.nn.functional

        def largest(chain, tensors, e, x):
            return e, self.torch_of(pools.max_pool2d, x, 2)

        def mean(chain, tensors, e, x):
            return self.mean(e, x, 4), self.torch_of(pools.avg_pool2d, x, 2)

        def of_all(chain, tensors, e, x):
            return self.mean(e, x, 42), x.mean((1, 2))

        self.expect("max pool", largest)
        self.expect("average pool", mean)
        self.expect("global average pool", of_all)

    @pytest.mark.parametrize(("name", "out", "stride"), [("residual", 3, 1), ("residual that grows", 6, 2)])
    def test_residual(self, name, out, stride):
        def bound(chain, tensors, e, x):
            conv = torch.nn.functional.conv2d
            seen, values = e, x
            for own, step in (("a", stride), ("b", 1)):
                weight = tensors[f"0.{own}.weight"].astype(float)
                bias = tensors.get(f"0.{own}.bias")
                sums = self.torch_of(conv, values, torch.from_numpy(weight), stride=step, padding=1)
                sums = sums + (0 if bias is None else bias.astype(float)[:, None, None])
                seen = self.conv(seen, values, weight, bias, padding=1, pixels=sums[0].size)
                values = np.maximum(sums, 0) if own == "a" else sums
            shortcut = np.zeros_like(values)
            front = (out - 3) // 2
            shortcut[front : front + 3] = x[:, ::stride, ::stride]
            both = values + shortcut
            return seen + e + r(gamma(2), np.linalg.norm(both)), np.maximum(both, 0)

        self.expect(name, bound)

    def test_dictionary(self):
        from codebound_verify.learn.dictionaries import tables

        def bound(chain, tensors, e, x):
            functional = torch.nn.functional
            pool, (red, green, blue) = 2, x
            e = math.sqrt(2) * e + r(2 * gamma(4), np.linalg.norm(x))
            planes = np.stack([(red + green + blue) / 3, red - green, (red + green) / 2 - blue])
            squares, maps = (e + r(gamma(pool**2 + 1), np.linalg.norm(planes))) ** 2, []
            for table in tables(1):
                filters = table.filters.reshape(-1, 1, table.size, table.size)
                b = table.size * float(np.linalg.norm(filters))
                a = min(b, self.norm_of_conv(filters, [side + table.size - 1 for side in x.shape[1:]]))
                f = gamma(table.size**2 + pool**2 + 9) * b
                squares += 4 * (a * e + r(f, np.linalg.norm(planes))) ** 2
                sums = functional.conv2d(
                    torch.from_numpy(planes)[:, None], torch.from_numpy(filters), padding=table.size // 2
                )
                maps.append(functional.avg_pool2d((sums[:, ::2] ** 2 + sums[:, 1::2] ** 2).sqrt(), pool))
            means = self.torch_of(functional.avg_pool2d, planes, pool)
            values = np.concatenate([2 * torch.cat(maps, 1).flatten(0, 1).numpy(), means])
            e = self.normalised(math.sqrt(squares) / pool, values)
            return e, (values - values.mean()) / np.sqrt(values.var() + 1e-5)

        self.expect("dictionary", bound)

    @pytest.mark.parametrize("scaling", [SCALED, PLAIN], ids=["scaled", "plain"])
    def test_straightened(self, scaling):
        chain, tensors, x = case("views 3")
        weight, bias = self.weights(chain, tensors, 1)
        values, error, _ = computed(chain, tensors, x, scaling)
        for row in range(len(x)):
            e, scaled = self.start(x[row], scaling)
            moved = np.array(exact_chain.straightened(exact_chain.exact(scaled)), float)
            seen = e + 2 * self.slip(e, scaled, scaling) * np.linalg.norm(scaled)
            seen += r(gamma(8), np.linalg.norm(scaled))
            last = self.linear(seen, moved.ravel(), weight, bias)
            assert math.isclose(error[row], last + gamma(2) * np.abs(values[row]).max(), rel_tol=1e-7)

    def slip(self, e, x, scaling):
        """The letter t of the page."""
        p = np.abs(x).sum(0)
        H, W = p.shape
        i, j = np.arange(H)[:, None], np.arange(W)
        P = 1e-6 + p.sum()
        centre, other = (p * i).sum() / P, (p * j).sum() / P
        v, w = (p * (i - centre) ** 2).sum(), (p * (j - other) ** 2).sum()
        q, g = v + 1e-3, gamma(x.size + 16)
        a = (p * (i - centre) * (j - other)).sum() / q
        o = math.sqrt(x.size) * e if any(scaling.mean) else 0.0
        R, S = 2 * H * (o / P + g), 2 * W * (o / P + g)
        F = g * math.sqrt(v * w) + H * W * o + 1e-6 * (W * R + H * S) + (P + o) * R * S
        Q = g * q + H**2 * o + 2e-6 * H * R + (P + o) * R**2
        assert q / 2 >= Q
        return 2 * H * (F + abs(a) * Q) / q + abs(a) * R + gamma(8) * (W + abs(a) * H)

    def test_views(self):
        chain, tensors, x = case("views 1")
        values, error, _ = computed(chain, tensors, x, SCALED)
        rest = fit(chain.operations[1:], (3, 6, 7), 4)
        own = {f"{int(name[0]) - 1}{name[1:]}": each for name, each in tensors.items()}
        found = [computed(rest, own, view, SCALED) for view in (x, x[..., ::-1].copy())]
        np.testing.assert_allclose(values, (found[0][0] + found[1][0]) / 2, rtol=1e-12)
        largest = sum(np.abs(each[0]).max(1) for each in found) / 2
        np.testing.assert_allclose(error, (found[0][1] + found[1][1]) / 2 + gamma(3) * largest, rtol=1e-7)


def test_norms_are_those_of_the_maps():
    random = np.random.default_rng(0)
    for shape in ((5, 9), (9, 5), (1, 7), (300, 2)):
        weight = random.normal(size=shape)
        norm = np.linalg.norm(weight, 2)
        assert norm <= matrix_norm(weight) <= norm * (1 + 3e-9)
    weight, grid = random.normal(size=(3, 2, 3, 3)), (6, 7)
    symbols = np.fft.fft2(weight, grid).transpose(2, 3, 0, 1)
    norm = np.linalg.svd(symbols, compute_uv=False).max()
    assert norm <= filter_norm(weight, grid) <= norm * (1 + 3e-9)


def linear(weight, bias=None, x=None) -> Network:
    weight = np.array(weight, np.float32)
    chain = fit(
        [Operation("linear", out=len(weight), bias=int(bias is not None))], weight.shape[1:], len(weight)
    )
    tensors = {"0.weight": weight}
    if bias is not None:
        tensors["0.bias"] = np.array(bias, np.float32)
    return Network(chain, tensors, Scaling(1.0), x=np.zeros((1, weight.shape[1])) if x is None else x)


class TestScores:
    """What is counted."""

    def test_rows_come_in_batches(self, monkeypatch):
        monkeypatch.setattr("codebound_verify.networks.evaluation.BATCH", 3)
        x = np.arange(20.0).reshape(10, 2)
        seen = []
        scores = NetworkScores(linear(np.eye(2), x=x), lambda done, total: seen.append((done, total)))
        rows = np.array([7, 1, 1, 9, 0, 2, 4])
        found = list(scores.blocks(rows))
        assert [part.tolist() for part, _, _ in found] == [[7, 1, 1], [9, 0, 2], [4]]
        np.testing.assert_array_equal(np.concatenate([values for _, values, _ in found]), x[rows])
        assert seen == [(3, 7), (6, 7), (7, 7)]
        assert scores.classes.tolist() == [0, 1]
        assert scores.theta == 0.0

    def room(self, network, x):
        ((_, values, room),) = NetworkScores(network).blocks(np.arange(len(x)))
        return values, room

    def test_room_is_a_share_of_the_largest_logit(self):
        x = np.array([[1.0, -4.0], [0.25, 0.0]])
        values, room = self.room(linear(np.eye(2), x=x), x)
        np.testing.assert_array_equal(values, x)
        np.testing.assert_array_equal(room, [2e-4, 0.125e-4])

    def test_nothing_is_said_of_logits_that_cancel(self):
        x = np.array([[1.0, 1.0 + 2**-40], [1.0, 2.0]])
        _, room = self.room(linear([[1, -1], [2, -2]], x=x), x)
        assert room[0] == math.inf
        assert room[1] == 2 * 0.5e-4

    def test_nothing_is_said_of_logits_that_are_no_numbers(self):
        x = np.array([[1e300, 1e300], [0.0, 0.0], [1.0, 2.0]])
        _, room = self.room(linear([[1e30, 0], [0, 1]], x=x), x)
        assert room.tolist()[:2] == [math.inf, math.inf]
        assert np.isfinite(room[2])

    def test_nothing_is_said_of_what_hardly_varies(self):
        chain = fit([Operation("normalised conv", out=1, kernel=1), Operation("linear", out=2)], (1, 2, 2), 2)
        tensors = {"0.weight": np.ones((1, 1, 1, 1), np.float32), "1.weight": np.eye(2, 4, dtype=np.float32)}
        x = np.array([[[[1e9, 1e9], [1e9, 1e9 + 1e-6]]], [[[4.0, 3.0], [2.0, 1.0]]]])
        _, room = self.room(Network(chain, tensors, Scaling(1.0), x=x), x)
        assert room[0] == math.inf
        assert np.isfinite(room[1])

    def test_an_image_of_zeros_has_no_lean_that_is_sure(self):
        chain = fit([Operation("views", views=3), Operation("linear", out=2, bias=1)], (1, 5, 5), 2)
        tensors = {"1.weight": np.ones((2, 25), np.float32), "1.bias": np.array([1, 2], np.float32)}
        x = np.zeros((1, 1, 5, 5))
        values, room = self.room(Network(chain, tensors, Scaling(1.0), x=x), x)
        np.testing.assert_array_equal(values, [[1, 2]])
        assert room[0] == 2 * 0.5e-4

    def test_predictions(self):
        x = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0], [1.0, 1.00004], [1.0, 1.00006], [np.inf, 1.0]])
        network = linear(np.eye(2), x=x)
        labels, is_in_doubt = Evaluator(network.chain, network.tensors, network.scaling).predict(x)
        assert labels[:2].tolist() == [1, 0]
        assert is_in_doubt.tolist() == [False, False, True, True, False, True]
