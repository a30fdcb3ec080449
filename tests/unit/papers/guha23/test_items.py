"""Tables 1 and 2 and figures 1 and 2 of Guha et al. 2023: the printed numbers, and tiny runs by hand."""

import json
import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import beta

from codebound_networks.train import harness
from codebound_papers.guha23.items.comparisons import (
    guha_figure1a,
    guha_figure1b,
    guha_figure1c,
    guha_table1,
    guha_table2,
)
from codebound_papers.guha23.items.gaussian import _layer, guha_gaussian_weights
from codebound_papers.guha23.items.guha_networks import CODE, TEXT, Networks, network_settings
from codebound_papers.guha23.items.printed import CIFAR10, MNIST, deductions, like_for_like
from codebound_papers.guha23.items.released import measure_smallest_margin, released_bound
from codebound_papers.guha23.items.single_network import _epoch_sentences, guha_figure2, rescale
from codebound_papers.guha23.items.verdicts import (
    as_released,
    at_printed_widths,
    on_one_scale,
    on_pruning,
    on_training,
)
from codebound_papers.guha23.pruning import kept_share
from codebound_papers.journal import Journal
from codebound_papers.measure.outputs import margin_report
from codebound_papers.reproduce.items import Settings, one_line

pytestmark = pytest.mark.usefixtures("tiny_networks")

TINY = Settings(size="tiny")


@pytest.fixture(scope="module", params=["mnist", "cifar10"])
def networks(request):
    return Networks(network_settings(request.param, "tiny"), Settings(size="tiny"))


@pytest.fixture(scope="module")
def separated():
    """A tiny network with a positive margin, and what was measured of it."""
    networks = Networks(network_settings("mnist", "tiny"), TINY)
    samples = networks.parts.samples
    measured = measure_smallest_margin(networks.watched.network, samples.train, device="cpu")
    assert measured.facts.margin > 0.0
    return measured, samples


def test_what_the_printed_numbers_imply_for_mnist():
    """G-E22 i, ii, iv, v, vi and G-E16, from the printed numbers alone."""
    rows = {row["width"]: row for row in deductions("mnist", MNIST)}
    assert [round(row["kept share by Guha 2023"], 2) for row in rows.values()] == pytest.approx(
        [0.85, 0.83, 0.79, 0.75, 0.79, 0.77], abs=0.0101
    )
    row = rows[784]
    assert row["Neyshabur 2017 - Bartlett 2017"] == pytest.approx(math.log(784), abs=0.011)
    assert row["ln mean fan-in"] == pytest.approx(math.log(784))
    names = ("Neyshabur 2015", "Neyshabur 2017", "Bartlett 2017", "Guha 2023")
    found = [row[f"{name}, like for like"] for name in names]
    assert found == pytest.approx([6.39, 3.78, 0.45, 3.77], abs=0.006)
    assert row["parameter counting"] == pytest.approx(1.79, abs=0.006)
    factors = [row["Guha / Bartlett, like for like"] for row in rows.values()]
    assert (min(factors), max(factors)) == pytest.approx((20, 51), abs=0.9)
    lost = [rows[width]["failure probability left out"] for width in (500, 784, 2500)]
    assert lost == pytest.approx([1.58, 1.44, 1.16], abs=0.006)


def test_what_the_printed_numbers_imply_for_cifar10():
    """G-E22 iii and v."""
    (row,) = deductions("cifar10", CIFAR10)
    assert row["Neyshabur 2017 - Bartlett 2017"] == pytest.approx(math.log((3072 + 4 * 2000) / 5), abs=0.011)
    bars = [row[f"{name}, like for like"] for name in ("Neyshabur 2015", "Neyshabur 2017", "Bartlett 2017")]
    assert bars == pytest.approx([11.30, 9.75, 5.90], abs=0.006)
    assert row["Guha / Bartlett, like for like"] < 1.0


def test_an_infinite_bound_stays_infinite_like_for_like():
    bars = {"neyshabur15": None, "neyshabur17": math.log(4.0), "bartlett17": None, "guha": 3.0}
    found = like_for_like(bars, 16)
    assert found["neyshabur15"] is found["bartlett17"] is None
    assert found["neyshabur17"] == pytest.approx(math.log(0.5))
    assert found["guha"] == 3.0


