"""Networks made of the first part of a sample encode the rest, which is certified; hold-out sets beside it.

    python results/helped.py train cifar10 --seconds 150 --data A.npz B.npz --test C.npz --out TABLES
    python results/helped.py certify cifar10 --tables TABLES
    python results/helped.py own mnist --tables TABLES

``train`` needs a GPU. It trains networks on the first examples in the order of C-10, writes
the rows that they make of all other examples, and counts the errors that such networks make on what they did
not see, after the same share and after a larger one: the hold-out sets to compare with. A linear layer that
is learned from the first part too makes ten scores of each row. ``certify`` works on a CPU: the largest score
is certified as it is, with picks on the rows beside it. ``own`` bounds a network of all examples through that
certificate, by how often the two differ on the test inputs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from machine import made_with
from safetensors.numpy import save_file
from torch import Tensor, nn
from torch.nn import functional

from codebound.bounds.facts import HoldoutFacts, OccamFacts, PickedFacts
from codebound.bounds.held_out import holdout
from codebound.bounds.occam import occam_binomial
from codebound.bounds.picked import picked_risk
from codebound.certification import certify
from codebound.known.encoder import SCALING, Encoder, digest, quantise_rows
from codebound.known.provenance import declare_share
from codebound.learn.picking import permutation
from codebound.methods.inputs import largest_input
from codebound.methods.kernel_share import linear_helper
from codebound.sample.dataset import Dataset
from codebound.sample.load import load_dataset
from codebound_networks.about_f.disagreement import bound_through

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codebound.certificate.file import Certificate
    from codebound.report.folder import Certification

DELTAS = (0.05, 1e-6)
SOURCE = b"results/helped.py, residual networks, version 1"
AGAIN = (
    "the second of two trainings: the first, on a GPU that thirty others used, had 5 to 20 epochs; that the "
    "second would be taken was decided before its errors were known"
)
_BATCH = 256
_MOST_BYTES = 15 << 20  # of a file


@dataclass(frozen=True)
class Plan:
    """Plan of the networks of a sample.

    Attributes:
        first: Examples that they are made of.
        more: The same for the hold-out set of a larger share.
        widths: Channels of each stage; the last is the number of features.
        networks: Networks whose rows stand side by side.
        shift: Pixels that a picture may move by.
        turn: Radians that it may turn by, and shares that it may be scaled and sheared by.
        is_mirrored: Whether mirror images are of the same class.
        hole: Side of a square that is blanked, in pixels.
    """

    first: int
    more: int
    widths: tuple[int, ...]
    networks: int
    shift: int
    turn: float
    is_mirrored: bool
    hole: int


PLANS = {
    "mnist": Plan(30_000, 51_000, (32, 64, 128), 2, 2, 0.17, False, 0),
    "fashion-mnist": Plan(30_000, 51_000, (64, 128, 192), 2, 2, 0.0, True, 8),
    "cifar10": Plan(30_000, 42_500, (64, 128, 256, 512), 1, 4, 0.0, True, 8),
}


class Block(nn.Module):
    """Two convolutions around which the input goes by."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        is_same = (before, stride) == (after, 1)
        by = nn.Conv2d(before, after, 1, stride, bias=False)
        self.by = nn.Identity() if is_same else nn.Sequential(by, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        inner = functional.relu(self.norms[0](self.one(x)))
        return functional.relu(self.norms[1](self.two(inner)) + self.by(x))


class Residual(nn.Module):
    """A residual network of two blocks a stage."""

    def __init__(self, channels: int, widths: tuple[int, ...], classes: int = 10) -> None:
        super().__init__()
        blocks: list[nn.Module] = [
            nn.Conv2d(channels, widths[0], 3, 1, 1, bias=False),
            nn.BatchNorm2d(widths[0]),
            nn.ReLU(),
        ]
        before = widths[0]
        for at, width in enumerate(widths):
            blocks += [Block(before, width, 1 + (at > 0)), Block(width, width, 1)]
            before = width
        self.body, self.head = nn.Sequential(*blocks), nn.Linear(before, classes)

    def hidden(self, x: Tensor) -> Tensor:
        """Mean of the last stage over all places."""
        last: Tensor = self.body(x)
        return last.mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        logits: Tensor = self.head(self.hidden(x))
        return logits


def inputs(x: Tensor) -> Tensor:
    """Stored pictures as the networks take them; the constants are fixed."""
    return (x.float() / 255.0 - 0.5) / 0.25


def augmented(x: Tensor, plan: Plan) -> Tensor:
    """Pictures that are moved, turned, mirrored and blanked at random."""
    n, side = len(x), x.shape[-1]
    low, high = (torch.rand(n, device=x.device) * 2 - 1 for _ in range(2))
    angle, scale, shear = (plan.turn * (torch.rand(n, device=x.device) * 2 - 1) for _ in range(3))
    flip = torch.ones_like(low)
    if plan.is_mirrored:
        flip = flip - 2 * (torch.rand(n, device=x.device) < 0.5)
    move = 2.0 / side * torch.stack([low * plan.shift, high * plan.shift]).round()
    size = 1.0 + scale
    rows = [flip * size * angle.cos(), shear - angle.sin(), move[0], angle.sin(), size * angle.cos(), move[1]]
    theta = torch.stack(rows, 1).view(n, 2, 3)
    grid = functional.affine_grid(theta, list(x.shape), align_corners=False)
    found = functional.grid_sample(x, grid, padding_mode="border", align_corners=False)
    if plan.hole:
        places = torch.arange(side, device=x.device)
        centre = torch.randint(side, (2, n, 1), device=x.device)
        down, right = ((places - each).abs() * 2 < plan.hole for each in centre)
        found = found.masked_fill((down[:, None, :, None] & right[:, None, None, :]), 0.0)
    return found


def trained(x: Tensor, y: Tensor, plan: Plan, *, seed: int, seconds: float) -> Residual:
    """A network after so many seconds, with a rate that rises and falls with the time."""
    torch.manual_seed(seed)
    model = Residual(x.shape[1], plan.widths)
    model.to(x.device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's own list lacks it
    decayed = [each for each in model.parameters() if each.dim() > 1]
    groups = [
        {"params": decayed, "weight_decay": 5e-4},
        {"params": [each for each in model.parameters() if each.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True)
    start, done, steps = time.perf_counter(), 0.0, 0
    while done < 1.0:
        order = torch.randperm(len(x), device=x.device)
        for at in range(0, len(x) - _BATCH + 1, _BATCH):
            done = min(1.0, (time.perf_counter() - start) / seconds)
            for group in optimizer.param_groups:
                group["lr"] = 0.2 * (done / 0.2 if done < 0.2 else (1.0 - done) / 0.8) + 1e-4
            part = order[at : at + _BATCH]
            with torch.autocast(x.device.type, torch.bfloat16):
                pictures = augmented(inputs(x[part]), plan).to(memory_format=torch.channels_last)
                loss = functional.cross_entropy(model(pictures), y[part], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            steps += 1
            if steps % 8 == 0 and x.device.type == "cuda":
                torch.cuda.synchronize()  # so that the clock is that of the device
            if done >= 1.0:
                break
    sys.stdout.write(
        f"{len(x)} examples, {steps * _BATCH / len(x):.1f} epochs, loss {float(loss.detach()):.4f}\n"
    )
    sys.stdout.flush()
    return model.eval()


@torch.no_grad()
def answers(models: list[Residual], x: Tensor, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Features of pictures, mean over mirror images, for all networks; and what these predict."""
    features, predicted = [], []
    for start in range(0, len(x), 1000):
        part = inputs(x[start : start + 1000])
        copies = (part, part.flip(3)) if plan.is_mirrored else (part,)
        rows = [torch.stack([model.hidden(each) for each in copies]).mean(0) for model in models]
        logits = sum(model.head(row).log_softmax(1) for model, row in zip(models, rows, strict=True))
        features.append(torch.cat([row / row.square().mean(1, keepdim=True).sqrt() for row in rows], 1).cpu())
        predicted.append(logits.argmax(1).cpu())
    return torch.cat(features).double().numpy(), torch.cat(predicted).numpy()


def read(paths: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Pictures and labels from .npz files with x and y, in their order."""
    loaded = [np.load(path) for path in paths]
    x, y = (np.concatenate([each[key] for each in loaded]) for key in ("x", "y"))
    return (x if x.ndim == 4 else x[:, None]), y.astype(np.int64)


def save(path: Path, **arrays: np.ndarray) -> None:
    """Writes arrays, as several files where one would be too large."""
    content: dict[str, Any] = dict(arrays)
    np.savez_compressed(path, **content)
    sys.stdout.write(f"{path} {path.stat().st_size}\n")
    if path.stat().st_size > _MOST_BYTES:
        sys.stdout.write("the file is larger than what comes back\n")


def train(asked: argparse.Namespace) -> None:
    """Trains, encodes, counts, and writes the tables."""
    plan, out = PLANS[asked.name], asked.out
    out.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    (x, y), (test_x, test_y) = read(asked.data), read(asked.test)
    n = len(x)
    first, more = (
        round(n * size / {"cifar10": 50_000}.get(asked.name, 60_000)) for size in (plan.first, plan.more)
    )
    order = permutation(n)
    on = {
        name: torch.from_numpy(np.ascontiguousarray(value)).to(asked.device)
        for name, value in (("x", x), ("y", y), ("t", test_x))
    }
    at = torch.from_numpy(order).to(asked.device)
    record: dict[str, Any] = {"data": asked.name, "n": n, "holdout": []}

    def made(size: int, count: int, name: str) -> tuple[list[Residual], np.ndarray, np.ndarray]:
        models = [
            trained(on["x"][at[:size]], on["y"][at[:size]], plan, seed=seed, seconds=asked.seconds / count)
            for seed in range(count)
        ]
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        rows, predicted = answers(models, on["x"][at], plan)
        test_rows, tested = answers(models, on["t"], plan)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        errors = int((predicted[size:] != y[order[size:]]).sum())
        record["holdout"].append(
            {
                "first": size,
                "networks": count,
                "errors": errors,
                "of": n - size,
                "test_errors": int((tested != test_y).sum()),
            }
        )
        sys.stdout.write(f"{name}: {record['holdout'][-1]}\n")
        sys.stdout.flush()
        return models, rows, test_rows

    models, rows, test_rows = made(first, plan.networks, "helper")
    record["sha256"] = digest(SOURCE, nn.ModuleList(models))
    table, test_table = quantise_rows(rows, "helper"), quantise_rows(test_rows, "helper")
    head = linear_helper(Dataset("first part", "train", table[:first], y[order[:first]], 10, SCALING))
    weight, bias = (value.numpy() for value in head.state_dict().values())
    save(out / f"{asked.name}-rest.npz", x=table[first:], y=y[order[first:]], weight=weight, bias=bias)
    save(out / f"{asked.name}-test.npz", x=test_table, y=test_y)
    if asked.name == "mnist":
        keep(out / "mnist-helper.npz", models)
    if asked.rivals:
        made(more, plan.networks, "larger share")
    if asked.own:
        own, _, _ = made(n, 1, "own network")
        keep(out / f"{asked.name}-own.npz", own)
    record |= {
        "first": first,
        "seconds": asked.seconds,
        **made_with(asked.device),
    }
    (out / f"{asked.name}-train.json").write_text(json.dumps(record, indent=1) + "\n")


def keep(path: Path, models: list[Residual]) -> None:
    """Writes the tensors of networks."""
    save(
        path,
        **{
            f"{at}.{name}": value.cpu().numpy()
            for at, model in enumerate(models)
            for name, value in model.state_dict().items()
        },
    )


def held_out(errors: int, n: int, delta: float) -> float:
    """The bound of a hold-out set."""
    return holdout(HoldoutFacts(errors=errors, n=n, delta=delta)).value


def certify_table(asked: argparse.Namespace) -> None:
    """Certifies the scores of the rest, and puts the routes side by side."""
    record, sample, tested = scored(asked)
    began = time.perf_counter()
    found = taken_as_it_is(sample, delta=DELTAS[0], tested=tested)
    facts, beside = found.certificate.facts, found.holdout
    assert beside is not None  # there is a test set
    assert isinstance(beside.facts, HoldoutFacts)
    assert found.base is not None
    rows: list[dict[str, object]] = []
    for each in record["holdout"]:
        if each["of"]:
            limits = {f"bound at {delta}": held_out(each["errors"], each["of"], delta) for delta in DELTAS}
            rows.append({"route": "hold-out", **each, **limits})
    rows.append(
        {
            "route": "helper",
            "first": record["first"],
            "errors": facts.errors,
            "of": facts.n,
            "code_bits": facts.code_bits,
            **{f"bound at {delta}": bound_at(found.certificate, delta) for delta in DELTAS},
            "test_errors": beside.facts.errors,
        }
    )
    rows += picked_beside(asked, record)
    out = {
        "commands": [
            f"python results/helped.py train {asked.name} --seconds {record['seconds']:g}",
            f"python results/helped.py certify {asked.name} --tables TABLES",
        ],
        "verify": f"codebound-verify certificates/{asked.name}-helped.cbound --data certificates/"
        f"{asked.name}-helped.npz --base certificates/{asked.name}-helped.base.safetensors",
        "data": asked.name,
        "encoder": sample.encoder,
        "verdict": "ACCEPT",
        "statement": found.certificate.claim.statement,
        "bound": found.bound,
        "n": facts.n,
        "first_part": record["first"],
        "train_errors": facts.errors,
        "code_bits": facts.code_bits,
        "delta": DELTAS[0],
        "at_delta_1e-6": bound_at(found.certificate, DELTAS[1]),
        "test_errors": beside.facts.errors,
        "test_n": tested.n,
        "holdout": beside.value,
        "routes": rows,
        "training": record,
        "training_is": AGAIN,
        "sample_sha256": facts.sample_sha256,
        "seconds": {"train": record["seconds"], "certify": round(time.perf_counter() - began, 1)},
    }
    folder = asked.out / "certificates"
    folder.mkdir(parents=True, exist_ok=True)
    found.save(folder / f"{asked.name}-helped.cbound")
    save_file(found.base, folder / f"{asked.name}-helped.base.safetensors")
    save(
        folder / f"{asked.name}-helped.npz",
        x=sample.x.astype(np.float16),
        y=sample.y.astype(np.uint8),
        test_x=tested.x.astype(np.float16),
        test_y=tested.y.astype(np.uint8),
    )
    (asked.out / f"{asked.name}-helped.json").write_text(json.dumps(out, indent=1) + "\n")
    sys.stdout.write(json.dumps(rows, indent=1) + f"\n{found.sentence}\n")


def picked_beside(asked: argparse.Namespace, record: dict[str, Any]) -> list[dict[str, object]]:
    """Bounds of picks on the rows: a comparison, not a choice; as recorded, without tables."""
    if asked.tables is None:
        known = json.loads((asked.out / f"{asked.name}-helped.json").read_text())["routes"]
        return [row for row in known if row["route"] == "picks"]
    rest = np.load(asked.tables / f"{asked.name}-rest.npz")
    sample = Dataset(f"{asked.name}:helped", "train", rest["x"], rest["y"], 10, SCALING)
    certificate = certify(None, sample, method="picks", effort=asked.effort).certificate
    facts = certificate.facts
    return [
        {
            "route": "picks",
            "first": record["first"],
            "rule_first": facts.extra["first"],
            "picks": facts.extra["picks"],
            "errors": facts.errors,
            "of": facts.n,
            "code_bits": facts.code_bits,
            **{f"bound at {delta}": bound_at(certificate, delta) for delta in DELTAS},
        }
    ]


def taken_as_it_is(sample: Dataset, *, delta: float, tested: Dataset | None = None) -> Certification:
    """The certificate of the largest score."""
    head = largest_input(sample.classes)
    return certify(
        head.network, sample, base=head, method="prune", effort="quick", delta=delta, test_set=tested
    )


def scored(asked: argparse.Namespace) -> tuple[dict[str, Any], Dataset, Dataset]:
    """The record of a training, and the scores of the rest and of the test part, in half precision."""
    if asked.tables is None:
        record = json.loads((asked.out / f"{asked.name}-helped.json").read_text())["training"]
        kept = np.load(asked.out / "certificates" / f"{asked.name}-helped.npz")
        parts = [(kept["x"], kept["y"]), (kept["test_x"], kept["test_y"])]
    else:
        record = json.loads((asked.tables / f"{asked.name}-train.json").read_text())
        rest, test = (np.load(asked.tables / f"{asked.name}-{part}.npz") for part in ("rest", "test"))
        record["head_sha256"] = hashlib.sha256(rest["weight"].tobytes() + rest["bias"].tobytes()).hexdigest()
        parts = [(scores(each["x"], rest), each["y"]) for each in (rest, test)]
    encoder = encoder_of(record, lambda batch: batch)
    sample, tested = (
        Dataset(
            f"{asked.name}:helped",
            role,
            x.astype(np.float32),
            y.astype(np.int64),
            10,
            encoder.scaling,
            encoder=encoder.declared,
        )
        for role, (x, y) in zip(("train", "test"), parts, strict=True)
    )
    return record, sample, tested


def scores(rows: np.ndarray, rest: Mapping[str, np.ndarray]) -> np.ndarray:
    """Scores of stored rows from the linear layer of the first part."""
    scaled = rows.astype(np.float64) / SCALING.divisor
    found: np.ndarray = scaled @ rest["weight"].T.astype(np.float64) + rest["bias"]
    return found.astype(np.float16)


def encoder_of(record: dict[str, Any], function: Callable[[Tensor], Tensor]) -> Encoder:
    """Networks and linear layer of the first part, as what they are declared to be."""
    return Encoder(
        f"results/helped.py train {record['data']}",
        function,
        hashlib.sha256(f"{record['sha256']} {record['head_sha256']}".encode()).hexdigest(),
        licence="MIT",
        origin="nothing else went into it",
        made_of=declare_share(record["first"], record["n"]),
        has_scores=True,
    )


def bound_at(certificate: Certificate, delta: float) -> float:
    """Bound from the same counts at another delta."""
    facts = certificate.facts
    common: dict[str, Any] = {"errors": facts.errors, "n": facts.n, "delta": delta}
    common["code_bits"] = facts.code_bits
    if certificate.claim.statement == "C-15":
        first, picks = facts.extra["first"], facts.extra["picks"]
        return picked_risk(PickedFacts(picks=picks, n_first=first, **common)).value
    return occam_binomial(OccamFacts(**common)).value


def own_network(asked: argparse.Namespace) -> None:
    """Bounds a network of all examples through the certificate of the helper's scores, which are kept."""
    record, sample, tested = scored(asked)
    (f,) = kept(asked.tables / f"{asked.name}-own.npz", PLANS[asked.name])
    test = load_dataset(asked.name, role="test")
    fresh = test.select(range(asked.unlabelled), role="unlabelled")
    known = {x.tobytes(): row for x, row in zip(test.x, tested.x, strict=True)}

    def rows(batch: Tensor) -> Tensor:
        stored_as = (255.0 * batch).round().to(torch.uint8).numpy()
        return torch.from_numpy(np.stack([known[x.tobytes()] for x in stored_as]))

    began = time.perf_counter()
    found = taken_as_it_is(sample, delta=DELTAS[0] / 2)
    through = bound_through(
        found.certificate,
        nn.Sequential(Shown(), f),
        sample=sample,
        unlabelled=fresh,
        base=found.base,
        encoder=encoder_of(record, rows),
    )
    (own,) = (each for each in record["holdout"] if each["first"] == record["n"])
    out = {
        "commands": [
            f"python results/helped.py train {asked.name} --own --seconds {record['seconds']:g}",
            f"python results/helped.py own {asked.name} --tables TABLES --unlabelled {asked.unlabelled}",
        ],
        "data": asked.name,
        **through.record(),
        "test_errors_of_f": own["test_errors"],
        "code_bits_of_g": found.certificate.facts.code_bits,
        "seconds": round(time.perf_counter() - began, 1),
        **{name: record[name] for name in ("device", "versions", "date")},
    }
    (asked.out / f"{asked.name}-own.json").write_text(json.dumps(out, indent=1) + "\n")
    sys.stdout.write(f"{through.sentence}\n")


class Shown(nn.Module):
    """Scaled pictures as the networks take them."""

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return (x - 0.5) / 0.25


def kept(path: Path, plan: Plan) -> list[Residual]:
    """Networks whose tensors were kept."""
    found = np.load(path)
    models = []
    for at in range(len({name.partition(".")[0] for name in found})):
        state = {
            name.partition(".")[2]: torch.from_numpy(found[name])
            for name in found
            if name.startswith(f"{at}.")
        }
        model = Residual(state["body.0.weight"].shape[1], plan.widths)
        model.load_state_dict(state)
        models.append(model.eval())
    return models


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    one = verbs.add_parser("train")
    one.add_argument("name", choices=PLANS)
    one.add_argument("--seconds", type=float, default=120.0, help="for each share of the sample")
    one.add_argument("--device", default="cuda")
    one.add_argument("--data", type=Path, nargs="+", required=True, help=".npz files with x and y")
    one.add_argument("--test", type=Path, nargs="+", required=True)
    one.add_argument(
        "--rivals", action=argparse.BooleanOptionalAction, default=True, help="a larger share too"
    )
    one.add_argument(
        "--own", action=argparse.BooleanOptionalAction, default=False, help="a network of all examples too"
    )
    one.add_argument("--out", type=Path, required=True)
    one.set_defaults(run=train)
    for name, function in (("certify", certify_table), ("own", own_network)):
        other = verbs.add_parser(name)
        other.add_argument("name", choices=PLANS)
        other.add_argument(
            "--tables", type=Path, help="where train wrote them (default: the scores of this folder)"
        )
        other.add_argument("--effort", default="standard")
        other.add_argument(
            "--unlabelled", type=int, default=10_000, help="of the test inputs, the first so many"
        )
        other.add_argument("--out", type=Path, default=Path("results"))
        other.set_defaults(run=function)
    asked = parser.parse_args()
    asked.run(asked)


if __name__ == "__main__":
    main()
