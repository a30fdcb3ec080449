"""Disjoint parts of a sample with a stated role, by a permutation that never looks at the data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.run.errors import UsageError
from codebound.sample.dataset import as_dataset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from codebound.sample.dataset import Dataset

ROLES = ("train", "prior", "certify", "test", "unlabelled")


def permutation(n: int, *, seed: int = 0) -> NDArray[np.int64]:
    """The fixed order in which a sample of ``n`` examples is cut.

    Position i gets the i-th 64-bit output of Philox4x64-10 with key ``(seed mod 2^64, seed div 2^64)`` and
    a counter that starts at 1 (numpy's ``Philox(key=seed).random_raw``); positions are sorted by that number,
    equal numbers by position. Only integers are involved, so every machine and language finds the same order.

    Example:
        >>> permutation(5).tolist()
        [0, 2, 1, 4, 3]
    """
    if not 0 <= seed < 1 << 128:
        raise UsageError(f"a split seed lies in [0, 2^128). Got {seed}.")
    keys = np.random.Philox(key=seed).random_raw(n)
    return np.argsort(keys, kind="stable").astype(np.int64)


def split(
    dataset: Any, parts: Mapping[str, float] | Mapping[str, int], *, seed: int = 0
) -> dict[str, Dataset]:
    """Parts of a sample by role, disjoint and together all of it, along ``permutation(n, seed)``.

    Part k of fractions f_1, f_2, ..., in the order given, runs from floor(n F_{k-1}) to floor(n F_k), where
    F_k = f_1 + ... + f_k and 1e-9 is added before rounding down so that binary fractions do not lose an
    example; so every example is used and an odd one goes to the later part.

    Args:
        dataset: The sample to cut, given in any way that ``certify`` takes.
        parts: By role, either fractions that add up to 1 or whole numbers of examples that add up to n.
        seed: Chooses the permutation. A seed chosen after seeing results is a choice that has to be paid for.

    Raises:
        UsageError: A role is unknown, a part is empty, or the parts do not add up.

    Example:
        >>> from codebound.sample.load import load_dataset
        >>> digits = split(load_dataset("digits"), {"train": 0.8, "test": 0.2})
        >>> digits["train"].n, digits["test"].n
        (1437, 360)
    """
    dataset = as_dataset(dataset)
    unknown = [role for role in parts if role not in ROLES]
    if unknown or not parts:
        raise UsageError(f"a part has the role {', '.join(ROLES)}. Got {', '.join(unknown) or 'no part'}.")
    ends, order = _ends(dataset.n, list(parts.values())), permutation(dataset.n, seed=seed)
    found: dict[str, Dataset] = {}
    for role, start, end in zip(parts, [0, *ends[:-1]], ends, strict=True):
        if end <= start:
            raise UsageError(
                f"the part {role!r} of {dataset.name} (n = {dataset.n}) would be empty: {dict(parts)}."
            )
        found[role] = dataset.select(order[start:end], role=role)
    return found


def _ends(n: int, amounts: list[float] | list[int]) -> list[int]:
    """Return the end of each part in the permutation."""
    if any(isinstance(amount, bool) or not math.isfinite(amount) or amount < 0 for amount in amounts):
        raise UsageError(f"parts are fractions or counts, none negative. Got {amounts}.")
    cumulative = np.cumsum(amounts).tolist()
    if all(isinstance(amount, int) for amount in amounts):
        if cumulative[-1] != n:
            raise UsageError(f"the counts {amounts} add up to {cumulative[-1]}; the sample has {n} examples.")
        return [int(end) for end in cumulative]
    if any(isinstance(amount, int) for amount in amounts) or abs(cumulative[-1] - 1.0) > 1e-9:
        raise UsageError(
            f"fractions must be written as decimals and add up to 1. Got {amounts}, which add up to "
            f"{cumulative[-1]:.6g}. For numbers of examples write whole numbers that add up to {n}."
        )
    return [math.floor(n * end + 1e-9) for end in cumulative[:-1]] + [n]
