"""Comparing on an engine: the table of one pass, whatever the shards are."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn
from worlds.commands import Here
from worlds.networks import mlp, with_normal_weights
from worlds.samples import clouds

from codebound.run.errors import CodeboundError, UsageError
from codebound.run.job import Failure, Finished, LocalEngine
from codebound.sample.dataset import Sample
from codebound_papers.compare.table import compare
from codebound_papers.measure.outputs import evaluate_sample
from codebound_papers.measure.proximity import closeness
from codebound_papers.measure.record import MeasureSettings
from codebound_papers.sweep.cluster import RayEngine

N, FEATURES, CLASSES = 60, 5, 3
PLAN = MeasureSettings(examples=12, chunk_size=7)


def blobs(n: int, *, seed: int, role: str = "train") -> Sample:
    return clouds(n, features=FEATURES, apart=3.0, seed=seed, role=role, in_turn=True)


def small(*, seed: int) -> nn.Module:
    return with_normal_weights(mlp(FEATURES, 4, CLASSES), seed=seed)


def record(engine=None, *, effort="quick"):
    table = compare(
        small(seed=0),
        blobs(N, seed=0),
        blobs(20, seed=1, role="test"),
        effort=effort,
        settings=PLAN,
        initial=small(seed=1),
        engine=engine,
    )
    return table.record()


@cache
def whole():
    return record()


@pytest.mark.thorough
@pytest.mark.usefixtures("all_threads")
@pytest.mark.parametrize("slots", [1, 3, 100])
def test_the_table_is_that_of_one_pass_and_all_that_reads_the_sample_is_sharded(slots):
    engine = Here(slots)
    assert record(engine) == whole()
    assert set(engine.functions) == {
        "outputs:evaluate_sample",
        "meter:measure_part",
        "evaluate:judge_part",
        "proximity:closeness_of_each",
    }


@pytest.mark.slow
def test_real_processes_compare_the_same():
    with LocalEngine(2) as engine:
        assert record(engine) == whole()


@pytest.mark.slow
def test_ray_compares_the_same():
    pytest.importorskip("ray")
    with RayEngine(workers=1) as engine:
        assert record(engine, effort=None) == record(effort=None)


@pytest.mark.usefixtures("all_threads")
@pytest.mark.parametrize("slots", [1, 4, 100])
@pytest.mark.parametrize("chunk_size", [1, 7, 100])
def test_outputs_and_closeness_are_those_by_hand(slots, chunk_size):
    f, g, data = small(seed=0).double(), small(seed=1).double(), blobs(N, seed=0)
    with torch.no_grad():
        of_f, of_g = (net(torch.from_numpy(data.x).double()).numpy() for net in (f, g))
    own = of_f[np.arange(N), data.y]
    margins = own - np.where(np.eye(CLASSES, dtype=bool)[data.y], -np.inf, of_f).max(axis=1)
    device_data, settings = data.on("cpu"), {"chunk_size": chunk_size, "engine": Here(slots)}
    found = evaluate_sample(f, device_data, classes=CLASSES, **settings)
    np.testing.assert_allclose(found.margins.values, np.sort(margins), rtol=1e-12, atol=1e-12)
    assert found.errors == int(np.sum(margins <= 1e-4 * np.abs(of_f).max(axis=1)))
    assert found.output_norm == pytest.approx(np.linalg.norm(of_f, axis=1).max(), rel=1e-12)
    assert found.input_norm == pytest.approx(np.linalg.norm(data.x.astype(float), axis=1).max(), rel=1e-12)
    close = closeness(f, g, device_data, **settings)
    np.testing.assert_allclose(close.sup, np.abs(of_f - of_g).max(axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(close.l2, np.linalg.norm(of_f - of_g, axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(close.margins, margins, rtol=1e-12, atol=1e-12)


def test_a_network_that_cannot_be_sent_is_named_as_the_reason():
    class Nameless(nn.Linear):
        """Of a function, so no worker can import it."""

    with (
        LocalEngine(1) as engine,
        pytest.raises(CodeboundError, match=r"cannot be sent .* importable by name"),
    ):
        compare(Nameless(FEATURES, CLASSES), blobs(N, seed=0), effort=None, settings=PLAN, engine=engine)


def test_a_lost_shard_is_an_error_and_never_a_smaller_sample():
    class Losing(Here):
        def as_finished(self, jobs):
            yield from (Finished(job, None, Failure("lost")) for job in jobs)

    with pytest.raises(CodeboundError, match="lost"):
        record(Losing(3))


def test_an_engine_works_on_the_cpu():
    elsewhere = MeasureSettings(examples=12, device="meta")
    with pytest.raises(UsageError, match="an engine works on the CPU"):
        compare(small(seed=0), blobs(N, seed=0), effort=None, settings=elsewhere, engine=Here(2))
