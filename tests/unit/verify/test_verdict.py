"""Each statement: a true certificate is accepted, and refused as soon as what it rests on is changed."""

import hashlib

import cbound_writer as writer
import numpy as np
import pytest
from worlds.literal import float32, linear_logits, refused

from codebound_verify import Refused, container, decode_network, verify
from codebound_verify.checklist import Checklist, Options
from codebound_verify.container import load, read
from codebound_verify.sample import permutation

CHAIN = [["linear", 3, True]]


def test_c2():
    case = writer.linear_case()
    verdict = verify(case.data(), case.x, case.y)
    assert verdict.verdict == "ACCEPT"
    assert verdict.is_accepted
    assert verdict.reasons == ()
    assert verdict.bound == case.fields["claim"]["bound"] < 0.3
    assert verdict.declarations == ("The sample is independent of the code.",)
    assert len(verdict.checked) == 7
    assert (verdict.statement, verdict.subject, verdict.n) == ("C-2", "g", 400)
    assert any("delta = 0.05" in line for line in verdict.assumptions)


def test_a_path_is_as_good_as_bytes(tmp_path):
    case = writer.linear_case(30)
    (tmp_path / "c.cbound").write_bytes(case.data())
    assert verify(tmp_path / "c.cbound", case.x, case.y).is_accepted
    assert verify(str(tmp_path / "c.cbound"), case.x, case.y).is_accepted
    with pytest.raises(OSError, match="missing"):
        verify(tmp_path / "missing", case.x, case.y)


def test_every_reason_is_given():
    case = writer.linear_case()
    case.fields["claim"]["kl"] = 0.01
    case.fields["claim"]["vacuous"] = True
    case.fields["ledger"][0][1] += 1
    case.fields["ledger"][1][1] -= 1
    verdict = verify(case.data(), case.x[1:], case.y[1:])
    refused(verdict, "kl is printed", "vacuous", "399 examples", "SHA-256", "'setting'", "'method'")
    assert len(verdict.reasons) == 6


def test_decode_network_returns_every_tensor_exactly():
    tensors = {
        "0.weight": writer.static(np.arange(20).reshape(5, 4) % 5 - 2, -5),
        "0.bias": writer.raw([0.1, 0.2, 0.3, 0.4, 0.5]),
        "1.weight": writer.enumerative(np.eye(4, 5, dtype=int), 2),
        "1.bias": writer.zero((4,)),
        "2.weight": writer.codebook([0.5, -0.25], [[0, -1, 1, 1]] * 3),
        "2.bias": writer.dense([1, 0, -1], -9),
    }
    x, y = writer.clusters(40)
    message = writer.Message([["linear", 5, True], ["linear", 4, True], ["linear", 3, True]], tensors)
    data = writer.write(message, writer.header(message, x, y, errors=40, classes=3))
    chain, found = decode_network(data)
    assert [operation.out for operation in chain.operations] == [5, 4, 3]
    assert list(found) == list(tensors)
    for name, expected in float32(tensors).items():
        np.testing.assert_array_equal(found[name], expected)
    assert verify(data, x, y).is_accepted
    with pytest.raises(Refused, match="SHA-256"):
        decode_network(data[:-1] + bytes([data[-1] ^ 1]))


