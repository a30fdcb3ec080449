"""Examples that had to be learned and examples that are still wrong: as pictures or rows, and as a table."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.learn.kernel_network import PickedNetwork

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from codebound.sample.dataset import Dataset
    from codebound.sample.losses import Fault

_LEARNED, _WRONG = 48, 24  # shown
_ROWS = 12  # of each, where they are no pictures
_LOOKED_AT = 10_000  # examples that are searched for wrong ones
_CHUNK = 500
_LARGEST = 64  # pixels along a side of a picture
_SMALLEST = 3
_NUMBERS = 8  # of a row


@dataclass(frozen=True, slots=True)
class Tile:
    """One example on a page.

    Attributes:
        number: Where it stands in the sample.
        label: Its label, by its name where it has one.
        said: What the network says, in the same way; None where nobody asked.
        picture: The example as a link to a picture in the page; empty where it is no picture.
        row: Its first numbers, as they are stored; empty where it is a picture.
    """

    number: int
    label: str
    said: str | None
    picture: str
    row: str


@dataclass(frozen=True, slots=True)
class Shown:
    """The examples on a page.

    Attributes:
        learned: The first picks, in the order of picking.
        wrong: The first examples that are wrong.
        looked_at: How many examples of the sample were searched for them.
    """

    learned: tuple[Tile, ...] = ()
    wrong: tuple[Tile, ...] = ()
    looked_at: int = 0


def shown_examples(network: nn.Module, sample: Dataset, fault: Fault) -> Shown:
    """Learned and wrong examples of a network, for its page."""
    learned: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    first = 0
    if isinstance(network, PickedNetwork):
        learned, first = network.examples.numpy(), network.rule.first
    picks, most = (_LEARNED, _WRONG) if _has_pictures(sample) else (_ROWS, _ROWS)
    wrong, looked_at = _wrong_examples(network, sample, fault, set(learned.tolist()), most)
    return Shown(
        tuple(_tile(sample, number) for number in learned[first : first + picks].tolist()),
        tuple(_tile(sample, number, said) for number, said in wrong),
        looked_at,
    )


def _has_pictures(sample: Dataset) -> bool:
    shape = sample.input_shape
    return len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) >= _SMALLEST


@torch.no_grad()
def _wrong_examples(
    network: nn.Module, sample: Dataset, fault: Fault, learned: set[int], most: int
) -> tuple[list[tuple[int, int]], int]:
    """Examples that were not learned from and are wrong, each with what is said; how far the search went."""
    found: list[tuple[int, int]] = []
    end = min(sample.n, _LOOKED_AT)
    for start in range(0, end, _CHUNK):
        stored = torch.from_numpy(np.ascontiguousarray(sample.x[start : start + _CHUNK]))
        labels = torch.from_numpy(sample.y[start : start + _CHUNK])
        inputs = stored if isinstance(network, PickedNetwork) else sample.scaling.apply(stored)
        outputs = network(inputs)
        is_wrong = fault.is_made(outputs, labels)
        said = outputs.argmax(dim=1)
        for at in is_wrong.nonzero()[:, 0].tolist():
            if start + at not in learned:
                found.append((start + at, int(said[at])))
                if len(found) == most:
                    return found, start + at + 1
    return found, end


def _tile(sample: Dataset, number: int, said: int | None = None) -> Tile:
    stored, names = sample.x[number], sample.class_names or tuple(map(str, range(sample.classes)))
    label, heard = names[int(sample.y[number])], None if said is None else names[said]
    if _has_pictures(sample):
        return Tile(number, label, heard, _picture(stored, sample.scaling.divisor), "")
    return Tile(number, label, heard, "", _row(stored))


def _row(stored: NDArray[np.generic]) -> str:
    """The first numbers of an input.

    Example:
        >>> _row(np.array([1.5, 20.0]))
        '1.5, 20'
    """
    numbers = stored.ravel()
    text = ", ".join(f"{float(value):.4g}" for value in numbers[:_NUMBERS])
    return text + (", ..." if len(numbers) > _NUMBERS else "")


def _picture(stored: NDArray[np.generic], divisor: float) -> str:
    """A picture inside a page; what is no byte is stretched from its smallest to its largest value."""
    from PIL import Image

    values = stored.astype(np.float64)
    low, high = (0.0, divisor) if stored.dtype == np.uint8 else (float(values.min()), float(values.max()))
    grey = np.clip((values - low) / max(high - low, 1e-300) * 255.0, 0.0, 255.0).astype(np.uint8)
    picture = Image.fromarray(
        grey.transpose(1, 2, 0).squeeze(axis=2) if len(grey) == 1 else grey.transpose(1, 2, 0)
    )
    picture.thumbnail((_LARGEST, _LARGEST))
    content = io.BytesIO()
    picture.save(content, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"


def picks_table(network: PickedNetwork, sample: Dataset) -> str:
    """Every picked example in the order of picking, as CSV; round 0 is that of the first ones."""
    rule, lines = network.rule, ["number,round,example,label"]
    sizes = [rule.first, *(rule.batch_of(each) for each in range(rule.rounds))]
    rounds = np.repeat(np.arange(len(sizes)), sizes)
    for number, (turn, example) in enumerate(zip(rounds, network.examples.tolist(), strict=True)):
        lines.append(f"{number},{turn},{example},{sample.y[example]}")
    return "\n".join(lines) + "\n"
