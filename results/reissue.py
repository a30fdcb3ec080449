"""Writes the certificate of an old file anew, in the version that is written today: the same network.

    python results/reissue.py results/certificates/digits-linear.cbound --data digits
    python results/reissue.py results/certificates/digits-from-mnist.cbound --data digits \
        --base results/certificates/digits-from-mnist.base.safetensors

The message is decoded, its network counted again on the sample, and the certificate issued, which the second
program has to accept. The file is replaced, and so are the numbers in the record of the same name: beside the
file, or beside its folder where that is called certificates.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from codebound.certificate.assessment import assess, issue
from codebound.certificate.claims import AboutG, AfterSplit
from codebound.certificate.file import Certificate
from codebound.certificate.task import Task
from codebound.known.provenance import declared_name
from codebound.run.errors import UsageError
from codebound.run.tensor_files import load_arrays
from codebound.sample.load import load_dataset
from codebound_networks.chains.message import decode

if TYPE_CHECKING:
    from codebound.certificate.task import Tensors
    from codebound.sample.dataset import Dataset


def reissued(
    old: Certificate, sample: Dataset, *, base: Tensors | None = None, allow_copies: bool = False
) -> Certificate:
    """The certificate of the same network on the same sample, accepted by the second program.

    Args:
        old: C-2 or C-10 about a network that its message describes; others have to be certified again.
        sample: The sample it is about; classes and scaling are those of the old file.
        base: The tensors of its base, if it has one.
        allow_copies: Whether more than one example in a hundred may be a copy of an earlier one.
    """
    if sample.sha256 != old.facts.sample_sha256:
        raise UsageError(f"the certificate is about another sample: {old.facts.sample_sha256}.")
    if old.claim.statement not in ("C-2", "C-10"):
        raise UsageError("certificates about f have to be certified again.")
    if (old.helper.base is None) != (base is None):
        raise UsageError("give the base exactly where the certificate names one.")
    message = decode(
        old.message,
        input_shape=old.helper.input_shape,
        known=old.setting if old.version == 1 else None,
        short_classes=old.setting.classes if old.is_short else None,
        witness=None if old.version == 1 else old.witness,
    )
    tenths = message.options.tenths
    task = Task(
        sample=replace(
            sample,
            classes=old.facts.classes,
            scaling=old.helper.scaling,
            encoder="\n".join(each for each in old.declarations if declared_name([each])),
        ),
        delta=old.claim.delta,
        claim=AboutG() if tenths is None else AfterSplit(tenths),
        base=None if old.helper.base is None or base is None else (old.helper.base.name, base),
        allow_copies=allow_copies,
    )
    options = replace(message.options, setting=task.options.setting)
    return issue(assess(message.with_options(options), task), task)


def main() -> None:
    """Reissues one file in place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", required=True)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--allow-copies", action="store_true")
    options = parser.parse_args()
    old = Certificate.load(options.file)
    new = reissued(
        old,
        load_dataset(options.data),
        base=None if options.base is None else load_arrays(options.base),
        allow_copies=options.allow_copies,
    )
    new.save(options.file)
    folder = options.file.resolve().parent
    path = (folder.parent if folder.name == "certificates" else folder) / f"{options.file.stem}.json"
    if path.exists():
        before = path.read_text()
        record = json.loads(before)
        numbers = record.get("from_base", record)
        claim, facts = new.claim, new.facts
        found = {"bound": claim.bound, "vacuous": claim.vacuous, "kl": claim.kl, "hoeffding": claim.hoeffding}
        found |= {"code_bits": facts.code_bits, "train_errors": facts.errors}
        numbers |= {name: value for name, value in found.items() if name in numbers}
        indent = len(before) - len(before[1:].lstrip()) - 2  # of a record, as it was
        path.write_text(json.dumps(record, indent=indent) + "\n")
    for name, each in (("before", old), ("after", new)):
        sys.stdout.write(
            f"{name}: version {each.version}, {each.facts.errors} errors, {each.facts.code_bits} bits, "
            f"bound {each.claim.bound!r}\n"
        )


if __name__ == "__main__":
    main()