@pytest.mark.parametrize(
    ("data", "batch", "widths"), [("mnist", 256, tuple(MNIST)), ("cifar10", 64, (2000,))]
)
def test_the_full_plan_has_the_published_settings(data, batch, widths):
    wanted = network_settings(data, "full")
    code, text = wanted.trainings[CODE], wanted.trainings[TEXT]
    assert (wanted.widths, wanted.depth, wanted.taken) == (widths, 5, None)
    assert (text.optimizer, text.learning_rate, text.epochs, text.batch_size) == ("adam", 0.02, 300, batch)
    assert (code.optimizer, code.momentum, code.weight_decay, code.epochs) == ("sgd", 0.9, 1e-4, 300)
    assert (code.batch_size, code.learning_rate) == (batch, 0.02 if data == "mnist" else 0.01)
    assert any("4" in deviation for deviation in wanted.deviations)


@pytest.mark.parametrize("data", ["mnist", "cifar10"])
def test_a_shorter_plan_says_so(data):
    quick, full = network_settings(data, "quick"), network_settings(data, "full")
    assert max(quick.widths) <= 500
    assert quick.deviations[1:] == full.deviations[:-1]
    assert "TF32" in full.deviations[-1]  # the long trainings are on GPUs
    assert {each.precision for each in full.trainings.values()} == {"tensorfloat32"}
    assert {each.precision for each in quick.trainings.values()} == {"float32"}
    assert f"{quick.taken * 4 // 5:,} examples" in quick.deviations[0]


def test_a_fifth_is_held_out_and_pixels_lie_between_minus_one_and_one(networks):
    (train, test), held_out = networks.parts
    assert (train.n, held_out.n) == (200, 50)
    taken = {row.tobytes() for row in train.x}
    assert not any(row.tobytes() in taken for row in held_out.x)
    for part in (train, test, held_out):
        inputs = part.scaling.apply(torch.from_numpy(part.x))
        assert -1.0 <= float(inputs.min()) < -0.9
        assert 0.9 < float(inputs.max()) <= 1.0


def test_the_bound_is_that_of_the_released_code(separated):
    measured, samples = separated
    found = released_bound(measured, seed=0)
    total = sum(
        matrix.numel()
        * math.log(max(matrix.shape)) ** 2
        * (1 - math.sqrt(found.pruned.strength / (found.pruned.strength + 2)))
        for matrix in (view.matrix for view in measured.network.layers)
    )
    margins = margin_report(measured.network.predictor, samples.train.on("cpu")).values
    loss = float((margins <= found.needed).mean())
    assert found.bound.value == pytest.approx(loss + math.sqrt(total / samples.train.n), rel=1e-9)
    assert found.pruned.chi == pytest.approx(kept_share(found.pruned.strength))
    assert 0.0 < found.pruned.kept_share <= 1.0


@pytest.mark.thorough
def test_rows_by_hand(networks):
    samples, held_out = networks.parts
    for row in networks.rows():
        subject = networks.train(row["training"], row["width"])
        margins = margin_report(subject.network.predictor, samples.train.on("cpu")).values
        least = row["smallest_margin"]
        assert least == pytest.approx(float(margins.min()), rel=1e-4)  # in the arithmetic of the network
        matrices = [view.matrix.detach().double().numpy() for view in subject.network.layers]
        norms = [np.linalg.norm(matrix, 2) for matrix in matrices]
        frobenius = [np.linalg.norm(matrix) for matrix in matrices]
        if least <= 0.0:
            assert [row["released"][name] for name in ("neyshabur15", "neyshabur17", "bartlett17")] == [
                None
            ] * 3
            assert row["chi"] == pytest.approx(1.0)
        else:
            product = float(np.prod(np.square(norms))) / least**2
            ranks = [(f / s) ** 2 for f, s in zip(frobenius, norms, strict=True)]
            wide = [rank * matrix.shape[1] for rank, matrix in zip(ranks, matrices, strict=True)]
            expected = [
                float(np.prod(np.square(frobenius))) / least**2,
                product * sum(wide),
                product * sum(ranks),
            ]
            found = [row["released"][name] for name in ("neyshabur15", "neyshabur17", "bartlett17")]
            assert found == pytest.approx([math.log(value) for value in expected], rel=1e-6)
        parameters = sum(value.numel() for value in subject.network.model.parameters())
        counting = float((margins <= 0.0).mean()) + math.sqrt(parameters * math.log(2.0) / samples.train.n)
        assert math.exp(row["parameter_counting"]) == pytest.approx(counting)
        errors = margin_report(subject.network.predictor, held_out.on("cpu")).errors
        tested = len(networks.wanted.widths) * 2
        limit = beta.ppf(1.0 - 0.05 / tested, errors + 1, held_out.n - errors)
        assert math.exp(row["hold_out"]) == pytest.approx(float(limit), rel=1e-6)
        inputs = samples.train.scaling.apply(torch.from_numpy(samples.train.x))
        assert row["pixel_norm"] == pytest.approx(float(inputs.norm(dim=1).max()))
        assert row["input_norm"] == pytest.approx(float(inputs.flatten(1).norm(dim=1).max()), rel=1e-6)


