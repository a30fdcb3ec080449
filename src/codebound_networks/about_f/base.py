"""Bases in files, and what their run folders say of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from codebound.known.provenance import BASE_FILE, UNKNOWN, Origin, Pretrained, require_unseen
from codebound.run.errors import FormatError
from codebound.run.files import read_json
from codebound.run.tensor_files import ADVICE, read_weights
from codebound_networks.reading.loading import install
from codebound_networks.train.runs import CONFIG, EPOCHS, RESULT, read_rows
from codebound_networks.views.rebuild import with_weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor, nn

    from codebound.sample.dataset import Sample

_OF_SHARE = "C-10"
"""The statement of a certificate whose base was made of a known share of the sample."""


def load_base(path: Path | str, model: nn.Module, *, sample: Sample, says: str = "") -> Pretrained:
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
    return Pretrained(network, says or f"the file {path.name}", zeroed, same_data)


def _last_layer(state: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Names of the last tensor with two sizes or more, and of what else its module has."""
    *_, last = ("", *(name for name, tensor in state.items() if tensor.dim() > 1))
    module = last.rpartition(".")[0]
    return tuple(name for name in state if name.rpartition(".")[0] == module)


def _refuse_trained_on(sample: Sample, path: Path) -> str:
    """Refuses a base whose run folder says so. Of other files only their owner knows it.

    Returns:
        The name of the data, if it is that of the sample: another part of them may be meant, or the same.
    """
    same_data, hashes = "", []
    for found in _records(path):
        if path.name == BASE_FILE and found.get("statement") not in (None, _OF_SHARE):
            continue  # the base of a certificate is one again: it is g that saw the sample
        hashes.append(str(found.get("data_sha256", "")))
        data = str(found.get("data", ""))
        if data.partition(":")[0] == sample.name.partition(":")[0]:
            same_data = data
    rows = Origin().rows if path.name == BASE_FILE else read_rows(_run_folder(path))
    require_unseen_base(Origin(",".join(hashes), False, rows), sample, str(path))
    return same_data


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


def require_unseen_base(origin: Origin, sample: Sample, who: str = "this base") -> None:
    """Refuse a base that is known to have seen an example of the sample."""
    advice = (
        "Give a network that was trained on other data, or give a known share, which trains a base on a part "
        "of the sample."
    )
    require_unseen(origin, sample, who=who, advice=advice)
