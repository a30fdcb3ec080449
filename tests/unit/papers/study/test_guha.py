"""The study of Guha et al. against numbers that were computed otherwise."""

import math

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from scipy import stats

from codebound.bits.stream import Stream
from codebound.certificate.file import Certificate
from codebound.run.errors import UsageError
from codebound_papers.guha23.sketch.operators import column_ensemble
from codebound_papers.study.guha import guha23
from codebound_papers.study.subjects import subject

D, EPS, LAMBDA = 8.0, 3.0, 5.0


@pytest.fixture(scope="module")
def found(about):
    return guha23(about, prune="magnitude", d=D, eps=EPS, lambda_=LAMBDA, levels=7)


def matrices(about):
    return [each.detach().double().numpy() for each in about.f.parameters()]


def kept_shares():
    return 1.0 - math.sqrt(D / (D + 2.0))


def by_hand(weights, x):
    return np.maximum(x @ weights[0].T, 0.0) @ weights[1].T


def test_g_is_the_largest_weights_on_a_grid(about, found):
    for original, row, tensor in zip(
        matrices(about), found.record()["layers"], found.networks["g"].parameters(), strict=True
    ):
        count = max(1, round(kept_shares() * original.size))
        least = np.sort(np.abs(original), axis=None)[-count]
        expected = np.where(np.abs(original) >= least, np.rint(original / row["rho"]) * row["rho"], 0.0)
        assert np.abs(expected).max() / row["rho"] <= 3.0 + 1e-6  # seven levels
        np.testing.assert_allclose(tensor.detach().numpy(), expected, rtol=1e-6, atol=1e-7)
        assert row["nonzeros"] == np.count_nonzero(expected)
        assert row["bits_float32"] == 32 * original.size


def test_errors_are_those_of_a_forward_pass_by_hand(about, found):
    g = [each.detach().double().numpy() for each in found.networks["g"].parameters()]
    for name, weights in (("f", matrices(about)), ("g", g)):
        for place, data in enumerate((about.sample, about.test_set)):
            wrong = margins_of(weights, data) <= 0.0  # a tie is an error
            assert found.errors[name][place] == pytest.approx(wrong.mean())


def test_a_saved_sketch_is_a_dense_product_and_comes_back(about, found, tmp_path):
    found.save_to(tmp_path)
    sketches, g = (load_file(tmp_path / f"{name}.safetensors") for name in ("sketches", "g"))
    recovered = load_file(tmp_path / "g-recovered.safetensors")
    assert sketches
    for position, row in enumerate(found.record()["layers"]):
        own, back = list(g.values())[position], list(recovered.values())[position]
        if row["exact"]:
            np.testing.assert_array_equal(own, back)
        if row["layer"] in sketches:
            m1, m2 = map(int, row["sketch"].split(" x "))
            sides = (("left", m1, row["rows"]), ("right", m2, row["columns"]))
            a, b = (dense(name, m, p, row["degree"], row["seed"]) for name, m, p in sides)
            levels = np.rint(own.astype(float) / row["rho"])
            np.testing.assert_array_equal(a @ levels @ b.T, sketches[row["layer"]])
    assert {path.name for path in tmp_path.iterdir()} >= {"result.json", "study.html", "g.cbound"}


def dense(name, m, p, degree, seed):
    graph, matrix = column_ensemble(Stream(seed, f"sketch/{name}"), m=m, p=p, degree=degree), np.zeros((m, p))
    for column in range(p):
        matrix[graph.rows[graph.starts[column] : graph.starts[column + 1]], column] = 1.0
    return matrix


