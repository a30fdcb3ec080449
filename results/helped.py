"""Networks made of the first part of a sample encode the rest, which is certified; hold-out sets beside it.

    python results/helped.py train cifar10 --seconds 150 --data A.npz B.npz --test C.npz --out TABLES
    python results/helped.py certify cifar10 --tables TABLES
    python results/helped.py own mnist --tables TABLES

``train`` needs torch, numpy and a GPU. It trains networks on the first examples in the order of C-10, writes
the rows that they make of all other examples, and counts the errors that such networks make on what they did
not see, after the same share and after a larger one: the hold-out sets to compare with. ``certify`` works on
a CPU: picks, and a message on top of a linear layer that was made of the first part too. ``own`` bounds a
network of all examples through that certificate, by how often the two differ on the test inputs.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from codebound import __version__
from codebound.data.dataset import Dataset
from codebound.encoders.encoder import SCALING, Encoder, digest, stored
from codebound.encoders.helpers import made_of_words
from codebound.picks.picking import permutation
from codebound.search.rivals import linear_helper

if TYPE_CHECKING:
    from collections.abc import Callable

    from codebound.certificate.base import Pretrained
    from codebound.certificate.file import Certificate

DELTAS = (0.05, 1e-6)
SOURCE = b"results/helped.py, residual networks, version 1"
_BATCH = 256
_MOST_BYTES = 15 << 20  # of a file


@dataclass(frozen=True)
class Plan:
    """How the networks of a sample are made.

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
        return self.body(x).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return self.head(self.hidden(x))


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
    model = Residual(x.shape[1], plan.widths).to(x.device, memory_format=torch.channels_last)
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
        rows = [sum(model.hidden(each) for each in copies) / len(copies) for model in models]
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
    np.savez_compressed(path, **arrays)
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
    record: dict[str, object] = {"data": asked.name, "n": n, "holdout": []}

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
        )  # type: ignore[attr-defined]
        sys.stdout.write(f"{name}: {record['holdout'][-1]}\n")  # type: ignore[index]
        sys.stdout.flush()
        return models, rows, test_rows

    models, rows, test_rows = made(first, plan.networks, "helper")
    record["sha256"] = digest(SOURCE, nn.ModuleList(models))
    table, test_table = stored(rows, "helper"), stored(test_rows, "helper")
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
        "device": torch.cuda.get_device_name() if asked.device == "cuda" else platform.processor(),
        "versions": {
            "codebound": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "date": time.strftime("%Y-%m-%d"),
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
    from codebound.bounds.held_out import holdout
    from codebound.facts import HoldoutFacts

    return holdout(HoldoutFacts(errors=errors, n=n, delta=delta)).value


def certify_table(asked: argparse.Namespace) -> None:
    """Certifies the rows of the rest, and puts the routes side by side."""
    from codebound.certification import certify

    record, sample, tested, head = tables(asked)
    began = time.perf_counter()
    picked = certify(None, sample, method="picks", effort=asked.effort, test_set=tested)
    message = certify(head.network, sample, base=head, method="prune", effort="quick", test_set=tested)
    rows: list[dict[str, object]] = []
    for each in record["holdout"]:
        if each["of"]:
            limits = {f"bound at {delta}": held_out(each["errors"], each["of"], delta) for delta in DELTAS}
            rows.append({"route": "hold-out", **each, **limits})
    for route, found in (("picks", picked), ("split", message)):
        rows.append(
            {
                "route": route,
                "first": record["first"],
                **found.certificate.facts.extra,
                "errors": found.certificate.facts.errors,
                "of": found.certificate.facts.n,
                "code_bits": found.certificate.facts.code_bits,
                **{f"bound at {delta}": bound_at(found.certificate, delta) for delta in DELTAS},
                "test_errors": found.holdout.facts.errors,
            }
        )
    best = min((picked, message), key=lambda each: each.bound)
    out = {
        "commands": [
            f"python results/helped.py train {asked.name} --device cuda --seconds {record['seconds']:g}",
            f"python results/helped.py certify {asked.name} --tables TABLES",
        ],
        "data": asked.name,
        "encoder": sample.encoder,
        "verdict": "ACCEPT",
        "statement": best.certificate.claim.statement,
        "bound": best.bound,
        "n": best.certificate.facts.n,
        **best.certificate.facts.extra,
        "train_errors": best.certificate.facts.errors,
        "code_bits": best.certificate.facts.code_bits,
        "delta": DELTAS[0],
        "routes": rows,
        "sample_sha256": best.certificate.facts.sample_sha256,
        "seconds": {"train": record["seconds"], "certify": time.perf_counter() - began},
        "device": record["device"],
        "versions": record["versions"],
        "date": record["date"],
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    best.save(asked.out / "certificates" / f"{asked.name}-helped.cbound")
    (asked.out / f"{asked.name}-helped.json").write_text(json.dumps(out, indent=1) + "\n")
    sys.stdout.write(json.dumps(rows, indent=1) + f"\n{best.sentence}\n")


def tables(asked: argparse.Namespace) -> tuple[dict[str, Any], Dataset, Dataset, Pretrained]:
    """The record of a training, the rows of the rest and of the test part, the layer of the first part."""
    from codebound.certificate.base import Pretrained

    record = json.loads((asked.tables / f"{asked.name}-train.json").read_text())
    encoder = encoder_of(record, lambda batch: batch)
    rest, test = (np.load(asked.tables / f"{asked.name}-{part}.npz") for part in ("rest", "test"))
    sample, tested = (
        Dataset(f"{asked.name}:helped", role, each["x"], each["y"], 10, SCALING, encoder=encoder.declared)
        for role, each in (("train", rest), ("test", test))
    )
    network = nn.Sequential(nn.Flatten(), nn.Linear(sample.input_shape[0], 10))
    network.load_state_dict(
        {"1.weight": torch.from_numpy(rest["weight"]), "1.bias": torch.from_numpy(rest["bias"])}
    )
    head = Pretrained(network.eval(), "a linear layer on the rows of the helper, learned from the first part")
    return record, sample, tested, head


def encoder_of(record: dict[str, Any], function: Callable[[Tensor], Tensor]) -> Encoder:
    """The networks of the first part as what they are declared to be."""
    return Encoder(
        f"results/helped.py train {record['data']}",
        function,
        record["sha256"],
        licence="MIT",
        origin="nothing else went into it",
        made_of=made_of_words(record["first"], record["n"]),
    )


def bound_at(certificate: Certificate, delta: float) -> float:
    """What the same counts prove at another delta."""
    from codebound.bounds.occam import occam_binomial
    from codebound.bounds.picked import picked_risk
    from codebound.facts import OccamFacts, PickedFacts

    facts = certificate.facts
    if certificate.claim.statement == "C-15":
        extra = facts.extra
        return picked_risk(
            PickedFacts(
                picks=extra["picks"],
                errors=facts.errors,
                n=facts.n,
                n_first=extra["first"],
                code_bits=facts.code_bits,
                delta=delta,
            )
        ).value
    return occam_binomial(
        OccamFacts(errors=facts.errors, n=facts.n, code_bits=facts.code_bits, delta=delta)
    ).value


def own_network(asked: argparse.Namespace) -> None:
    """Bounds a network of all examples through the certificate of the helper's rows."""
    from codebound.certification import certify
    from codebound.data.load import load_dataset
    from codebound.through import bound_through

    record, sample, _, _ = tables(asked)
    plan = PLANS[asked.name]
    helper = nn.ModuleList(kept(asked.tables / f"{asked.name}-helper.npz", plan))
    (f,) = kept(asked.tables / f"{asked.name}-own.npz", plan)
    if digest(SOURCE, helper) != record["sha256"]:
        sys.exit("these are not the networks that made the rows.")
    test = load_dataset(asked.name, role="test")
    fresh = test.select(range(test.n), role="unlabelled")

    def rows(batch: Tensor) -> Tensor:
        return torch.from_numpy(answers(list(helper), (255.0 * batch).round(), plan)[0])

    found = certify(None, sample, method="picks", effort=asked.effort, delta=0.025)
    with tempfile.TemporaryDirectory() as folder:
        found.save_to(Path(folder) / "c")
        through = bound_through(
            found.certificate,
            nn.Sequential(Shown(), f),
            sample=sample,
            unlabelled=fresh,
            weights=Path(folder) / "c" / "g.safetensors",
            encoder=encoder_of(record, rows),
        )
    errors = int(
        (
            torch.cat(
                [f(inputs(torch.from_numpy(part))).argmax(1) for part in np.array_split(test.x, 20)]
            ).numpy()
            != test.y
        ).sum()
    )
    out = {
        "commands": [f"python results/helped.py own {asked.name} --tables TABLES"],
        **through.record(),
        "test_errors_of_f": errors,
        "device": record["device"],
        "date": record["date"],
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
        other.add_argument("--tables", type=Path, required=True, help="where train wrote them")
        other.add_argument("--effort", default="standard")
        other.add_argument("--out", type=Path, default=Path("results"))
        other.set_defaults(run=function)
    asked = parser.parse_args()
    asked.run(asked)


if __name__ == "__main__":
    main()
