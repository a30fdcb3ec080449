"""How often something happens, against how often it may: no threshold that fails by chance."""

from scipy.stats import binom


def exceeds(count: int, *, reps: int, delta: float, level: float = 1e-9) -> bool:
    """So many of ``reps`` are more than the rate delta allows, beyond all doubt (p-value below ``level``)."""
    return bool(binom.sf(count - 1, reps, delta) < level)
