"""Picked certificates of the results page: a search over rules on the whole sample, then the certificate.

    python results/picked.py mnist --device cuda --seconds 0

Every rule that is tried is a point of the grid of docs/format.md, 10.1, so that the search is paid for by the
message. On a GPU the search takes minutes; picks and counts are the same on every machine.
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

from codebound.bounds.facts import HoldoutFacts
from codebound.bounds.held_out import holdout
from codebound.bounds.picked import picked_risk
from codebound.certificate.assessment import assess_picked, draft, issue
from codebound.certificate.task import Task
from codebound.learn.features import FilterFeatures, PatchFeatures, RoomError
from codebound.learn.kernel_network import PickedNetwork, count_losses
from codebound.learn.picking import Picked, features_of, permutation, pick
from codebound.learn.rule import BATCHES, ROUNDS, PickedMessage, Rule
from codebound.sample.dataset import Dataset, Scaling

_CLOTHES = PatchFeatures(5, 512, 4, 4, 3)
_COLOURS = PatchFeatures(6, 1024, 4, 3, 7)
START = {
    "digits": Rule(FilterFeatures(True, 3, 2), 100, 2, 4, 8, 3, 2, 30),
    "mnist": Rule(FilterFeatures(True, 3, 4), 300, 4, 4, 9, 4, 10, 88),
    "mnist-1000": Rule(FilterFeatures(True, 3, 4), 1000, 2, 4, 8, 4, 10, 88),
    "mnist-3000": Rule(FilterFeatures(True, 3, 4), 3000, 2, 4, 8, 3, 10, 54),
    "mnist-5000": Rule(FilterFeatures(True, 3, 4), 5000, 7, 4, 7, 5, 8, 34),
    "fashion-mnist": Rule(PatchFeatures(5, 1024, 4, 4, 3), 300, 1, 5, 6, 2, 60, 88),
    "fashion-mnist-3000": Rule(PatchFeatures(5, 256, 4, 4, 3), 3000, 1, 5, 6, 2, 125, 54),
    "fashion-mnist-5000": Rule(_CLOTHES, 5000, 1, 5, 6, 3, 60, 54),
    "fashion-mnist-10000": Rule(replace(_CLOTHES, grid=5), 10_000, 1, 5, 6, 3, 60, 54),
    "fashion-mnist-15000": Rule(replace(_CLOTHES, grid=5), 15_000, 1, 5, 6, 5, 50, 34),
    "cifar10": Rule(PatchFeatures(6, 1024, 4, 3, 6), 300, 1, 4, 6, 3, 250, 38),
    "cifar10-3000": Rule(_COLOURS, 3000, 1, 5, 5, 3, 250, 54),
    "cifar10-10000": Rule(replace(_COLOURS, size=5, threshold=3), 10_000, 1, 5, 5, 3, 200, 43),
    "cifar10-15000": Rule(replace(_COLOURS, size=5), 15_000, 1, 5, 7, 5, 200, 26),
}
"""Start of each search: found by trying other points of the grid on these very samples."""
RULE_IS = "the start of results/picked.py, found by comparing other points of the grid on this very sample"
DIVISORS = {"digits": 16.0}
DELTA = 0.05


def read(name: str, path: Path | None, role: str = "train") -> Dataset:
    """The sample, from an .npz file with x and y or from the catalogue."""
    if path is None:
        from codebound.sample.load import load_dataset

        return load_dataset(name, role=role)
    stored = np.load(path)
    y = stored["y"].astype(np.int64)
    return Dataset(name, role, stored["x"], y, int(y.max()) + 1, Scaling(DIVISORS.get(name, 255.0)))


def neighbours(rule: Rule) -> list[Rule]:
    """Rules that differ in one choice."""
    found = []
    for field in ("ridge_index", "gamma_index", "score_index"):
        found += [replace(rule, **{field: getattr(rule, field) + step}) for step in (1, -1)]
    at = BATCHES.index(rule.batch)
    found += [replace(rule, batch=BATCHES[each]) for each in (at - 1, at + 1) if 0 <= each < len(BATCHES)]
    if isinstance(rule.features, PatchFeatures):
        for field in ("threshold", "whitening", "seed", "size", "grid"):
            values = (getattr(rule.features, field) + step for step in (1, -1))
            found += [replace(rule, features=replace(rule.features, **{field: value})) for value in values]
    else:
        found += [replace(rule, copies=copies) for copies in (0, 2, 3, 4, 5, 7)]
    return [each for each in found if each != rule and is_on_grid(each)]


def is_on_grid(rule: Rule) -> bool:
    """Return True if a message can name the rule."""
    whole = min(rule.ridge_index, rule.gamma_index, rule.score_index) >= 0 and rule.score_index < 8
    if isinstance(rule.features, PatchFeatures):
        whole &= 0 <= rule.features.threshold < 8 and 0 <= rule.features.whitening < 8
        whole &= 0 <= rule.features.seed < 4 and 3 <= rule.features.size < 11 and 2 <= rule.features.grid < 6
    return whole and max(rule.ridge_index, rule.gamma_index) < 16


def within_limits(rule: Rule, sample: Dataset) -> Rule | None:
    """The rule with as many rounds as a verifier allows (docs/format.md, 10.8), if that is any."""
    copies, features = 1 if rule.is_mirrored else len(rule.changes()), rule.features
    most = min(1 << 15, (1 << 30) // sample.n)
    if isinstance(features, PatchFeatures):
        most = min(most, (1 << 31) // (2 * features.count * features.grid**2) - sample.n)
    rounds = [
        each
        for each in ROUNDS
        if each <= rule.rounds and copies * (rule.first + each * (rule.batch + 0.25)) <= most
    ]
    return replace(rule, rounds=max(rounds)) if rounds else None


class Search:
    """Goes from rule to better rule while there is time."""

    def __init__(self, task: Task, device: str, seconds: float) -> None:
        self.task, self.device, self.end = task, device, time.perf_counter() + seconds
        self.seen: dict[Rule, float] = {}
        self.features: tuple[Rule, Any] | None = None

    def bound(self, rule: Rule) -> float:
        """Bound of the rule, were it checked; 1 where it cannot be carried out."""
        if rule not in self.seen:
            key = Rule(rule.features, rule.first, rule.copies)
            try:
                if self.features is None or self.features[0] != key:
                    self.features = None  # not two of them at a time
                    self.features = key, features_of(rule, self.task.sample, device=self.device)
                picked = pick(
                    rule,
                    self.task.sample,
                    device=self.device,
                    is_checked=False,
                    patience=True,
                    features=self.features[1],
                ).best()
                self.seen[rule] = bound_of(picked, self.task)
            except RoomError:
                self.seen[rule] = 1.0
            sys.stdout.write(f"{self.seen[rule]:.5f} {rule}\n")
        return self.seen[rule]

    def best(self, rule: Rule) -> Rule:
        """The best rule that was found."""
        self.bound(rule)
        improved = True
        while improved:
            improved = False
            for each in neighbours(rule):
                if time.perf_counter() > self.end:
                    return rule
                within = within_limits(each, self.task.sample)
                if within is not None and self.bound(within) < self.bound(rule):
                    rule, improved = within, True
                    break
        return rule


def bound_of(picked: Picked, task: Task) -> float:
    """Bound of the picks, with the length of their message."""
    bits = PickedMessage(task.options, picked.rule, task.sample.input_shape).encode()[0].length
    return picked_risk(picked.facts(code_bits=bits, delta=DELTA, classes=task.sample.classes)).value


def with_a_part_set_aside(rule: Rule, sample: Dataset, device: str) -> float:
    """The hold-out bound of the same learner, with a fifth of the sample set aside."""
    order = permutation(sample.n)
    cut = 4 * sample.n // 5
    part, rest = sample.select(order[:cut], role="train"), sample.select(order[cut:], role="test")
    picked = pick(rule, part, device=device, is_checked=False)
    network = PickedNetwork.of(picked, torch.from_numpy(part.x), part.scaling.divisor).to(device)
    errors = count_losses(network, rest, device=device)
    return held_out(errors, rest.n)


def held_out(errors: int, n: int) -> float:
    """The bound of a test set."""
    return holdout(HoldoutFacts(errors=errors, n=n, delta=DELTA)).value


def main() -> None:
    """Searches, certifies, and writes the file and what there is to know about it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", choices=START)
    parser.add_argument("--seconds", type=float, default=120.0, help="for the search")
    parser.add_argument("--search-only", action="store_true", help="print rules and what they would certify")
    parser.add_argument("--unverified", action="store_true", help="leave the check to codebound-verify")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", type=Path, help="an .npz file with x and y")
    parser.add_argument("--test", type=Path, help="the same, of the test examples")
    parser.add_argument("--out", type=Path, default=Path("results"))
    asked = parser.parse_args()
    name = asked.name.removesuffix(f"-{START[asked.name].first}")
    sample = read(name, asked.data)
    start = within_limits(START[asked.name], sample)
    assert start is not None  # the starts are within the limits
    task, began = Task(sample=sample, delta=DELTA), time.perf_counter()
    search = Search(task, asked.device, asked.seconds)
    rule = search.best(start) if asked.seconds else start
    searched = time.perf_counter()
    if asked.search_only:
        return
    picked = pick(rule, sample, device=asked.device, patience=True).best()
    assessed = assess_picked(picked, task)
    carried_out = time.perf_counter()
    certificate = (draft if asked.unverified else issue)(assessed, task)
    verified = time.perf_counter()
    network = assessed.network.to(asked.device)
    has_test = asked.test is not None or (asked.data is None and name != "digits")
    test = read(name, asked.test, "test") if has_test else None
    test_errors = None if test is None else count_losses(network, test, device=asked.device)
    record = {
        "commands": [f"python results/picked.py {asked.name} --seconds 0 --device {asked.device}"],
        "data": name,
        "verdict": "not checked" if asked.unverified else "ACCEPT",
        "statement": "C-15",
        "bound": certificate.claim.bound,
        "n": certificate.facts.n,
        **certificate.facts.extra,
        "train_errors": certificate.facts.errors,
        "code_bits": certificate.facts.code_bits,
        "delta": DELTA,
        "test_errors": test_errors,
        "holdout": None if test is None or test_errors is None else held_out(test_errors, test.n),
        "holdout_20_percent": with_a_part_set_aside(picked.rule, sample, asked.device),
        "rule_is": RULE_IS if not search.seen else f"the best of {len(search.seen)} after {RULE_IS}",
        "rule": {**asdict(picked.rule), "kind": type(picked.rule.features).__name__},
        "smallest_gap": picked.gap,
        "rounding": picked.rounding,
        "seconds": {
            "search": searched - began,
            "pick": carried_out - searched,
            "verify": verified - carried_out,
        },
        **made_with(asked.device),
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    stem = f"{asked.name}-picked"
    certificate.save(asked.out / "certificates" / f"{stem}.cbound")
    (asked.out / f"{stem}.json").write_text(json.dumps(record, indent=2) + "\n")
    sys.stdout.write(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
