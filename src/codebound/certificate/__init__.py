"""Certificates: a message, a claim, and a second program that has to agree."""

from codebound.certificate.base import Pretrained, load_base
from codebound.certificate.certification import EFFORTS, Certification, certify
from codebound.certificate.deliver import decode, verify
from codebound.certificate.file import Certificate
from codebound.certificate.methods import METHODS
from codebound.certificate.search import Method

__all__ = [
    "EFFORTS",
    "METHODS",
    "Certificate",
    "Certification",
    "Method",
    "Pretrained",
    "certify",
    "decode",
    "load_base",
    "verify",
]