def test_networks_with_and_without_a_positive_margin_are_among_them():
    both = (network_settings(data, "tiny") for data in ("mnist", "cifar10"))
    rows = [row for wanted in both for row in Networks(wanted, Settings(size="tiny")).rows()]
    assert {row["smallest_margin"] > 0.0 for row in rows} == {True, False}


def test_published_numbers_stand_beside_ours(monkeypatch):
    wanted = network_settings("mnist", "tiny")
    narrow, wide = wanted.widths
    monkeypatch.setattr("codebound_papers.guha23.items.printed.MNIST", {wide: MNIST[500]})
    first, second = list(guha_table1(Settings(size="tiny")).tables.values())[:2]
    assert [row["width"] for row in first] == [narrow, narrow, wide, wide]
    assert first[0]["published_guha"] is None
    assert first[2]["published_guha"] == 3.36
    assert first[2]["published_test_error"] == -3.76
    assert second[2]["published_bartlett17"] == pytest.approx(0.5 * (11.51 - math.log(48_000)))
    assert second[2]["bartlett17"] == pytest.approx(0.5 * (first[2]["bartlett17"] - math.log(200)))
    assert second[2]["guha"] == first[2]["guha"]


def test_items_share_their_networks(monkeypatch):
    guha_table1(Settings(size="tiny"))
    guha_table2(Settings(size="tiny"))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a network was trained again")

    monkeypatch.setattr(harness, "_train_epoch", refuse)
    for run in (guha_figure1a, guha_figure1b, guha_figure1c):
        run(Settings(size="tiny"))


def row_of(bartlett, guha, *, margin=1.0, n=100):
    released = {"neyshabur15": bartlett, "neyshabur17": bartlett, "bartlett17": bartlett, "guha": guha}
    return {"width": 5, "n": n, "epochs": 300, "smallest_margin": margin, "released": released}


def test_verdicts_follow_the_numbers():
    printed = deductions("mnist", MNIST)
    far, near = row_of(20.0, 3.0), row_of(9.0, 3.0)
    full = partial(as_released, claimed=3, settings=Settings(size="full"))
    assert full([far], printed).startswith("We agree:")
    assert full([far, near], printed).startswith("We agree in part")
    assert full([near], printed).startswith("We do not agree")
    assert full([{**near, "epochs": 100}], printed).startswith("Open (a network after 100 epochs)")
    assert as_released([near], printed, claimed=3, settings=TINY).startswith("Open")
    assert one_line(full([far], printed)).endswith(
        "Here: width 5, n = 100, 300 epochs. There: width 500 to 2,500, n = 48,000, 300 epochs."
    )
    assert "no comparison" in full([row_of(None, 3.0, margin=-1.0)], printed)
    assert on_one_scale([row_of(9.0, 3.0)], printed).endswith("the comparison does not stand.")
    both = on_one_scale([row_of(40.0, 3.0)], printed)
    assert "in print: the comparison does not stand. Here" in both
    assert both.endswith("the comparison stands.")
    mixed = on_one_scale([row_of(40.0, 3.0), row_of(9.0, 3.0)], printed)
    assert mixed.endswith("the comparison stands in part.")
    cifar = deductions("cifar10", CIFAR10)
    assert on_one_scale([row_of(None, 3.0, margin=-1.0)], cifar).endswith("in print: the comparison stands.")


