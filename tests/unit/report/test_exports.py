"""Exports of a certificate: valid by the schemas of others, true, and refused where the file is."""

import copy
import hashlib
import json
import re
import shutil
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import codebound as cb
from codebound.certificate.file import Certificate
from codebound.holdout.seals import Plan, seal
from codebound.holdout.statements import better, faithful, look_at_planned
from codebound.report.exports import (
    FORMS,
    cyclonedx_bom,
    export,
    intoto_statement,
    list_metrics,
    model_card,
    read_evidence,
)
from codebound.run.errors import CodeboundError, RefusedError, UsageError
from codebound.sample.arrays import from_arrays

SCHEMAS = Path(__file__).parents[2] / "schemas"
SCHEMA_OF = {
    "intoto": "intoto_eval_result.json",
    "cyclonedx": "cyclonedx_1_6.json",
    "card": "model_index.json",
}
RUDE = 'a: "b" \x07 \u2028 \U0001f600 <i> | `c` [x](y) #'


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4)).astype("f4")
    sample = from_arrays(x, (x[:, 0] > 0).astype(int), name="made", role="train")
    return cb.certify(sample, claim=cb.Claim(by_class=True), run=cb.Run(effort="quick"))


@pytest.fixture(scope="module")
def folder(found, tmp_path_factory):
    place = tmp_path_factory.mktemp("exports") / "cert"
    found.save_to(place)
    return place


@pytest.fixture(scope="module")
def evidence(folder):
    return read_evidence(folder)


def validator(form):
    jsonschema = pytest.importorskip("jsonschema", reason="schemas are checked with jsonschema")
    return jsonschema.Draft202012Validator(json.loads((SCHEMAS / SCHEMA_OF[form]).read_text("utf-8")))


def complaints(form, document):
    return [each.message for each in validator(form).iter_errors(document)]


def parse(form, text):
    """The part of an export that programs read."""
    if form != "card":
        return json.loads(text)
    yaml = pytest.importorskip("yaml", reason="the metadata of a model card are read with PyYAML")
    start, metadata, _ = re.split(r"^---$", text, maxsplit=2, flags=re.M)
    assert start == ""
    return yaml.safe_load(metadata)


def parts(document, path=()):
    """Every object of a document, by the way to it."""
    if isinstance(document, dict):
        yield path
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from parts(value, (*path, key))


@pytest.mark.parametrize("form", FORMS)
def test_an_export_follows_its_schema(form, evidence):
    document = parse(form, FORMS[form][1](evidence))
    assert complaints(form, document) == []


@pytest.mark.parametrize("form", FORMS)
def test_the_schemas_have_teeth(form, evidence):
    document = parse(form, FORMS[form][1](evidence))
    renamed = []
    for path in parts(document):
        broken = copy.deepcopy(document)
        place = broken
        for key in path:
            place = place[key]
        for key in list(place):
            place[key + "X"] = place.pop(key)
        renamed.append(bool(complaints(form, broken)))
    assert sum(renamed) > 0.6 * len(renamed)


@pytest.mark.parametrize("form", FORMS)
def test_rude_names_are_only_names(form, evidence):
    rude = replace(
        evidence, name=RUDE, data=RUDE, metrics=tuple(replace(each, part=RUDE) for each in evidence.metrics)
    )
    text = FORMS[form][1](rude)
    document = parse(form, text)
    assert complaints(form, document) == []
    if form == "card":
        (index,) = document["model-index"]
        assert index["name"] == RUDE
        assert {each["dataset"]["config"] for each in index["results"]} == {RUDE}
        assert "<i>" not in text.split("\n---\n")[1]


def test_the_subject_is_the_file_of_the_certificate(folder, evidence):
    statement = json.loads(intoto_statement(evidence))
    digest = hashlib.sha256((folder / "certificate.cbound").read_bytes()).hexdigest()
    assert statement["subject"] == [{"name": "certificate.cbound", "digest": {"sha256": digest}}]
    predicate = statement["predicate"]
    assert predicate["assuranceLevel"] == "reproduced"
    assert predicate["sampleSize"] == evidence.metrics[0].n
    weights = hashlib.sha256((folder / "g.safetensors").read_bytes()).hexdigest()
    assert predicate["commitments"]["model"]["value"] == weights


def test_a_threshold_is_exact_and_says_if_it_was_met(found, evidence):
    claims = json.loads(intoto_statement(evidence))["predicate"]["claims"]
    assert [each["metric"] for each in claims] == [
        "certified_error",
        "certified_error[class 0]",
        "certified_error[class 1]",
    ]
    assert float(claims[0]["threshold"]) == found.bound
    assert all(each["passed"] for each in claims)
    for most, passed in ((found.bound, True), (np.nextafter(found.bound, 0.0), False)):
        claims = json.loads(intoto_statement(evidence, max_error=float(most)))["predicate"]["claims"]
        assert claims[0]["passed"] is passed
        assert float(claims[0]["threshold"]) == most


def test_recounted_scores_are_not_called_reproduced(evidence):
    declared = replace(evidence, assurance="recounted")
    assert json.loads(intoto_statement(declared))["predicate"]["assuranceLevel"] == "self_attested"


