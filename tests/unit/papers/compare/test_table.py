"""The comparison: every published bound is in it, true rows come first, nothing is left out in silence."""

import importlib
import json
import math
import pkgutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import beta
from torch import nn
from worlds.networks import Skipping, mlp
from worlds.samples import clouds

import codebound
import codebound_papers
from codebound.run.errors import CertificateError, DataError, FormatError, UsageError
from codebound.run.references import REGISTRY
from codebound.sample.dataset import Sample
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit
from codebound_networks.views import graphs
from codebound_papers import framework
from codebound_papers.compare.comparison import comparison_record
from codebound_papers.compare.compressed import labels
from codebound_papers.compare.page import compare_page
from codebound_papers.compare.rows import ORDER, published_row
from codebound_papers.compare.table import Comparison, _collapse, compare
from codebound_papers.measure.record import MeasureSettings
from codebound_papers.published import Evidence, evaluate
from codebound_papers.value import EXPRESSIONS, PublishedValue, expression

PLAN = MeasureSettings(examples=15)
KEYS = [
    *("name", "reference", "value", "log10", "kind", "subject", "guarantee", "vacuous"),
    *("conditions", "note"),
]


def blobs(n: int, *, seed: int, role: str = "train") -> Sample:
    """Three classes so far apart that any network learns them."""
    return clouds(n, features=6, apart=4.0, noise=0.5, seed=seed, role=role, in_turn=True)


@cache
def trained() -> nn.Module:
    settings = TrainConfig(epochs=60, batch_size=20, learning_rate=0.02)
    return fit(mlp(6, 8, 3), blobs(120, seed=1), settings).model


@cache
def table() -> Comparison:
    return compare(trained(), blobs(120, seed=1), blobs(80, seed=2, role="test"), settings=PLAN)


@cache
def bare(like_for_like: bool = False) -> Comparison:
    return compare(trained(), blobs(120, seed=1), effort=None, settings=PLAN, like_for_like=like_for_like)


def shown(found: Comparison) -> set[str]:
    refs = {row.reference for row in found.rows} | {str(each["reference"]) for each in found.lemmas}
    return refs | ({"A-Tab1"} if found.complexities else set())


# registered as published, but numbers inside a bound: no risk, no capacity, and no statement of their own
# about a network
INSIDE = {
    "A-Alg1:count", "A-Alg4:count", "A-Lem3", "G-ConC.1", "G-E8", "G-Lem4.2", "G-Lem4.4", "G-Lem5.1",
    "G-LemB.1", "G-LemC.1", "G-LemD.1:count", "G-LemE.1", "G-Thm6.1", "G-Thm6.2:sketch", "I-03", "S-E2",
    "S-Prop1.1",
}  # fmt: skip
# the same function under a second ID, or a row that stands for both
SAME = {"A-Thm2.1": "G-Thm3.1", "G-LemB.3": "G-Lem4.3", "A-Lem13": "A-Lem14:count", "G-E22": "I-17:guha-code"}


@pytest.mark.thorough
def test_every_published_bound_is_in_the_table():
    home = "codebound_papers."
    for module in pkgutil.walk_packages(codebound_papers.__path__, home):
        importlib.import_module(module.name)
    published = {
        ref
        for ref, entry in REGISTRY.items()
        if entry.kind == "published-form"
        and "PublishedValue" in str(entry.function.__annotations__.get("return"))
    }
    found = shown(table())
    missing = {ref for ref in published - INSIDE if SAME.get(ref, ref) not in found}
    assert missing == set()


def test_every_row_is_registered_somewhere():
    for each in (*EXPRESSIONS, *evaluate(Evidence(table().measured))):
        assert each.ref in REGISTRY, each.ref
    assert {row.reference for row in table().rows} <= {"", *REGISTRY}


def test_a_network_is_traced_once(monkeypatch):
    seen, trace = [], graphs.trace
    monkeypatch.setattr(graphs, "trace", lambda module: seen.append(module) or trace(module))
    compare(mlp(6, 8, 3), blobs(60, seed=1), effort=None, settings=PLAN)
    assert len(seen) == 1


def test_a_new_expression_is_one_function():
    """The recipe on a toy: the decorator gives it a row, with its name, its ID and its value."""

    def toy(facts):
        return PublishedValue(log_value=math.log(facts.depth), sentence="The depth.")

    toy.__module__ = framework.__name__  # one of the modules that the table reads
    known = len(EXPRESSIONS)
    try:
        expression("X-toy", name="Toy", subject="f", kind=None)(toy)
        found = compare(trained(), blobs(120, seed=1), effort=None, settings=PLAN)
    finally:
        del EXPRESSIONS[known:]
    (row,) = (row for row in found.rows if row.reference == "X-toy")
    assert (row.name, row.value, row.subject) == ("Toy", pytest.approx(2.0), "f")


