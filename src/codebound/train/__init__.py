"""Training: one reproducible and resumable loop, label shuffling, per-epoch hooks, integers for messages."""