def test_limits_of_classes_are_slices_with_intervals(found, evidence):
    (model,) = json.loads(cyclonedx_bom(evidence))["components"]
    metrics = model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    certified = [each for each in metrics if each["type"] == "certified_error"]
    assert [each.get("slice") for each in certified] == [None, "class 0", "class 1"]
    for each, bound in zip(certified, (found.bound, *(row.bound for row in found.by_class)), strict=True):
        interval = each["confidenceInterval"]
        assert interval["lowerBound"] == "0"
        assert float(interval["upperBound"]) == float(each["value"]) == pytest.approx(bound, abs=1e-12)
    counted = [float(each["value"]) for each in metrics if each["type"] == "counted_error"]
    assert counted[0] == found.certificate.widest.errors / found.certificate.widest.n


def test_a_sum_of_two_limits_has_no_counted_share(found):
    certificate = found.certificate
    limits = (certificate.limit, replace(certificate.limit, of="disagreement"))
    claim = replace(certificate.claim, law="sum", limits=limits)
    (metric,) = list_metrics(replace(certificate, claim=claim))
    assert metric.errors is metric.share is None
    assert metric.bound == certificate.claim.bound


def test_every_group_of_a_claim_is_a_part(found):
    certificate = found.certificate
    limits = tuple(replace(certificate.limit, of=f"group {i}") for i in range(3))
    claim = replace(certificate.claim, on="each group", limits=limits)
    whole, *others = list_metrics(replace(certificate, claim=claim))
    assert whole.part == "each group"
    assert [each.part for each in others] == ["group 0", "group 1", "group 2"]


def test_a_card_says_at_most_and_what_has_to_be_true(evidence):
    text = model_card(evidence)
    assert evidence.statements[0] in text
    assert "at most, with probability at least 1 - 0.05" in text
    assert text.count("\n* ") == len(evidence.assumptions)
    assert evidence.command in text


@pytest.mark.parametrize("form", FORMS)
def test_the_command_writes_once(form, folder, tmp_path, codebound):
    place = shutil.copytree(folder, tmp_path / "cert")
    code, _, err = codebound("export", place, "--to", form)
    assert code == 0, err
    path = place / f"certificate{FORMS[form][0]}"
    before = path.read_bytes()
    assert complaints(form, parse(form, before.decode())) == []
    code, _, err = codebound("export", place, "--to", form)
    assert code == 2
    assert "never overwritten" in err
    assert path.read_bytes() == before


