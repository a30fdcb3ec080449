"""Every recipe of CONTRIBUTING.md, carried out on a toy; and the files it names are there.

A toy is what a contributor would write: if one of these tests needs more than the recipe says, the recipe is
wrong.
"""

import gzip
import hashlib
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from torch import nn
from torch.nn import functional

from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import OccamFacts, RiskBound
from codebound.certificate.file import PAGE as OWN
from codebound.certificate.verification import verify
from codebound.certification import certify
from codebound.methods.search import METHODS, Method, UnsuitedError
from codebound.request import Claim, Run
from codebound.run.errors import CertificateError, UsageError
from codebound.run.extensions import Verb, find_extensions
from codebound.run.references import REGISTRY, implements
from codebound.sample.formats.catalogue import KNOWN, KnownDataset
from codebound.sample.load import load_sample
from codebound.sample.losses import LOSSES, Loss, OfClass
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.quantization import quantize, step_for_levels
from codebound_networks.reading.walk import wrap
from codebound_networks.views.layers import LAYER_VIEWS, AbstractConvView, layer_view
from codebound_networks.views.zoo import build
from codebound_papers.compress.catalogue import COMPRESSORS, Entry
from codebound_papers.compress.compressors import AbstractCompressor, CompressedLayer, compress
from codebound_papers.measure.spectral import spectral_norm
from codebound_verify import losses as verified

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
RECIPES = dict(re.findall(r"^### (.+?)\n(.+?)(?=^##|\Z)", PAGE, flags=re.M | re.S))
EXPRESSION = "tests/unit/papers/compare/test_table.py"
MOST_SOURCES = 3


def touched(recipe: str) -> list[str]:
    (line,) = re.findall(r"^Touch: (.+?)\.\n\n", recipe, flags=re.M | re.S)
    return re.findall(r"`([^`]+)`", line)


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_names_files_that_exist_and_few_sources(title):
    files = touched(RECIPES[title])
    for name in files:
        path = ROOT / name
        assert path.parent.is_dir() if "NAME" in path.name else path.is_file(), name
    sources = [name for name in files if name.startswith("src/") and "codebound_verify" not in name]
    assert 1 <= len(sources) <= MOST_SOURCES


def test_short_names_are_of_files_beside_those_named_in_full():
    for text in (*RECIPES.values(), *(line for line in PAGE.splitlines() if line.startswith("|"))):
        near = [ROOT / name for name in re.findall(r"`([\w./-]+)`", text) if (ROOT / name).exists()]
        folders = {folder for path in near for folder in (path, *path.parents[:2])} | {ROOT}
        for name in re.findall(r"`([\w/-]+\.(?:py|js))`", text):
            assert "NAME" in name or any((folder / name).is_file() for folder in folders), name


def test_every_recipe_has_its_toy():
    toys = {
        "A bound": test_a_bound_is_a_function_with_an_id,
        "A published expression": f"{EXPRESSION}::test_a_new_expression_is_one_function",
        "A layer type": test_a_layer_type_is_a_class_that_everything_measures,
        "An operation of a message": "tests/contract/test_operations.py::test_a_new_operation_is_one_class",
        "A version of the format": test_a_version_is_a_page_that_both_programs_name,
        "A compressor": test_a_compressor_is_a_class_and_a_line,
        "A method of certify": test_a_method_is_a_function_in_a_file,
        "A loss": test_a_loss_is_a_class_here_and_a_record_there,
        "A dataset": test_a_dataset_is_an_entry,
        "A verb": test_a_verb_is_a_function_and_a_line,
    }
    assert set(toys) == set(RECIPES)
    for toy in (each for each in toys.values() if isinstance(each, str)):
        elsewhere, name = toy.split("::")
        assert f"def {name}(" in (ROOT / elsewhere).read_text()


