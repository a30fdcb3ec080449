"""What results/ says is what its certificates hold, and the script that wrote them keeps what it is given."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file
from scipy.special import gammaln, logsumexp
from worlds.commands import script

from codebound.bits.plain_code import NETWORK
from codebound.certificate.decoding import decode
from codebound.certificate.file import PAGE, Certificate, Page
from codebound.sample.load import load_sample
from codebound_networks.chains import operations
from codebound_networks.codes.tensors import Adaptive
from codebound_verify import verify
from codebound_verify.container import read_container
from codebound_verify.message import Bits
from codebound_verify.networks.network import read_network

RESULTS = Path(__file__).parents[2] / "results"
PATHS = sorted((RESULTS / "certificates").glob("*.cbound"))
each_certificate = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def page():
    return script(RESULTS / "page.py")


@pytest.fixture(scope="module")
def reissue():
    sys.path.insert(0, str(RESULTS))
    try:
        return script(RESULTS / "reissue.py")
    finally:
        sys.path.remove(str(RESULTS))


def beside(path: Path, kind: str):
    file = path.with_suffix(f".{kind}.safetensors")
    return load_file(file) if file.exists() else None


def test_every_table_and_the_picture_are_those_of_the_records(page):
    page.main(["--check"])


def test_the_example_of_the_readme_is_the_run_that_it_shows(page):
    run, readme = json.loads(page.EXAMPLE.read_text()), (RESULTS.parent / "README.md").read_text()
    assert f"$ {run['command']}" in readme
    assert f" certified error {page.percent(run['bound'])} " in " ".join(readme.split())
    assert f"{run['errors']} of {run['n']} rows after the first {run['known']} are wrong." in readme


def test_more_bits_and_picks_are_counted_by_their_own_bounds(page):
    common = {"program_bits": None, "test_errors": None, "holdout": None, "bound": 0.0}
    coded = page.Numbers(n=60_000, errors=300, picks=None, bits=4500, **common)
    assert page.percent(coded.with_more_bits) == "7.38 %"  # as the calculator says for 5000 bits
    picked = page.Numbers(n=60_000, errors=100, picks=700, bits=30, **common)
    assert picked.at(30) == pytest.approx(0.01703, abs=5e-6)
    assert picked.with_more_bits > picked.at(30)


def test_every_certificate_is_on_the_page_and_has_a_job(page, reissue):
    names = {path.stem for path in PATHS}
    assert names == {name for key in page.DATA for name in page.present(key)} == set(reissue.JOBS)
    assert not names & set(page.LEFT)


@each_certificate
def test_records_repeat_their_certificate(path):
    certificate = Certificate.load(path)
    record = json.loads((RESULTS / f"{path.stem}.json").read_text())
    claim, limit = certificate.claim, certificate.limit
    assert record["verdict"] == "ACCEPT"
    assert (record["bound"], record["assurance"]) == (claim.bound, claim.assurance)
    assert (record["train_errors"], record["n"], record["picks"]) == (limit.errors, limit.n, limit.picks)
    assert record["code_bits"] == certificate.message.bits
    for kind in ("base", "scores"):
        assert (f"{path.stem}.{kind}.safetensors" in record["verify"]) == (beside(path, kind) is not None)


@pytest.mark.parametrize(
    "path", [path for path in PATHS if Certificate.load(path).form == NETWORK], ids=lambda path: path.stem
)
def test_both_programs_decode_the_same_network(path):
    certificate, base = Certificate.load(path), beside(path, "base")
    container = read_container(path.read_bytes())
    bits, shape = Bits(container.message, certificate.message.bits), certificate.sample.input_shape
    assert bits.bits(6) == 0b111110
    x = np.random.default_rng(0).integers(0, 256, (3, *shape)).astype(np.uint8)
    theirs = read_network(bits, container, SimpleNamespace(x=x, is_cells=False), base).tensors
    ours = decode(certificate, base=base).state_dict()
    assert {name: ours[name].numpy().tobytes() for name in theirs} == {
        name: values.tobytes() for name, values in theirs.items()
    }


@pytest.mark.few(3)
@pytest.mark.parametrize("path", [each for each in PATHS if "digits" in each.stem], ids=lambda p: p.stem)
def test_the_verifier_accepts_what_it_can_check_quickly(path):
    digits = load_sample("digits")
    assert verify(path.read_bytes(), digits.x, digits.y, base=beside(path, "base")).reasons == ()


def test_what_the_old_program_told_is_made_again(reissue):
    levels = {"is": "array", "dtype": "int32", "values": [[0, -2], [1, 0]]}
    told = {"is": "Adaptive", "levels": levels, "step": 3, "limit": 2, "kind": 1}
    code = reissue.made_of(told)
    assert isinstance(code, Adaptive)
    assert (code.levels.tolist(), code.step, code.kind) == ([[0, -2], [1, 0]], 3, 1)
    chain = reissue.made_of([{"is": "Linear", "out": 10, "bias": True}])
    assert chain == (operations.Linear(10, True),)


def test_a_file_of_a_draft_is_stamped_with_the_page_and_nothing_else(reissue, monkeypatch):
    content = (RESULTS / "certificates/digits-linear.cbound").read_bytes()
    assert reissue.is_present(content)
    assert reissue.stamp(content) == content
    monkeypatch.setattr(reissue, "PAGE", Page("2027-01-01", "1" * 64))
    stamped = reissue.stamp(content)
    assert stamped != content
    assert not reissue.is_present(stamped)
    monkeypatch.setattr(reissue, "PAGE", PAGE)
    assert reissue.stamp(stamped) == content


@pytest.fixture(scope="module")
def sketched():
    return script(RESULTS / "sketched_pruning.py")


def test_the_page_of_sketched_pruning_is_that_of_its_runs(sketched):
    assert (RESULTS / "sketched_pruning.md").read_text("utf-8") == sketched.page()


def test_the_goal_of_sketched_pruning_counts_every_layer_and_every_seed(sketched):
    runs = sketched.read()
    (named,) = [line for line in sketched.misses(sketched.grouped(runs), runs) if "mnist-784: met" in line]
    names = [name for name in runs if name.startswith("mnist-784-")]
    assert f"{len(names)} of {len(names)} seeds" in named
    for name in names:
        row, dense = runs[name]["0.05"], runs[name]["dense"]["accuracy"]
        assert all(layer["recovered"] for layer in row["layers"])
        assert [layer["name"] for layer in row["layers"]] == [f"linear{i}" for i in range(1, 6)]
        assert sum(x["m1"] * x["m2"] for x in row["layers"]) <= 0.05 * (4 * 784**2 + 7840)
        assert row["accuracy"] >= dense - 0.5


def test_the_certificate_of_sketches_is_an_exact_binomial_tail():
    (cell,) = json.loads((RESULTS / "sketched_pruning/certificate.json").read_text())["cells"].values()
    row = cell["value"]
    assert row["bound"] < 0.5
    n, p, k = row["n"], row["bound"], np.arange(row["errors"] + 1)
    choices = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    tail = logsumexp(choices + k * np.log(p) + (n - k) * np.log1p(-p))
    assert tail == pytest.approx(np.log(0.05) - row["code_bits"] * np.log(2.0), rel=1e-6)
