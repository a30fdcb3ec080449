"""What float32 may decide, and what it must leave to float64."""

import time

import cbound_writer as writer
import numpy as np
import pytest
import torch

from codebound_verify.header import parse_header
from codebound_verify.networks import evaluate
from codebound_verify.networks.chain import fit
from codebound_verify.networks.evaluate import (
    Logits,
    chain_evaluator,
)
from codebound_verify.networks.operations import Operation

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


def header_of(shape, scaling=None):
    fields = writer.linear_case(20).fields
    fields["claim"]["vacuous"] = True
    fields["helper"]["input_shape"] = list(shape)
    fields["helper"]["scaling"] = scaling or {"divisor": 255, "mean": [0], "std": [1]}
    from codebound_verify.versions import VERSIONS

    return parse_header(writer.canonical(fields), VERSIONS[2])


def case(scaling=None, n=300, seed=0):
    random = np.random.default_rng(seed)
    x = random.integers(0, 256, (n, 3, 8, 8), dtype=np.uint8)
    tensors = {name: random.normal(size=shape).astype(np.float32) for name, shape in IMAGES.layout()}
    network = chain_evaluator(IMAGES, tensors, header=header_of((3, 8, 8), scaling))
    y = torch.cat([logits.values for _, logits in network.logits(x)]).argmax(1).numpy()
    y[::5] = (y[::5] + 1) % 3
    return network, x, y


@pytest.mark.parametrize("theta", [0.0, 0.2])
@pytest.mark.parametrize("scaling", [None, {"divisor": 255, "mean": [0.3, 0.4, 0.5], "std": [1, 2, 0.5]}])
def test_float32_changes_no_count(theta, scaling, monkeypatch):
    network, x, y = case(scaling)
    evaluated = []
    monkeypatch.setattr(
        evaluate,
        "_screened",
        lambda *given, found=evaluate._screened: evaluated.append(found(*given)) or evaluated[-1],
    )
    monkeypatch.setattr(evaluate.Evaluator, "_fastest", lambda network, *_: network._narrow[0])
    with_screen = network.count_errors(x, y, theta=theta)
    shares = [float(is_open.double().mean()) for _, is_open in evaluated]
    assert shares
    assert min(shares) < 0.2
    assert network.count_errors(x, y, theta=theta, screen=False) == with_screen >= len(x) // 5


def test_a_stated_number_is_compared_as_if_all_were_counted(monkeypatch):
    """And where it is high enough, not all that is open is looked at in float64."""
    network, x, y = case()

    def narrow(seen):
        found = network._narrow[-1](seen)
        return Logits(found.values, found.error + 0.2 * found.values.abs().amax(1))

    monkeypatch.setattr(evaluate.Evaluator, "_fastest", lambda *_: narrow)
    network._batch, network._workers = 16, 1  # others begin some batches ahead
    evaluated, plain = [], network._evaluated
    network._evaluated = lambda way, part: evaluated.append((way is narrow, len(part))) or plain(way, part)
    exact, looked_at = network.count_errors(x, y, screen=False), {}
    for stated in (0, exact - 1, exact, exact + 1, len(x)):
        evaluated.clear()
        found = network.count_errors(x, y, stated=stated)
        assert (found <= stated) == (exact <= stated)
        assert found == exact or found <= stated
        looked_at[stated] = sum(examples for is_narrow, examples in evaluated if not is_narrow)
    assert looked_at[0] == looked_at[exact - 1] > looked_at[exact] >= looked_at[len(x)] == 0


def test_every_way_agrees_with_float64_where_it_decides():
    network, x, y = case()
    wide = network._evaluated(network._wide, x)
    is_right = evaluate._is_right(wide, torch.from_numpy(y), 0.0)
    for function in network._narrow:
        right, is_open = evaluate._screened(network._evaluated(function, x), torch.from_numpy(y), 0.0)
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
    found = evaluate._screened(given, torch.zeros(1, dtype=torch.int64), theta)
    assert [value.item() for value in found] == [right, is_open]


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
    head = header_of((3,), {"divisor": 1, "mean": [0], "std": [1]})
    ways = carrying("wide", 0.0, 0.1), [carrying("narrow", error, seconds)]
    network = evaluate.Evaluator(*ways, scaling=head.scaling, widest=3)
    assert network.count_errors(x, np.zeros(200, np.int64)) == 0
    assert calls == ["wide", "wide", "narrow", "narrow", expected]  # the first of two trials warms up


def test_trials_are_no_larger_than_batches(monkeypatch):
    """Of a network that holds as much as is allowed for one example, eight would take eight times as much."""
    monkeypatch.setattr(evaluate, "NUMBERS", 50)
    sizes = set()

    def carrying(x):
        sizes.add(len(x.values))
        return Logits(x.values, torch.zeros(len(x.values), dtype=torch.float64))

    head = header_of((3,), {"divisor": 1, "mean": [0], "std": [1]})
    network = evaluate.Evaluator(carrying, [carrying], scaling=head.scaling, widest=20)
    x = np.tile(np.array([[2.0, 0.0, 1.0]]), (200, 1))
    assert network.count_errors(x, np.zeros(200, np.int64)) == 0
    assert sizes == {2}


def test_float32_that_is_shorter_than_it_says_decides_nothing(monkeypatch):
    """Some settings replace it by 16-bit numbers, or convolutions by transforms."""
    evaluate.float32_is_sound.cache_clear()
    assert evaluate.float32_is_sound()
    plain = torch.nn.functional.conv2d

    def short(x, weight, *rest, **options):
        if x.dtype == torch.float32:
            x, weight = x.bfloat16().float(), (weight * (1 + 2.0**-12)).float()
        return plain(x, weight, *rest, **options)

    network, x, _ = case(n=40)
    exact = network._evaluated(network._wide, x)
    monkeypatch.setattr("torch.nn.functional.conv2d", short)
    evaluate.float32_is_sound.cache_clear()
    assert not evaluate.float32_is_sound()
    found = network._evaluated(network._wide, x)  # nor does it sum the integers of images
    assert ((found.values - exact.values).norm(dim=1) <= found.error + exact.error).all()
    evaluate.float32_is_sound.cache_clear()
