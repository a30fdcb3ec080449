"""The network g as something to use: a module that takes inputs as they are stored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from codebound.certificate.base import BASE_FILE
from codebound.certificate.decoding import decode
from codebound.certificate.file import Certificate
from codebound.errors import FormatError
from codebound.nets.loading import load_arrays, load_model
from codebound.results import WEIGHTS

if TYPE_CHECKING:
    from torch import Tensor

    from codebound.data.dataset import Scaling

CERTIFICATE = "certificate.cbound"


class Classifier(nn.Module):
    """The network of a certificate behind the scaling of its inputs: what one deploys.

    Args:
        network: The decoded network g.
        scaling: What the network expects to be done to stored values; None where it does that by itself.
        input_shape: Of one input.
        classes: How many outputs it has.
    """

    def __init__(
        self, network: nn.Module, scaling: Scaling | None, *, input_shape: tuple[int, ...], classes: int
    ) -> None:
        super().__init__()
        self.network, self.scaling = network, scaling
        self.input_shape, self.classes = input_shape, classes
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """One number for each class, for inputs as they are stored; the largest is the prediction."""
        outputs: Tensor = self.network(x if self.scaling is None else self.scaling.apply(x))
        return outputs


def load_classifier(path: Path | str) -> Classifier:
    """The network g of a certificate, from the folder that ``certify`` wrote, or from the file in it.

    Needs nothing but that folder, and the code of the factory where a certificate names one.

    Raises:
        FormatError: There is no certificate, or what it needs is not beside it.

    Example:
        >>> import tempfile
        >>> import torch
        >>> from codebound.certification import certify
        >>> from codebound.data.load import load_dataset
        >>> digits = load_dataset("digits")
        >>> few = digits.select(range(300), role="train")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = certify(None, few, effort="quick").save_to(Path(folder) / "cert")
        ...     g = load_classifier(saved.folder)
        >>> g(torch.from_numpy(digits.x[:5])).argmax(dim=1).tolist() == digits.y[:5].tolist()
        True
    """
    file = Path(path)
    if file.is_dir():
        file = file / CERTIFICATE
    certificate = Certificate.load(file)
    helper, facts = certificate.helper, certificate.facts
    module, is_learned = None, certificate.claim.statement == "C-15"
    if helper.architecture is not None:
        module = load_model(helper.architecture.name, input_shape=helper.input_shape, classes=facts.classes)
    network = decode(
        certificate,
        module=module,
        base=None if helper.base is None else load_arrays(_beside(file, BASE_FILE)),
        weights=_beside(file, WEIGHTS) if is_learned else None,
    )
    scaling = None if is_learned else helper.scaling
    return Classifier(network, scaling, input_shape=helper.input_shape, classes=facts.classes)


def _beside(file: Path, name: str) -> Path:
    found = file.with_name(name)
    if not found.is_file():
        raise FormatError(
            f"{file} needs {name}, which is not beside it. Keep the folder of certify together."
        )
    return found
