"""``codebound verify --rerun``: runs the learner of a certificate of the second kind again."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Prints whether the learner does the same again; 0 if it does, 1 if not, 2 for wrong usage."""
    parser = _parser()
    options = parser.parse_args(arguments)
    from codebound.any_learner.rerun_file import RerunCertificate, load_examples, rerun
    from codebound.cli.console import printable

    certificate = RerunCertificate.load(options.rerun)
    if options.learner is None:
        parser.error(
            f"--learner is missing: the file names {printable(certificate.learner)}. Name it to run it."
        )
    examples = load_examples(options.data, options.data_folder)
    found = rerun(certificate, *examples, learner=options.learner)
    if options.format == "json":
        record = {"verdict": found.verdict, "is_reproduced": found.is_reproduced, **asdict(found)}
        sys.stdout.write(json.dumps(record, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(printable(line) for line in str(found).splitlines()) + "\n")
    return 0 if found.is_reproduced else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="codebound verify",
        description="Run the learner of a certificate of the second kind again, and compare. This runs "
        "the code that --learner names.",
    )
    add = parser.add_argument
    add("--rerun", type=Path, required=True, help="the certificate (.json)")
    add("--learner", help="package.module:factory of the learner, which is run; the one that the file names")
    add(
        "--data",
        required=True,
        help="the sample: an .npz file (x, y), a name such as digits, or package.module:factory",
    )
    add("--data-folder", type=Path, help="where the files of a named dataset lie, if not in the cache")
    add("--format", choices=("text", "json"), default="text", help="how to print the verdict")
    return parser
