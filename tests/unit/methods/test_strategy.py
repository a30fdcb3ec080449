"""Which attempts are made, how long each may take, and what is kept when somebody interrupts."""

import pytest
from worlds.networks import mlp
from worlds.samples import clouds

from codebound.certificate.claims import AboutG, AfterSplit
from codebound.certification import certify
from codebound.known.base import Pretrained
from codebound.methods.strategy import Strategy
from codebound.run.errors import CertificateError, UsageError


@pytest.fixture
def table():
    return clouds(120, features=6, apart=1.6)


@pytest.fixture
def asked(monkeypatch):
    """Claim, method, effort and minutes of every attempt."""
    best, made = Strategy.best, []

    def told(self, stated, method, effort, **options):
        minutes = options.pop("minutes", None)
        made.append((stated, method, effort, minutes))
        return best(self, stated, method, "quick", **options)

    monkeypatch.setattr(Strategy, "best", told)
    return made


def test_who_interrupts_after_the_best_was_found_keeps_it(table, monkeypatch):
    def interrupted(*given, **options):
        raise KeyboardInterrupt

    best, made = Strategy.best, []

    def once(*given, **options):
        made.append(interrupted() if made else best(*given, **options))
        return made[-1]

    monkeypatch.setattr(Strategy, "best", once)
    found = certify(None, table, effort="quick")
    assert found.is_interrupted
    assert not found.vacuous
    assert not found.routes


def test_tables_without_a_network_have_linear_helpers_tried(asked, table):
    certify(None, table)
    assert asked == [
        (AboutG(), "auto", "standard", None),
        (AfterSplit(5), "prune", "quick", None),
        (AfterSplit(8), "prune", "quick", None),
    ]


def test_shares_have_the_time_in_equal_parts_and_nothing_else_is_tried(asked, table):
    certify(None, table, method="prune", prior_tenths=(3, 5, 8), minutes=6.0)
    assert asked == [(AfterSplit(each), "prune", "standard", 2.0) for each in (3, 5, 8)]


def test_the_features_of_a_base_have_half_of_the_time(asked, table):
    base = Pretrained(mlp(6, 8, 3).eval(), "made of no sample")
    certify(base.network, table, base=base, minutes=6.0)
    assert [each[1:] for each in asked] == [("picks", "standard", 3.0), ("auto", "standard", 3.0)]
    asked.clear()
    certify(base.network, table, base=base, method="picks", minutes=6.0)
    assert [each[1:] for each in asked] == [("picks", "standard", 6.0)]


def test_settings_are_checked_before_a_helper_is_made(table):
    def helper(part):
        pytest.fail("made")

    for wrong in ({"delta": 2.0}, {"effort": "huge"}, {"minutes": -1.0}):
        with pytest.raises((UsageError, CertificateError)):
            certify(None, table, helper=helper, prior_tenths=5, **wrong)
