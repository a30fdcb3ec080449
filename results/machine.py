"""Machine and versions that made a record of this folder."""

from __future__ import annotations

import platform
import time

import numpy as np
import torch

from codebound import __version__


def made_with(device: str) -> dict[str, object]:
    """The device by its name, the versions, and the day."""
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.processor(),
        "versions": {
            "codebound": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "date": time.strftime("%Y-%m-%d"),
    }
