"""Statements about f: true ones are accepted, and refused as soon as what they rest on is changed."""

import math

import cbound_writer as writer
import numpy as np
import pytest
from worlds.literal import float32, linear_logits, refused

from codebound_verify import verify

CHAIN = [["linear", 3, True]]


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
