"""Each statement: a true certificate is accepted, and refused as soon as what it rests on is changed."""

import cbound_writer as writer
import numpy as np
import pytest
from worlds.literal import float32, linear_logits, refused

from codebound_verify import Refused, decode_network, verify
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


def test_more_errors_may_be_stated_than_made_but_not_fewer():
    x, y = writer.clusters()
    true = writer.linear_case()
    made = true.fields["facts"]["errors"]
    for stated, is_fine in ((made + 1, True), (made, True), (made - 1, False)):
        fields = writer.header(true.message, x, y, errors=stated, classes=3)
        verdict = verify(writer.write(true.message, fields), x, y)
        assert verdict.is_accepted == is_fine
        if not is_fine:
            refused(verdict, f"makes {made} errors", f"states {stated}")


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

    def test_missing_or_another_base(self):
        x, y, message, fields, base, _ = self.certificate()
        refused(verify(writer.write(message, fields), x, y), "--base")
        base["0.bias"] = base["0.bias"] + np.float32(1)
        refused(verify(writer.write(message, fields), x, y, base=base), "Base: its tensors have SHA-256")

    @pytest.mark.parametrize("damage", [{}, {"0.bias": np.zeros(4, np.float32)}])
    def test_a_base_that_does_not_fit(self, damage):
        x, y, message, fields, base, _ = self.certificate()
        del base["0.bias"]
        base.update(damage)
        fields["helper"]["base"]["sha256"] = writer.tensors_hash(base)
        refused(verify(writer.write(message, fields), x, y, base=base), "0.bias")

    def test_a_base_that_the_message_does_not_use(self):
        case = writer.linear_case()
        case.fields["helper"]["base"] = {"name": "b", "sha256": "0" * 64}
        base = {"0.weight": np.zeros((3, 4), np.float32), "0.bias": np.zeros(3, np.float32)}
        case.fields["helper"]["base"]["sha256"] = writer.tensors_hash(base)
        refused(verify(case.data(), case.x, case.y, base=base), "differences to a base")
