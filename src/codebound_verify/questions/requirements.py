"""Requirements of a reader on a certificate: bound, delta, loss, signature."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..refusal import Refused
from ..verdict import Verdict

if TYPE_CHECKING:
    from ..holdout.ledger import LedgerVerdict


ON_ALL = ("all", "each class", "each group", "one row a cluster")
"""Rows that count where a loss is all that is demanded; of others the demand is ``LOSS on ROWS``."""
TWO_CLASSES = {"missed": "class:1", "false-alarm": "class:0"}  # where there are two
SIGNATURE = ".sig"
"""Suffix of a signature's file: 64 bytes, Ed25519 over the bytes of the signed file."""


def list_unmet(file: Path, verdict: Verdict | LedgerVerdict, options: argparse.Namespace) -> tuple[str, ...]:
    """Every requirement among the options of the command that a file of these bytes does not meet."""
    delta, wanted = verdict.delta if verdict.is_accepted else None, options.loss
    on = getattr(verdict, "on", "all")
    counted = verdict.loss if on in ON_ALL else f"{verdict.loss} on {on}"
    alias, unmet = TWO_CLASSES.get(wanted) if verdict.classes == 2 else None, []
    if options.max_error is not None and (verdict.bound is None or verdict.bound > options.max_error):
        unmet.append(f"an error of at most {options.max_error} is not shown: the bound is {verdict.bound}")
    if options.max_delta is not None and (delta is None or delta > options.max_delta):
        unmet.append(f"a failure probability of at most {options.max_delta} is not shown: delta is {delta}")
    if None not in (verdict.loss, wanted) and counted not in (wanted, alias):
        unmet.append(f"nothing is shown about the loss {wanted}: the bound is on the loss {counted}")
    if options.signed_by is not None and (
        reason := _missing_signature(file, options.content, options.signed_by)
    ):
        unmet.append(reason)
    return tuple(unmet)


def _missing_signature(file: Path, content: bytes, public_key: Path) -> str:
    """Reason why the bytes of a file are not signed by a key. Empty if they are."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError:
        raise Refused("--signed-by needs the package cryptography: pip install cryptography.") from None
    try:
        key = load_pem_public_key(public_key.read_bytes())
    except ValueError as error:
        raise Refused(f"--signed-by {public_key}: no public key in PEM form ({error}).") from None
    if not isinstance(key, Ed25519PublicKey):
        raise Refused(f"--signed-by {public_key}: no Ed25519 key.")
    signature = file.with_name(file.name + SIGNATURE)
    if not (signature.is_file() and signature.stat().st_size == 64):
        return f"there is no signature {signature}: whoever made the file signs it (codebound audit sign)"
    try:
        key.verify(signature.read_bytes(), content)
    except InvalidSignature:
        return f"the signature {signature.name} was not made for these bytes by {public_key}"
    return ""
