"""Training: one reproducible and resumable loop, the papers' settings, label shuffling, per-epoch hooks."""

from codebound.train.config import PRESETS, TrainConfig, preset
from codebound.train.device import resolve_device
from codebound.train.harness import fit, run_record
from codebound.train.result import EpochEvent, EpochRow, OnEpoch, TrainResult
from codebound.train.sampling import shuffle_labels
from codebound.train.schedules import Constant, Cosine, Schedule, Step, parse_schedule

__all__ = [
    "PRESETS",
    "Constant",
    "Cosine",
    "EpochEvent",
    "EpochRow",
    "OnEpoch",
    "Schedule",
    "Step",
    "TrainConfig",
    "TrainResult",
    "fit",
    "parse_schedule",
    "preset",
    "resolve_device",
    "run_record",
    "shuffle_labels",
]