def test_theorem_5_2_and_its_failure_by_hand(about, found):
    value, kept = found.theorems[:2]
    margins = margins_of(matrices(about), about.sample)
    gamma = np.sort(margins)[max(0, math.ceil(about.margin_share * about.sample.n) - 1)]
    loss, rows = (margins <= gamma).mean(), found.record()["layers"]
    assert gamma > 0.0

    def risk(shares):
        nats = [
            3 * LAMBDA * chi * x["rows"] * x["columns"] * math.log(max(x["rows"], x["columns"])) ** 2
            * max(0.0, -math.log(x["rho"]))
            for chi, x in zip(shares, rows, strict=True)
        ]  # fmt: skip
        return loss + math.sqrt(sum(nats) / about.sample.n)

    assert value.value == pytest.approx(risk([kept_shares()] * 2), rel=1e-6)
    shares = [max(1, round(kept_shares() * w.size)) / w.size for w in matrices(about)]
    assert kept.value == pytest.approx(risk(shares), rel=1e-6)
    failure = sum(1 / LAMBDA + 1 / EPS + max(x["rows"], x["columns"]) ** -2.0 for x in rows)
    assert value.failure_published == pytest.approx(failure)


def margins_of(weights, data):
    scores = by_hand(weights, data.x.astype(float))
    own = scores[np.arange(len(scores)), data.y]
    scores[np.arange(len(scores)), data.y] = -np.inf
    return own - scores.max(axis=1)


def test_a_condition_is_met_or_not_or_unknown(found):
    said = {each.statement: each for each in found.theorems[0].hypotheses}
    recovered = said["every layer comes back from its sketch, as theorem 5.1 says"]
    assert recovered.holds is all(row["exact"] for row in found.record()["layers"])
    assert said["the weights of a layer are independent Gaussians of one variance"].holds is None  # they are
    tables = [each for each in found.screen() if not isinstance(each, str)]
    (conditions,) = [each for each in tables if each.title.startswith("Conditions")]
    assert {row["holds"] for row in conditions.rows} >= {"met", "unknown"}


def test_older_bounds_by_hand(about, found):
    norms, n = [np.linalg.norm(w) for w in matrices(about)], about.sample.n
    gamma = np.sort(margins_of(matrices(about), about.sample))[max(0, math.ceil(about.margin_share * n) - 1)]
    loss = (margins_of(matrices(about), about.sample) <= gamma).mean()
    longest = np.linalg.norm(about.sample.x, axis=1).max()
    named = {each.name: each.value for each in found.theorems}
    assert named["Neyshabur 2015"] == pytest.approx(
        loss + longest * 4.0 * math.prod(norms) / gamma / math.sqrt(n), rel=1e-5
    )
    weights = sum(w.size for w in matrices(about))
    assert named["Parameter counting"] == pytest.approx(loss + math.sqrt(weights * math.log(2.0) / n))


def test_the_certificate_is_an_exact_binomial_tail(found):
    certificate = found.certified["g"]
    assert isinstance(certificate, Certificate)
    limit, bits = certificate.limit, certificate.message.bits
    log_tail = stats.binom.logcdf(limit.errors, limit.n, limit.bound)
    assert limit.bound == 1.0 or log_tail == pytest.approx(math.log(0.05) - bits * math.log(2.0), rel=1e-6)
    assert limit.errors / limit.n == pytest.approx(found.errors["g"][0])


def test_assumption_3_1_as_scipy_tests_it(about, found):
    for weights, row in zip(matrices(about), found.record()["assumption_3_1"], strict=True):
        x = weights.ravel()
        law = stats.norm(x.mean(), x.std())
        assert row["distance"] == pytest.approx(stats.kstest(x, law.cdf).statistic, rel=1e-9)
        assert row["excess_kurtosis"] == pytest.approx(stats.kurtosis(x), rel=1e-9)
        for d, kept in row["kept"].items():
            expected = 1.0 - np.exp(-(x**2) / (float(d) * x.var())).mean()
            assert kept == pytest.approx(expected, rel=1e-3)


def test_the_working_range_has_g_and_says_what_the_layers_do(found):
    points, rows = found.record()["working_range"], found.record()["layers"]
    (point,) = [each for each in points if each["d"] == D]
    assert (point["error"], point["test_error"]) == found.errors["g"]
    assert point["recovered"] == sum(row["exact"] for row in rows)
    assert [each["d"] for each in points] == sorted(each["d"] for each in points)


