"""Writes the golden files of version 3: part of ``make freeze``, never after it.

The examples are those of the other versions; what version 2 cannot say has a file each.
"""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OLD, NEW = HERE / "version-1", HERE / "version-3"
MADE_BY = {"codebound": "0.1", "commit": "", "date": "2026-11-16"}
FAULTS = {"class": "class:1"}
G = {
    "cost-above": {"fault": "cost-above:1:distance"},
    "domain": {"fault": "confused:1:2", "input_range": (0.0, 16.0)},
    "disagreement": {"fault": "class:1"},
    "disagreement-top": {"fault": "top:2"},
}
SHARES = {"share": {}, **{f"share-{name}": {"fault": fault} for name, fault in FAULTS.items()}}


def certificates():
    """Name and certificate of each, all of them accepted by the second program."""
    import codebound as cb
    from codebound.certificate.assessment import assess, assess_picked, issue
    from codebound.certificate.claims import AboutG
    from codebound.certificate.task import Task
    from codebound.learn.picking import pick
    from codebound.sample.arrays import from_arrays
    from codebound.sample.dataset import Scaling
    from codebound.sample.losses import parse_fault
    from codebound_networks.chains.chain import Chain
    from codebound_networks.chains.message import Message
    from codebound_networks.chains.operations import Linear
    from codebound_networks.chains.original import Original
    from codebound_networks.codes.tensors import Dense, Zero

    with np.load(OLD / "given.npz") as arrays:
        found = dict(arrays)
    sample = from_arrays(found["x"], found["y"], name="clusters", scaling=Scaling(16.0))
    fresh = from_arrays(found["unlabelled"], None, name="more", role="unlabelled", scaling=Scaling(16.0))
    model = cb.load_model("linear", input_shape=sample.input_shape, classes=3)
    for name, asked in G.items():
        prefix = "disagreement" if name.startswith("disagreement") else "domain"
        weights = [torch.from_numpy(found[f"{prefix}/0.{each}"]) for each in ("weight", "bias")]
        model.load_state_dict(dict(zip(model.state_dict(), weights, strict=True)))
        if prefix == "disagreement":
            asked = {**asked, "unlabelled": fresh}
        yield name, cb.certify(model, sample, method="prune", effort="quick", **asked).certificate
    for name, asked in SHARES.items():
        yield name, cb.certify(None, sample, effort="quick", method="split", **asked).certificate
    for name, rule, fault in rules():
        task = Task(sample=sample, delta=0.05, claim=AboutG(fault=parse_fault(fault)))
        yield name, issue(assess_picked(pick(rule, sample), task), task)
    for name, biases in {"head": None, "head-biases": np.array([1, 0, -1], dtype=np.int32)}.items():
        original = Original(
            Chain(sample.input_shape, (Linear(3, True),)),
            {f"0.{each}": torch.from_numpy(found[f"base/0.{each}"]) for each in ("weight", "bias")},
        )
        task = Task(sample=sample, delta=0.05, original=original, base=("golden", original.arrays))
        codes = {each: Zero(value.shape) for each, value in original.arrays.items()}
        if biases is not None:
            codes["0.bias"] = Dense(biases, -32, 1)
        yield name, issue(assess(Message(task.options, original.chain, codes), task), task)


def rules():
    """Rules with another fault, and with a coded layer: above columns, above the usual ones, computed."""
    from codebound.learn.feature_weights import LayerFeatures
    from codebound.learn.features import ColumnFeatures
    from codebound.learn.rule import Rule

    for name, below in (("picked-layer", ColumnFeatures()), ("picked-directions", ColumnFeatures(True))):
        yield name, Rule(LayerFeatures(below, (3, 2, 0, 1)), first=20, batch=2, rounds=4), "wrong"
    for name, fault in FAULTS.items():
        yield f"picked-{name}", Rule(ColumnFeatures(), first=20, batch=2, rounds=4), fault
    computed = LayerFeatures(ColumnFeatures(), (), strength=2)
    yield "picked-computed", Rule(computed, first=20, gamma_index=6, batch=2, rounds=4), "wrong"


def main(folder: Path = NEW) -> None:
    """Writes all of them."""
    folder.mkdir(exist_ok=True)
    shutil.copy(OLD / "given.npz", folder)
    for name, certificate in certificates():
        assert certificate.version == 3, name
        replace(certificate, made_by=MADE_BY).save(folder / f"{name}.cbound")


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests/reference")]
    main()
