"""Data that are not named by a path: those beside a certificate, and datasets.

Reached when the file is called ``certificate.cbound``, as in every folder that codebound writes (``folder``),
or when the user gives a name, such as ``mnist:test``, in place of a file of arrays (``datasets``), or the
table of a ledger (``csv_files``).
"""
