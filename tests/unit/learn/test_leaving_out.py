"""What is left out against learners that are fitted again without it, and the choice that follows."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from codebound.learn import picking
from codebound.learn.features import prepare
from codebound.learn.kernels import Kernel
from codebound.learn.patch_features import PatchFeatures
from codebound.learn.picking import compare_rules, leave_out, usual_kernel
from codebound.learn.rule import Rule, usual_rule
from codebound.run.errors import UsageError
from codebound.sample.dataset import Sample
from codebound.sample.load import load_sample
from codebound.sample.order import Arranged, Design, arrange


def blobs(n: int, seed: int = 0, copies: int = 0) -> Arranged:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    x = rng.normal(size=(n, 4)) + 1.3 * np.eye(4)[y]
    x[:copies] = x[n - copies :]
    return arrange(Sample("blobs", "train", x, y, 3), Design())


def left_out(inner: np.ndarray, ridge: float, targets: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Targets less outputs of learners that never saw the group: one system for each."""
    found = np.empty_like(targets)
    for group in set(groups.tolist()):
        own, rest = groups == group, groups != group
        solution = np.linalg.solve(inner[np.ix_(rest, rest)] + ridge * np.eye(rest.sum()), targets[rest])
        found[own] = targets[own] - inner[np.ix_(own, rest)] @ solution
    return found


def test_what_is_left_out_is_what_fitting_again_says() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 3))
    inner = np.exp(-((points[:, None] - points) ** 2).sum(-1))
    targets, groups = (
        rng.normal(size=(40, 2)),
        rng.permutation(np.repeat(np.arange(21), [1] * 9 + [2] * 5 + [3] * 7)),
    )
    found = leave_out(
        torch.from_numpy(inner.copy()), 0.1, torch.from_numpy(targets), torch.from_numpy(groups)
    )
    assert np.abs(found.numpy() - left_out(inner, 0.1, targets, groups)).max() < 1e-12


@pytest.mark.parametrize("case", ["table", "copies", "pictures", "mirrored"])
def test_the_usual_kernel_has_the_smallest_score_of_all(case: str) -> None:
    if case in ("table", "copies"):
        arranged = blobs(120, copies=30 if case == "copies" else 0)
    else:
        arranged = arrange(load_sample("digits").select(range(200), role="train"), Design())
    rule = usual_rule(arranged.sample.input_shape, 70)
    if case == "mirrored":
        rule = Rule(PatchFeatures(3, 256, 4, 2, 3), copies=1)
    prepared = prepare(rule, arranged, 70)
    rows = arranged.places[:70]
    groups = np.unique(arranged.inputs[rows], return_inverse=True)[1]
    assert (len(set(groups.tolist())) < 70) == (case == "copies")
    y = arranged.sample.y
    targets = np.where(y[rows][:, None] == np.unique(y[rows]), 1.0, -1.0)
    is_table = case in ("table", "copies")
    scores = {}
    for gamma, ridge in itertools.product(
        (0.5, 1, 2, 4) if is_table else (0.25, 0.5, 1),
        (2**-6, 2**-4, 2**-2, 1) if is_table else (2**-6, 2**-4, 2**-2),
    ):
        features = prepared.features
        plain = replace(features, is_mirrored=False)  # no mirror images are looked at
        vectors = plain(torch.from_numpy(arranged.sample.x[rows])).to(torch.int16)
        inner = Kernel(float(gamma), features.unit)(vectors, vectors).numpy()
        scores[gamma, ridge] = float((left_out(inner, ridge, targets, groups) ** 2).mean())
    found, is_clear = usual_kernel(rule, arranged, 70, prepared)
    assert (found.gamma, found.ridge) == min(scores, key=scores.__getitem__)
    assert is_clear
    assert replace(found, gamma_index=rule.gamma_index, ridge_index=rule.ridge_index) == rule


def test_two_kernels_that_are_as_good_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    arranged = blobs(60)
    prepared = prepare(Rule(), arranged, 30)
    monkeypatch.setattr(picking, "_APART", 10.0)
    assert not usual_kernel(Rule(), arranged, 30, prepared)[1]


def test_only_a_thousand_rows_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    arranged, seen = blobs(60), []
    known = picking.leave_out
    monkeypatch.setattr(picking, "_ROWS", 20)
    monkeypatch.setattr(
        picking, "leave_out", lambda inner, *rest: seen.append(len(inner)) or known(inner, *rest)
    )
    usual_kernel(Rule(), arranged, 30, prepare(Rule(), arranged, 30))
    assert set(seen) == {20}
    assert len(seen) == 16


def test_the_best_rule_errs_less_than_the_one_to_start_from() -> None:
    arranged = blobs(400, seed=3)
    rule, errors, rows = compare_rules(arranged, 200)
    assert (errors < rows, rows) == (True, 200)
    rows = arranged.places[:200]
    trials = [picking._Trial(each, arranged, rows, "cpu") for each in (Rule(), rule)]
    assert trials[1].best() <= trials[0].best()
    assert rule.rounds == 0
    with pytest.raises(UsageError, match="at least 12"):
        compare_rules(arranged, 11)


def test_copies_of_a_picture_are_left_out_together() -> None:
    arranged = arrange(load_sample("digits").select(range(60), role="train"), Design())
    rows = arranged.places[:30]
    trial = picking._Trial(replace(usual_rule((1, 8, 8), 30), copies=7), arranged, rows, "cpu")
    assert len(trial.targets) == 90
    inner = Kernel(trial.rule.gamma, trial.unit).values([trial.apart[0].clone()]).numpy()
    groups = np.tile(np.arange(30), 3)
    off = left_out(inner, trial.rule.ridge, trial.targets.numpy(), groups)[:30]
    said = (trial.targets.numpy()[:30] - off).argmax(1)
    assert trial.best()[0] == (said != arranged.sample.y[rows]).sum()
    assert abs(trial.best()[1] - (off**2).sum()) < 1e-9
