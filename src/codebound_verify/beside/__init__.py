"""Files beside a certificate in its folder.

Reached when the file is called ``certificate.cbound``, as in every folder that codebound writes. Read
``finding``.
"""
