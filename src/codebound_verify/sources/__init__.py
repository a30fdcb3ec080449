"""Data as files: the kernel checks that their hash is that of the certificate, wherever they come from.

Reached when the command has data to read: from files of arrays (``arrays``), by a name such as ``mnist:test``
(``datasets``), from beside a file called ``certificate.cbound`` (``folder``), or from the table of a ledger
(``csv_files``).
"""
