"""Certificates: a message, a claim, and a second program that has to agree."""

from codebound.certificate.certification import EFFORTS, Certification, certify
from codebound.certificate.deliver import decode, verify
from codebound.certificate.file import Certificate
from codebound.certificate.search import METHODS

__all__ = ["EFFORTS", "METHODS", "Certificate", "Certification", "certify", "decode", "verify"]
