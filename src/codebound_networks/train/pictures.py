"""Small convolutional networks of pictures as they are stored: learners of a known share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn

from codebound.run.progress import Progress, silent
from codebound.sample.dataset import Scaling
from codebound_networks.train.config import Cosine, TrainConfig
from codebound_networks.train.harness import fit
from codebound_networks.views.zoo import use_seed

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from torch import Tensor

    from codebound.sample.dataset import Sample

_FILTERS, _EPOCHS = 32, 24
_HALVINGS = 3  # of height and width
_SHIFTED = 24  # pixels of a side that shifts by four leave recognisable
_DROPPED = 0.3  # of what the last layer reads


class PictureNetwork(nn.Sequential):
    """Layers behind numbers as they are stored."""

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        outputs = x.float()
        for layer in self:
            outputs = layer(outputs)
        return outputs


def train_network(
    sample: Sample, *, device: torch.device | str = "cpu", progress: Progress = silent
) -> nn.Module:
    """Train 32, 64 and 128 filters: many minutes of a core for 45,000 small pictures."""
    with use_seed(0):
        network = _make(sample.input_shape, width=_FILTERS, classes=sample.classes)
    config = TrainConfig(
        learning_rate=4e-3,
        weight_decay=1e-5,
        schedule=Cosine(warmup=_EPOCHS / 4),
        epochs=_EPOCHS,
        augment="crop" if min(sample.input_shape[1:]) >= _SHIFTED else "none",
    )
    stored = replace(sample, scaling=Scaling())
    return fit(network, stored, config, device=device, progress=progress).model.cpu().eval()


def load_network(tensors: Mapping[str, Tensor], input_shape: tuple[int, ...]) -> nn.Module:
    """A trained network from its tensors."""
    filters, last = tensors["1.weight"], tensors[max(tensors, key=_layer)]
    network = _make(input_shape, width=len(filters), classes=len(last))
    network.load_state_dict(tensors)
    return network.eval()


def _layer(name: str) -> int:
    return int(name.partition(".")[0])


def _make(shape: tuple[int, ...], *, width: int, classes: int) -> nn.Module:
    """Blocks of twice as many filters each, on standardised channels."""
    channels, height, across = shape
    layers: list[nn.Module] = [nn.BatchNorm2d(channels, affine=False)]
    for filters in (width << at for at in range(_HALVINGS)):
        layers += [nn.Conv2d(channels, filters, 3, padding=1, bias=False), nn.BatchNorm2d(filters)]
        layers += [nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)]
        channels, height, across = filters, -(-height // 2), -(-across // 2)
    layers += [nn.Flatten(), nn.Dropout(_DROPPED), nn.Linear(channels * height * across, classes)]
    return PictureNetwork(*layers)