def test_certified_rows_come_first_and_only_they_and_hold_out_bounds_are_guarantees():
    kinds = [row.kind for row in table().rows]
    assert kinds == sorted(kinds, key=ORDER.index)
    assert set(kinds) == set(ORDER)
    for row in table().rows:
        assert row.guarantee == (row.kind in ("certified", "holdout"))
        assert row.note
    risks = [row.log10 for row in bare(True).rows if row.kind == "published" and row.value is not None]
    assert risks == sorted(risks)


def test_the_record_has_exactly_the_promised_keys_and_is_json():
    record = json.loads(json.dumps(table().record(), allow_nan=False))
    assert all(list(row) == KEYS for row in record["rows"])
    names = {row["name"] for row in record["rows"] if row["kind"] == "published"}
    assert {each["name"] for each in record["details"]} <= names
    for each in record["details"]:
        assert {"hypotheses", "constants", "errata", "failure_published", "failure_corrected"} <= each.keys()
    assert record["facts"]["classes"] == 3
    assert len(record["complexities"]) == len(record["facts"]["layers"]) == 2


def test_hold_out_bounds_are_clopper_pearson_limits_each_by_itself():
    fresh = [row for row in table().rows if row.kind == "holdout"]
    tests = [row for row in table().rows if row.kind == "test"]
    assert all("over the draw of the test sample" in row.note for row in fresh)
    assert [row.subject for row in fresh] == [row.subject for row in tests] == ["f", "g"]
    for bound, error in zip(fresh, tests, strict=True):
        errors = round(80 * error.value)
        assert bound.value == pytest.approx(beta.ppf(1.0 - 0.05, errors + 1, 80 - errors), rel=1e-6)


def test_test_examples_that_f_may_have_seen_are_no_guarantee():
    sample, fresh = blobs(120, seed=1), blobs(80, seed=2, role="test")
    again = sample.select(range(60), role="test")
    for given, seen, is_true in (
        (fresh, sample.sha256, True),
        (fresh, "0" * 64, False),
        (again, None, False),
    ):
        found = compare(trained(), sample, given, effort=None, settings=PLAN, trained_on=seen)
        (row,) = (row for row in found.rows if row.kind == "holdout")
        assert row.guarantee is is_true
        assert any("test" in note and "sample" in note for note in found.notes) is not is_true


def test_the_margin_route_is_never_tighter_than_the_certificate():
    certified = {row.reference: row.value for row in table().rows if row.kind == "certified"}
    assert certified["C-2"] <= certified["C-7"] * (1.0 + 1e-12)  # the same limit where no margin is lost
    assert certified["C-12c"] > 0.999  # 83 numbers of 32 bits against 120 examples
    assert [row.vacuous for row in table().rows if row.reference == "C-12c"] == [True]


def test_like_for_like_is_the_root_of_the_bar_over_n():
    plain = {row.name: row for row in bare().rows}
    alike = {row.name: row for row in bare(True).rows}
    bars = [name for name in plain if "As plotted" in plain[name].note]
    assert any("like_for_like" in note for note in bare().notes)
    assert not any("like_for_like" in note for note in bare(True).notes)
    assert len(bars) == 9
    for name in bars:
        assert alike[name].value == pytest.approx(math.sqrt(plain[name].value / 120))
        assert alike[name].vacuous == plain[name].vacuous
    risk = plain["Neyshabur 2015"]
    assert alike["Neyshabur 2015"].value == risk.value


def test_a_bound_against_its_formula_by_hand():
    net, facts = trained(), bare().measured.facts
    norms = [float(np.linalg.norm(net[i].weight.detach().double().numpy())) for i in (0, 2)]
    row = next(row for row in bare().rows if row.name == "Neyshabur 2015")
    excess = facts.input_norm * 4 * norms[0] * norms[1] / (facts.margin * math.sqrt(120))
    assert row.value == pytest.approx(facts.margin_loss + excess, rel=1e-9)


def test_a_published_row_counts_its_conditions_and_others_have_none():
    details = {each["name"]: each["hypotheses"] for each in table().details}
    for row in table().rows:
        if row.name in details:
            found = [each["holds"] for each in details[row.name]]
            counts = {"met": found.count(True), "NOT met": found.count(False), "unknown": found.count(None)}
            words = dict(reversed(part.split(" ", 1)) for part in row.conditions.split(", ")[: len(found)])
            assert words == {word: str(count) for word, count in counts.items() if count} or not found
        if row.kind != "published" or row.value is None:
            assert row.conditions == ""


