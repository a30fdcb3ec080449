"""Files beside a certificate in its folder.

Reached when the file is called ``certificate.cbound``, as in every folder that codebound writes, or when
weights are given. Read ``finding`` and ``weights``.
"""
