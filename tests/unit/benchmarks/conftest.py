"""The packages of the folder benchmarks can be imported; its scripts hide no module of that name."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
