"""Steps of Adam, beside those of PyTorch."""

import subprocess
import sys

import torch

from codebound_networks.train.descent import Adam


def moved(step, parameters, *, steps: int) -> list[torch.Tensor]:
    """The tensors after steps along gradients that the seed gives; the last one has none at every third."""
    stream = torch.Generator().manual_seed(1)
    for number in range(steps):
        for each in parameters:
            each.grad = torch.randn(each.shape, generator=stream)
        if number % 3 == 2:
            parameters[-1].grad = None
        step(0.01 * (1.0 - number / steps))
    return [each.detach() for each in parameters]


def begin() -> list[torch.Tensor]:
    stream = torch.Generator().manual_seed(0)
    shapes = ((10, 64), (7,), (), (3, 2, 3, 3), (1,))
    return [torch.randn(shape, generator=stream).requires_grad_() for shape in shapes]


def test_it_moves_as_the_optimiser_of_pytorch_bit_for_bit():
    ours, theirs = begin(), begin()
    optimizer = torch.optim.Adam(theirs, foreach=True)

    def step(rate: float) -> None:
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()

    pairs = zip(moved(Adam(ours).step, ours, steps=60), moved(step, theirs, steps=60), strict=True)
    assert all(torch.equal(own, other) for own, other in pairs)
    assert not any(torch.equal(own, first) for own, first in zip(ours, begin(), strict=True))


def test_a_step_takes_the_gradients_away():
    parameters = begin()
    optimizer = Adam(parameters)
    optimizer.step(0.1)  # nothing has a gradient
    assert all(torch.equal(own, first) for own, first in zip(parameters, begin(), strict=True))
    parameters[0].grad = torch.ones(10, 64)
    optimizer.step(0.1)
    assert parameters[0].grad is None
    assert torch.allclose(parameters[0], begin()[0] - 0.1, atol=1e-5)


def test_no_compiler_is_imported_for_it():
    program = (
        "import sys, torch; from codebound_networks.train.descent import Adam\n"
        "w = torch.ones(3, requires_grad=True); w.sum().backward(); Adam([w]).step(0.1)\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
