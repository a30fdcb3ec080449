"""What had to be learned: the picked examples as a table and as a picture."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.data.dataset import Dataset
    from codebound.picks.network import PickedNetwork

_COLUMNS = 20
_SHOWN = 100
_EDGE = 2
_SMALLEST = 32  # pixels along a side of a picture


def picks_table(network: PickedNetwork, sample: Dataset) -> str:
    """Every picked example in the order of picking, as CSV; round 0 is that of the first ones."""
    rule, lines = network.rule, ["number,round,example,label"]
    sizes = [rule.first, *(rule.batch_of(each) for each in range(rule.rounds))]
    rounds = np.repeat(np.arange(len(sizes)), sizes)
    for number, (turn, example) in enumerate(zip(rounds, network.examples.tolist(), strict=True)):
        lines.append(f"{number},{turn},{example},{sample.y[example]}")
    return "\n".join(lines) + "\n"


def picks_picture(network: PickedNetwork) -> bytes:
    """The first hundred picks after the first examples as one PNG; nothing where inputs are no pictures."""
    from PIL import Image

    rule = network.rule
    stored = network.picks[rule.first : rule.first + _SHOWN]
    if not rule.features.has_pictures or not len(stored):
        return b""
    pictures = rule.features.read(stored, network.divisor).byte().permute(0, 2, 3, 1).numpy()
    picture = Image.fromarray(_sheet(pictures).squeeze())
    scale = max(1, _SMALLEST // pictures.shape[1])
    large = picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)
    content = io.BytesIO()
    large.save(content, format="PNG")
    return content.getvalue()


def as_link(picture: bytes) -> str:
    """A picture inside a page."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode('ascii')}" if picture else ""


def _sheet(pictures: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pictures side by side, on white."""
    count, height, width, channels = pictures.shape
    rows = -(-count // _COLUMNS)
    sheet = np.full((rows * (height + _EDGE), _COLUMNS * (width + _EDGE), channels), 255, dtype=np.uint8)
    for at, picture in enumerate(pictures):
        top, left = at // _COLUMNS * (height + _EDGE), at % _COLUMNS * (width + _EDGE)
        sheet[top : top + height, left : left + width] = picture
    return sheet
