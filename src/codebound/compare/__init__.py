"""All bounds on one network side by side: certified, held out, and as published.

The package is also its main function: ``codebound.compare(net, train_set, test_set)``.
"""

import sys
from types import ModuleType

from codebound.compare.closeness import Closeness, closeness
from codebound.compare.epochs import EpochPoint, TrainingRun, epoch_point, open_training_run
from codebound.compare.facts import Measured, MeasurePlan, measure_facts
from codebound.compare.pruning import prune_for_margin
from codebound.compare.rows import Row
from codebound.compare.table import Comparison, compare

__all__ = [
    "Closeness",
    "Comparison",
    "EpochPoint",
    "MeasurePlan",
    "Measured",
    "Row",
    "TrainingRun",
    "closeness",
    "compare",
    "epoch_point",
    "measure_facts",
    "open_training_run",
    "prune_for_margin",
]


class _Package(ModuleType):
    __call__ = staticmethod(compare)


# importing a package binds its name in its parent, so a function of that name would be lost on import
sys.modules[__name__].__class__ = _Package
