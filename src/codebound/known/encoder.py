"""Encoders: frozen maps of one input, named, hashed and declared; what they make of a sample is a table.

An encoder that was fixed without the sample maps independent examples to independent rows. So the table of
its rows is a sample like any other, and needs no word in a message. Rows are rounded to bytes, so that a
table has a hash and can be made again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from codebound.bounds.risk import count_of
from codebound.known.provenance import Origin, count_seen, origin_of_parts, require_unseen
from codebound.run.errors import DataError, ModelError, UsageError
from codebound.run.extensions import import_named
from codebound.run.files import source_sha256
from codebound.run.progress import Progress, silent
from codebound.sample.dataset import LICENCE, Made, Sample, Scaling
from codebound.sample.load import load_sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

ZERO = 128
"""Stored value of a feature of 0."""
UNIT = 32
"""Stored distance from ``ZERO`` of a row's root mean square."""
_LARGEST = 127
SCALING = Scaling(255.0)
"""Of stored tables; one of those that cost two bits."""
_ROWS = 50
_LOOKED_AT = 2  # inputs that are encoded once more, alone
_MOVED = 0.01  # share of bytes that rounding may move
_MOST_SEEN = 100  # one input in so many may be a copy of one that it was made of


@dataclass(frozen=True, eq=False)
class Encoder:
    """A frozen map of one input to a row of numbers.

    Attributes:
        name: What it is called, such as ``package.module:factory``.
        function: Maps a batch, scaled pictures and tables as a tensor or texts as a list, to a row each.
        sha256: Hash of its weights and of the code that runs them.
        licence: Under which its weights come.
        origin: What it was made from, in words.
        takes_texts: Whether inputs are texts.
        seen: Digests of the inputs that it was made of, as ``sample.dataset.seen_rows`` makes them.
    """

    name: str
    function: Callable[[Any], Tensor]
    sha256: str
    licence: str = "unknown"
    origin: str = ""
    takes_texts: bool = False
    seen: NDArray[np.uint64] = field(default_factory=lambda: Origin().rows, repr=False)

    @property
    def made(self) -> Made:
        """Entry of a header."""
        by = f"{self.name}{LICENCE}{self.licence})"
        return Made(by, self.origin or "unknown data", 0, self.sha256)

    @torch.no_grad()
    def rows(self, batch: Tensor | Sequence[str]) -> NDArray[np.generic]:
        """Stored rows of a batch of scaled inputs, or of texts: bytes, or scores in float32.

        Raises:
            ModelError: It fails, or does not return a row of finite numbers for each input.
        """
        try:
            found = torch.as_tensor(self.function(batch))
        except Exception as error:  # of somebody else's code
            raise ModelError(
                f"the encoder {self.name} failed on {count_of(len(batch), 'input')} with "
                f"{type(error).__name__}: {error}. It is called with a batch, scaled inputs as a tensor or "
                "a list of texts, and returns a row of numbers for each."
            ) from error
        if found.ndim != 2 or len(found) != len(batch) or not found.shape[1]:
            raise ModelError(
                f"the encoder {self.name} must return a row of numbers for each of {len(batch)} inputs. "
                f"Got shape {tuple(found.shape)}."
            )
        return quantise_rows(found.double().cpu().numpy(), self.name)

    def table(
        self,
        sample: Any,
        *,
        role: str = "train",
        like: Sample | None = None,
        folder: Path | None = None,
        device: str | torch.device = "cpu",
        batch: int = _ROWS,
        progress: Progress = silent,
    ) -> Sample:
        """The sample as the table of its encoded inputs, in the same order.

        Args:
            sample: A Sample, or whatever ``certify`` takes; for an encoder of texts a pair of texts and
                labels, or a table, of which all columns but the labels are one text.
            role: What it may be used for, unless it says so itself.
            like: A table of the same encoder, whose classes it has.
            folder: Where named datasets are looked for.
            device: Where it is encoded.
            batch: So many inputs at a time.
            progress: Told how far it is.

        Raises:
            UsageError: It takes texts and these are numbers, or the other way round.
            ModelError: What it makes of an input depends on the other inputs of a batch.
            CertificateError: It has seen some of these very inputs.
        """
        if not isinstance(sample, Sample):
            sample = load_sample(sample, role=role, folder=folder, like=like, texts=self.takes_texts)
        if not sample.texts:
            self._require_unseen(sample)
        if self.takes_texts != bool(sample.texts):
            kind = ("texts", "numbers") if self.takes_texts else ("numbers", "texts")
            raise UsageError(f"the encoder {self.name} takes {kind[0]}; {sample.name} has {kind[1]}.")
        parts = []
        for start in range(0, sample.n, batch):
            progress(start, sample.n, f"encoding by {self.name}")
            inputs = _inputs(sample, start, min(sample.n, start + batch), device)
            parts.append(self.rows(inputs))
            if start == 0:
                self._require_one_input(inputs, parts[0])
        return self.as_table(np.concatenate(parts), sample)

    def _require_unseen(self, sample: Sample) -> None:
        """Refuses a sample of which it saw an input; in test data a few may be equal by chance."""
        origin = Origin(rows=self.seen)
        if sample.role == "test" and _MOST_SEEN * count_seen(origin, sample) <= sample.n:
            return
        advice = "Give it the examples after the first part."
        require_unseen(origin, sample, who=f"the encoder {self.name}", advice=advice)

    def _require_one_input(self, inputs: Tensor | Sequence[str], rows: NDArray[np.generic]) -> None:
        """Refuses an encoder that looks at other inputs too. Rounding may move a few bytes by one."""
        for at in range(min(_LOOKED_AT, len(rows))):
            alone = self.rows(inputs[at : at + 1])[0]
            apart = np.abs(alone.astype(np.int64) - rows[at]) if alone.shape == rows[at].shape else None
            if apart is None or apart.max() > 1 or apart.mean() > _MOVED:
                raise ModelError(
                    f"what the encoder {self.name} makes of an input depends on the other inputs beside it: "
                    "the rows would not be independent. Use it in evaluation mode, without batch statistics."
                )

    def as_table(self, rows: NDArray[np.generic], sample: Sample) -> Sample:
        """Rows of a sample, with its labels."""
        return Sample(
            name=f"{sample.name}:{self.name}",
            role=sample.role,
            x=rows,
            y=sample.y,
            classes=sample.classes,
            scaling=SCALING,
            source=f"{sample.source}, by the encoder {self.name}",
            warnings=sample.warnings,
            features=self.made,
            class_names=sample.class_names,
            columns=sample.columns,
        )


