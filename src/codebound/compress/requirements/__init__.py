"""What the compression theorems would require of a trained network, and what it can bear instead.

The three requirements measure what a theorem speaks about and solve it for the most compression that it
allows. None of that is a guarantee, and hardly any of it allows compression at all (A-E26, G-E6, S-E22).
``measured_minimum`` compresses, decodes and counts errors instead.
"""

from codebound.compress.requirements.heavytail import (
    HeavytailRequirements,
    TailLayer,
    heavytail_requirements,
)
from codebound.compress.requirements.mbp import MbpRequirements, PrunableLayer, PruningLimit, mbp_requirements
from codebound.compress.requirements.minimum import (
    KNOBS,
    Knob,
    MeasuredMinimum,
    Reached,
    Trial,
    measured_minimum,
)
from codebound.compress.requirements.project import (
    ProjectedLayer,
    ProjectRequirements,
    project_requirements,
)
from codebound.compress.requirements.terms import Margin, Terms

__all__ = [
    "KNOBS",
    "HeavytailRequirements",
    "Knob",
    "Margin",
    "MbpRequirements",
    "MeasuredMinimum",
    "ProjectRequirements",
    "ProjectedLayer",
    "PrunableLayer",
    "PruningLimit",
    "Reached",
    "TailLayer",
    "Terms",
    "Trial",
    "heavytail_requirements",
    "mbp_requirements",
    "measured_minimum",
    "project_requirements",
]
