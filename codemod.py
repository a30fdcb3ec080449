"""Move the modules of the product into their rooms, with their tests, and rewrite every name of them.

Run once, from the root of a clean checkout: ``python codemod.py``. It moves files with git, rewrites dotted
names and paths in every tracked text file, and leaves sorting and formatting to ruff.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOMS = {  # new package: {old module: new name}
    "codebound.run": {
        "errors": "errors",
        "files": "files",
        "interrupts": "interrupts",
        "progress": "progress",
        "rng": "rng",
        "device": "device",
        "store": "store",
        "user_code": "user_code",
        "extensions": "extensions",
        "refs": "references",
        "engine.job": "job",
        "engine.processes": "processes",
        "nets.tensors": "tensor_files",
    },
    "codebound.bounds": {
        "bounds.faulty": "loss_bounds",
        "bounds.looked": "adaptive_holdout",
    },
    "codebound.sample": {
        "data.dataset": "dataset",
        "data.arrays": "arrays",
        "data.given": "convert",
        "data.load": "load",
        "data.large": "memmap",
        "data.oddities": "caveats",
        "data.splits": "splits",
        "data.standard": "standardised",
        "samples": "description",
        "data.columns": "columns",
        "data.words": "words",
        "certificate.rows": "rows",
        "data.developed": "development",
        "data.foreign": "dataframes",
        "data.frames": "frames",
        "faults": "losses",
        "scores": "scores",
    },
    "codebound.sample.formats": {
        "data.cells": "parse_cell",
        "data.tables": "table_files",
        "data.texts": "texts",
        "data.catalogue": "catalogue",
        "data.download": "download",
        "data.idx": "idx",
        "data.cifar": "cifar",
        "data.pictures": "pictures",
        "data.packaged": "packaged",
        "data.rdata": "rdata",
    },
    "codebound.known": {
        "encoders.encoder": "encoder",
        "encoders.known": "named_encoders",
        "encoders.tables": "encoded_tables",
        "encoders.helpers": "first_share",
        "seen": "unseen",
        "data.declared": "declared",
        "nets.origins": "provenance",
        "encoders.efficientnet": "efficientnet",
        "encoders.wordllama": "wordllama",
    },
    "codebound.bits": {
        "coding.arithmetic": "arithmetic",
        "coding.bits": "bitstring",
        "coding.numbers": "numbers",
        "coding.stream": "stream",
        "coding.setting": "setting",
    },
    "codebound.learn": {
        "picks.features": "features",
        "picks.images": "images",
        "picks.message": "rule_message",
        "picks.network": "kernel_network",
        "picks.picking": "picking",
        "picks.ridge": "ridge",
        "picks.rule": "rule",
        "picks.spread": "spread",
        "picks.weighting": "feature_weights",
        "coding.dictionary": "dictionary",
    },
    "codebound.methods": {
        "search.search": "search",
        "search.methods": "registry",
        "search.picked": "rule_search",
        "search.rivals": "holdout_baseline",
        "search.routes": "comparison",
        "search.course": "strategy",
        "search.attempts": "attempt",
        "search.starts": "inputs",
        "search.helped": "share",
        "search.helpers": "kernel_share",
        "search.constant": "constant",
        "search.own_features": "base_features",
        "search.offers": "offers",
    },
    "codebound.certificate": {
        "certificate.asking": "verification",
        "certificate.beside": "test_errors",
        "certificate.format": "versions",
        "certificate.picked": "rule_assessment",
        "certificate.stated": "statement",
        "calculation": "calculator",
    },
    "codebound.holdout": {
        "holdouts.callbacks": "callbacks",
        "holdouts.from_files": "from_files",
        "holdouts.ledger": "ledger",
        "holdouts.looking": "sealed",
        "holdouts.metric": "metric",
        "holdouts.values": "values",
        "advice": "advice",
    },
    "codebound.any_learner": {
        "estimator.content": "example_hash",
        "estimator.learners": "learners",
        "estimator.reruns": "rerun_file",
        "estimator.rule": "picking_rule",
        "estimator.search": "candidates",
        "estimator.stages": "round_value",
        "estimator.wrapper": "pick_to_learn",
    },
    "codebound.audit": {"signature": "signature", "statements": "joint", "report.dossier": "dossier"},
    "codebound.report": {"results": "folder", "fresh_examples": "fresh_examples"},
    "codebound.cli": {"commands": "actions"},
    "codebound_networks.chains": {
        "coding.blocks": "blocks",
        "coding.chain": "chain",
        "coding.modules": "modules",
        "coding.operations": "operations",
        "coding.reading": "from_module",
        "coding.shifts": "shifts",
        "coding.message": "message",
        "coding.grid": "grid",
    },
    "codebound_networks.codes": {
        "coding.bell": "bell",
        "coding.choose": "choose",
        "coding.modes": "modes",
        "coding.quantization": "quantization",
        "coding.static": "static",
        "coding.subspace": "random_subspace",
        "coding.tensors": "tensors",
    },
    "codebound_networks.reading": {
        "nets.adapting": "callables",
        "nets.alone": "per_example",
        "nets.compared": "equivalence",
        "nets.constants": "constants",
        "nets.exported": "export",
        "nets.simplified": "canonical",
        "nets.written": "source_file",
        "nets.loading": "loading",
        "nets.layered": "layered",
        "nets.walk": "walk",
    },
    "codebound_networks.views": {
        "nets.fold": "fold",
        "nets.graphs": "graphs",
        "nets.kinds": "kinds",
        "nets.layers": "layers",
        "nets.rebuild": "rebuild",
        "nets.zoo": "zoo",
    },
    "codebound_networks.train": {
        "train.config": "config",
        "train.descent": "descent",
        "train.few_bits": "few_bits",
        "train.harness": "harness",
        "train.passes": "passes",
        "train.polishing": "polishing",
        "train.pruning": "pruning",
        "train.runs": "runs",
        "train.subspace": "subspace",
        "train.updates": "updates",
        "training": "actions",
    },
    "codebound_networks.methods": {
        "search.biases": "biases",
        "search.features": "sparse_features",
        "search.pruned": "pruned",
        "search.subspace": "subspace_networks",
        "search.trainers": "trainers",
        "search.units": "units",
    },
    "codebound_networks.about_f": {
        "certificate.answers": "answers",
        "certificate.base": "base",
        "certificate.domain": "domain",
        "certificate.one_example": "batch_independence",
        "certificate.rounding": "rounding",
        "certificate.tracing": "tracing",
        "through": "disagreement",
    },
    "codebound_networks.cli": {
        "cli.doctor": "doctor",
        "cli.through": "through",
        "cli.train": "train",
        "diagnosis": "diagnosis",
    },
    "codebound_papers.sweep": {
        "sweep.execution": "execution",
        "sweep.jobs": "jobs",
        "sweep.plan": "grid",
        "sweep.verbs": "verbs",
        "engine.cluster": "cluster",
    },
    "codebound_papers.cli": {"cli.sweep": "sweep"},
}

SENTENCES = {  # the docstrings of new packages
    "codebound.run": "Foundations: errors, files, progress, interrupts, devices, locked stores, jobs.",
    "codebound.sample": "Labelled samples: arrays, tables and data frames, with hashes, splits and remarks.",
    "codebound.sample.formats": "Files that samples come in, and datasets known by name.",
    "codebound.known": "Information fixed without the counted examples: encoders and first shares.",
    "codebound.bits": "Bit strings, numbers and the arithmetic code: lengths that are exact.",
    "codebound.learn": "Rules that both programs replay: features, kernel ridge regression, picking.",
    "codebound.methods": "Methods of certify: each proposes messages, the smallest bound is kept.",
    "codebound.holdout": "Test sets that are looked at more than once: sealed, with a ledger of every look.",
    "codebound.any_learner": "Pick-to-learn for any learner with the interface of scikit-learn.",
    "codebound.audit": "Reports, signatures and joint statements for auditors.",
    "codebound_networks": "A trained network becomes a message.",
    "codebound_networks.chains": "Chains of operations: the networks that a message describes by itself.",
    "codebound_networks.codes": "Codes of tensors: integers, grids, sketches and subspaces in few bits.",
    "codebound_networks.reading": "Modules of any origin as plain networks with named tensors.",
    "codebound_networks.views": "Layers as linear maps, graphs of steps, and copies with other tensors.",
    "codebound_networks.train": "One reproducible and resumable training loop, and training to few bits.",
    "codebound_networks.methods": "Methods of certify that start from a network or train one to few bits.",
    "codebound_networks.about_f": "Statements about the network that was given, through its compressed one.",
    "codebound_networks.cli": "Verbs of networks.",
    "codebound_papers.sweep": "Sweeps: a plan of many jobs, on this machine or on a cluster, each run once.",
}
DROPPED = (
    "data",
    "encoders",
    "engine",
    "estimator",
    "holdouts",
    "picks",
    "search",
    "coding",
    "nets",
    "train",
    "sweep",
)
FOLDERS = {  # where tests go that are named for no module
    "data": "sample",
    "encoders": "known",
    "estimator": "any_learner",
    "holdouts": "holdout",
    "picks": "learn",
    "search": "methods",
    "coding": "networks/chains",
    "nets": "networks/views",
    "train": "networks/train",
    "sweep": "papers/sweep",
    "engine": "run",
}
TESTS = {
    "tests/unit/test_onnx.py": "tests/unit/test_classifier_as_onnx.py",
    "tests/unit/test_lock.py": "tests/unit/run/test_lock.py",
}
UNTOUCHED = re.compile(
    r"^(docs/format.*\.md|CHANGELOG\.md|codemod\.py|tests/golden/version-.*|results/.*\.json|results/certificates/.*)$"
)


def new_homes() -> dict[str, str]:
    """Return the new dotted name of every module that moves."""
    return {
        f"codebound.{old}": f"{room}.{new}" for room, rooms in ROOMS.items() for old, new in rooms.items()
    }


def git(*words: str) -> str:
    """Run git and return its output."""
    return subprocess.run(("git", *words), check=True, capture_output=True, text=True).stdout


def path_of(module: str) -> Path:
    """Return the file of a module."""
    return Path("src", *module.split(".")).with_suffix(".py")


def test_folder(module: str) -> Path:
    """Return the folder of the tests of a module."""
    package, *inside = module.split(".")[:-1]
    place = {"codebound": "", "codebound_networks": "networks", "codebound_papers": "papers"}[package]
    return Path("tests", "unit", place, *inside)


def moves(homes: dict[str, str]) -> dict[Path, Path]:
    """Return the new path of every file that moves: modules, their tests, and what lies beside them."""
    result = {path_of(old): path_of(new) for old, new in homes.items()}
    result[Path("src/codebound/coding/dictionaries.json")] = Path("src/codebound/learn/dictionaries.json")
    result[Path("src/codebound/data/developed.json")] = Path("src/codebound/sample/developed.json")
    for old, new in homes.items():
        parts = old.split(".")[1:]
        test = Path("tests", "unit", *parts[:-1], f"test_{parts[-1]}.py")
        if test.is_file():
            result[test] = test_folder(new) / f"test_{new.rsplit('.', 1)[1]}.py"
    for old, new in FOLDERS.items():
        for test in Path("tests/unit", old).glob("*.py"):
            result.setdefault(test, Path("tests/unit", new, test.name))
    result |= {Path(old): Path(new) for old, new in TESTS.items()}
    return {old: new for old, new in result.items() if old != new}


GROUP = "codebound.extensions"


class Rewriter:
    """Old names and paths in a text, replaced."""

    def __init__(self, homes: dict[str, str], paths: dict[Path, Path]) -> None:
        self.homes = homes
        names = sorted(homes, key=len, reverse=True)
        self.names = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b(?!\.py)")
        self.places = {}  # with src or tests in front, or without
        for old, new in paths.items():
            for cut in (0, 1):
                self.places["/".join(old.parts[cut:])] = "/".join(new.parts[cut:])
        places = sorted(self.places, key=len, reverse=True)
        self.paths = re.compile(
            rf"(?:(?<![\w/])|(?<=\.\./)|(?<=blob/main/))({'|'.join(map(re.escape, places))})(?!\w)"
        )
        self.froms = re.compile(r"^( *)from (codebound(?:\.\w+)*) import ([\w, ]+)$", flags=re.M)

    def __call__(self, text: str) -> str:
        """Return the text with new names."""
        if "codebound" in text:
            text = self.froms.sub(self._split, text)
            text = re.sub(r'(?<=["`])codebound\.extensions(?=["`])', "\0", text)  # a group of entry points
            text = self.names.sub(lambda found: self.homes[found[1]], text).replace("\0", GROUP)
        return self.paths.sub(lambda found: self.places[found[1]], text)

    def _split(self, line: re.Match[str]) -> str:
        """Imports of modules from their package, each from its new one."""
        space, package, names = line.groups()
        lines, kept = [], []
        for name in names.split(", "):
            module, _, alias = name.partition(" as ")
            home = self.homes.get(f"{package}.{module}")
            if home is None:
                kept.append(name)
                continue
            room, short = home.rsplit(".", 1)
            said = short if (alias or module) == short else f"{short} as {alias or module}"
            lines.append(f"{space}from {room} import {said}")
        if kept:
            lines.insert(0, f"{space}from {package} import {', '.join(kept)}")
        return "\n".join(lines)


BY_HAND = {  # what no rule knows: file, old text, new text
    "src/codebound_networks/chains/message.py": ("(``codebound.picks``)", "(``codebound.learn``)"),
    "tests/unit/networks/train/test_runs.py": (
        "import sys, codebound.train; ",
        "import sys, codebound_networks.train; ",
    ),
    "tests/unit/networks/chains/test_fixed_operations.py": (
        'files("codebound.coding")',
        'files("codebound.learn")',
    ),
    "src/codebound_networks/reading/export.py": (
        "ours = (str(Path(__file__).parent),",
        "ours = (str(Path(__file__).parents[1]),",
    ),
}


def deepened(text: str, by: int) -> str:
    """Count folders above a file anew that lies deeper now."""
    return re.sub(
        r"(__file__\)(?:\.resolve\(\))?\.parents\[)(\d)",
        lambda found: f"{found[1]}{int(found[2]) + by}",
        text,
    )


def main() -> None:
    """Move the files and rewrite the texts."""
    homes = {old: new for old, new in new_homes().items() if path_of(old).is_file()}
    paths = moves(homes)
    for room, sentence in SENTENCES.items():
        init = Path("src", *room.split("."), "__init__.py")
        init.parent.mkdir(parents=True, exist_ok=True)
        init.write_text(f'"""{sentence}"""\n', encoding="utf-8")
    for old, new in paths.items():
        new.parent.mkdir(parents=True, exist_ok=True)
        git("mv", str(old), str(new))
    for package in DROPPED:
        git("rm", "-q", "-f", f"src/codebound/{package}/__init__.py")
    git("add", "-A", "src", "tests")
    rewritten = Rewriter(homes, paths)
    came_from = {str(new): old for old, new in paths.items()}
    for name in git("ls-files").splitlines():
        if UNTOUCHED.match(name) or Path(name).is_symlink():
            continue
        try:
            text = Path(name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        after = rewritten(text)
        if name in came_from:
            after = deepened(after, len(Path(name).parts) - len(came_from[name].parts))
        if name in BY_HAND:
            assert BY_HAND[name][0] in after, name
            after = after.replace(*BY_HAND[name])
        if after != text:
            Path(name).write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