def test_a_difference_from_print_is_said_to_be_open():
    printed = {5: {"neyshabur15": 9.0, "neyshabur17": 9.0, "bartlett17": 9.0, "guha": 3.0}}
    assert one_line(at_printed_widths([row_of(9.1, 3.0)], printed, n=100)).endswith("number of examples.")
    assert at_printed_widths([row_of(7.0, 3.0)], printed, n=100).endswith("stays open.")


def test_a_network_that_has_not_learnt_is_no_success():
    def row(training, width, error):
        margin = -1.0 if error else 1.0
        return {"training": training, "width": width, "train_error": error, "smallest_margin": margin}

    told = one_line(on_training([row(CODE, 5, 0.0), row(CODE, 6, 0.0), row(TEXT, 5, 0.1), row(TEXT, 6, 0.9)]))
    assert "positive in 2 of 2 networks (training error 0.0%)" in told
    assert "positive in 0 of 2 networks (training error 10.0% at width 5, 90.0% at width 6)" in told
    assert "At width 6 that is no better than guessing." in told
    assert "thrown back" not in told
    assert "thrown back before its end (G-Exp2). With" in one_line(
        on_training([row(CODE, 5, 0.1), row(TEXT, 5, 0.1)])
    )
    earlier = row(f"{CODE}, 100 epochs", 5, 0.0) | {"epochs": 100}
    assert "(G-Exp2). After 100 epochs it was positive. With" in one_line(
        on_training([row(CODE, 5, 0.1), earlier])
    )
    told = one_line(on_training([row(CODE, 5, 0.0)]))
    assert "no network, for none was run (G-E29)" in told
    assert "guessing" not in told


def test_the_items_conclude_with_the_networks_that_are_finished(tmp_path):
    path = tmp_path / "cells.json"
    guha_table1(Settings(size="tiny", cells=Journal(path)))
    kept = json.loads(path.read_text())
    for name in [name for name in kept["cells"] if name != "SGD (code), width 12"]:
        del kept["cells"][name]
    path.write_text(json.dumps(kept))
    for run in (guha_table1, guha_figure1a, guha_figure1c):
        cells = Journal(path, deadline=0.0)
        found = run(Settings(size="tiny", cells=cells))
        assert "Adam (text), width 12" in cells.left
        assert found.sentences
        assert all(
            {row["width"] for row in rows} == {12} for rows in found.tables.values() if "training" in rows[0]
        )


def test_the_verdict_on_pruning_follows_the_numbers():
    printed = deductions("mnist", MNIST)
    row = {
        **row_of(9.0, 3.0),
        "needed": 2.0,
        "needed_for_usual_share": 7.0,
        "chi": 0.99,
        "chi_by_change": 0.8,
        "guha_by_change": 3.4,
    }
    assert "We do not find that" in on_pruning([row], printed)
    assert "7 times as large" in on_pruning([row], printed)
    assert "We find as much" in on_pruning([{**row, "chi": 0.8}], printed)
    assert "nothing is pruned" in on_pruning([{**row, "smallest_margin": 0.0}], printed)
    assert on_pruning([row], printed).endswith("of networks of other widths than the printed ones.")
    there = {**row, "width": 500}  # where 3.36 is printed
    assert "by +0.04: the printed values may well come from it" in on_pruning([there], printed)
    assert on_pruning([{**there, "guha_by_change": 3.6}], printed).endswith("which stays open.")


def test_distances_from_the_printed_numbers():
    row = {**row_of(12.0, 4.0, n=480), "width": 500}
    row["released"] |= {"neyshabur15": 22.0, "neyshabur17": 18.0}
    sentence = one_line(at_printed_widths([row, row_of(1.0, 1.0)], MNIST, n=48_000))
    assert "logarithms by -0.29 to +0.49" in sentence
    assert f"own by +0.64, of which {0.5 * math.log(100):.2f} is due" in sentence
    assert "compare in kind" in at_printed_widths([{**row, "smallest_margin": 0.0}], MNIST, n=48_000)


def test_growth_is_a_least_squares_slope():
    found = guha_figure1c(Settings(size="tiny"))
    rows = list(found.tables.values())[-1]
    growth = {row["bound"]: row["published"] for row in rows}
    older = [row["as released"] for row in rows if row["bound"] != "Guha 2023"]
    assert f"in print, here {min(older):.2f} to {max(older):.2f};" in found.sentences[1]
    widths = np.log(list(MNIST))
    for label, name in (("Guha 2023", "guha"), ("Neyshabur 2015", "neyshabur15")):
        expected = np.polyfit(widths, [bars[name] for bars in MNIST.values()], 1)[0]
        assert growth[label] == pytest.approx(expected)


