"""The verbs on a certificate, from a folder and from its file alone."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from worlds.outcomes import issued
from worlds.samples import clouds

from codebound.bits.plain_code import NETWORK
from codebound.certification import certify
from codebound.request import Run

pytestmark = pytest.mark.usefixtures("empty_folder")


@pytest.fixture
def cert():
    sample = clouds(120, features=3, apart=3.0)
    certify(sample, method="split", run=Run(effort="quick")).save_to("cert")
    issued(NETWORK)[0].save("alone.cbound")


def test_show_prints_the_claim_the_ledger_and_what_is_declared(cert, codebound):
    code, out, err = codebound("show", "cert/certificate.cbound")
    assert code == 0, err
    assert "errs on at most" in " ".join(out.split())
    assert "form" in out
    assert "independent draws" in " ".join(err.split())
    _, out, _ = codebound("show", "alone.cbound", "--format", "json")
    record = json.loads(out)
    assert record["claim"]["law"] == "binomial"
    assert record["counts"][0]["key"] == "errors"
    assert sum(bits for _, bits in record["message"]["ledger"]) == record["message"]["bits"]


def test_export_writes_what_load_classifier_loads(cert, codebound):
    code, _, err = codebound("export", "cert", "--to", "safetensors", "--out", "g.safetensors")
    assert code == 0, err
    wanted, found = load_file("cert/g.safetensors"), load_file("g.safetensors")
    assert wanted.keys() == found.keys()
    assert all(np.array_equal(wanted[name], found[name]) for name in wanted)
    assert codebound("export", "alone.cbound", "--to", "safetensors", "--out", "n.safetensors")[0] == 0
    code, _, err = codebound("export", "alone.cbound", "--to", "safetensors", "--out", "n.safetensors")
    assert (code, "exists already" in err) == (2, True)
    code, _, err = codebound("export", "alone.cbound", "--to", "pt")
    assert (code, "'pt' is not one of" in err) == (2, True)


def test_joint_adds_what_is_not_one_event(cert, codebound):
    _, out, err = codebound("audit", "joint", "cert/certificate.cbound", "alone.cbound", "--format", "json")
    record = json.loads(out)
    assert record["delta"] == 0.1
    assert [row["event"] for row in record["statements"]] == [1, 2]
    _, out, err = codebound("audit", "joint", "alone.cbound", "alone.cbound")
    assert "at least 1 - 0.05" in err


def test_certify_from_a_table_with_words_to_the_second_program(codebound):
    rng = np.random.default_rng(0)
    rows = [f"{rng.choice(['red', 'blue', ''])},{rng.integers(9)},{'ab'[at % 2]}{at % 2}" for at in range(60)]
    lines = [f"{row},{row.split(',')[2][0]}" for row in rows]
    Path("t.csv").write_text("\n".join(["hue,size,word,label", *lines]) + "\n")
    code, _, err = codebound("certify", "t.csv:label", "--run", "effort=quick", "--out", "c")
    assert code == 0, err
    assert codebound("verify", "c")[1].startswith("ACCEPT")
    assert codebound("audit", "check", "c", "--max-error", 0.5)[0] == 0
    assert codebound("audit", "check", "c", "--max-error", 0.001)[0] == 1
    asked = ("certify", "t.csv:label", "--run", "effort=quick")
    code, _, err = codebound(
        *asked, "--claim", "on=each class", "--copies", "repeated", "--claim", "order=file", "--out", "d"
    )
    assert code == 0, err
    record = json.loads(codebound("show", "d/certificate.cbound", "--format", "json")[1])
    assert (record["sample"]["order"], record["sample"]["copies"], record["claim"]["on"]) == (
        *("file", "repeated", "each class"),
    )


def test_groups_and_clusters_are_columns_of_the_table(codebound):
    rng = np.random.default_rng(0)
    lines = ["a,b,site,patient,y"]
    for row, (a, b) in enumerate(rng.normal(size=(240, 2))):
        lines.append(f"{a:.3f},{b:.3f},{'nw'[row % 2]},p{row // 4},{int(a > 0)}")
    Path("t.csv").write_text("\n".join(lines) + "\n")
    quick = ("certify", "t.csv:y", "--run", "effort=quick", "--quiet")
    claims = {"groups=site": "each group", "clusters=patient": "any row of a cluster"}
    for number, (numbers, on) in enumerate(claims.items()):
        code, _, err = codebound(*quick, "--claim", numbers, "--claim", f"on={on}", "--out", f"c{number}")
        assert code == 0, err
    assert np.array_equal(np.load("c0/sample.npz")["groups"], [row % 2 for row in range(240)])
    assert len(set(np.load("c1/sample.npz")["clusters"].tolist())) == 60
    for data, numbers, said in (
        ("t.csv:y", "groups=nope", "no column 'nope'"),
        ("digits", "groups=site", "where the data are a table"),
        ("t.csv:y", "groups=nope.npy", "there is no file"),
    ):
        code, _, err = codebound("certify", data, "--claim", numbers, "--claim", "on=each group")
        assert code != 0
        assert said in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("verb", ["show", "audit joint", "export"])
def test_what_is_no_certificate_is_said_in_a_sentence(verb, codebound):
    Path("x.cbound").write_bytes(b"CBOUND\0\2" + bytes(60))
    code, _, err = codebound(*verb.split(), "x.cbound", *(["--to", "onnx"] if verb == "export" else []))
    assert code == 1
    assert "format of version 2, which earlier programs wrote" in " ".join(err.split())