def test_an_mlp_has_one_row_for_theorems_4_1_and_5_1():
    rows = {row.reference: row for row in bare().rows}
    assert rows["A-Thm4.1"].value is not None
    for ref in ("A-Thm5.1", "A-CorC.1"):
        assert rows[ref].value is None
        assert "theorem 4.1 is its form here" in rows[ref].note


def with_errors(errors):
    mine = certificate()
    return replace(mine, claim=replace(mine.claim, limits=(replace(mine.limit, errors=errors),)))


def test_a_g_that_lost_what_f_knows_is_no_evidence_for_the_framework():
    assert "errs on 58.33 % of the sample, f on 1.67 %" in _collapse(with_errors(70), 2)
    assert _collapse(with_errors(40), 2) == ""  # half of 2 and 80 is 41
    assert _collapse(with_errors(42), 2)
    evidence = Evidence(measured=bare().measured, lost="it is lost.")
    (refused,) = evaluate(evidence, only="G-ThmD.1")
    assert refused.reason == "it is lost."


def test_the_numbers_of_theorem_5_2_are_options_and_in_the_record():
    chosen = {"d": 0.7, "eps": 30.0, "lambda_": 5.0, "rho": 0.01}
    found = compare(trained(), blobs(120, seed=1), effort=None, settings=PLAN, **chosen)
    pruning, facts = found.record()["pruning"], found.measured.facts
    chi = 1.0 - math.sqrt(0.7 / 2.7)
    assert pruning == pytest.approx(
        {"d": 0.7, "chi(d)": chi, "eps": 30.0, "lambda": 5.0, "rho": 0.01, "C": 1.0}
    )
    assert any("d = 0.7, chi(d) = 0.4908, eps = 30, lambda = 5, rho = 0.01" in note for note in found.notes)
    numbers = sum(
        3 * 5.0 * chi * x.rows * x.columns * math.log(max(x.rows, x.columns)) ** 2 for x in facts.layers
    )
    row = next(row for row in found.rows if row.reference == "G-Thm5.2")
    excess = math.sqrt(numbers * math.log(100.0) / 120)
    assert row.value == pytest.approx(facts.margin_loss + excess, rel=1e-9)
    assert bare().pruning["eps"] == bare().pruning["lambda"] == 8.0
    with pytest.raises(UsageError, match="lambda is a finite number above 0"):
        compare(trained(), blobs(120, seed=1), effort=None, settings=PLAN, lambda_=0.0)


def test_without_a_certificate_the_framework_says_what_is_missing():
    rows = {row.reference: row for row in bare().rows}
    for ref in ("A-Thm2.1", "A-CorA.1", "G-ThmD.1"):
        assert rows[ref].value is None
        assert "let one be made" in rows[ref].note
        assert "give a certificate" not in rows[ref].note  # one of a network that was learned is no help
        assert rows[ref].name in {row.name for row in table().rows}  # the same with and without a value


@pytest.mark.thorough
def test_a_residual_network_has_reasons_in_place_of_products():
    found = compare(Skipping(6, 3), blobs(120, seed=1), settings=PLAN)
    rows = {row.reference: row for row in found.rows}
    for each in EXPRESSIONS:
        assert {each.ref, each.refused} & shown(found), f"{each.ref} was left out in silence"
    assert "no chain" in rows["A-Thm2.2"].note
    assert rows["C-2"].value is None
    assert "give it as a base" in rows["C-2"].note
    assert [row.name for row in found.rows if row.reference == "I-17" and row.value is not None] == [
        "Parameter counting"
    ]
    assert all("reason" in lemma for lemma in found.lemmas)
    assert found.complexities == ()
    json.dumps(found.record(), allow_nan=False)


class Noisy(Skipping):
    def forward(self, x):
        return super().forward(x + torch.randn_like(x))


@pytest.mark.thorough
def test_what_cannot_be_certified_has_a_reason_in_place_of_a_certificate():
    found = compare(Noisy(6, 3), blobs(120, seed=1), settings=PLAN)
    (row,) = (row for row in found.rows if row.reference == "C-2")
    assert row.value is None
    assert "draws random numbers" in row.note


def test_an_untrained_network_has_infinite_bounds_that_say_so():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    found = compare(net, blobs(120, seed=1), effort=None, settings=PLAN)
    assert found.measured.facts.margin < 0.0
    row = next(row for row in found.rows if row.name == "Neyshabur 2015")
    assert row.value == math.inf
    assert row.vacuous is True
    assert "Infinite: divided by a margin of f that is not positive" in row.note
    assert row.record()["value"] is row.record()["log10"] is None
    page = compare_page(
        comparison_record(found, (blobs(120, seed=1), None), {"model": "mlp", "data": "blobs"})
    )
    assert "gamma is" in page  # whatever else the settings say


