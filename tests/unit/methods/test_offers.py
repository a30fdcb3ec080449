"""Offers: which are kept, which cannot be read, and what happens where the second program refuses one."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from worlds.samples import clouds

from codebound.bits.bitstring import Bits
from codebound.certificate import assessment
from codebound.certification import certify
from codebound.cli.certify import print_result
from codebound.cli.console import Format
from codebound.learn.rule import PickedMessage
from codebound.methods import strategy as course
from codebound.methods.search import Search
from codebound.run.errors import RefusedError


def table(n=150):
    return clouds(n, features=4, apart=1.6)


@pytest.fixture
def refusing(monkeypatch):
    """The second program refuses so many certificates; those that it was asked about."""
    asked, left, verify = [], [1], assessment.verify
    monkeypatch.setattr(course, "_CLEARLY", 1.0)  # certificates are offered in the order of their bounds

    def told(certificate, *given, **options):
        asked.append(certificate)
        verdict = verify(certificate, *given, **options)
        assert verdict.is_accepted
        refused = SimpleNamespace(is_accepted=False, reasons=("Message: odd.",))
        return refused if len(asked) <= left[0] else verdict

    monkeypatch.setattr(assessment, "verify", told)
    return asked, left


@pytest.mark.parametrize("most", [1, 2])
def test_the_next_best_certificate_is_issued_where_one_is_refused(most, refusing, tmp_path, capsys):
    asked, left = refusing
    left[0] = most
    found = certify(None, table(), effort="quick")
    assert len(asked) == most + 1
    assert [each.claim.bound for each in asked] == sorted(each.claim.bound for each in asked)
    assert found.certificate is asked[-1]
    assert [each.bound for each in found.refusals] == [each.claim.bound for each in asked[:-1]]
    refused, (issued,) = found.refusals[0], [each for each in found.routes if each.is_issued]
    assert refused.reasons == ("Message: odd.",)
    assert ("Rule(" in refused.says) is asked[0].kind.is_learned
    assert refused.message == asked[0].message.data.hex()
    assert issued.bound == found.bound
    others = {each.bound for each in found.routes if not each.is_issued}  # two may come to the same bound
    assert not others & {each.bound for each in found.refusals}

    assert str(found).count("Refused, so that") == most
    saved = found.save_to(tmp_path / "cert")
    recorded = json.loads((tmp_path / "cert" / "result.json").read_text())["refusals"]
    assert [each["reasons"] for each in recorded] == most * [["Message: odd."]]
    print_result(saved, Format.table, quiet=False)
    assert "so that the next best certificate was issued" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("method", ["auto", "split"])
def test_only_where_all_are_refused_nothing_is_issued_and_all_reasons_are_said(method, refusing):
    asked, left = refusing
    left[0] = 100
    with pytest.raises(RefusedError, match=r"so none was issued.*please report") as refused:
        certify(None, table(), effort="quick", method=method)
    assert refused.value.reasons == len(asked) * ("Message: odd.",)
    assert len(asked) > 1 or method == "split"


def shortened(word):
    """The word without its last byte."""
    return Bits(word.data[:-1], 8 * (len(word.data) - 1))


def test_what_does_not_decode_to_itself_is_not_offered(monkeypatch):
    """Teeth of the round trip: the message of every split is garbled, so others win."""
    encode, offered = PickedMessage.encode, []

    def garbled(message):
        word, ledger = encode(message)
        return (shortened(word) if message.is_short else word), ledger

    offer = Search.offer
    monkeypatch.setattr(Search, "offer", lambda search, found: (offered.append(found), offer(search, found)))
    monkeypatch.setattr(PickedMessage, "encode", garbled)
    found = certify(None, table(), effort="quick")
    assert found.method != "split"
    assert found.refusals
    assert {each.method for each in found.refusals} == {"split"}
    assert "split" not in {each.name for each in found.routes}
    assert any(each.facts.is_held_out for each in offered if each.kind.is_learned)
    with pytest.raises(RefusedError, match="split, "):
        certify(None, table(), effort="quick", method="split")


def test_a_rule_that_is_read_as_another_one_is_not_offered(monkeypatch):
    """As a layer over columns once was: the bits were those of plain columns."""
    write = PickedMessage.encode
    other = lambda each: replace(each, rule=replace(each.rule, ridge_index=each.rule.ridge_index ^ 1))  # noqa: E731
    monkeypatch.setattr(PickedMessage, "encode", lambda each: write(other(each) if each.is_short else each))
    found = certify(None, table(), effort="quick")
    assert found.method != "split"
    assert any("does not say what it was made for: rule" in each.reasons[0] for each in found.refusals)


def test_the_best_of_each_method_is_kept_and_few_of_them():
    from worlds.bright_rows import known

    def offered(*, is_asked):
        search = Search(task=None, effort="quick")
        search.is_asked = is_asked
        for method, errors in (("a", 9), ("a", 5), ("b", 7), ("c", 3), ("a", 1), ("d", 8)):
            search.running = method
            search.offer(known(errors=errors, code_bits=20))
        return [(each.method, each.assessed.facts.errors) for each in search.offers]

    assert offered(is_asked=False) == [("a", 1), ("c", 3), ("b", 7)]
    assert offered(is_asked=True) == [("a", 1), ("c", 3), ("a", 5)]
