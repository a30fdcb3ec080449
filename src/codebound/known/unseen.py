"""Checks that a network saw no row of a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codebound.run.errors import CertificateError
from codebound.sample.dataset import seen_rows

if TYPE_CHECKING:
    from codebound.known.provenance import Origin
    from codebound.sample.dataset import Dataset


def count_seen(origin: Origin, sample: Dataset, *, given: Dataset | None = None) -> int:
    """Number of inputs that a network is known to have seen.

    Args:
        origin: What is known of the network.
        sample: The sample.
        given: What the network may know: an input that was drawn there too is no sign of anything.
    """
    if origin.has_seen(sample.sha256):
        return sample.n
    if not len(origin.rows):
        return 0
    known = origin.rows if given is None else np.setdiff1d(origin.rows, seen_rows(given))
    return int(np.isin(seen_rows(sample), known).sum())


def require_unseen(
    origin: Origin, sample: Dataset, *, who: str, advice: str, given: Dataset | None = None
) -> None:
    """Refuses a network that is known to have seen an input of a sample, in whatever order or company.

    Args:
        origin: What is known of the network.
        sample: What must be unseen.
        who: The network, in words.
        advice: What to do instead.
        given: What it may know.

    Raises:
        CertificateError: It has seen some; labels or not, the bound would not hold.
    """
    if shared := count_seen(origin, sample, given=given):
        is_same = origin.has_seen(sample.sha256)
        saw = "this very sample" if is_same else f"{shared} of the {sample.n} inputs of this sample"
        raise CertificateError(
            f"{who} was trained on {saw}, and must not have seen any: the bound would not hold. {advice}"
        )