class TestSplit:
    def certificate(self, tenths=3, **changes):
        x, y = writer.clusters()
        tensors = {"0.weight": writer.adaptive(writer.WEIGHT, -3), "0.bias": writer.dense(writer.BIAS, 1)}
        message = writer.Message(CHAIN, tensors, split=tenths)
        prior = changes.pop("n_prior", tenths * len(x) // 10)
        rest = permutation(len(x))[prior:]
        errors = writer.count(linear_logits(x[rest], float32(tensors)), y[rest])
        common = int(np.bincount(y[rest]).max())
        settings = {
            "statement": "C-10",
            "n": len(rest),
            "commonest": common,
            "extra": {"n_prior": prior},
            **changes,
        }
        return x, y, message, writer.header(message, x, y, errors=errors, classes=3, **settings)

    def test_accepted(self):
        x, y, message, fields = self.certificate()
        verdict = verify(writer.write(message, fields), x, y)
        assert verdict.reasons == ()
        assert verdict.n == 280

    def test_another_part_than_the_message_pays_for(self):
        x, y, message, fields = self.certificate(n_prior=80)
        refused(verify(writer.write(message, fields), x, y), "n_prior is 80", "3/10 of 400 examples are 120")

    def test_a_split_that_the_statement_does_not_know(self):
        x, y, message, fields = self.certificate(statement="C-2", extra={}, n=400)
        refused(verify(writer.write(message, fields), x, y), "split fraction")


class TestBase:
    def certificate(self):
        x, y = writer.clusters()
        base = {
            "0.weight": np.float32(writer.WEIGHT * 0.7),
            "0.bias": np.float32([0, 0, 1]),
            "x": np.ones(2, "f4"),
        }
        change = {"0.weight": writer.adaptive(np.eye(3, 4, dtype=int), -30), "0.bias": writer.zero((3,))}
        message = writer.Message(CHAIN, change, has_base=True)
        g = {name: (base[name].astype(float) + change[name].values).astype(np.float32) for name in change}
        errors = writer.count(linear_logits(x, g), y)
        named = {"name": "base", "sha256": writer.tensors_hash(base)}
        return x, y, message, writer.header(message, x, y, errors=errors, classes=3, base=named), base, g

    def test_accepted(self):
        x, y, message, fields, base, g = self.certificate()
        data = writer.write(message, fields)
        assert verify(data, x, y, base=base).reasons == ()
        _, found = decode_network(data, base=base)
        for name, values in g.items():
            np.testing.assert_array_equal(found[name], values)

    def test_a_base_that_the_message_does_not_use(self):
        case = writer.linear_case()
        case.fields["helper"]["base"] = {"name": "b", "sha256": "0" * 64}
        base = {"0.weight": np.zeros((3, 4), np.float32), "0.bias": np.zeros(3, np.float32)}
        case.fields["helper"]["base"]["sha256"] = writer.tensors_hash(base)
        refused(verify(case.data(), case.x, case.y, base=base), "differences to a base")


CASE = writer.linear_case(60)
STEPS = ("numbers", "sample", "message", "errors", "weights", "original")


def checklist_of(x=CASE.x, y=CASE.y, **given) -> Checklist:
    return Checklist(read(CASE.data()), x, y, Options(by_class=True, **given))


def test_every_step_notes_what_it_found():
    checklist = checklist_of()
    for step in STEPS:
        getattr(checklist, f"check_{step}")()
    assert checklist.reasons == []
    assert len(checklist.passed) == 7
    assert checklist.network.split is None
    assert checklist.repeats.n == 60
    assert sum(row.n for row in checklist.bound_classes()) == 60
    assert checklist.compare_with_test() is None


@pytest.mark.parametrize("step", ["errors", "weights", "original"])
def test_a_step_whose_ground_is_missing_is_left_out(step):
    checklist = checklist_of()
    getattr(checklist, f"check_{step}")()
    assert (checklist.reasons, len(checklist.passed)) == ([], 1)


def test_nothing_is_said_beside_a_refusal():
    checklist = checklist_of(CASE.x[1:], CASE.y[1:], test=(CASE.x, CASE.y))
    for step in STEPS:
        getattr(checklist, f"check_{step}")()
    assert any("59 examples" in reason for reason in checklist.reasons)
    assert (checklist.bound_classes(), checklist.compare_with_test()) == ((), None)
    assert "the decoded network makes no more errors than stated" not in checklist.passed


def test_header_and_message_are_those_that_were_written():
    found = read(writer.linear_case(30).data())
    assert found.header.n == 30
    assert hashlib.sha256(found.message).hexdigest() == found.header.message_sha256
    assert found.witness == b""


def test_a_file_that_is_too_long_is_refused_unread(tmp_path, monkeypatch):
    data = writer.linear_case(30).data()
    (tmp_path / "c.cbound").write_bytes(data)
    assert load(tmp_path / "c.cbound") == data
    monkeypatch.setattr(container, "FILE_LIMIT", 100)
    with pytest.raises(Refused, match="has at most 100"):
        load(tmp_path / "c.cbound")
