"""Somebody's trained network: ResNet-20 and ResNet-56 of akamaster/pytorch_resnet_cifar10 on CIFAR-10.

    python results/pretrained.py resnet20 unseen --network resnet20_cifar10.safetensors
    python results/pretrained.py resnet20 seen --network resnet20_cifar10.safetensors

``unseen``: the sample is the 10,000 test images, which the network has not seen: it is the base of its own
certificate, and its scores are declared and counted. ``seen``: the sample is the 50,000 training images, the
network's own, so that nothing can be said of it but by images that it has not seen. Both run ``certify``,
have the file checked by ``codebound-verify``, and keep the outcome as ``pretrained-NAME-WHICH.json``.
This folder has to be importable (PYTHONPATH=results) for the same commands by hand.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from records import made_with
from torch import Tensor, nn
from typer.testing import CliRunner

from codebound.cli.main import app
from codebound.sample.load import load_sample
from codebound_networks.views.zoo import build
from codebound_verify.__main__ import main as verify

if TYPE_CHECKING:
    from codebound.sample.dataset import Sample

HERE = Path(__file__).parent
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Constants that normalise inputs, given by the source of the weights."""
SAYS = (
    "akamaster/pytorch_resnet_cifar10, trained on the training images of CIFAR-10; these are its test images"
)
KEPT = (
    *("bound", "delta", "statement", "assurance", "method", "code_bits", "n", "errors", "subject", "vacuous"),
    *("holdout", "test_errors_f", "holdout_f", "disagreements_f", "through_f", "original_errors", "notes"),
)


class Normalised(nn.Module):
    """A network of the zoo that normalises its inputs: constants of the network cost nothing behind a base.

    As constants of the scaling they would be numbers of the message.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        for name, part in network.named_children():
            self.add_module(name, part)
        self.parts = [name for name, _ in network.named_children()]
        for name, values in (("mean", MEAN), ("std", STD)):
            self.register_buffer(name, torch.tensor(values).view(3, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        x = (x - self.mean) / self.std
        for name in self.parts:
            x = self.get_submodule(name)(x)
        return x


def resnet20() -> nn.Module:
    """Of 20 layers, 0.27 million numbers."""
    return Normalised(build("resnet20", input_shape=(3, 32, 32), classes=10))


def resnet56() -> nn.Module:
    """Of 56 layers, 0.86 million numbers."""
    return Normalised(build("resnet56", input_shape=(3, 32, 32), classes=10))


def unseen_images() -> Sample:
    """The 10,000 test images, as a sample to certify with."""
    return replace(load_sample("cifar10", role="test"), role="train")


def command(name: str, which: str, weights: str, more: list[str]) -> list[str]:
    """The words of ``certify``."""
    words = ["certify", "--model", f"pretrained:{name}"]
    if which == "unseen":
        known = [f"--known=base={weights}", f"--known=says={SAYS}"]
        words += ["pretrained:unseen_images", *known, "--method", "scores"]
    else:
        words += ["cifar10", "--network", weights, "--test", "cifar10"]
    return [*words, *more]


def main() -> int:
    """Certifies, verifies and keeps the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", choices=("resnet20", "resnet56"))
    parser.add_argument("which", choices=("seen", "unseen"))
    parser.add_argument("--network", dest="weights", required=True)
    parser.add_argument("--folder", type=Path, default=Path("runs"), help="for the certificate")
    parser.add_argument("--out", type=Path, default=HERE, help="for the record")
    asked, more = parser.parse_known_args()
    sys.path.insert(0, str(HERE))
    folder = asked.folder / f"pretrained-{asked.name}-{asked.which}"
    words = command(asked.name, asked.which, asked.weights, more)
    began = time.perf_counter()
    made = CliRunner().invoke(app, [*words, "--out", str(folder)])
    sys.stdout.write(made.stdout + made.stderr)
    if made.exception is not None:
        raise made.exception
    certified = time.perf_counter()
    found = json.loads((folder / "result.json").read_text())
    status = verify([str(folder)])
    record: dict[str, Any] = {
        "command": shlex.join(
            ["codebound", *(Path(each).name if each == asked.weights else each for each in words)]
        ),
        "verified": status == 0,
        "seconds": round(certified - began, 1),
        "verify_seconds": round(time.perf_counter() - certified, 1),
        **{key: found[key] for key in KEPT if key in found},
        "threads": torch.get_num_threads(),
        **made_with("cpu"),
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / f"pretrained-{asked.name}-{asked.which}.json").write_text(
        json.dumps(record, indent=1) + "\n"
    )
    return status


if __name__ == "__main__":
    sys.exit(main())
