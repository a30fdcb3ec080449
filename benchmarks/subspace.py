"""Cost of training in a coded subspace beside ordinary training of the same network: the goal is 1.5 or less.

Both train the same network on equal batches with Adam; the subspace also makes all weights from its integers
and adds the code length to the loss. Run: python benchmarks/subspace.py [--device cuda]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch
from ratios import beside
from torch.func import functional_call
from torch.nn import functional

from codebound_networks.chains.chain import Chain
from codebound_networks.chains.operations import Linear, MaxPool, NormalisedConv
from codebound_networks.train.subspace import Features, Learner, SubspaceSettings, train_in_subspace

CHAIN = Chain(
    (17, 14, 14), (NormalisedConv(32, 3), MaxPool(2), NormalisedConv(64, 3), MaxPool(2), Linear(10, False))
)
EXAMPLES, BATCH = 5000, 500


def ordinary(features: Features, epochs: int) -> None:
    """A plain loop over the same features."""
    device = features.labels.device
    weights = {
        name: (0.1 * torch.randn(shape, device=device)).requires_grad_()
        for name, shape in CHAIN.tensor_shapes().items()
    }
    network = CHAIN.build({name: value.detach() for name, value in weights.items()})
    optimizer = torch.optim.Adam(weights.values(), lr=1e-3)
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(EXAMPLES, device=device), BATCH):
            logits = functional_call(network, weights, (features.shifts[0][batch].float(),))
            loss = functional.cross_entropy(logits, features.labels[batch])
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            optimizer.step()


def timed(run: Callable[[], object], device: torch.device) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def main() -> None:
    """Prints both times and their ratio, minima of three."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    device = torch.device(parser.parse_args().device)
    features = Features(
        Learner(CHAIN),
        (torch.randn(EXAMPLES, 17, 14, 14, device=device).half(),),
        torch.randint(0, 10, (EXAMPLES,), device=device),
    )
    epochs = 100 if device.type == "cuda" else 2
    print(f"{device}, {torch.get_num_threads()} threads, {EXAMPLES:,} examples, batches of {BATCH}")
    print(f"{'integers':>10} {'subspace':>12} {'ordinary':>12} {'ratio':>7}   seconds per epoch, minima of 3")
    plain = min(timed(lambda: ordinary(features, epochs), device) for _ in range(3)) / epochs
    for dimension in (600, 3000):
        plan = SubspaceSettings(dimension=dimension, epochs=epochs, batch_size=BATCH)
        train = partial(train_in_subspace, features, plan)
        ours = min(timed(train, device) for _ in range(3)) / epochs
        print(f"{dimension:>10,} {ours:>12.3f} {plain:>12.3f} {ours / plain:>7.2f}")
        what = f"an epoch of training in a subspace of {dimension:,} integers"
        beside(what, ours=ours, theirs=plain, peer="ordinary training of the network")


if __name__ == "__main__":
    main()
