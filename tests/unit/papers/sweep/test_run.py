"""From a result to a row: flat, without times, without paths into the folder of the sweep."""

from codebound_papers.sweep.jobs import row_of


def test_nested_values_are_named_by_their_path():
    result = {
        "a": 1,
        "b": {"c": None, "d": {"e": True}},
        "f": [1, 2],
        "g": [{"name": "x", "h": 0.5}, {"h": 1}],
    }
    assert row_of(result, hidden="/s") == ({"a": 1, "b.c": None, "b.d.e": True, "g.x.h": 0.5}, {})


def test_times_stand_apart_at_any_depth():
    row, timings = row_of({"seconds": 1.0, "x": {"cpu_seconds": 2.0, "milliseconds": 3}}, hidden="/s")
    assert row == {"x.milliseconds": 3}
    assert timings == {"result.seconds": 1.0, "result.x.cpu_seconds": 2.0}


def test_the_place_of_the_sweep_is_in_no_row():
    def rows(folder):
        inside = f"{folder}/jobs/0a1b/output/g.cbound"
        return row_of({"out": inside, "rows": [{"name": f"Bound ({inside})", "value": 1}]}, hidden=folder)

    assert rows("/one place/s") == rows("/t") == ({"rows.Bound (g.cbound).value": 1}, {})


def test_where_the_sample_lies_is_in_no_row():
    row, _ = row_of({"n": 3, "verify_here": "codebound-verify g.cbound --data /elsewhere/s.npz"}, hidden="/s")
    assert row == {"n": 3}