def test_algorithm_1_keeps_what_it_should(about):
    found = guha23(about, prune="algorithm1", d=0.5)
    shares = [float((w != 0).double().mean()) for w in found.networks["g"].parameters()]
    chi = 1.0 - math.sqrt(0.5 / 2.5)
    assert shares[0] == pytest.approx(chi, abs=0.12)  # 288 draws; rounding takes a few more
    assert found.settings["chi(d)"] == pytest.approx(chi)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prune": "best"}, "pruning is by algorithm1, magnitude, iterative"),
        ({"eps": 0.0}, "eps is a finite number above 0"),
        ({"lambda_": math.inf}, "lambda is a finite number above 0"),
        ({"d": 0.0}, "d is a finite number above 0"),
        ({"levels": 4}, "odd number of levels"),
        ({"widths": (8,)}, "other widths are those of mlp"),
    ],
)
def test_bad_options_get_one_sentence(about, options, words):
    with pytest.raises(UsageError, match=words):
        guha23(about, **options)


def test_without_test_examples_the_truth_is_unknown(about):
    from dataclasses import replace

    found = guha23(replace(about, test_set=None), prune="magnitude", d=2.0)
    assert "unknown" in found.sentences[2]
    assert found.record()["errors"]["g"]["test"] is None


@pytest.mark.thorough
def test_widths_epochs_and_rewinding_on_a_network_that_is_trained_here():

    about = subject("mlp:depth=2,width=16,bias=false", epochs=3, margin_share=0.95)
    found = guha23(about, prune="iterative", widths=(8,))
    record = found.record()
    assert [each["epoch"] for each in record["over_epochs"]] == [0, 1, 2, 3]
    assert [each["width"] for each in record["over_widths"]] == [8]
    assert record["over_epochs"][-1]["error"] == found.errors["f"][0]
    assert "over the training" in found.page()
    assert torch.equal(next(about.by_epoch[3].parameters()), next(about.f.parameters()))


def test_a_step_of_rounding_is_the_nearest_that_can_be_coded(about):
    for row in guha23(about, prune="magnitude", d=2.0, rho=0.05).record()["layers"]:
        assert row["rho"] == pytest.approx(0.05, rel=2 ** (1 / 16) - 1)


def test_tickets_in_wide_random_networks_come_near_the_scaled_network(found):
    rows = found.record()["tickets"]
    assert [row["random_width"] for row in rows] == [4 * 24, 16 * 24, 64 * 24]
    assert rows[-1]["distance"] < rows[0]["distance"]
    for row in rows:
        assert row["drawn"] == row["random_width"] * (12 + 24 + 24 + 3)
        assert row["active"] <= 4 * (12 * 24) + 2 * (24 * 3)
    assert "Theorem 6.1, measured" in found.page()


@pytest.mark.thorough
def test_a_network_without_biases_is_pruned_under_caps():
    about = subject("mlp:depth=3,width=32,bias=false", epochs=10)
    found = guha23(about, d=8.5)
    assert found.record()["settings"]["prune"] == "balanced"
    (row,) = [each for each in found.record()["working_range"] if each["d"] == 8.5]
    assert row["kept"] == pytest.approx(0.1, abs=0.05)
    for weight in found.networks["g"].parameters():  # caps are twice the mean of a row; 8 are always allowed
        left = weight.ne(0).sum(1)
        assert left.max() <= max(8, math.ceil(2.0 * 1.5 * 0.1 * weight.shape[1]))


def test_balanced_pruning_trains_biases_that_the_certificate_codes():
    about = subject("mlp:depth=2,width=16", epochs=3)
    found = guha23(about, d=8.5)
    assert found.record()["settings"]["prune"] == "balanced"
    g, claim = found.networks["g"], found.record()["certified"]["g"]
    before, after = (
        [value for name, value in net.named_parameters() if name.endswith("bias")] for net in (about.f, g)
    )
    assert all(not torch.allclose(one, other, atol=1e-3) for one, other in zip(before, after, strict=True))
    assert claim["errors"] == round(about.errors(g)[0] * about.sample.n)
