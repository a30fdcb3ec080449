"""``codebound show``: the claim inside a certificate."""

from __future__ import annotations

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note
from codebound.report.tables import Table


def command(file: opt.CertificateFile, output: opt.Output = Format.table) -> None:
    """Print the claim, where the bits went, and what is declared; checks nothing (see verify)."""
    from dataclasses import asdict

    from codebound.certificate.file import Certificate

    certificate = Certificate.load(file)
    record = asdict(certificate)
    del record["message"]
    ledger = [{"part": part, "bits": bits} for part, bits in certificate.ledger]
    emit(record, output, [str(certificate), Table("", ledger)], rows=ledger)
    if output is Format.table:
        note("Declared, and not checkable by any program:")
        for line in certificate.declarations:
            note(f"  - {_printable(line)}")


def _printable(text: str) -> str:
    """The text with control characters escaped: a stranger's file must not draw on the terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
