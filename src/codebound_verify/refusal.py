"""The ways in which a check fails."""


class Refused(Exception):  # noqa: N818 - not an error of the program: it becomes the verdict REFUSE
    """Refusal of a file. ``reasons`` are full sentences: what was expected and what was found."""

    def __init__(self, *reasons: str) -> None:
        super().__init__(" ".join(reasons))
        self.reasons = reasons


class Lacking(Refused):
    """Something that is needed beside the file was not given: nothing is said about the file."""

    def __init__(self, what: str) -> None:
        super().__init__(f"this certificate cannot be checked without {what}")


class TooLarge(Refused):
    """Refusal of an array larger than what the certificate is about, left unread."""


def quote(value: object) -> str:
    """A short quotation of something that a file contains.

    Example:
        >>> quote("x" * 100)
        "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ..."
    """
    text = repr(value)
    return text if len(text) <= 60 else text[:53] + " ..."
