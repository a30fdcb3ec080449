"""Detached Ed25519 signatures; keys are files that other programs make and keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound.run.errors import CodeboundError, UsageError
from codebound.run.files import write_atomically
from codebound_verify.questions.requirements import SIGNATURE

if TYPE_CHECKING:
    from pathlib import Path


def sign_file(file: Path, private_key: Path) -> Path:
    """Sign a file, and return the path of the signature beside it."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise CodeboundError(
            "signing needs the package cryptography: pip install codebound[sign]."
        ) from error
    try:
        key = load_pem_private_key(private_key.read_bytes(), password=None)
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}.") from error
    except (ValueError, TypeError) as error:  # the latter where it has a passphrase
        raise UsageError(
            f"{private_key} is no private key in PEM form without a passphrase: {error}. Make one with "
            "openssl genpkey -algorithm ed25519."
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(
            f"{private_key} is no Ed25519 key. Make one with openssl genpkey -algorithm ed25519."
        )
    path = file.with_name(file.name + SIGNATURE)
    write_atomically(path, key.sign(content))
    return path
