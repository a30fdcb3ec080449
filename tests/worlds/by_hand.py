"""Quantities of a chain of linear layers and ReLUs in numpy: a second route to what studies print."""

import math

import numpy as np


class ByHand:
    """Facts of a network in numpy, and the older bounds from the formulas of their papers."""

    def __init__(self, about):
        self.weights = [each.detach().double().numpy() for each in about.f.parameters()]
        self.x = about.first(about.sample.n).flatten(1).double().numpy()
        self.y = about.sample.y
        self.n, self.depth, self.delta = len(self.x), len(self.weights), about.delta
        self.margins = self.margins_of(self.weights, self.x, self.y)
        self.gamma = np.sort(self.margins)[max(0, math.ceil(about.margin_share * self.n) - 1)]
        self.loss = (self.margins <= self.gamma).mean()
        self.spectral = np.array([np.linalg.norm(w, 2) for w in self.weights])
        self.frobenius = np.array([np.linalg.norm(w) for w in self.weights])
        self.longest = np.linalg.norm(self.x, axis=1).max()
        self.largest = np.linalg.norm(self.scores(self.weights, self.x), axis=1).max()
        self.width = max(max(w.shape) for w in self.weights)

    @staticmethod
    def scores(weights, x):
        for weight in weights[:-1]:
            x = np.maximum(x @ weight.T, 0.0)
        return x @ weights[-1].T

    def margins_of(self, weights, x, y):
        scores, places = self.scores(weights, x), np.arange(len(x))
        own = scores[places, y]
        scores[places, y] = -np.inf
        return own - scores.max(axis=1)

    def risk(self, numbers):
        return self.loss + math.sqrt(numbers / self.n)

    def older(self):
        """Bounds by name, from the formulas of their papers."""
        root, squares = self.gamma**2, np.prod(self.spectral) ** 2
        rows = np.array([np.linalg.norm(w, axis=1).sum() for w in self.weights])
        ranks = ((self.frobenius / self.spectral) ** 2).sum()
        logs = self.depth**2 * self.width * math.log(self.depth * self.width)
        found = {
            "Bartlett-Mendelson 2002": math.prod(np.abs(w).sum(axis=1).max() ** 2 for w in self.weights),
            "Neyshabur 2015": (self.longest * 2**self.depth * np.prod(self.frobenius)) ** 2,
            "Bartlett 2017": self.longest**2 * squares * ((rows / self.spectral) ** (2 / 3)).sum() ** 3,
            "Neyshabur 2017": self.longest**2 * logs * squares * ranks,
        }
        weights = sum(w.size for w in self.weights)
        counting = {"Parameter counting": self.risk(weights * math.log(2.0))}
        return {name: self.risk(value / root) for name, value in found.items()} | counting
