"""Files that the product made, of every form and reading, and mutants of them.

A mutant is refused, or it says no more than is true: the third program checks that with the page alone.
``python tests/attack/product_files.py --cases 10000`` looks at many; ``make fuzz`` does.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))

import numpy as np
from certificate_counts import Sample as Stored
from certificate_reader import Refused
from file_judges import judged
from file_writer import Table, World, check_file
from format.test_mutations import MUTATIONS, sealed
from worlds.outcomes import SAMPLE, issued
from worlds.samples import rows_of

from codebound.bits.plain_code import FIRST_TABLE, NETWORK, PICKS, SPLIT, TABLE, USUAL_SPLIT
from codebound.certificate.file import Certificate
from codebound.run.errors import FormatError
from codebound.sample.order import Design
from codebound.sample.questions import Question, parse_question

if TYPE_CHECKING:
    from codebound.request import Task
    from codebound.sample.dataset import Sample


def with_copies() -> Sample:
    """Rows of which some are stored again, and three of these with another label."""
    y = np.concatenate([SAMPLE.y, SAMPLE.y[:40]])
    y[-3:] = (y[-3:] + 1) % 3
    return rows_of(np.concatenate([SAMPLE.x, SAMPLE.x[:40]]), y)


def asked(loss: str, on: str = "all") -> dict[str, Question]:
    return {"question": parse_question(loss, on, classes=3)}


CLUSTERS = np.random.default_rng(0).integers(0, 90, SAMPLE.n)
GROUPS = np.arange(SAMPLE.n, dtype=np.int64) % 3
SALTED = Design(salt="5a" * 32, seal="A notary has the hash of the sample.")
CASES: dict[str, tuple[str, dict]] = {
    "usual split": (USUAL_SPLIT, {}),
    "split": (SPLIT, {}),
    "picks": (PICKS, {}),
    "first table": (FIRST_TABLE, {}),
    "biases": (TABLE, {}),
    "network": (NETWORK, {}),
    "salt": (USUAL_SPLIT, {"design": SALTED}),
    "file": (SPLIT, {"design": Design(order="file")}),
    "clusters": (USUAL_SPLIT, {"design": Design("clusters", "independent", clusters=CLUSTERS)}),
    "clusters, a table": (TABLE, {"design": Design("clusters", "independent", clusters=CLUSTERS)}),
    "groups": (TABLE, {"design": Design(copies="independent", groups=GROUPS)} | asked("wrong", "each group")),
    "copies": (USUAL_SPLIT, {"sample": with_copies()}),
    "copies, picks": (PICKS, {"sample": with_copies()}),
    "repeated": (SPLIT, {"sample": with_copies(), "design": Design(copies="repeated")}),
    "draws": (FIRST_TABLE, {"sample": with_copies(), "design": Design(copies="independent")}),
    "a class": (PICKS, asked("class:1")),
    "each class": (USUAL_SPLIT, asked("wrong", "each class")),
    "answered": (TABLE, asked("wrong", "answered:0.5")),
    "predicted": (NETWORK, asked("top:2", "predicted:1")),
    "costs": (SPLIT, asked("cost-above:0:distance")),
}


@dataclass(frozen=True)
class Made:
    """A certificate of the product, and the world that the third program has."""

    certificate: Certificate
    task: Task
    world: World

    @property
    def data(self) -> bytes:
        return self.certificate.to_bytes()


@cache
def made(name: str) -> Made:
    form, given = CASES[name]
    certificate, task, _ = issued(form, **given)
    return Made(certificate, task, world_of(task))


def world_of(task: Task) -> World:
    """What was fixed before, for programs that share no code with the product."""
    design = task.design
    sample = Stored(
        task.sample.x, task.sample.y, design.order, design.salt, design.copies, design.clusters, design.groups
    )
    tables = [Table(each.scores, each.rows, each.picks) for each in task.tables]
    return World(sample, cells=task.sample.is_cells, seal=design.seal, tables=tables, delta=task.delta)


def falsehood(name: str, data: bytes) -> str:
    """What is wrong with how a mutant is taken; empty if nothing is."""
    world = made(name).world
    verdict = judged(world, data)
    try:
        certificate = Certificate.from_bytes(data)
    except FormatError:
        return ""  # what the second program says of it, format/test_mutations looks at
    if not verdict.is_accepted:
        return ""
    try:
        check_file(world, data)
    except Refused as refused:
        return f"both programs take it, and the third says: {refused}"
    if verdict.bound != certificate.claim.bound:
        return f"it says {certificate.claim.bound} to one program and {verdict.bound} to the other"
    return ""


def mutants(name: str, count: int, seed: int) -> tuple[int, list[tuple[str, bytes]]]:
    """Mutants that are read by the product, and those whose taking is wrong."""
    random, data, read, failures = np.random.default_rng(seed), made(name).data, 0, []
    for _ in range(count):
        changed = MUTATIONS[random.integers(0, len(MUTATIONS))](data, random)
        changed = sealed(changed) if random.integers(0, 8) else changed
        wrong = falsehood(name, changed)
        try:
            Certificate.from_bytes(changed)
            read += 1
        except FormatError:
            pass
        if wrong:
            failures.append((wrong, changed))
    return read, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("failing"))
    options = parser.parse_args()
    failed = 0
    for name in CASES:
        read, failures = mutants(name, -(-options.cases // len(CASES)), options.seed)
        print(f"{name}: {read} read, {len(failures)} failures")
        for number, (wrong, content) in enumerate(failures):
            options.out.mkdir(exist_ok=True)
            (options.out / f"{name.replace(', ', '-')}-{number}.cbound").write_bytes(content)
            print(f"  {wrong}")
        failed += len(failures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
