"""Statements about f: refused as soon as what they rest on changes; the distance is never too small."""

import math

import cbound_writer as writer
import numpy as np
import pytest
import torch
from torch.nn import functional
from worlds.literal import float32, forward, linear_logits, refused

from codebound_verify import verify
from codebound_verify.header import Domain, Scaling
from codebound_verify.networks.chain import fit, parse_chain
from codebound_verify.networks.operations import Operation
from codebound_verify.networks.original import deviation
from codebound_verify.refusal import Refused

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


PLAIN = Scaling(1.0, (0.0,), (1.0,))
UNIT = Domain(0.0, 1.0, "")


def random_weights(chain, seed, like=None, change=1.0):
    random = np.random.default_rng(seed)
    return {
        name: np.float32((like[name] if like else 0) + change * random.normal(size=shape))
        for name, shape in chain.layout()
    }


def logits(chain, tensors, x):
    weights = [{} for _ in chain.operations]
    for name, values in tensors.items():
        position, own = name.split(".", 1)
        weights[int(position)][own] = torch.from_numpy(values.astype(np.float64))
    return forward(chain, weights, torch.from_numpy(x)).numpy()


def test_one_linear_layer_by_hand():
    chain = parse_chain([["linear", 2, True]], (3,), 2)
    f = {"0.weight": np.zeros((2, 3), np.float32), "0.bias": np.float32([1, 2])}
    g = {"0.weight": np.float32([[3, 0, 0], [0, 4, 0]]), "0.bias": np.float32([4, 6])}
    # input (x / 2 - 1) / 0.5 of [0, 4] is [-2, 2]: norm 2 sqrt(3); change of weight 4, of bias 5
    value = deviation(chain, f, g, scaling=Scaling(2.0, (1.0,), (0.5,)), domain=Domain(0.0, 4.0, ""))
    assert value == pytest.approx(4 * 2 * math.sqrt(3) + 5, rel=1e-8)


def test_channels_have_their_own_scaling():
    chain = parse_chain([["linear", 2, False]], (2, 1, 3), 2)
    f = {"0.weight": np.zeros((2, 6), np.float32)}
    g = {"0.weight": np.eye(2, 6, dtype=np.float32)}
    value = deviation(chain, f, g, scaling=Scaling(1.0, (0.0, 3.0), (1.0, 2.0)), domain=UNIT)
    assert value == pytest.approx(math.sqrt(3 * 1.0 + 3 * 1.5**2), rel=1e-8)


@pytest.mark.parametrize(("kernel", "stride", "padding", "side"), [(3, 1, 1, 5), (2, 2, 0, 6), (3, 2, 2, 4)])
def test_the_norm_of_a_convolution_is_not_below_that_of_its_dense_matrix(kernel, stride, padding, side):
    chain = parse_chain(
        [["conv", 3, kernel, stride, padding, False], ["linear", 2, False]], (2, side, side), 2
    )
    f = {name: np.zeros_like(values) for name, values in random_weights(chain, 0).items()}
    f["1.weight"][0, 0] = 1.0
    g = {**f, "0.weight": random_weights(chain, 1)["0.weight"]}
    weight = torch.from_numpy(g["0.weight"].astype(np.float64))
    basis = torch.eye(2 * side * side, dtype=torch.float64).reshape(-1, 2, side, side)
    dense = functional.conv2d(basis, weight, stride=stride, padding=padding).flatten(1).numpy()
    exact = np.linalg.norm(dense, 2)
    # |last| = 1, and the change of the first layer is its whole norm: e = norm of conv times the input norm
    norm = deviation(chain, f, g, scaling=PLAIN, domain=UNIT) / math.sqrt(2 * side * side)
    assert exact <= norm
    if stride == 1:
        assert norm <= 1.2 * exact  # the circular convolution is hardly larger


@pytest.mark.parametrize("seed", range(5))
def test_no_input_of_the_domain_is_further_apart(seed):
    entries = [
        ["conv", 3, 3, 1, 1, True],
        ["max pool", 2],
        ["conv", 4, 2, 1, 0, True],
        ["average pool", 2],
        ["linear", 5, True],
        ["linear", 3, True],
    ]
    chain = parse_chain(entries, (2, 6, 6), 3)
    f = random_weights(chain, seed)
    g = random_weights(chain, seed + 100, like=f, change=0.1)
    bound = deviation(chain, f, g, scaling=PLAIN, domain=UNIT)
    x = np.random.default_rng(seed).choice([0.0, 1.0], (500, 2, 6, 6))
    observed = np.linalg.norm(logits(chain, f, x) - logits(chain, g, x), axis=1).max()
    assert 0 < observed <= bound
    assert deviation(chain, f, f, scaling=PLAIN, domain=UNIT) == 0


@pytest.mark.parametrize(
    "operation",
    [
        Operation("residual", out=2, bias=True),
        Operation("local conv", out=2, kernel=3, stride=1, bias=True),
    ],
)
def test_what_the_recursion_does_not_cover_is_refused(operation):
    chain = fit([operation, Operation("linear", out=2, bias=True)], (2, 4, 4), 2)
    f = random_weights(chain, 0)
    with pytest.raises(Refused, match=operation.kind):
        deviation(chain, f, f, scaling=PLAIN, domain=UNIT)
