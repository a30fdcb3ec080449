"""The study of Shin against numbers that were computed otherwise."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from codebound.run.errors import UsageError
from codebound_networks.train.rng import torch_stream
from codebound_papers.shin21.alternatives import fit_entry_laws
from codebound_papers.study.shin import shin21, shuffle_p_value
from codebound_papers.study.subjects import subject


@pytest.fixture(scope="module")
def found(about):
    return shin21(about, trials=4, resamples=20, examples=30)


def test_stable_ranks_and_tails_by_hand(about, found):
    for weight, row in zip(about.f.parameters(), found.record()["layers"], strict=True):
        matrix = weight.detach().double().numpy()
        largest = np.linalg.svd(matrix, compute_uv=False)[0]
        assert row["stable_rank"] == pytest.approx((matrix**2).sum() / largest**2, rel=1e-6)
        assert row["entries"]["status"] in ("power law", "no power law", "undecided")
        assert set(row["eigenvalue_distances"]) <= {"Gaussian", "Laplace", "stable"}
        assert "Gaussian" in row["law"] or "none" in row["law"] or "Laplace" in row["law"]


def test_the_exponent_is_that_of_hill(about, found):
    row = found.record()["layers"][0]
    values = np.sort(np.abs(next(about.f.parameters()).detach().double().numpy()), axis=None)
    hills = [1.0 / np.log(values[start:] / values[start]).mean() for start in range(len(values) - 2)]
    assert min(abs(hill - row["entries"]["tail_exponent"]) for hill in hills) < 1e-6


@pytest.mark.parametrize("mask", ["absolute", "signed"])
def test_redrawn_weights_by_hand(about, found, mask):
    (row,) = [each for each in found.record()["redrawn"] if each["mask"] == mask]
    first, last = (each.detach() for each in about.f.parameters())
    mean, deviation = float(last.double().mean()), float(last.double().std(correction=0))
    is_kept = (last.abs() if mask == "absolute" else last) > deviation
    features = (torch.from_numpy(about.test_set.x) @ first.T).relu()
    labels, accuracies = torch.from_numpy(about.test_set.y), []
    for trial in range(4):
        noise = torch.randn(last.shape, generator=torch_stream(about.seed, f"trial {trial}"))
        drawn = torch.where(is_kept, last, mean + deviation * noise)
        accuracies.append(float(((features @ drawn.T).argmax(dim=1) == labels).double().mean()))
    assert row["accuracies"] == pytest.approx(accuracies)
    assert (row["mean"], row["deviation"]) == pytest.approx((np.mean(accuracies), np.std(accuracies)))
    assert row["kept"] == pytest.approx(float(is_kept.double().mean()))
    assert row["original"] == pytest.approx(1.0 - found.errors["f"][1])


def test_laws_of_entries_as_scipy_fits_them(by_hand, found):
    for weight, row in zip(by_hand.weights, found.record()["layers"], strict=True):
        x, fits = weight.ravel(), {each["law"]: each for each in row["laws"]}
        for name, law in (("Gaussian", stats.norm), ("Laplace", stats.laplace)):
            frozen = law(*law.fit(x))
            assert fits[name]["likelihood"] == pytest.approx(frozen.logpdf(x).mean(), rel=1e-6)
            assert fits[name]["distance"] == pytest.approx(stats.kstest(x, frozen.cdf).statistic, rel=1e-6)
        stable = stats.levy_stable(fits["stable"]["alpha"], 0.0, loc=fits["stable"]["location"],
                                   scale=fits["stable"]["scale"])  # fmt: skip
        assert fits["stable"]["likelihood"] == pytest.approx(stable.logpdf(x[:40]).mean(), abs=0.5)
        best = max(row["laws"], key=lambda each: each["likelihood"])
        close = [each for each in row["laws"] if each["distance"] <= row["usual_distance"]]
        assert row["law"].startswith("none" if best not in close else (best["law"], "undecided"))
        assert best["law"] in row["law"]


def test_eigenvalues_are_compared_as_scipy_does(about, by_hand, found):
    for weight, row in zip(by_hand.weights, found.record()["layers"], strict=True):
        own = np.linalg.svd(weight, compute_uv=False) ** 2
        for fit in fit_entry_laws(weight).fits:
            if fit.alpha != 2.0:
                drawn = np.linalg.svd(fit.sample(weight.shape, seed=about.seed), compute_uv=False) ** 2
                expected = stats.ks_2samp(own, drawn).statistic
                assert row["eigenvalue_distances"][fit.law] == pytest.approx(expected)
        nearest = min(row["eigenvalue_distances"].items(), key=lambda pair: pair[1])
        assert row["eigenvalue_law"] == f"{nearest[0]} ({nearest[1]:.2f} off)"


def test_entries_are_independent_where_they_were_drawn_so(by_hand, found):
    rows = found.record()["layers"]
    assert [row["shuffled"] > 0.01 for row in rows] == [True, True]  # the weights are those of a seed
    for weight, row in zip(by_hand.weights, rows, strict=True):
        stream, own = np.random.default_rng(5), np.linalg.norm(weight.T @ weight)
        draws = [stream.permuted(weight.ravel()).reshape(weight.shape) for _ in range(2000)]
        share = np.mean([np.linalg.norm(each.T @ each) >= own for each in draws])
        assert row["shuffled"] == pytest.approx(share, abs=0.2)


def test_independence_is_refused_where_rows_are_alike():
    stream = np.random.default_rng(0)
    p_values = [shuffle_p_value(stream.normal(size=(6, 9)), seed=draw) for draw in range(200)]
    assert np.mean(np.array(p_values) <= 0.05) <= 0.1  # at its level
    common = stream.normal(size=(8, 30)) + 0.7 * stream.normal(size=30)
    assert shuffle_p_value(common) == 0.01
    assert shuffle_p_value(common.T) == 0.01
    assert shuffle_p_value(np.zeros((3000, 3000))) is None


def test_the_table_of_norms_is_that_of_numpy(by_hand, found):
    (table,) = [each for each in found.tables if each.title == "Spectra and norms"]
    for row, frobenius, spectral in zip(table.rows, by_hand.frobenius, by_hand.spectral, strict=True):
        assert float(row["Frobenius norm"]) == pytest.approx(frobenius, rel=1e-3)
        assert float(row["spectral norm"]) == pytest.approx(spectral, rel=1e-3)
        assert spectral <= float(row["at most"]) <= spectral * 1.002
        assert float(row["stable rank"]) == pytest.approx((frobenius / spectral) ** 2, rel=1e-3)


def test_tails_are_fitted_where_they_fit_best(by_hand, found):
    """The start of the tail has the least distance of Kolmogorov and Smirnov, the p-value is a share."""
    for weight, row in zip(by_hand.weights, found.record()["layers"], strict=True):
        eigenvalues = np.linalg.svd(weight, compute_uv=False) ** 2
        for values, fit in ((np.abs(weight).ravel(), row["entries"]), (eigenvalues, row["eigenvalues"])):
            tail = np.sort(values[values >= fit["xmin"] * (1 - 1e-9)])
            assert fit["tail_points"] == len(tail)
            hill = 1.0 / np.log(tail / tail[0]).mean()
            assert fit["tail_exponent"] == pytest.approx(hill, rel=1e-5)
            assert fit["density_exponent"] == pytest.approx(1.0 + hill, rel=1e-5)
            assert fit["interval"][0] <= fit["density_exponent"] <= fit["interval"][1]
            assert (fit["p_value"] * 21) % 1.0 == pytest.approx(0.0, abs=1e-6)  # of 20 samples, and itself
            assert ("no power law" in fit["reason"]) is (fit["p_value"] < 0.1)


@pytest.fixture(scope="module")
def plan(about, by_hand):
    """Accuracies of the layers and eta, from the definitions."""
    mu, later, c, x = [], [1.0 / np.sqrt(24), 1.0 / np.sqrt(3)], 1.0, by_hand.x
    for place, weight in enumerate(by_hand.weights):
        outputs = x @ weight.T
        sizes = np.linalg.norm(weight) * np.linalg.norm(x, axis=1)
        mu.append((np.linalg.norm(outputs, axis=1) / sizes).min())
        x = np.maximum(outputs, 0.0)
        if place == 0:
            c = (np.linalg.norm(outputs, axis=1) / np.linalg.norm(x, axis=1)).max()
            jacobians = by_hand.weights[1][None] * (outputs > 0.0)[:, None, :]
            ends = np.linalg.norm(np.einsum("nij,nj->ni", jacobians, outputs), axis=1)
            sizes = np.linalg.norm(jacobians, axis=(1, 2)) * np.linalg.norm(outputs, axis=1)
            later[0] = min(later[0], (ends / sizes).min())
    epsilon = by_hand.gamma / (np.sqrt(2.0) * by_hand.largest)
    eps = [epsilon * a * b / (6 * c * by_hand.depth) for a, b in zip(mu, later, strict=True)]
    return eps, about.delta / (2 * by_hand.depth**2 * by_hand.width * by_hand.n), mu, c


def test_theorem_2_by_hand(about, by_hand, plan):
    found = shin21(about, trials=1, resamples=20, examples=by_hand.n)  # cushions of all examples
    (eps, eta, mu, c), named = plan, {each.name: each for each in found.theorems}
    thresholds = [np.sqrt(e**2 / np.log(3.0 / eta)) for e in eps]
    kept = sum(int((np.abs(w) > t).sum()) for w, t in zip(by_hand.weights, thresholds, strict=True))
    assert named["Shin 2: heavy tails"].value == pytest.approx(by_hand.risk(kept))
    log_kappa = (2.0 + by_hand.depth * np.log(c) + np.log(by_hand.largest * by_hand.depth)
                 - np.log(mu).sum())  # fmt: skip
    nats = np.log(2.0 * kept) + log_kappa
    integral = integrate.quad(lambda e: np.sqrt(kept * (nats - np.log(e))), 0.0, 1.0)[0]
    dudley = by_hand.loss + integral / np.sqrt(by_hand.n)
    assert named["Shin 2 with logarithms"].value == pytest.approx(dudley, rel=1e-3)
    directions = by_hand.depth * by_hand.width * by_hand.n
    printed = [min(1.0, 3 * np.exp(-(e**2) / (2 * t**2))) for e, t in zip(eps, thresholds, strict=True)]
    assert named["Shin 1.1: failure"].value == pytest.approx(directions * sum(printed), rel=1e-3)
    proved = [
        min(1.0, 2 * np.exp(-((e * norm) ** 2) / (2 * t**2)))
        for e, norm, t in zip(eps, by_hand.frobenius, thresholds, strict=True)
    ]
    assert named["Shin 1.1x: failure"].log10 == pytest.approx(np.log10(directions * sum(proved)), rel=1e-2)
    for name, value in by_hand.older().items():
        assert named[name].value == pytest.approx(value, rel=2e-3), name
    said = {each.statement: each for each in named["Shin 2: heavy tails"].hypotheses}
    low, high = by_hand.frobenius.min(), by_hand.frobenius.max()
    assert said["||W||_F >= 1 in every layer"].holds is bool(low >= 1.0)
    assert said["all layers have the same Frobenius norm, within 1%"].holds is bool(high <= 1.01 * low)
    weights = sum(w.size for w in by_hand.weights)
    assert said["something is replaced"].holds is (kept < weights)
    law = next(each for each in said.values() if "power law" in each.statement)
    rows = found.record()["layers"]
    ruled_out = [r for r in rows if r["entries"]["status"] == "no power law" or r["shuffled"] <= 0.01]
    assert law.holds is (False if ruled_out else None)


@pytest.mark.thorough
def test_a_network_that_ends_otherwise_is_not_redrawn(about):
    from dataclasses import replace

    ends = torch.nn.Sequential(*about.f, torch.nn.ReLU())
    result = shin21(replace(about, f=ends), trials=2, resamples=20, examples=10)
    assert result.record()["redrawn"] == []
    assert "No weights were redrawn" in result.sentences[1]


def test_bad_options_get_one_sentence(about):
    with pytest.raises(UsageError, match="trials are at least 1"):
        shin21(about, trials=0)


def test_laws_over_the_training_end_with_those_of_the_network():
    found = shin21(subject("linear", epochs=4), trials=1, resamples=20, examples=10)
    rows, (last,) = found.record()["over_epochs"], found.record()["layers"]
    assert [row["epoch"] for row in rows] == [0, 2, 4]
    assert {key: rows[-1][key] for key in ("law", "alpha", "laws")} == {
        key: last[key] for key in ("law", "alpha", "laws")
    }
    assert rows[0]["alpha"] == 2.0  # uniform weights, before the training
