"""All codes of tensors, by mode (docs/format.md, section 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..refusal import Refused
from .tensors import CODES, Content, Recipe, Shape, read_coded

if TYPE_CHECKING:
    from ..arithmetic import Decoder

OF_THE_PAPERS = range(8, 14)  # modes that the papers' compressors write


def read_tensor(decoder: Decoder, shape: Shape) -> Recipe:
    """The next tensor."""
    mode = decoder.gamma()
    if mode in OF_THE_PAPERS:
        return _read_of_the_papers(decoder, mode, shape)
    if mode not in CODES:
        raise Refused(f"Message: there is no tensor mode {mode}; modes are 1 to {max(CODES)}.")
    return Recipe((read_coded(decoder, mode, shape),), Content.values)


def _read_of_the_papers(decoder: Decoder, mode: int, shape: Shape) -> Recipe:
    """A tensor of a mode whose reader may have been left out."""
    try:
        from .papers.random_tensors import READERS
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(f"{__package__}.papers"):
            raise  # it is there, and lacks something else
        raise Refused(
            f"Message: tensor mode {mode} is one of the papers' compressors; "
            "codebound_verify.networks.papers, which reads it, is not installed."
        ) from None
    return READERS[mode](decoder, shape)
