"""The second program, asked about a file and the world it was written in."""

from typing import Any

import numpy as np
from file_writer import World

from codebound_verify import Refused, Verdict, verify


def floats(tensors: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(value, np.float32) for name, value in tensors.items()}


def given(world: World) -> dict[str, Any]:
    """List what lies beside a file, by the names of the program."""
    found: dict[str, Any] = {"cells": world.cells, "clusters": world.sample.clusters}
    found |= {"groups": world.sample.groups, "unlabelled": world.unlabelled}
    found["tables"] = [
        {"scores": table.scores} | ({} if table.picks is None else {"picks": table.picks})
        for table in world.tables
    ]
    found["base"] = None if world.base is None else floats(world.base)
    found["subject_weights"] = None if world.network is None else floats(world.network["tensors"])
    found["answers"] = None if world.answers is None else {"scores": world.answers}
    return found


def judged(world: World, data: bytes, **others: Any) -> Verdict:
    """Let it verify a file; a file that it will say nothing about is refused too."""
    sample = {"x": world.sample.x, "y": world.sample.y}
    try:
        return verify(data, **sample | given(world) | others)
    except Refused as refused:
        return Verdict("REFUSE", refused.reasons, None)


def refuse(world: World, data: bytes, *sentences: str, **others: Any) -> None:
    verdict = judged(world, data, **others)
    assert not verdict.is_accepted
    assert verdict.bound is None
    for sentence in sentences:
        assert any(sentence in reason for reason in verdict.reasons), verdict.reasons
