"""Counts of every loss, choice of rows and reading of copies, against loops over rows from the page."""

from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from count_loops import flags_of, limits_of

from codebound_verify.counting import Tally, recount
from codebound_verify.losses import Question
from codebound_verify.refusal import Refused

ROWS, CLASSES = 60, [2, 5, 9]
COSTS = ((0, 1, 2), (0, 0, 2), (2, 0, 0))


@dataclass
class Scores:
    """Scores in blocks of seven, in any order."""

    values: np.ndarray
    room: np.ndarray
    theta: float = 0.0
    classes = np.array(CLASSES)

    def blocks(self, rows):
        for start in range(0, len(rows), 7):
            part = rows[start : start + 7][::-1]
            yield part, self.values[part], self.room[part]


class World:
    """Random rows, of few inputs: 17 known, of which none counts."""

    classes = CLASSES

    def __init__(self, seed: int, *, has_clusters: bool = False) -> None:
        random = np.random.default_rng(seed)
        self.inputs = random.integers(0, 25, ROWS)
        self.y = random.choice([2, 5, 9, 9, 4], ROWS)  # 4 is no class
        self.groups = self.inputs % 3 * 10 + 1
        places = random.permutation(ROWS)
        self.clusters = random.integers(0, 15, ROWS) if has_clusters else None
        self.one_row = None
        if has_clusters:
            first = [np.flatnonzero(self.clusters == c) for c in range(15)]
            self.known = np.concatenate(first[:4])
            self.counted = np.sort(np.concatenate(first[4:]))
            self.one_row = np.array([rows[-1] for rows in first[4:] if len(rows)])
        else:
            self.known, self.counted = places[:17], np.sort(places[17:])
        self.values = random.integers(-3, 4, (ROWS, 3)).astype(float)
        self.room = np.zeros(ROWS)
        self.theta = 0.0

    def tallies(self, question, copies="any", picked=None):
        header = SimpleNamespace(sample=SimpleNamespace(copies=copies))
        scores = Scores(self.values, self.room, self.theta)
        return recount(question, header, SimpleNamespace(y=self.y), self, scores, picked)


LOSSES = {
    "wrong": (),
    "class:5": (),
    "confused:9:2": (),
    "false-alarm:5": (),
    "top:2": (),
    "cost-above:1:120220": COSTS,
}
ON = ["all", "answered:1", "predicted:9", "each class", "each group"]


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("loss", LOSSES)
def test_counts_are_those_of_loops(loss, on):
    question = Question(loss, on, LOSSES[loss])
    kinds = product(("any", "independent", "repeated"), ("declared", "in doubt", "picked", "theta"), range(3))
    for copies, kind, seed in kinds:
        world, picked = World(seed), None
        if kind == "in doubt":
            world.room = np.random.default_rng(seed).choice([0.5, 1.5, np.inf], ROWS)
        if kind == "theta":
            world.theta = 1.0
        if kind == "picked":
            picked = world.counted[::5]
        wanted = [Tally(*each) for each in limits_of(world, question, copies, picked)]
        assert world.tallies(question, copies, picked) == tuple(wanted), (copies, kind, seed)


@pytest.mark.parametrize("loss", LOSSES)
def test_clusters_count_once(loss):
    for seed in range(4):
        world = World(seed, has_clusters=True)
        question = Question(loss, "one row a cluster", LOSSES[loss])
        about, right, _ = flags_of(world, question)
        own = [i for i in world.one_row.tolist() if about[i]]
        wrong = sum(not right[i] for i in own)
        assert world.tallies(question, "independent") == (Tally(loss, wrong, len(own)),)
        question = Question(loss, "any row of a cluster", LOSSES[loss])
        rows = [i for i in world.counted.tolist() if about[i]]
        all_of, bad = {world.clusters[i] for i in rows}, {world.clusters[i] for i in rows if not right[i]}
        assert world.tallies(question, "independent") == (Tally(loss, len(bad), len(all_of)),)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_wrong_answered_and_silent_or_refused(bad):
    world = World(0)
    world.y[:] = 9
    world.values[:] = [0, 0, 8]
    assert world.tallies(Question("wrong", "answered:2"), "independent") == (
        Tally("answered", 0, 43),
        Tally("silent", 0, 43),
    )
    world.values[world.counted[3], 1] = bad
    with pytest.raises(Refused, match="not finite"):
        world.tallies(Question())
    world.room[world.counted[3]] = np.inf
    assert world.tallies(Question("wrong", "answered:2"), "independent") == (
        Tally("answered", 1, 43),
        Tally("silent", 1, 43),
    )


def test_a_row_that_no_block_has_is_wrong():
    world = World(0)
    world.y[:], world.values[:] = 9, [0, 0, 8]
    header = SimpleNamespace(sample=SimpleNamespace(copies="independent"))
    scores = Scores(world.values, world.room)
    scores.blocks = lambda rows: Scores.blocks(scores, rows[3:])
    assert recount(Question(), header, SimpleNamespace(y=world.y), world, scores) == (Tally("wrong", 3, 43),)


def test_groups_of_copies_parts_without_end_and_known_picks_are_refused():
    world = World(0)
    with pytest.raises(Refused, match="known, or picked twice"):
        world.tallies(Question(), picked=world.known[:1])
    with pytest.raises(Refused, match="known, or picked twice"):
        world.tallies(Question(), picked=world.counted[[0, 0]])
    world.groups = np.arange(ROWS) % 2
    with pytest.raises(Refused, match="two groups"):
        world.tallies(Question("wrong", "each group"))
    assert len(world.tallies(Question("wrong", "each group"), "independent")) == 2


def test_more_than_1024_parts_are_refused():
    world = World(0)
    world.y, world.values = np.tile(world.y, 20), np.tile(world.values, (20, 1))
    world.room, world.inputs = np.zeros(1200), np.arange(1200)
    for parts, refused in ((1024, False), (1025, True)):
        world.groups = np.arange(1200) % parts
        if refused:
            with pytest.raises(Refused, match="1025 parts"):
                world.tallies(Question("wrong", "each group"))
        else:
            assert len(world.tallies(Question("wrong", "each group"))) == 1024
