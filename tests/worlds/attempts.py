"""A course of attempts, of which a test says what it needs."""

from codebound.methods.strategy import Course


def course_of(**known) -> Course:
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
    return Course(**(dict.fromkeys(others) | usual | known))
