"""A course of attempts, of which a test says what it needs."""

from codebound.methods.strategy import Strategy


def course_of(**known) -> Strategy:
    usual = {"method": "auto", "effort": "standard", "delta": 0.05, "allow_copies": False}
    others = (
        "sample",
        "start",
        "claims",
        "encoder",
        "minutes",
        "helper",
        "seed",
        "device",
        "engine",
        "progress",
    )
    return Strategy(**(dict.fromkeys(others) | usual | known))
