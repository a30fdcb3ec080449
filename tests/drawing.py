"""How often a property is tried: a fifth of what ``make thorough`` does, which runs every property again."""

from hypothesis import settings

settings.register_profile("quick", deadline=None, max_examples=20)
settings.register_profile("thorough", deadline=None, max_examples=100)


def examples(most: int) -> settings:
    """So many examples of a property where tests are thorough, else a fifth of them, but at least 5."""
    share = settings.default.max_examples / settings.get_profile("thorough").max_examples
    return settings(max_examples=min(most, max(5, round(share * most))))
