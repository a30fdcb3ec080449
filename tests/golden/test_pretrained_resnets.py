"""Somebody else's networks: two pretrained CIFAR-10 ResNets, where their files are at hand."""

import json
import os
from pathlib import Path

import pytest
import torch

from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import OccamFacts
from codebound.run.errors import CodeboundError, ModelError
from codebound_networks.reading.loading import load_model
from codebound_papers.measure.outputs import margin_report

FOLDER = Path(os.environ.get("CODEBOUND_MODELS", Path(__file__).parents[3] / "shared" / "models"))
RESULTS = Path(__file__).parents[2] / "results"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def pretrained(name: str) -> torch.nn.Module:
    path = FOLDER / f"{name}_cifar10.safetensors"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in {FOLDER}; set CODEBOUND_MODELS to the folder that has it")
    return load_model(name, input_shape=(3, 32, 32), classes=10, weights=path)


@pytest.mark.parametrize("name", ["resnet20", "resnet56"])
def test_the_published_files_load_by_strict_names(name):
    model = pretrained(name).eval()
    assert all(torch.isfinite(tensor).all() for tensor in model.state_dict().values())
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_a_file_of_another_depth_is_refused():
    pretrained("resnet20")
    path = FOLDER / "resnet20_cifar10.safetensors"
    with pytest.raises(ModelError, match=r"missing.*layer1.3.conv1.weight.* more\n"):
        load_model("resnet56", input_shape=(3, 32, 32), classes=10, weights=path)


@pytest.mark.parametrize(("name", "errors"), [("resnet20", 827), ("resnet56", 661)])
def test_the_bound_by_declared_scores_is_that_of_its_errors_and_bits(name, errors):
    record = json.loads((RESULTS / f"pretrained-{name}-unseen.json").read_text())
    facts = OccamFacts(errors=errors, n=10_000, code_bits=2, delta=0.05)
    assert (record["errors"], record["code_bits"], record["verified"]) == (errors, 2, True)
    assert record["bound"] == pytest.approx(occam_binomial(facts).value, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "accuracy"), [("resnet20", 91.73), ("resnet56", 93.39)])
def test_accuracy_on_the_test_set_is_the_published_one(name, accuracy):
    from dataclasses import replace

    from codebound.sample.dataset import Scaling
    from codebound.sample.load import load_sample

    model = pretrained(name)
    try:
        data = load_sample("cifar10", role="test")
    except CodeboundError as absent:
        pytest.skip(f"CIFAR-10 is not in the cache: {absent}")
    data = replace(data, scaling=Scaling(255.0, MEAN, STD))
    report = margin_report(model, data.on("cpu"), chunk_size=250, dtype=torch.float32)
    assert report.n == 10_000
    assert report.non_finite == 0
    assert 100 * (1 - report.loss()) == pytest.approx(accuracy, abs=0.02)
