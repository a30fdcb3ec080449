"""The study of Guha et al. against numbers that were computed otherwise."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from scipy import stats
from scipy.special import gammaln
from worlds.by_hand import ByHand

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


def scores_of(weights, x):
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
        off = np.linalg.norm(back.astype(float) - own) / np.linalg.norm(own.astype(float))
        assert row["relative_error"] == pytest.approx(off, abs=1e-6)
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
    scores = scores_of(weights, data.x.astype(float))
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


def test_older_bounds_by_hand(by_hand, found):
    named = {each.name: each.value for each in found.theorems}
    for name, value in by_hand.older().items():
        assert named[name] == pytest.approx(value, rel=2e-3), name


def test_counts_sparsity_and_tickets_by_hand(by_hand, found):
    named, rows = {each.name: each for each in found.theorems}, found.record()["layers"]
    kept = [max(1, round(kept_shares() * w.size)) for w in by_hand.weights]
    choices = [gammaln(w.size + 1) - gammaln(j + 1) - gammaln(w.size - j + 1)
               for w, j in zip(by_hand.weights, kept, strict=True)]  # fmt: skip
    values = [-j * math.log(row["rho"]) for j, row in zip(kept, rows, strict=True)]
    assert named["Guha D.1: naive count"].value == pytest.approx(by_hand.risk(sum(choices) + sum(values)))
    lines = [(1 / LAMBDA, *(side ** (-1 / 3) for side in w.shape)) for w in by_hand.weights]
    sparse = named["Guha 5.1: sparsity fails"]
    assert sparse.value == sparse.failure_published == pytest.approx(sum(map(sum, lines)))
    h, rho = by_hand.width, max(row["rho"] for row in rows)
    numbers = h * 12 + by_hand.depth * h**2
    ticket = named["Guha 6.2: ticket"]
    assert ticket.value == pytest.approx(by_hand.risk(numbers * math.log(16 * h) ** 2 * -math.log(rho)))
    assert ticket.failure_published == pytest.approx(0.05 + by_hand.depth * (16 * h) ** -2.0)


def test_full_lines_fail_as_the_binomial_law_has_it(about, by_hand):
    found, expected = guha23(about, prune="magnitude", d=D, lambda_=0.7), 0.0
    for w in by_hand.weights:
        limit, fails = math.floor(3 * 0.7 * kept_shares() * max(w.shape)), 0.0
        for lines, length in (w.shape, w.shape[::-1]):
            met = min(w.shape)  # lines that meet the diagonal, which is kept
            fails += met * stats.binom.sf(limit - 1, length - 1, kept_shares())
            fails += (lines - met) * stats.binom.sf(limit, length, kept_shares())
        expected += min(1.0, fails)
    (sparse,) = [each for each in found.theorems if each.name == "Guha 5.1: sparsity fails"]
    assert 0.0 < expected < 2.0
    assert sparse.failure_corrected == pytest.approx(expected)


def test_conditions_of_theorem_5_2_by_hand(by_hand, found):
    said = {each.statement: each for each in found.theorems[0].hypotheses}
    rows, ratio = found.record()["layers"], D / (D + 2.0)
    kept = [max(1, round(kept_shares() * w.size)) for w in by_hand.weights]
    predicted = [
        math.sqrt(w.var() * ratio**1.5) * sum(map(math.sqrt, w.shape))
        + (3 * w.size * w.var() ** 2 * ratio**2.5) ** 0.25
        for w in by_hand.weights
    ]
    printed = [EPS * g + row["rho"] * j for g, row, j in zip(predicted, rows, kept, strict=True)]
    proved = [EPS * g + row["rho"] * j**0.5 / 2 for g, row, j in zip(predicted, rows, kept, strict=True)]
    norms = by_hand.spectral
    forms = [
        (12, printed, "gamma is at least the printed deviation of lemma 4.4"),
        (2**0.5 * by_hand.longest, proved,
         "gamma is at least sqrt(2) times the corrected deviation of lemma 4.4"),
    ]  # fmt: skip
    for radius, changes, statement in forms:
        needed = math.e * radius * np.prod(norms) * sum(np.array(changes) / norms)
        assert float(said[statement].found.split(" against ")[1]) == pytest.approx(needed, rel=2e-3)
        assert said[statement].holds is bool(by_hand.gamma >= needed)
    far = np.array(printed) - norms / by_hand.depth
    small = said["every layer changes by at most its spectral norm over the number of layers"]
    assert small.holds is bool(far.max() <= 0.0)
    assert f"{printed[far.argmax()]:.4g}" in small.found
    cut = [np.where(np.abs(w) >= np.sort(np.abs(w), axis=None)[-j], 0.0, w)
           for w, j in zip(by_hand.weights, kept, strict=True)]  # fmt: skip
    taken = [np.linalg.norm(w, 2) for w in cut]
    assert said["pruning took at most eps_l Gamma_l from every layer"].holds is all(
        change <= EPS * g for change, g in zip(taken, predicted, strict=True)
    )
    assert said["the norm of an input is at most its dimension"].holds is bool(by_hand.longest <= 12)
    assert said["all steps rho_l are below 1"].holds is all(row["rho"] < 1.0 for row in rows)


def test_constants_are_those_that_were_asked_for(found):
    settings = found.record()["settings"]
    named = {name: settings[name] for name in ("d", "eps", "lambda", "C")}
    assert named == {"d": D, "eps": EPS, "lambda": LAMBDA, "C": 1.0}
    assert settings["chi(d)"] == pytest.approx(kept_shares())
    assert settings["rho"] == max(row["rho"] for row in found.record()["layers"])


def test_bits_of_the_layers_are_those_of_the_certificates(found):
    """The second program has decoded both messages; what is not a layer is a header of few bits."""
    rows, headers = found.record()["layers"], []
    shortest = [row["bits_coded"] for row in rows]
    sketched = [row["bits_sketch"] or row["bits_coded"] for row in rows]
    for name, bits in (("g", shortest), ("g as sketches", sketched)):
        headers.append(found.certified[name].message.bits - sum(bits))
    assert all(-16 * len(rows) <= header <= 128 for header in headers), headers
    for row in rows:
        size, j = row["rows"] * row["columns"], row["nonzeros"]
        positions = (gammaln(size + 1) - gammaln(j + 1) - gammaln(size - j + 1)) / math.log(2.0)
        values = j * math.log2(6)  # seven levels, one of them zero
        assert positions + values <= row["bits_positions_and_values"] <= positions + values + 64


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
            assert row["chi"][d] == pytest.approx(1.0 - math.sqrt(float(d) / (float(d) + 2.0)), rel=1e-3)
        normal = np.random.default_rng(0).normal(size=(400, x.size))
        normal -= normal.mean(axis=1, keepdims=True)
        normal = stats.norm.cdf(np.sort(normal / normal.std(axis=1, keepdims=True)))
        steps = np.arange(x.size + 1) / x.size
        distances = np.maximum(steps[1:] - normal, normal - steps[:-1]).max(axis=1)
        assert row["usual_distance"] == pytest.approx(np.quantile(distances, 0.99), rel=0.1)


def test_the_working_range_has_g_and_says_what_the_layers_do(found):
    points, rows = found.record()["working_range"], found.record()["layers"]
    (point,) = [each for each in points if each["d"] == D]
    assert (point["error"], point["test_error"]) == found.errors["g"]
    assert point["recovered"] == sum(row["exact"] for row in rows)
    kept = [max(1, round(kept_shares() * row["rows"] * row["columns"])) for row in rows]
    sizes = [row["rows"] * row["columns"] for row in rows]
    assert point["kept"] == pytest.approx(sum(kept) / sum(sizes))
    sides = [math.prod(map(int, row["sketch"].split(" x "))) if row["exact"] else size
             for row, size in zip(rows, sizes, strict=True)]  # fmt: skip
    assert point["numbers"] == pytest.approx(sum(sides) / sum(sizes))
    without = [each["numbers"] for each in points if each["recovered"] == 0]
    assert set(without) == {1.0}  # then the weights themselves are kept
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
    found = guha23(replace(about, test_set=None), prune="magnitude", d=2.0)
    assert "unknown" in found.sentences[2]
    assert found.record()["errors"]["g"]["test"] is None


@pytest.mark.thorough
def test_widths_and_epochs_of_a_network_that_is_trained_here():
    about = subject("mlp:depth=2,width=16,bias=false", epochs=3, margin_share=0.95)
    found = guha23(about, prune="magnitude", d=2.0, widths=(8,))
    record, last = found.record(), found.record()["over_epochs"][-1]
    assert [each["epoch"] for each in record["over_epochs"]] == [0, 1, 2, 3]
    assert [each["width"] for each in record["over_widths"]] == [8]
    assert last["error"] == found.errors["f"][0]
    own = {each.name: each.log10 for each in found.theorems}
    for name, log10 in last["log10"].items():  # of f itself, pruned as g is
        assert log10 == pytest.approx(own[name]), name
    for row, net in ((record["over_epochs"][1], about.by_epoch[1]),
                     (record["over_widths"][0], about.like(spec=about.widen(8)))):  # fmt: skip
        other = ByHand(replace(about, f=net, by_epoch={}))
        assert row["error"] == pytest.approx((other.margins <= 0.0).mean())
        assert row["smallest_margin"] == pytest.approx(other.margins.min(), rel=1e-4)
        for name in ("Bartlett 2017", "Neyshabur 2015"):
            assert 10.0 ** row["log10"][name] == pytest.approx(other.older()[name], rel=2e-3)
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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_rewinding_on_a_network_that_is_trained_here():
    about = subject("mlp:depth=2,width=16,bias=false", epochs=3, margin_share=0.95)
    found = guha23(about, prune="iterative")
    record = found.record()
    assert [each["epoch"] for each in record["over_epochs"]] == [0, 1, 2, 3]
    assert record["over_epochs"][-1]["error"] == found.errors["f"][0]
