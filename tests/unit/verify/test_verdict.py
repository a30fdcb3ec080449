"""Each statement: a true certificate is accepted, and refused as soon as what it rests on is changed."""

import math
import re

import cbound_writer as writer
import numpy as np
import pytest
import torch
from torch import nn

import codebound_verify
from codebound_verify import Refused, decode_network, verify
from codebound_verify.factory import message_state, parts_sha256
from codebound_verify.graph import trace
from codebound_verify.sample import permutation

CHAIN = [["linear", 3, True]]


def refused(verdict: codebound_verify.Verdict, *fragments: str) -> None:
    assert verdict.verdict == "REFUSE"
    assert verdict.bound is None
    for fragment in fragments:
        assert any(fragment in reason for reason in verdict.reasons), verdict.reasons


def float32(tensors: dict[str, writer.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.values.astype(np.float32) for name, tensor in tensors.items()}


def linear_logits(x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    flat = x.reshape(len(x), -1) / 16
    return flat @ weights["0.weight"].T.astype(float) + weights["0.bias"].astype(float)


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


class TestDomain:
    """C-12a: f is g with a small change."""

    def certificate(self, theta=-8, change=0.01, **changes):
        x, y = writer.clusters()
        tensors = {"0.weight": writer.adaptive(writer.WEIGHT, -3), "0.bias": writer.dense(writer.BIAS, 1)}
        g = float32(tensors)
        f = {"0.weight": g["0.weight"].copy(), "0.bias": g["0.bias"].copy()}
        f["0.weight"][0, 0] += np.float32(change)
        message = writer.Message(CHAIN, tensors, theta=theta)
        errors = writer.count(linear_logits(x, g), y, writer.step(theta))
        extra = {"input_low": 0, "input_high": 16, "subject_sha256": writer.tensors_hash(f)}
        settings = {"statement": "C-12a", "subject": "f", "extra": {**extra, **changes}}
        fields = writer.header(message, x, y, errors=errors, classes=3, **settings)
        return x, y, message, fields, f

    def test_accepted(self):
        x, y, message, fields, f = self.certificate()
        verdict = verify(writer.write(message, fields), x, y, subject_weights=f)
        assert verdict.reasons == ()
        assert verdict.subject == "f"
        assert any("from 0.0 to 16.0" in line for line in verdict.assumptions)

    def test_the_margin_has_to_cover_the_distance_exactly(self):
        # |change| times the largest input norm, sqrt(4) after division by 16, times sqrt(2)
        needed = math.sqrt(2) * 0.01 * 2
        j = math.ceil(8 * math.log2(needed))
        for theta, is_fine in ((j, True), (j - 1, False)):
            x, y, message, fields, f = self.certificate(theta=theta)
            verdict = verify(writer.write(message, fields), x, y, subject_weights=f)
            assert verdict.is_accepted == is_fine
            if not is_fine:
                refused(verdict, "margin theta")

    @pytest.mark.thorough
    def test_errors_are_counted_at_the_margin(self):
        x, y, message, fields, f = self.certificate(theta=8)
        at_zero = writer.linear_case().fields["facts"]["errors"]
        assert fields["facts"]["errors"] > at_zero
        fields = writer.header(
            message,
            x,
            y,
            errors=at_zero,
            classes=3,
            statement="C-12a",
            subject="f",
            extra=fields["facts"]["extra"],
        )
        refused(verify(writer.write(message, fields), x, y, subject_weights=f), "errors on the 400 examples")

    def test_an_input_outside_the_domain(self):
        x, y, message, fields, f = self.certificate(input_high=15)
        refused(verify(writer.write(message, fields), x, y, subject_weights=f), "the domain is 0.0 to 15.0")

    def test_without_f(self):
        x, y, message, fields, _ = self.certificate()
        refused(verify(writer.write(message, fields), x, y), "--subject-weights")

    def test_another_f(self):
        x, y, message, fields, f = self.certificate()
        f["0.bias"][0] += 1
        refused(verify(writer.write(message, fields), x, y, subject_weights=f), "Subject", "SHA-256")

    def test_an_f_of_other_shapes(self):
        other = {"0.weight": np.zeros((3, 5), np.float32), "0.bias": np.zeros(3, np.float32)}
        x, y, message, fields, _ = self.certificate(subject_sha256=writer.tensors_hash(other))
        refused(verify(writer.write(message, fields), x, y, subject_weights=other), "not those of its chain")


class TestDisagreement:
    """C-12b: f is another chain that nearly always predicts the same."""

    def certificate(self, **changes):
        x, y = writer.clusters()
        unlabelled, _ = writer.clusters(300, seed=1)
        case = writer.linear_case()
        g = float32(case.message.tensors)
        f = {"0.weight": np.eye(4, dtype=np.float32), "1.weight": g["0.weight"] * np.float32(1.1)}
        chain = [["linear", 4, False], ["linear", 3, False]]
        f_logits = (unlabelled.reshape(300, 4) / 16) @ f["1.weight"].astype(float).T
        g_logits = linear_logits(unlabelled, g)
        differ = int((f_logits.argmax(1) != g_logits.argmax(1)).sum())
        ambiguous = 0
        for logits in (f_logits, g_logits):
            margin, scale = writer.margins(logits, logits.argmax(1))
            ambiguous += int((margin <= 1e-4 * scale).sum())
        errors = case.fields["facts"]["errors"]
        extra = {
            "disagreements": differ + ambiguous,
            "n_unlabelled": 300,
            "unlabelled_sha256": writer.sample_hash(unlabelled, np.zeros(300, np.int64)),
            "subject_sha256": writer.tensors_hash(f),
            "subject_chain": chain,
            "delta_risk": 0.025,
            "delta_disagreement": 0.025,
            **changes,
        }
        first = writer.forms(errors, 400, len(case.message.bits), extra["delta_risk"])
        added = writer.binomial_limit(extra["disagreements"], 300, 0, extra["delta_disagreement"])
        printed = {name: min(1.0, (value + added) * (1 + 1e-9)) for name, value in first.items()}
        settings = {"statement": "C-12b", "subject": "f", "extra": extra, "forms": printed}
        fields = writer.header(case.message, x, y, errors=errors, classes=3, **settings)
        return case, fields, unlabelled, f

    def verdict(self, case, fields, unlabelled, f):
        data = writer.write(case.message, fields)
        return verify(data, case.x, case.y, unlabelled=unlabelled, subject_weights=f)

    def test_accepted(self):
        case, fields, unlabelled, f = self.certificate()
        assert fields["facts"]["extra"]["disagreements"] > 0
        verdict = self.verdict(case, fields, unlabelled, f)
        assert verdict.reasons == ()
        assert verdict.bound > writer.linear_case().fields["claim"]["bound"]

    def test_fewer_disagreements_than_there_are(self):
        parts = self.certificate(disagreements=0)
        refused(self.verdict(*parts), "f and g disagree on")

    def test_levels_that_are_not_halves(self):
        refused(self.verdict(*self.certificate(delta_risk=0.04, delta_disagreement=0.01)), "half of delta")

    def test_other_unlabelled_inputs(self):
        case, fields, unlabelled, f = self.certificate()
        refused(self.verdict(case, fields, 16 - unlabelled, f), "Unlabelled: the inputs have SHA-256")
        refused(self.verdict(case, fields, unlabelled[1:], f), "found 299 inputs")

    def test_nothing_given(self):
        case, fields, _, _ = self.certificate()
        refused(self.verdict(case, fields, None, None), "--subject-weights", "--unlabelled")

    def test_a_chain_that_f_does_not_fit(self):
        refused(
            self.verdict(*self.certificate(subject_chain=[["linear", 3, True]])), "not those of its chain"
        )
        refused(self.verdict(*self.certificate(subject_chain=[["linear", 2, True]])), "last operation")


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


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 3)
        self.two = self.one

    def forward(self, x):
        return self.one(x.flatten(1))


class Counting(nn.Linear):
    """Has a buffer that no message can carry."""

    def __init__(self) -> None:
        super().__init__(4, 3)
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))


