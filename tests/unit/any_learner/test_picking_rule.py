"""Rounds whose decisions depend on what stands beside an example; hashes that do not."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

from codebound.any_learner.candidates import Sample, digests
from codebound.any_learner.picking_rule import Contents, Judgement, RuleConstants, UndecidedError, rounds


@dataclass(frozen=True)
class TwoMinds:
    """Judges the three examples that are left after the first pick in two ways."""

    one: Judgement
    other: Judgement

    def learn(self, picks):
        return len(picks)

    def judge(self, model, rest):
        return [
            Judgement(each.wrong[: len(rest)], each.score[: len(rest)]) for each in (self.one, self.other)
        ]


def judged(wrong, score=(0.0, 0.0, 0.0)):
    return Judgement(np.array(wrong, dtype=bool), np.array(score))


def numbers(one, other, ids=(0, 1, 2, 3), **constants):
    contents = Contents(np.arange(4), np.array(ids), [0] * 4)
    return [at.number for at in rounds(contents, TwoMinds(one, other), RuleConstants(**constants))]


def test_an_example_that_is_wrong_for_one_of_two_is_undecided():
    with pytest.raises(UndecidedError, match="whether an example is wrong depends on the other"):
        numbers(judged([1, 0, 0]), judged([0, 1, 0]))


def test_a_cut_that_falls_between_others_is_undecided():
    falling, rising = judged([1, 1, 1], [3.0, 2.0, 1.0]), judged([1, 1, 1], [1.0, 2.0, 3.0])
    with pytest.raises(UndecidedError, match="which example is picked depends on the other"):
        numbers(falling, rising, batch=1)
    assert numbers(falling, rising, batch=3) == [0, 1]


def test_copies_can_stand_for_one_another():
    falling, rising = judged([1, 1, 1], [3.0, 2.0, 1.0]), judged([1, 1, 1], [1.0, 2.0, 3.0])
    assert numbers(falling, rising, ids=(0, 7, 7, 7), batch=1, max_rounds=1) == [0, 1]


def test_a_hash_does_not_depend_on_what_stands_beside_an_example():
    rng = np.random.default_rng(0)
    table = rng.random((5, 3))
    labels = np.array(["a", "b", "a", "longer", "b"])
    for inputs in (
        table,
        table.tolist(),
        sparse.csr_matrix(table),
        table.astype(object),
        ["x", "y", "xyz", "", "x"],
    ):
        whole = digests(inputs, labels)
        assert len(set(whole)) == 5
        assert digests(inputs[:2], np.array(["a", "b"])) == whole[:2]


def test_label_and_input_are_both_in_the_hash():
    inputs = np.zeros((2, 2))
    assert len(set(digests(inputs, np.array([0, 1])))) == 2
    assert len(set(digests(np.eye(2), np.array([0, 0])))) == 2
    assert len(set(digests(["ab", "a"], np.array(["c", "bc"])))) == 2
    assert len(set(digests(inputs, np.array([1, 1])))) == 1


def test_the_hash_of_a_sample_knows_its_order():
    inputs, labels = np.eye(2), np.array([0, 0])
    sample = Sample(inputs, labels, digests(inputs, labels))
    assert sample.sha256() == sample.sha256([0, 1]) != sample.sha256([1, 0])
