"""Parts of a sample on the nodes of a cluster: what is picked and learned is what one process picks."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch

from codebound.bits.forms import PICKS
from codebound.learn.column_features import ColumnFeatures
from codebound.learn.features import RoomError
from codebound.learn.picking import carry_out
from codebound.learn.prepared import prepare
from codebound.learn.rule import Rule, usual_rule
from codebound.run.errors import CodeboundError, UsageError
from codebound.run.extensions import import_named
from codebound.run.job import Engine, LocalEngine, Residents
from codebound.sample.load import load_dataset
from codebound.sample.order import Design, arrange
from codebound_papers.sweep.cluster import RayEngine

DIGITS = arrange(load_dataset("digits").select(range(400), role="train"), Design())
PICTURES = replace(usual_rule(DIGITS.sample.input_shape, 30), batch=5, rounds=4)
RULES = {
    "pictures": PICTURES,
    "no copies": replace(PICTURES, copies=0),
    "columns": Rule(ColumnFeatures(False), 0, 0, 4, 8, 3, 5, 4),
}


def pick(rule, **options):
    return carry_out(rule, DIGITS, form=PICKS, first=30, **options)


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
    assert one.picks.tolist() == other.picks.tolist()
    assert one.rounds == other.rounds
    assert torch.allclose(one.outputs, other.outputs, rtol=0.0, atol=1e-9)


def test_vectors_come_from_their_parts():
    found = prepare(RULES["columns"], DIGITS, 30, engine=Nodes())
    rows = torch.tensor([399, 0, 200, 199])
    stored = torch.from_numpy(DIGITS.sample.x[rows.numpy()])
    expected = np.stack([found.features(each[None])[0].numpy() for each in stored])
    assert found.vectors.vectors_at(rows).tolist() == expected.tolist()


@pytest.mark.parametrize("name", RULES)
def test_parts_pick_what_the_whole_picks(name):
    rule = RULES[name]
    same(pick(rule, prepared=prepare(rule, DIGITS, 30, engine=Nodes())), pick(rule))


def test_a_node_that_forgets_its_supports_would_be_noticed():
    found = prepare(PICTURES, DIGITS, 30, engine=Nodes(loses=True))
    with pytest.raises((AssertionError, RoomError)):
        same(pick(PICTURES, prepared=found), pick(PICTURES))


def test_processes_of_one_machine_leave_it_to_one_process():
    assert RayEngine.has_nodes
    assert not LocalEngine.has_nodes
    with LocalEngine(2) as engine, pytest.raises(UsageError, match="use the engine ray"):
        prepare(PICTURES, DIGITS, 30, engine=engine)


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
    prepared = prepare(PICTURES, DIGITS, 30, engine=ray_engine)
    spread, killed = prepared.vectors, []

    def report(done, total, note=""):
        if done == 2 and not killed:
            killed.append(spread._parts._actors[0])
            kill(killed[0], ray_engine)

    with spread:
        picked = pick(PICTURES, prepared=prepared, progress=report)
        assert killed
        assert spread._parts._actors[0] is not killed[0]
    same(picked, pick(PICTURES))
