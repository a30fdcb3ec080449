"""What every statement answers about itself, on the golden certificates of each kind."""

from dataclasses import replace
from pathlib import Path

import pytest

from codebound.certificate.claims import CLAIMS
from codebound.certificate.file import Certificate
from codebound.certificate.statement import AbstractStatement, bound_at

GOLDEN = Path(__file__).parents[2] / "golden"
FILES = {
    f"{path.parent.name}/{path.stem}": Certificate.load(path)
    for path in sorted(GOLDEN.glob("version-*/*.cbound"))
}
each_file = pytest.mark.parametrize("certificate", FILES.values(), ids=FILES)


def test_there_is_a_golden_certificate_of_every_kind():
    assert {certificate.kind for certificate in FILES.values()} == set(CLAIMS.values())
    assert all(issubclass(kind, AbstractStatement) for kind in CLAIMS.values())


@each_file
def test_its_bound_is_the_sum_of_its_terms(certificate):
    terms = certificate.kind.terms(certificate)
    assert bound_at(terms, certificate.claim.delta) == pytest.approx(certificate.claim.bound, rel=1e-8)
    assert bound_at(terms, certificate.claim.delta / 2.0) >= certificate.claim.bound


@each_file
def test_looser_forms_are_looser_where_there_are_any(certificate):
    claim = certificate.claim
    if certificate.kind.has_looser_forms:
        assert claim.bound <= claim.kl <= claim.hoeffding
        assert claim.bound < claim.hoeffding or claim.bound == 1.0
    else:
        assert claim.bound == claim.kl == claim.hoeffding


@pytest.mark.parametrize("name", FILES)
def test_a_network_that_is_learned_is_in_no_message(name):
    certificate, is_share = FILES[name], name.startswith("version-3/share")
    kind = certificate.kind
    assert kind.is_learned == any(part == "rule" for part, _ in certificate.ledger)
    assert kind.is_held_out(certificate) == (is_share or kind.trains_base)
    laws = {term.law for term in kind.terms(certificate)}
    assert ("picked" in laws) == (kind.is_learned and not is_share)


def test_only_statements_about_all_messages_of_a_code_share_an_event():
    plain, picked = FILES["version-2/plain"], FILES["version-2/picked"]
    for certificate, is_shared in ((plain, True), (picked, False), (FILES["version-2/split"], False)):
        other = replace(certificate, made_by={**certificate.made_by, "date": "2000-01-01"})
        assert (certificate.kind.event(certificate) == other.kind.event(other)) is is_shared
    elsewhere = replace(plain, facts=replace(plain.facts, sample_sha256="0" * 64))
    assert plain.kind.event(plain) != elsewhere.kind.event(elsewhere)


def test_counts_of_errors_are_those_of_the_loss():
    certificate = FILES["version-3/cost-above"]
    (found,) = certificate.counts
    assert (found.key, found.count, found.of) == ("losses", certificate.facts.errors, certificate.facts.n)