def test_a_value_beyond_all_doubles_keeps_its_logarithm():
    huge = PublishedValue(
        ref="I-17", name="huge", log_value=2000.0, unit="capacity", subject="f", sentence="A product."
    )
    row = published_row(huge, examples=10, classes=3, like_for_like=False)
    assert row.record()["value"] is None
    assert row.log10 == pytest.approx(2000.0 / math.log(10.0))
    assert "Infinite as a double" in row.note
    with pytest.raises(UsageError, match="no row"):
        published_row(replace(huge, unit="numbers"), examples=10, classes=3, like_for_like=False)


@cache
def certificate():
    return codebound.certify(
        blobs(120, seed=1), network=trained(), method="prune", run=codebound.Run(effort="quick")
    ).certificate


@pytest.mark.thorough
def test_a_given_certificate_is_verified_and_shown(tmp_path):
    path = certificate().save(tmp_path / "mine.cbound")
    found = compare(trained(), blobs(120, seed=1), certificates=[path, certificate()], settings=PLAN)
    rows = [row for row in found.rows if row.reference == "C-2"]
    assert [row.value for row in rows] == [certificate().claim.bound] * 2
    assert sorted(row.name for row in rows) == ["Certificate (given 2)", "Certificate (mine.cbound)"]
    framework = next(row for row in found.rows if row.reference == "G-Thm3.1")
    margin_loss, bits = found.measured.facts.margin_loss, certificate().message.bits
    assert framework.value == pytest.approx(margin_loss + math.sqrt(bits * math.log(2.0) / 120))


def test_certificates_of_one_file_name_are_told_apart_by_their_folders():
    assert labels(["runs/a/c.cbound"]) == ["c.cbound"]
    assert labels(["runs/a/c.cbound", Path("runs/b/c.cbound")]) == ["a/c.cbound", "b/c.cbound"]
    assert labels(["c.cbound", "a/c.cbound", "/a/c.cbound"]) == ["c.cbound", "a/c.cbound", "/a/c.cbound"]
    assert labels(["c.cbound", "c.cbound"]) == ["c.cbound", "c.cbound"]
    assert labels([]) == []


def test_a_certificate_of_another_sample_is_refused_with_the_reason():
    with pytest.raises(CertificateError, match="refused for the sample clouds") as refusal:
        compare(trained(), blobs(120, seed=5), certificates=[certificate()], settings=PLAN)
    assert "sample" in str(refusal.value).split("\n")[1]


def test_a_file_that_is_no_certificate_is_refused(tmp_path):
    with pytest.raises(FormatError, match="absent"):
        compare(trained(), blobs(120, seed=1), certificates=[tmp_path / "absent.cbound"], settings=PLAN)


def test_copies_in_the_test_sample_are_reported():
    data = blobs(120, seed=1)
    found = compare(trained(), data, data.select(range(30), role="test"), effort=None, settings=PLAN)
    assert any("30 of 30 test inputs also occur in the sample" in note for note in found.notes)


def test_the_sample_itself_is_no_test_sample():
    data = blobs(120, seed=1)
    with pytest.raises(DataError, match="is the sample itself"):
        compare(trained(), data, data, effort=None, settings=PLAN)


def test_a_test_sample_of_another_kind_is_refused():
    wide = Sample("wide", "test", np.zeros((3, 7), dtype=np.float32), np.zeros(3, dtype=np.int64), 3)
    with pytest.raises(DataError, match="shape"):
        compare(trained(), blobs(120, seed=1), wide, settings=PLAN)
    many = Sample("many", "test", np.zeros((3, 6), dtype=np.float32), np.array([0, 1, 5]), 6)
    with pytest.raises(DataError, match="label 5"):
        compare(trained(), blobs(120, seed=1), many, settings=PLAN)


def test_the_package_is_its_main_function_whatever_was_imported_before():
    assert codebound.compare is compare
    found = codebound.compare(trained(), blobs(120, seed=1), effort=None, settings=PLAN)
    assert isinstance(found, Comparison)
    assert "no guarantee" in str(found)


class Centred(nn.Module):
    """A network whose scores depend on the rest of the batch."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x):
        return self.layer(x - x.mean(0))


def test_nothing_is_guaranteed_of_a_network_that_looks_at_the_batch():
    sample, fresh = blobs(60, seed=0), blobs(40, seed=1, role="test")
    found = compare(Centred(), sample, fresh, effort=None, settings=PLAN)
    of_f = [row for row in found.rows if row.subject == "f" and row.kind in ("certified", "holdout")]
    assert [row.reference for row in of_f] == ["C-12c", "C-11"]
    assert not any(row.guarantee for row in of_f)
    assert any(note.startswith("Nothing is guaranteed of f") for note in found.notes)