@pytest.fixture
def registry(monkeypatch):
    """The registry of statements, which forgets what a toy adds."""
    known = dict(REGISTRY)
    yield REGISTRY
    REGISTRY.clear()
    REGISTRY.update(known)


@pytest.fixture(scope="module")
def digits():
    whole = load_sample("digits")
    return whole.select(range(300), role="train")


def linear(sample):
    return build("linear", input_shape=sample.input_shape, classes=sample.classes)


def test_a_bound_is_a_function_with_an_id(registry):
    @implements("toy:twice", kind="certificate")
    def twice(facts: OccamFacts) -> RiskBound:
        """C-2 with twice the bits: looser, so still true."""
        return occam_binomial(
            OccamFacts(errors=facts.errors, n=facts.n, code_bits=2 * facts.code_bits, delta=facts.delta)
        )

    facts = OccamFacts(errors=10, n=1000, code_bits=50, delta=0.05)
    assert occam_binomial(facts).value < twice(facts).value < 1.0
    assert registry["toy:twice"].function is twice
    assert registry["toy:twice"].path.endswith("twice")  # what the page of references has to name


def test_a_version_is_a_page_that_both_programs_name(digits):
    found = certify(digits, method="split", run=Run(effort="quick")).certificate
    other = replace(found, format=replace(OWN, sha256="4" * 64))  # the second program has not been told
    assert verify(found, digits).verdict == "ACCEPT"
    assert not verify(other.to_bytes(), digits).is_accepted


def test_recipes_send_nobody_to_a_frozen_page():
    assert not [title for title, text in RECIPES.items() if "docs/format.md" in touched(text)]


def test_a_layer_type_is_a_class_that_everything_measures():
    assert nn.Conv3d not in LAYER_VIEWS
    layer = nn.Conv3d(1, 1, 1, bias=False)
    nn.init.constant_(layer.weight, 6.0)
    try:

        @layer_view(nn.Conv3d)
        class Conv3dView(AbstractConvView):
            """``nn.Conv3d`` in every configuration."""

            convolve = staticmethod(functional.conv3d)

        (view,) = wrap(nn.Sequential(layer)).layers
        assert isinstance(view, Conv3dView)
        assert spectral_norm(view, (1, 2, 2, 2)).upper == pytest.approx(6.0)
    finally:
        LAYER_VIEWS.pop(nn.Conv3d, None)


def test_a_compressor_is_a_class_and_a_line(monkeypatch, digits):
    @dataclass(frozen=True)
    class Signs(AbstractCompressor):
        """Keeps the signs of the weights."""

        levels: int = 3

        def compress(self, layer, *, seed):
            weight = layer.weight.numpy()
            step = step_for_levels(weight, self.levels)
            code = best_tensor_code(quantize(weight, step), step=step)
            return CompressedLayer(layer.name, code)

    monkeypatch.setitem(COMPRESSORS, "signs", Entry("Keeps the signs.", Signs))
    found = compress(wrap(linear(digits)), COMPRESSORS["signs"].algorithm())
    assert [layer.name for layer in found.layers] == ["linear1"]
    assert not found.carried
    propose = find_extensions().tables["METHODS"]["naive"].function
    monkeypatch.setitem(find_extensions().tables["METHODS"], "signs", Method("Keeps the signs.", propose))
    assert certify(digits, network=linear(digits), method="signs", run=Run(effort="quick")).method == "signs"
    with pytest.raises(UnsuitedError, match="too far from f for a claim about f"):
        certify(digits, network=linear(digits), method="signs", claim=Claim(input_range=(0.0, 16.0)))


TOY_METHOD = """
from codebound.certificate.offers import rule_outcome
from codebound.learn.picking import usual_split

def propose(search):
    sample = search.task.arranged
    search.offer(rule_outcome(usual_split(sample), sample))
"""