@pytest.mark.thorough
def test_states_of_a_training():
    """While the margin is not positive the bound is the training error plus a constant."""
    rows = guha_figure2(Settings(size="tiny")).points["epochs"]
    assert [row["epoch"] for row in rows] == [0, 2, 4, 6, 8]
    before = [row for row in rows if row["smallest_margin"] <= 0.0]
    after = [row for row in rows if row["smallest_margin"] > 0.0]
    assert before
    assert after
    constants = [row["bound"] - row["train_error"] for row in before]
    assert max(constants) == pytest.approx(min(constants))
    assert all(row["chi"] < 1.0 for row in after)
    for column in ("bound_rescaled", "bound_by_change_rescaled"):
        for end in (min, max):
            assert end(row[column] for row in rows) == pytest.approx(end(row["test_error"] for row in rows))


def test_a_margin_that_is_lost_again_is_said_to_be():
    def row(epoch, margin, bound):
        shares = {
            "train_error": 0.04,
            "test_error": 0.05,
            "margin_loss": 0.1,
            "chi": 0.9,
            "chi_by_change": 0.8,
        }
        bounds = {"bound": bound, "bound_by_change": bound, "bound_relative": 1.0, "error_relative": 1.0}
        return {"epoch": epoch, "smallest_margin": margin, **shares, **bounds}

    settled = [row(0, -1.0, 9.0), row(10, -0.5, 8.0), row(20, 1.0, 7.0)]
    assert not any("negative again" in each for each in _epoch_sentences(settled, TINY))
    told = list(_epoch_sentences([*settled, row(30, -2.0, 8.0)], TINY))
    assert "Up to epoch 10" in told[0]
    assert "from 8.00 to 7.00" in told[1]
    (lost,) = [each for each in told if "negative again" in each]
    assert lost.startswith("From epoch 30 on")
    assert "error of 4.0%" in lost


def test_the_watched_network_is_also_shown_on_its_way(monkeypatch):
    assert len(guha_figure1a(TINY).tables["The networks, and how strongly they could be pruned"]) == 2
    monkeypatch.setattr("codebound_papers.guha23.items.guha_networks.PLOTTED", 4)
    found = guha_figure1a(TINY)
    *_, early = found.tables["The networks, and how strongly they could be pruned"]
    assert early["training"] == f"{CODE}, 4 epochs"
    assert early["epochs"] == 4
    (state,) = [row for row in guha_figure2(TINY).points["epochs"] if row["epoch"] == 4]
    assert early["train error"] == state["train_error"]
    assert early["smallest margin"] == state["smallest_margin"]


def test_a_bound_that_never_moves_can_be_rescaled():
    rows = rescale([{"bound": 3.0, "test_error": 0.5}, {"bound": 3.0, "test_error": 0.25}], "bound")
    assert [row["bound_rescaled"] for row in rows] == [0.25, 0.25]


def test_gaussian_weights_keep_the_share_that_the_theorem_says_and_others_do_not():
    rng = torch.Generator().manual_seed(0)
    normal = _layer("fc", torch.randn(400, 500, generator=rng))
    uniform = _layer("fc", torch.rand(400, 500, generator=rng) - 0.5)
    for d in (0.1, 1.0, 10.0):
        chi = 1.0 - math.sqrt(d / (d + 2.0))
        assert normal[f"kept at d = {d:g}"] == pytest.approx(chi, abs=0.003)
    assert uniform["kept at d = 0.1"] > 1.05 * normal["kept at d = 0.1"]
    assert normal["distance"] < normal["usual distance"] < uniform["distance"]


def test_the_shape_of_weights_is_looked_at_from_the_start_to_the_end():
    found = guha_gaussian_weights(Settings(size="tiny"))
    ends = found.tables["At the end of the training"]
    assert [(row["data"], row["epoch"]) for row in ends] == [("mnist", 8)] * 3 + [("cifar10", 8)] * 3
    starts = [row for row in found.points["epochs"] if row["epoch"] == 0]
    assert len(starts) == 6
    assert all(row["excess kurtosis"] < -0.8 for row in starts)  # uniform