class Hidden(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("secret", torch.ones(1), persistent=False)


class Stubborn(nn.Linear):
    def train(self, mode=True):
        return super().train(True)


def model() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 3))


class TestFactory:
    def certificate(self, factory=model, copies=("1",)):
        x, y = writer.clusters()
        tensors = {}
        for i, prefix in enumerate(copies):
            tensors[f"{prefix}.weight"] = writer.adaptive(writer.WEIGHT * (1 + i), -3)
            tensors[f"{prefix}.bias"] = writer.dense(writer.BIAS, 1)
        message = writer.Message(None, tensors)
        g = float32(tensors)
        errors = writer.count(
            linear_logits(x, {"0.weight": g[f"{copies[0]}.weight"], "0.bias": g[f"{copies[0]}.bias"]}), y
        )
        module = factory().eval()
        graph = trace(module, input_shape=x.shape[1:], carried=tuple(message_state(module)))
        named = writer.factory(graph.sha256)
        fields = writer.header(message, x, y, errors=errors, classes=3, architecture=named)
        return writer.write(message, fields), x, y

    def test_accepted(self):
        data, x, y = self.certificate()
        assert verify(data, x, y, factory=model).reasons == ()
        chain, tensors = decode_network(data, factory=model)
        assert chain is None
        assert list(tensors) == ["1.weight", "1.bias"]

    def test_the_price_of_the_graph_is_said_with_the_bound_that_pays_for_it(self):
        data, x, y = self.certificate()
        verdict = verify(data, x, y, factory=model)
        (line,) = [line for line in verdict.assumptions if "Spelled out" in line]
        assert "'tests:model' was chosen without looking at the 400 examples" in line
        bits, paid = re.search(r"takes (\d+) bits; .* the bound is ([\d.]+)\.$", line).groups()
        exact = writer.binomial_limit(verdict.errors, 400, verdict.code_bits + int(bits), verdict.delta)
        assert verdict.bound < exact <= float(paid) <= exact + 1e-4

    def test_version_1_hashes_the_parts_as_its_page_says(self):
        import hashlib

        text = (
            '[["","torch.nn.modules.container.Sequential",""],'
            '["0","torch.nn.modules.flatten.Flatten","start_dim=1, end_dim=-1"],'
            '["1","torch.nn.modules.linear.Linear","in_features=4, out_features=3, bias=True"],'
            '["1.weight","torch.float32",[3,4]],["1.bias","torch.float32",[3]]]'
        )
        assert parts_sha256(model()) == hashlib.sha256(text.encode()).hexdigest()

    def test_missing_or_another_factory(self):
        data, x, y = self.certificate()
        refused(verify(data, x, y), "--model")
        other = lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU())  # noqa: E731
        refused(verify(data, x, y, factory=other), "its graph has SHA-256")

    @pytest.mark.few(3)
    @pytest.mark.parametrize(
        ("factory", "reason"),
        [
            (lambda: 1 / 0, "calling it failed: ZeroDivisionError"),
            (lambda: 7, "returned int"),
            (lambda: Stubborn(4, 3), "training mode"),
            (Hidden, "secret is not in the state dict"),
            (Counting, "calls in the state dict is no floating-point tensor"),
            (lambda: nn.BatchNorm1d(4, track_running_stats=False), "statistics of the batch"),
        ],
    )
    def test_modules_that_no_message_can_carry(self, factory, reason):
        data, x, y = self.certificate()
        refused(verify(data, x, y, factory=factory), reason)

    def test_a_module_that_fails_or_returns_something_else(self):
        for factory, reason in (
            (lambda: nn.Sequential(nn.Linear(4, 3)), "cannot trace its module (RuntimeError"),
            (lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Unflatten(1, (3, 1))), "one row of"),
            (lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), "its graph has SHA-256"),
        ):
            data, x, y = self.certificate()
            refused(verify(data, x, y, factory=factory), reason)

    def test_tied_tensors_must_agree(self):
        data, x, y = self.certificate(Tied, ("one", "two"))
        refused(verify(data, x, y, factory=Tied), "shares memory")