def test_a_method_is_a_function_in_a_file(monkeypatch, tmp_path, digits, codebound):
    (tmp_path / "toy_method.py").write_text(TOY_METHOD)
    monkeypatch.syspath_prepend(tmp_path)
    found = certify(digits, method="toy_method:propose", run=Run(effort="quick"))
    assert (found.method, found.certificate.form) == ("toy_method:propose", "usual split")
    np.savez(tmp_path / "s.npz", x=digits.x, y=digits.y)
    words = ("certify", tmp_path / "s.npz", "--method", "toy_method:propose", "--out", tmp_path / "g")
    assert codebound(*words)[0] == 0
    assert json.loads((tmp_path / "g/result.json").read_text())["method"] == "toy_method:propose"
    with pytest.raises(UsageError, match="no method toy_method:other: "):
        certify(digits, method="toy_method:other")


def test_a_name_of_a_method_is_a_line(monkeypatch, digits):
    monkeypatch.setitem(METHODS, "toy", Method("The usual split.", METHODS["split"].function, is_own=True))
    assert certify(digits, method="toy", run=Run(effort="quick")).method == "toy"


def test_a_loss_is_a_class_here_and_a_record_there(monkeypatch, digits):
    @dataclass(frozen=True)
    class Elsewhere(Loss):
        """An error outside one class."""

        kind, number, spelling, has_part = "elsewhere", 6, OfClass.spelling, True
        promise = "errs on at most {share} of new data outside class {label}"
        label: int

        def is_about(self, labels):
            return labels != self.label

    asked = {"claim": Claim(loss="elsewhere:3"), "run": Run(effort="quick")}
    monkeypatch.setitem(LOSSES, "elsewhere", Elsewhere)
    with pytest.raises(CertificateError, match="no loss of kind 6"):
        certify(digits, method="split", **asked)
    monkeypatch.setitem(verified.LOSSES, "elsewhere", verified.LossKind("error outside class {0}", 1, True))
    found = certify(digits, method="split", **asked)
    assert "of new data outside class 3." in found.sentence
    assert found.certificate.limit.n < certify(digits, method="split").certificate.limit.n
    assert "error outside class 3 of g" in verify(found.certificate, digits).claim


def test_a_dataset_is_an_entry(monkeypatch, tmp_path):
    images, labels = np.zeros((4, 28, 28), np.uint8), np.arange(4, dtype=np.uint8)
    folder = tmp_path / "Toy" / "raw"
    folder.mkdir(parents=True)
    contents = {
        "train-images-idx3-ubyte": bytes([0, 0, 8, 3])
        + np.array([4, 28, 28], ">i4").tobytes()
        + images.tobytes(),
        "train-labels-idx1-ubyte": bytes([0, 0, 8, 1]) + np.array([4], ">i4").tobytes() + labels.tobytes(),
    }
    for name, content in contents.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))
    toy = KnownDataset(
        name="toy",
        title="Toy",
        layout="idx",
        sizes={"train": 4},
        input_shape=(1, 28, 28),
        classes=10,
        divisor=255.0,
        folder="Toy/raw",
        digests={name: hashlib.md5(content).hexdigest() for name, content in contents.items()},
    )
    monkeypatch.setitem(KNOWN, "toy", toy)
    found = load_sample("toy", folder=tmp_path)
    assert (found.n, found.classes, found.y.tolist()) == (4, 10, [0, 1, 2, 3])


TOY_VERB = """
from codebound.cli import options as opt
from codebound.cli.console import Format

def command(name: str = "you", output: opt.Output = Format.table) -> None:
    print(f"hello {name}")
"""


def test_a_verb_is_a_function_and_a_line(monkeypatch, tmp_path, codebound):
    (tmp_path / "toy_verb.py").write_text(TOY_VERB)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(find_extensions().tables["VERBS"], "greet", Verb("toy_verb:command", after="doctor"))
    assert codebound("greet", "--name", "toy")[:2] == (0, "hello toy\n")
    assert "greet" in codebound("--help")[1]
