"""What results/ says is what its certificates hold."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from codebound.certificate.file import Certificate

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def page():
    spec = importlib.util.spec_from_file_location("results_page", RESULTS / "page.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_page_is_that_of_the_records(page):
    assert page.table() in (RESULTS / "README.md").read_text(), "run python results/page.py"


def test_every_certificate_is_on_the_page(page):
    files = {path.stem for path in (RESULTS / "certificates").glob("*.cbound")}
    assert files == {name for key in page.DATA for name in page.present(key)}


@pytest.mark.parametrize(
    "path", sorted((RESULTS / "certificates").glob("*.cbound")), ids=lambda path: path.stem
)
def test_records_repeat_their_certificate(path):
    certificate = Certificate.load(path)
    record = json.loads((RESULTS / f"{path.stem}.json").read_text())
    assert record["verdict"] == "ACCEPT"
    numbers = record.get("from_base", record)
    assert numbers["bound"] == certificate.claim.bound
    assert numbers["train_errors"] == certificate.facts.errors
    assert numbers["code_bits"] == certificate.facts.code_bits == certificate.message.length
    assert numbers["n"] == certificate.facts.n