def _inputs(sample: Sample, start: int, stop: int, device: str | torch.device) -> Tensor | tuple[str, ...]:
    if sample.texts:
        return sample.texts[start:stop]
    part = torch.from_numpy(np.ascontiguousarray(sample.x[start:stop]))
    return sample.scaling.apply(part).to(device)


def quantise_rows(features: NDArray[np.float64], name: str) -> NDArray[np.uint8]:
    """Rows of bytes: each divided by its root mean square, then in steps of 1/32 around 128.

    Example:
        >>> quantise_rows(np.array([[3.0, -1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]), "some")
        array([[189, 108, 128, 128],
               [128, 128, 128, 128]], dtype=uint8)
    """
    if not np.isfinite(features).all():
        raise DataError(f"the encoder {name} returned NaN or infinity.")
    size = np.sqrt(np.square(features).mean(axis=1, keepdims=True))
    levels = np.rint(UNIT * np.divide(features, size, out=np.zeros_like(features), where=size > 0.0))
    rows: NDArray[np.uint8] = (ZERO + np.clip(levels, -_LARGEST, _LARGEST)).astype(np.uint8)
    return rows


class Encoded(nn.Module):
    """A network with its encoder in front: takes texts, or inputs scaled as those of the sample."""

    def __init__(self, encoder: Encoder, network: nn.Module, *, takes_stored: bool) -> None:
        super().__init__()
        self.encoder, self.network, self.takes_stored = encoder, network, takes_stored

    @torch.no_grad()
    def forward(self, inputs: Tensor | Sequence[str]) -> Tensor:  # noqa: D102
        if isinstance(inputs, str):
            raise UsageError("one text is a list with one text in it: give [text].")
        rows = torch.from_numpy(self.encoder.rows(inputs))
        outputs: Tensor = self.network(rows if self.takes_stored else SCALING.apply(rows))
        return outputs


def load_encoder(factory: str, *, device: str | torch.device = "cpu") -> Encoder:
    """Load the encoder that ``package.module:factory`` makes.

    The factory makes a module or another function of a batch of inputs. That takes scaled inputs, or a list
    of texts if it has an attribute ``takes_texts``; ``licence`` and ``origin`` may be attributes too. The
    hash covers the file of the factory and the tensors of a module.

    Raises:
        UsageError: It cannot be imported or called, or makes nothing that can be called.
    """
    if ":" not in factory:
        raise UsageError(f"no encoder {factory!r}: give package.module:factory, which makes one.")
    try:
        made = import_named(factory)()
    except (Exception, SystemExit) as error:  # whatever the user's code raises, the message names it
        raise UsageError(
            f"{factory} failed with {type(error).__name__}: {error}. A factory of an encoder is called "
            "without arguments; its module must be importable (installed, or in the current directory)."
        ) from error
    if not callable(made):
        raise UsageError(f"{factory} must return a function of a batch of inputs. Got {type(made).__name__}.")
    module = made if isinstance(made, nn.Module) else None
    return Encoder(
        factory,
        made if module is None else module.eval().to(device),
        digest(source_sha256(factory).encode(), module),
        licence=str(getattr(made, "licence", "unknown")),
        origin=str(getattr(made, "origin", "")),
        takes_texts=bool(getattr(made, "takes_texts", False)),
        seen=Origin().rows if module is None else origin_of_parts(module).rows,
    )


def digest(source: bytes, module: nn.Module | None = None) -> str:
    """Hash of code and of the tensors of a module."""
    found = hashlib.sha256(source)
    for name, tensor in sorted({} if module is None else module.state_dict().items()):
        values = tensor.detach().cpu().numpy()
        found.update(
            f"\n{name}|{values.dtype.name}|{values.shape}|".encode() + np.ascontiguousarray(values).tobytes()
        )
    return found.hexdigest()


def describe_differences(table: Sample, other: Sample) -> str:
    """Differences of another table of the same inputs, in words."""
    if table.x.shape != other.x.shape or other.x.dtype != np.uint8:
        return f"another table: {other.x.shape} {other.x.dtype}, not {table.x.shape} uint8"
    labels = int((table.y != other.y).sum())
    apart = np.abs(table.x.astype(np.int64) - other.x.astype(np.int64))
    count = int((apart > 0).sum())
    if not count and not labels:
        return "in nothing: the tables are the same"
    names = count_of(labels, "label differs", "labels differ")
    numbers = count_of(count, f"of {apart.size} bytes differs", f"of {apart.size} bytes differ")
    return f"{numbers}, by at most {apart.max()}; {names}"
