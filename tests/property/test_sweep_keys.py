"""Keys of jobs: the same under any order of keys, different under any change."""

from hypothesis import given
from hypothesis import strategies as st

from codebound.run.files import content_key

SCALARS = (
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
VALUES = SCALARS | st.lists(SCALARS, max_size=3)
ARGUMENTS = st.dictionaries(st.text(min_size=1, max_size=6), VALUES, min_size=1, max_size=6)


def key(arguments, *, verb="train", inputs=None, versions="1"):
    return content_key({"verb": verb, "arguments": arguments, "inputs": inputs or {}, "versions": versions})


def kind_and_value(value):
    """What JSON tells apart: 1, 1.0 and true are three values, and 0.0 is not -0.0."""
    return [kind_and_value(each) for each in value] if isinstance(value, list) else (type(value), repr(value))


@given(ARGUMENTS, st.randoms(use_true_random=False))
def test_stable_under_the_order_of_keys(arguments, random):
    names = list(arguments)
    random.shuffle(names)
    assert key({name: arguments[name] for name in names}) == key(arguments)


@given(ARGUMENTS, st.data())
def test_different_under_any_changed_argument(arguments, data):
    name = data.draw(st.sampled_from(sorted(arguments)))
    value = data.draw(VALUES)
    changed = {**arguments, name: value}
    is_same = kind_and_value(value) == kind_and_value(arguments[name])
    assert (key(changed) == key(arguments)) is is_same


@given(ARGUMENTS, st.text(min_size=1, max_size=6), VALUES)
def test_different_with_one_more_argument(arguments, name, value):
    if name not in arguments:
        assert key({**arguments, name: value}) != key(arguments)


@given(ARGUMENTS)
def test_verb_version_and_content_count(arguments):
    keys = {
        key(arguments),
        key(arguments, verb="certify"),
        key(arguments, versions="2"),
        key(arguments, inputs={"data": "00"}),
        key(arguments, inputs={"data": "01"}),
        key(arguments, inputs={"test": "01"}),
    }
    assert len(keys) == 6
