"""The search: the best message is kept, an interrupt keeps it too, and nothing is chosen that is not paid."""

import math
import weakref
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from worlds.samples import WEIGHT, written_clusters

from codebound.certificate.offers import issue
from codebound.known.messages import Options, Setting
from codebound.methods.guesses import consider
from codebound.methods.search import Search, UnsuitedError, run
from codebound.request import Task
from codebound.run.errors import CertificateError, ModelError
from codebound.run.extensions import Method
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.operations import Linear
from codebound_networks.codes.static import frequency_table
from codebound_networks.codes.tensors import Dense, Static

CHAIN = Chain((1, 2, 2), (Linear(3, False),))
GOOD, POOR = WEIGHT, -WEIGHT


def clusters(n: int = 400, role: str = "train"):
    return written_clusters(n, seed=int(role == "unlabelled"), role=role)


def message(weight: np.ndarray) -> Message:
    return Message(
        Options(Setting(CHAIN.classes)), CHAIN, {"0.weight": Dense(weight.astype(np.int32), -3, 2)}
    )


def search(**changes) -> Search:
    return Search(Task(sample=clusters(), delta=0.05, **changes), "quick")


def is_good(found) -> bool:
    return (found.outcome.made.codes["0.weight"].levels == GOOD).all()


def only(monkeypatch, **functions) -> dict[str, Method]:
    """Makes these the only methods; the table that is returned can be added to."""
    methods = {name: Method("", function) for name, function in functions.items()}
    monkeypatch.setattr("codebound.methods.search.list_methods", lambda: methods)
    return methods


def test_the_better_message_is_kept_whatever_the_order():
    for order in ((GOOD, POOR), (POOR, GOOD)):
        found = search()
        for weight in order:
            found.propose(message(weight))
        assert found.best.bound == min(each.bound for each in found.offers)
        assert found.tried == 2
        assert is_good(found.best)


def test_an_interrupted_search_keeps_its_best_message(monkeypatch):
    def interrupted(each: Search) -> None:
        each.propose(message(GOOD))
        raise KeyboardInterrupt

    only(monkeypatch, prune=interrupted)
    assert run(search(), "prune").tally.errors < 100

    def at_once(each: Search) -> None:
        raise KeyboardInterrupt

    only(monkeypatch, prune=at_once)
    with pytest.raises(KeyboardInterrupt):
        run(search(), "prune")


def test_an_interrupted_search_assesses_the_message_that_was_estimated_best(monkeypatch):
    def interrupted(each: Search) -> None:
        for weight, estimate in ((POOR, 0.9), (GOOD, 0.2), (POOR, 0.5)):
            each.hold(message(weight), estimate)
        raise KeyboardInterrupt

    only(monkeypatch, prune=interrupted)
    found = search()
    assert is_good(run(found, "prune"))
    assert (found.tried, found.best.method, found.is_interrupted) == (1, "prune", True)


def test_what_is_held_is_not_assessed_without_an_interruption(monkeypatch):
    methods = only(monkeypatch)

    def good(each: Search) -> None:
        each.hold(message(POOR), 0.1)
        each.propose(message(GOOD))

    methods["good"] = Method("", good)

    def at_once(each: Search) -> None:
        raise KeyboardInterrupt

    methods["at once"] = Method("", at_once)

    found = search()
    run(found, "auto")
    assert (found.tried, found.is_interrupted) == (1, True)


def test_a_training_that_diverges_costs_no_other_method(monkeypatch):
    methods = only(monkeypatch)

    def diverging(each: Search) -> None:
        raise ModelError("the loss became nan.")

    methods["diverging"] = Method("", diverging)

    with pytest.raises(CertificateError, match="diverging: the loss became nan"):
        run(search(), "auto")

    def good(each: Search) -> None:
        each.propose(message(GOOD))

    methods["good"] = Method("", good)

    found = search()
    run(found, "auto")
    assert (found.best.method, list(found.skipped)) == ("good", ["diverging"])
    with pytest.raises(ModelError):
        run(search(), "diverging")


def test_auto_runs_every_method_and_none_at_all_is_an_error(monkeypatch):
    methods = only(monkeypatch)

    def good(each: Search) -> None:
        each.propose(message(GOOD))

    methods["good"] = Method("", good)

    def poor(each: Search) -> None:
        each.propose(message(POOR))

    methods["poor"] = Method("", poor)

    found = search()
    assert run(found, "auto").tally.errors < 100
    assert (found.tried, found.best.method) == (2, "good")
    nothing = Method("Nothing.", lambda each: None)
    only(monkeypatch, none=nothing.function)
    with pytest.raises(CertificateError, match="no message"):
        run(search(), "auto")


def test_bits_that_are_read_as_something_else_are_no_offer_and_are_reported(monkeypatch):
    """Teeth of the round trip: what is read is compared with what was meant."""
    encode, found = Message.encode, search()
    other = message(GOOD).with_options(replace(found.task.options, theta_index=3))
    monkeypatch.setattr(Message, "encode", lambda self: encode(other))
    found.propose(message(GOOD))
    assert (found.offers, found.tried) == ([], 1)
    assert "does not say what it was made for: options" in found.refusals[0].reasons[0]


def test_a_method_that_does_not_suit_is_skipped_by_auto_and_an_error_alone(monkeypatch):
    methods = only(monkeypatch)

    def picky(each: Search) -> None:
        raise UnsuitedError("not this network.")

    methods["picky"] = Method("", picky)

    def good(each: Search) -> None:
        each.propose(message(GOOD))

    methods["good"] = Method("", good)

    found = search()
    run(found, "auto")
    assert found.skipped == {"picky": "not this network."}
    with pytest.raises(UnsuitedError, match="not this network"):
        run(search(), "picky")


