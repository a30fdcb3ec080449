"""The compressors by name: a sentence each, and where its class is, so that listing them loads none."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebound.run.errors import UsageError, did_you_mean
from codebound.run.extensions import resolve

if TYPE_CHECKING:
    from codebound_papers.compress.compressors import AbstractNetworkCompressor


@dataclass(frozen=True, slots=True)
class Entry:
    """A compressor that nobody has loaded yet."""

    sentence: str  # what it does, in words
    home: "str | type[AbstractNetworkCompressor]"  # its class, or where that is: "package.module:Class"

    @property
    def algorithm(self) -> "type[AbstractNetworkCompressor]":
        """The class; its fields are the options."""
        found: type[AbstractNetworkCompressor] = (
            resolve(self.home) if isinstance(self.home, str) else self.home
        )
        return found


COMPRESSORS = {
    "naive": Entry(
        "Keeps the largest weights of every layer.", "codebound_papers.guha23.magnitude:LargestWeights"
    ),
    "mbp": Entry(
        "Prunes weights at random, small ones more often than large ones (Guha et al. 2023, algorithm 1).",
        "codebound_papers.guha23.magnitude:MagnitudePruning",
    ),
    "lowrank": Entry(
        "Drops small singular values; two thin factors are left (Arora et al. 2018, lemma 1).",
        "codebound_papers.arora18.truncation:Truncation",
    ),
    "vector-compress": Entry(
        "Keeps coordinates of the rows at random, unbiased (Arora et al. 2018, algorithm 2).",
        "codebound_papers.arora18.vector:VectorCompress",
    ),
    "vector-project": Entry(
        "Projects the rows on random Gaussian vectors (Arora et al. 2018, algorithm 3).",
        "codebound_papers.arora18.vector:VectorProject",
    ),
    "project": Entry(
        "Replaces a layer by its products with random sign matrices (Arora et al. 2018, algorithm 1).",
        "codebound_papers.arora18.projection:MatrixProject",
    ),
    "heavytail": Entry(
        "Keeps weights above a threshold; noise may replace the others (Shin 2021, algorithm 1).",
        "codebound_papers.shin21.compressor:HeavyTail",
    ),
    "gaussian-fill": Entry(
        "Keeps weights above one standard deviation, redraws the rest (Shin 2021, appendix E).",
        "codebound_papers.shin21.compressor:GaussianFill",
    ),
    "conv": Entry(
        "Gives every location of a convolution filters, from few numbers (Arora et al. 2018, alg. 4).",
        "codebound_papers.arora18.conv:LocalFilters",
    ),
    "lottery": Entry(
        "Finds a mask for random weights; only the mask is coded (Guha et al. 2023, section 6).",
        "codebound_papers.guha23.masks:LotteryTicket",
    ),
    "imp": Entry(
        "Trains, drops the smallest weights, rewinds, and again: iterative magnitude pruning.",
        "codebound_papers.guha23.masks:IterativePruning",
    ),
    "balanced": Entry(
        "Keeps the largest weights, few in every row and column; trains them where a sample is given.",
        "codebound_papers.guha23.balanced:BalancedPruning",
    ),
}
"""In the order in which ``certify`` tries them."""


def find_compressor(name: str) -> Entry:
    """The entry of that name; refuses an unknown one."""
    if name not in COMPRESSORS:
        meant = did_you_mean(name, COMPRESSORS)
        raise UsageError(f"unknown method {name!r}.{meant} Known: {', '.join(COMPRESSORS)}.")
    return COMPRESSORS[name]