def test_a_certificate_of_another_sample_is_refused_and_nothing_written(folder, tmp_path, codebound):
    place = shutil.copytree(folder, tmp_path / "cert")
    arrays = dict(np.load(place / "sample.npz"))
    arrays["y"] = 1 - arrays["y"]
    np.savez(place / "sample.npz", **arrays)
    before = sorted(place.iterdir())
    code, _, err = codebound("export", place, "--to", "intoto")
    assert code == 1
    assert "refuses" in err
    assert sorted(place.iterdir()) == before
    with pytest.raises(RefusedError):
        read_evidence(place)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--to", "card", "--max-error", "0.1"), "belongs to the form intoto"),
        (("--to", "intoto", "--max-error", "0"), "lies in (0, 1]"),
        (("--to", "card", "--out", "no/such/place.md"), "does not exist"),
    ],
)
def test_bad_options_get_one_sentence(words, said, folder, codebound):
    code, _, err = codebound("export", folder, *words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_a_form_that_is_none_is_refused(folder):
    with pytest.raises(UsageError, match="intoto, cyclonedx, card"):
        export(folder, "pdf")


def test_a_folder_of_something_else_gets_one_sentence(tmp_path, codebound):
    code, _, err = codebound("export", tmp_path, "--to", "card")
    assert code != 0
    assert "Traceback" not in err


def test_numbers_that_somebody_wrote_into_the_result_are_not_exported(folder, tmp_path):
    place = shutil.copytree(folder, tmp_path / "cert")
    result = json.loads((place / "result.json").read_text())
    result["bound"] = 0.0
    for row in result["by_class"]:
        row["bound"] = 0.0
    (place / "result.json").write_text(json.dumps(result))
    assert [each.bound for each in read_evidence(place).metrics] == [
        each.bound for each in read_evidence(folder).metrics
    ]


@pytest.fixture
def ledger(own_cache, empty_folder):
    """Two columns of answers with groups, looked at and compared."""
    rng = np.random.default_rng(1)
    labels = rng.choice(["ham", "spam"], size=400)
    wrong = {"a": rng.random(400) < 0.2, "b": rng.random(400) < 0.04}
    table = {name: np.where(each, "eggs", labels) for name, each in wrong.items()}
    table |= {"label": labels, "topic": rng.choice(["x", "y"], size=400)}
    plan = Plan(group="topic", look=["a", "b"], better=[("a", "b")])
    path = seal(table, plan, label="label", out=Path("answers.ledger.jsonl")).path
    look_at_planned(path, data=table)
    return better(path, "a", "b", data=table)


@pytest.mark.parametrize("form", FORMS)
def test_a_ledger_is_exported_too(form, ledger, codebound):
    code, _, err = codebound("export", ledger.path, "--to", form)
    assert code == 0, err
    text = Path(f"answers{FORMS[form][0]}").read_text("utf-8")
    assert complaints(form, parse(form, text)) == []
    assert "b errs less often than a" in text


def test_limits_of_a_ledger_are_parts_the_smallest_first(ledger):
    found = read_evidence(ledger.path)
    assert [each.part for each in found.metrics] == [
        *("b", "b, topic = x", "b, topic = y"),
        *("a", "a, topic = x", "a, topic = y"),
    ]
    assert found.metrics[0].bound == ledger.statements[1]["result"]["bound"]
    assert found.statements[0].startswith(
        "With probability at least 1 - 0.05 over the draw of the sealed rows"
    )
    assert json.loads(intoto_statement(found))["predicate"]["assuranceLevel"] == "self_attested"


def test_what_is_no_error_per_row_is_not_called_one(own_cache, empty_folder):
    table = {"label": ["x"] * 90, "a": ["x"] * 87 + ["y"] * 3, "who": [i // 3 for i in range(90)]}
    path = seal(
        table, Plan(cluster="who", claim="any", look=["a"]), label="label", out=Path("c.ledger.jsonl")
    ).path
    look_at_planned(path, data=table)
    (metric,) = read_evidence(path).metrics
    assert metric.part == "a, any row of a new cluster"
    assert (metric.errors, metric.n) == (1, 30)
    other = {"f": ["x", "y"] * 40, "g": ["x", "y"] * 39 + ["x", "x"]}
    (metric,) = read_evidence(faithful(other, "f", "g", out=Path("f.ledger.jsonl")).path).metrics
    assert metric.name == "certified_disagreement"


def test_a_ledger_without_a_look_has_nothing_to_export(own_cache, empty_folder, codebound):
    Path("t.csv").write_text("label,a\n" + "x,x\n" * 50)
    assert codebound("holdout", "seal", "t.csv:label")[0] == 0
    code, _, err = codebound("export", "t.ledger.jsonl", "--to", "card")
    assert code == 2
    assert "bounds no error yet" in err


def test_without_mlflow_there_is_one_sentence(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(CodeboundError, match="pip install mlflow"):
        found.log_mlflow()


def test_mlflow_is_told_the_limits_and_given_the_certificate(found, monkeypatch):
    """The calls are those of MLflow, which is not needed here; its own store is in the next test."""
    told = {}

    def log_artifact(path, place):
        told["file"] = (place, Certificate.load(path).to_bytes())

    run = types.SimpleNamespace(info=types.SimpleNamespace(run_id="7"))
    stand_in = types.SimpleNamespace(
        log_metrics=lambda metrics: told.update(metrics=metrics),
        set_tags=lambda tags: told.update(tags=tags),
        log_artifact=log_artifact,
        active_run=lambda: run,
    )
    monkeypatch.setitem(sys.modules, "mlflow", stand_in)
    assert found.log_mlflow() == "7"
    assert told["metrics"]["certified_error"] == found.bound
    assert told["metrics"]["certified_error.class 1"] == found.by_class[1].bound
    assert told["tags"]["codebound.delta"] == "0.05"
    assert told["file"] == ("codebound", found.certificate.to_bytes())


def test_a_real_mlflow_keeps_both(found, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: pip install codebound[exports]")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        assert found.log_mlflow() == found.log_mlflow() == run.info.run_id
    logged = mlflow.get_run(run.info.run_id).data
    assert logged.metrics["certified_error"] == found.bound
    (file,) = mlflow.MlflowClient().list_artifacts(run.info.run_id, "codebound")
    assert file.path == "codebound/certificate.cbound"


def test_the_whole_schema_of_cyclonedx_agrees(evidence):
    validation = pytest.importorskip(
        "cyclonedx.validation.json",
        reason="cyclonedx-python-lib is not installed: pip install codebound[exports]",
    )
    schema = pytest.importorskip("cyclonedx.schema")
    strict = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    assert strict.validate_str(cyclonedx_bom(evidence)) is None


def test_the_bindings_of_intoto_read_the_statement(evidence):
    bindings = pytest.importorskip(
        "in_toto_attestation.v1.statement",
        reason="in-toto-attestation is not installed: pip install codebound[exports]",
    )
    from google.protobuf import json_format
    from in_toto_attestation.v1 import statement_pb2

    read = json_format.Parse(intoto_statement(evidence), statement_pb2.Statement())
    bindings.Statement.copy_from_pb(read).validate()


def test_hugging_face_reads_the_card(evidence):
    hub = pytest.importorskip(
        "huggingface_hub", reason="huggingface_hub is not installed: pip install codebound[exports]"
    )
    card = hub.ModelCard(model_card(evidence))
    found = [(each.metric_type, each.metric_value) for each in card.data.eval_results]
    assert found == [(each.name, each.bound) for each in evidence.metrics]
