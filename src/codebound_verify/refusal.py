"""The one way in which a check fails."""


class Refused(Exception):  # noqa: N818 - not an error of the program: it becomes the verdict REFUSE
    """Refusal of a file; ``reasons`` are full sentences: what was expected and what was found."""

    def __init__(self, *reasons: str) -> None:
        super().__init__(" ".join(reasons))
        self.reasons = reasons


def quote(value: object) -> str:
    """A short quotation of something that a file contains.

    Example:
        >>> quote("x" * 100)
        "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ..."
    """
    text = repr(value)
    return text if len(text) <= 60 else text[:53] + " ..."
