"""Parts of a sample on the nodes of a cluster: what is picked and learned is what one process picks."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch

from codebound.learn.features import ColumnFeatures, RoomError
from codebound.learn.picking import pick
from codebound.learn.rule import Rule, usual_rule
from codebound.learn.spread import spread_features
from codebound.run.errors import CodeboundError, UsageError
from codebound.run.extensions import import_named
from codebound.run.job import Engine, LocalEngine, Residents
from codebound.sample.load import load_dataset
from codebound_papers.sweep.cluster import RayEngine

DIGITS = load_dataset("digits").select(range(400), role="train")
PICTURES = replace(usual_rule(DIGITS.input_shape), first=30, batch=5, rounds=4)
RULES = {
    "pictures": PICTURES,
    "copies": replace(PICTURES, copies=2),
    "columns": Rule(ColumnFeatures(False), 30, 0, 4, 8, 3, 5, 4),
}


class Here(Residents):
    """Objects in this process; with ``loses``, every call meets one that was made again without a word."""

    def __init__(self, function, each, *, loses=False):
        self._make = [lambda a=dict(a): import_named(function)(**a) for a in each]
        self._all, self._told, self._loses = [make() for make in self._make], [], loses

    def tell(self, method, *given):
        self.ask(method, *given)
        self._told.append((method, given))

    def tell_anew(self, method, *given):
        self._told.clear()
        self.tell(method, *given)

    def ask(self, method, *given):
        return self.ask_each(method, [given] * len(self._all))

    def ask_each(self, method, given):
        if self._loses and self._told:
            self._all[0] = self._make[0]()
            getattr(self._all[0], self._told[0][0])(*self._told[0][1])
        return [getattr(each, method)(*arguments) for each, arguments in zip(self._all, given, strict=True)]

    def close(self):
        self._all.clear()


class Nodes(Engine):
    """An engine of three nodes that are this process."""

    slots = 3

    def __init__(self, *, loses=False):
        self._loses = loses

    def as_finished(self, jobs):
        yield from ()

    def residents(self, function, each):
        return Here(function, each, loses=self._loses)

    def close(self):
        """Nothing runs."""


def same(one, other):
    assert one.order.tolist() == other.order.tolist()
    assert one.rounds == other.rounds
    assert one.dimension == other.dimension
    assert torch.allclose(one.learned.outputs, other.learned.outputs, rtol=0.0, atol=1e-9)


def test_vectors_come_from_their_parts():
    found, spread = spread_features(RULES["columns"], DIGITS, Nodes())
    rows = torch.tensor([399, 0, 200, 199])
    expected = np.stack([found(torch.from_numpy(DIGITS.x[each : each + 1]))[0].numpy() for each in rows])
    assert spread.vectors_at(rows).tolist() == expected.tolist()


@pytest.mark.parametrize("name", RULES)
def test_parts_pick_what_the_whole_picks(name):
    rule = RULES[name]
    same(pick(rule, DIGITS, features=spread_features(rule, DIGITS, Nodes())), pick(rule, DIGITS))


def test_a_node_that_forgets_its_supports_would_be_noticed():
    found = spread_features(PICTURES, DIGITS, Nodes(loses=True))
    with pytest.raises((AssertionError, RoomError)):
        same(pick(PICTURES, DIGITS, features=found), pick(PICTURES, DIGITS))


def test_processes_of_one_machine_leave_it_to_one_process():
    assert RayEngine.has_nodes
    assert not LocalEngine.has_nodes
    with LocalEngine(2) as engine, pytest.raises(UsageError, match="use the engine ray"):
        spread_features(PICTURES, DIGITS, engine)


@pytest.fixture(scope="module")
def ray_engine():
    pytest.importorskip("ray")
    with RayEngine(workers=2) as engine:
        yield engine


def kill(actor, engine):
    """Ends a process of Ray, and waits until it is gone."""
    engine._ray.kill(actor)
    with suppress(engine._ray.exceptions.RayActorError):
        while True:
            engine._ray.get(actor.call.remote("__sizeof__"))


@pytest.mark.thorough
def test_those_whose_process_is_killed_are_made_again_and_told_again(ray_engine):
    counters = ray_engine.residents("collections:Counter", [{"a": 10}, {"a": 20}])
    counters.tell("update", {"a": 1})
    counters.tell("update", {"b": 2})
    kill(counters._actors[1], ray_engine)
    assert counters.ask("total") == [13, 23]
    with pytest.raises(CodeboundError, match="no attribute 'sum'"):
        counters.ask("sum")
    counters.tell_anew("update", {"a": 5})
    kill(counters._actors[0], ray_engine)
    assert counters.ask("total") == [15, 28]  # only what was told anew is told again
    counters.close()


@pytest.mark.slow
def test_picking_on_ray_survives_a_killed_part(ray_engine):
    found, spread = spread_features(PICTURES, DIGITS, ray_engine)
    killed = []

    def report(done, total, note=""):
        if done == 2 and not killed:
            killed.append(spread._parts._actors[0])
            kill(killed[0], ray_engine)

    picked = pick(PICTURES, DIGITS, features=(found, spread), progress=report)
    assert killed
    assert spread._parts._actors[0] is not killed[0]
    same(picked, pick(PICTURES, DIGITS))
    spread.close()
