"""The compressors by name, with a sentence each: what a command line lists without loading any."""

SENTENCES = {
    "mbp": "Prunes weights at random, small ones more often than large ones (Guha et al. 2023, algorithm 1).",
    "naive": "Keeps the largest weights of every layer.",
    "project": "Replaces a layer by its products with random sign matrices (Arora et al. 2018, algorithm 1).",
    "vector-compress": "Keeps coordinates of the rows at random, unbiased (Arora et al. 2018, algorithm 2).",
    "vector-project": "Projects the rows on random Gaussian vectors (Arora et al. 2018, algorithm 3).",
    "lowrank": "Drops small singular values; two thin factors are left (Arora et al. 2018, lemma 1).",
    "conv": "Gives every location of a convolution filters, from few numbers (Arora et al. 2018, alg. 4).",
    "heavytail": "Keeps weights above a threshold; noise may replace the others (Shin 2021, algorithm 1).",
    "gaussian-fill": "Keeps weights above one standard deviation, redraws the rest (Shin 2021, appendix E).",
    "lottery": "Finds a mask for random weights; only the mask is coded (Guha et al. 2023, section 6).",
    "imp": "Trains, drops the smallest weights, rewinds, and again: iterative magnitude pruning.",
}
