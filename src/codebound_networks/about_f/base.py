"""A base: a network made without the sample, so that the message need only say what changed.

No program can check how a base was made. Its words are therefore printed wherever its certificate is.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from codebound.certificate.claims import CLAIMS
from codebound.known.provenance import UNKNOWN, Origin
from codebound.known.unseen import require_unseen
from codebound.run.errors import FormatError, UsageError
from codebound.run.files import read_json
from codebound.run.tensor_files import ADVICE
from codebound_networks.reading.loading import install, read_weights
from codebound_networks.train.runs import CONFIG, EPOCHS, RESULT, read_rows
from codebound_networks.views.rebuild import with_weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor, nn

    from codebound.sample.dataset import Dataset

MAX_WORDS = 200
BASE_FILE = "base.safetensors"
"""Name of the base in a certificate's folder. Only a base that its claim trains has seen the sample."""


@dataclass(frozen=True, slots=True, eq=False)
class Pretrained:
    """A network that was neither trained nor selected on the sample; whoever makes one declares that.

    Attributes:
        network: Of the architecture of f.
        says: Where it comes from, in words.
        zeroed: Tensors of its last layer that start at zero, because it had none that fit.
        same_data: Data of the name of the sample, where its training folder says that it has seen such.
    """

    network: nn.Module
    says: str
    zeroed: tuple[str, ...] = ()
    same_data: str = ""

    def __post_init__(self) -> None:
        if not self.says.strip() or len(self.says) > MAX_WORDS or not self.says.isprintable():
            raise UsageError(
                f"a base is described in one line of 1 to {MAX_WORDS} characters, such as 'trained on "
                f"Fashion-MNIST'. Got {self.says!r:.80}."
            )

    @property
    def name(self) -> str:
        """Its name in a certificate."""
        zeroed = "; its last layer starts at zero" if self.zeroed else ""
        shared = f"; trained on {self.same_data[:60]!r}, data of the same name: none of these rows"
        return self.says + zeroed + (shared if self.same_data else "")


def load_base(path: Path | str, model: nn.Module, *, sample: Dataset, says: str = "") -> Pretrained:
    """The base in a weights file, for a network like ``model``.

    The last layer of the file may be missing or of another size: it then starts at zero.

    Args:
        path: Safetensors, or a torch checkpoint; the names are those of ``model``.
        model: The architecture; read only.
        sample: The sample to certify with. Where the file lies in a run folder that was trained on it,
            the base is refused.
        says: Where the base comes from, in words (default: the name of the file).
    """
    path = Path(path)
    same_data = _refuse_trained_on(sample, path)
    found, wanted = read_weights(path), model.state_dict()
    head = _last_layer(wanted)
    fits = all(name in found and found[name].shape == wanted[name].shape for name in head)
    zeroed = () if fits else head
    zeros = {name: torch.zeros_like(wanted[name], device="cpu") for name in zeroed}
    network = with_weights(model, wanted)
    install(network, {**found, **zeros}, path=path)
    return Pretrained(network, says or f"of the file {path.name}", zeroed, same_data)


def _last_layer(state: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Names of the last tensor with two sizes or more, and of what else its module has."""
    *_, last = ("", *(name for name, tensor in state.items() if tensor.dim() > 1))
    module = last.rpartition(".")[0]
    return tuple(name for name in state if name.rpartition(".")[0] == module)


def _refuse_trained_on(sample: Dataset, path: Path) -> str:
    """Refuses a base whose run folder says so; of other files only their owner knows it.

    Returns:
        The name of the data, if it is that of the sample: another part of them may be meant, or the same.
    """
    same_data, hashes = "", []
    for found in _records(path):
        kind = CLAIMS.get(str(found.get("statement")))
        if path.name == BASE_FILE and kind is not None and not kind.trains_base:
            continue  # the base of a certificate is one again: it is g that saw the sample
        hashes.append(str(found.get("data_sha256", "")))
        data = str(found.get("data", ""))
        if data.partition(":")[0] == sample.name.partition(":")[0]:
            same_data = data
    rows = Origin().rows if path.name == BASE_FILE else read_rows(_run_folder(path))
    require_unseen_base(Origin(",".join(hashes), False, rows), sample, str(path))
    return same_data


def require_unseen_base(origin: Origin, sample: Dataset, who: str = "this base") -> None:
    """Refuses a base that is known to have seen an example of the sample."""
    require_unseen(
        origin,
        sample,
        who=who,
        advice="Give a network that was trained on other data, or use a prior fraction, which trains a base "
        "on a part of the sample.",
    )


def _run_folder(path: Path) -> Path:
    return path.parent.parent if path.parent.name == EPOCHS else path.parent


def origin_of_file(path: Path) -> Origin:
    """Return the training data of weights, if their run folder has it."""
    found = next((each for each in _records(path) if "data_sha256" in each), None)
    rows = read_rows(_run_folder(path))
    if found is None:
        return replace(UNKNOWN, rows=rows)
    return Origin(str(found["data_sha256"]), found.get("starts_fresh") is True, rows)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of training in a weights file's run folder, if it is in one."""
    folder = _run_folder(path)
    for record in (folder / RESULT, folder / CONFIG):  # a run that was killed has no result
        with suppress(FormatError):
            yield read_json(record, advice=ADVICE)
