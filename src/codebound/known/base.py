"""A base: a network made without the sample, so that the message need only say what changed.

No program can check how a base was made. Its words are therefore printed wherever its certificate is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebound.known.provenance import require_unseen
from codebound.run.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from codebound.known.provenance import Origin
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


def require_unseen_base(origin: Origin, sample: Dataset, who: str = "this base") -> None:
    """Refuses a base that is known to have seen an example of the sample."""
    require_unseen(
        origin,
        sample,
        who=who,
        advice="Give a network that was trained on other data, or use a prior fraction, which trains a base "
        "on a part of the sample.",
    )
