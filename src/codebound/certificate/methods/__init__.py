"""The methods of ``certify``, in the order in which ``auto`` tries them: the strongest first.

Each module registers its methods when it is imported; all that a decoder needs is in the message.
"""

from codebound.certificate.methods import prune  # isort: skip  (first in, first tried)
from codebound.certificate.methods import features, subspace  # isort: skip
from codebound.certificate.methods import compressors, local, sketch, trained
from codebound.certificate.search import METHODS

__all__ = ["METHODS", "compressors", "features", "local", "prune", "sketch", "subspace", "trained"]