def test_only_promising_messages_are_assessed():
    found = search()
    consider(found, [lambda: message(POOR), lambda: None, lambda: message(GOOD)])
    assert found.tried == 2  # with nothing to beat, both finalists
    assert is_good(found.best)
    consider(found, [lambda: message(POOR)])
    assert found.tried == 2


def static_message(weight: np.ndarray) -> Message:
    limit = max(1, int(np.abs(weight).max()))
    table = frequency_table(np.bincount(weight.ravel() + limit, minlength=2 * limit + 1))
    code = Static(weight.astype(np.int32), -3, limit, table=table, lanes_log2=0)
    return Message(Options(Setting(CHAIN.classes)), CHAIN, {"0.weight": code})


def test_two_messages_are_assessed_whatever_their_order():
    random = np.random.default_rng(0)
    others = [GOOD + random.integers(-spread, spread + 1, GOOD.shape) for spread in (1, 9, 3, 9, 2, 9, 9)]
    makers = [lambda each=each: static_message(each) for each in (POOR, *others, GOOD, POOR)]
    found, again = search(), search()
    consider(found, makers)
    consider(again, makers[::-1])
    assert found.tried == again.tried == 2
    assert found.best.bits == again.best.bits
    assert is_good(found.best)


def test_no_more_messages_are_kept_than_can_be_assessed():
    made, alive = [], []

    def maker(levels):
        def make():
            alive.append(sum(each() is not None for each in made))
            proposed = message(levels.copy())
            made.append(weakref.ref(proposed.codes["0.weight"].levels))
            return proposed

        return make

    found = search()
    consider(found, [maker(levels) for levels in (POOR, GOOD, POOR, POOR, GOOD, POOR)])
    assert max(alive) == 3  # two finalists, and the last one that was made
    assert is_good(found.best)


def test_no_message_longer_than_the_limit_could_be_better():
    found = search()
    assert found.most_bits == math.inf
    found.propose(message(GOOD))
    bound = found.best.bound
    nats = lambda bits: (bits * math.log(2.0) - math.log(0.05)) / 400  # noqa: E731
    assert 1.0 - math.exp(-nats(found.most_bits)) == pytest.approx(bound)  # without errors
    found.offers.clear()
    found.propose(message(POOR))
    assert 1.0 - math.exp(-nats(found.most_bits)) == pytest.approx(2.0 / 3.0)  # vacuous for three classes


def test_counting_and_verifying_tell_how_far_they_are():
    told = []
    found = search()
    found.progress = lambda *seen: told.append(seen)
    found.propose(message(GOOD))
    assert told[-1] == (400, 400)
    issue(found.best, found.task, progress=found.progress)
    assert told[-1] == (400, 400, "the verifier counts")


class TestTime:
    @pytest.fixture(autouse=True)
    def _clock(self, monkeypatch):
        """A clock that every look at it moves by a second."""
        self.now = 0.0

        def monotonic() -> float:
            self.now += 1.0
            return self.now

        monkeypatch.setattr("codebound.methods.search.time", SimpleNamespace(monotonic=monotonic))

    def test_every_effort_in_turn_until_the_time_is_up(self, monkeypatch):
        efforts = []

        def endless(each: Search) -> None:
            efforts.append(each.effort)
            each.propose(message(GOOD))
            for step in range(1000 if each.effort == "max" else 1):
                each.progress(step, None)
            assert each.effort != "max", "nobody stopped it"

        only(monkeypatch, endless=endless)
        for name in ("auto", "endless"):
            found = search()
            run(found, name, minutes=2.0)
            assert (found.is_out_of_time, found.is_interrupted) == (True, False)
        assert efforts == ["quick", "standard", "max"] * 2

    def test_what_is_held_is_certified_and_nothing_ends_before_there_is_something(self, monkeypatch):
        def slow(each: Search) -> None:
            for step in range(100):
                each.progress(step, None)  # far beyond the time: nothing is there yet
            each.hold(message(GOOD), 0.5)
            each.progress(100, None)
            pytest.fail("nobody stopped it")

        only(monkeypatch, slow=slow)
        found = search()
        assert run(found, "auto", minutes=0.01).tally.errors < 100
        assert found.is_out_of_time

    def test_a_method_that_trains_is_skipped_as_long_as_the_effort_is_quick(self, monkeypatch):
        def trains(each: Search) -> None:
            if each.effort == "quick":
                raise UnsuitedError("it trains.")
            each.propose(message(GOOD))

        only(monkeypatch, trains=trains)
        for name in ("auto", "trains"):
            found = search()
            run(found, name, minutes=10.0)
            assert (found.best.method, found.skipped) == ("trains", {})

    def test_nothing_at_all_is_an_error_in_any_time(self, monkeypatch):
        def never(each: Search) -> None:
            raise UnsuitedError("not this network.")

        only(monkeypatch, never=never)
        with pytest.raises(UnsuitedError, match="not this network"):
            run(search(), "never", minutes=1.0)
        with pytest.raises(CertificateError, match="never: not this network"):
            run(search(), "auto", minutes=1.0)


class TestPromise:
    def test_a_method_ends_where_its_hopes_are_no_better_than_the_best(self):
        found = search()
        found.require_promise(code_bits=10**6)  # nothing is known yet
        found.running = "good"
        found.propose(message(GOOD))
        found.running, best = "other", found.best
        found.require_promise(errors=best.tally.errors, code_bits=best.bits.length - 1)
        with pytest.raises(UnsuitedError, match=r"of good\. To run it all the same, choose it"):
            found.require_promise(errors=best.tally.errors, code_bits=best.bits.length)

    def test_a_method_that_was_asked_for_goes_to_its_end(self):
        found = search()
        found.propose(message(GOOD))
        found.is_asked = True
        found.require_promise(code_bits=10**6)
