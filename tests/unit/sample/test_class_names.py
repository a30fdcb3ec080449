"""Classes by their names: a test sample gets the labels of the sample, whatever else it holds."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from codebound.cli.actions import load_samples
from codebound.run.errors import DataError
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import as_dataset, named_alike
from codebound.sample.load import load_dataset
from codebound.sample.tables import from_frame


def pictures(folder, **counts):
    for level, (name, count) in enumerate(counts.items(), start=1):
        (folder / name).mkdir(parents=True)
        for at in range(count):
            Image.fromarray(np.full((4, 4), 10 * level + at, dtype=np.uint8)).save(
                folder / name / f"{at}.png"
            )
    return folder


def asked(data, test):
    return load_samples({"data": str(data), "test": str(test), "holdout": None, "data_folder": None})


def test_separate_roots_of_pictures_are_matched_by_name(tmp_path):
    data = pictures(tmp_path / "here", cat=2, dog=3, owl=2)
    test = pictures(tmp_path / "there", owl=1, dog=2)  # no cats, so dogs would be number 0
    sample, fresh = asked(data, test)
    assert sample.class_names == fresh.class_names == ("cat", "dog", "owl")
    assert (fresh.classes, fresh.y.tolist()) == (3, [1, 1, 2])
    assert fresh.x[:, 0, 0, 0].tolist() == [20, 21, 10]  # dogs, then owls
    again = as_dataset(str(test), role="test", like=sample)
    assert np.array_equal(again.y, fresh.y)


def test_a_class_that_the_sample_has_not_is_named(tmp_path):
    data = pictures(tmp_path / "here", cat=2, dog=3)
    test = pictures(tmp_path / "there", cat=1, wolf=2)
    with pytest.raises(DataError, match=r"classes that the sample has not: wolf\. Those .* cat, dog\."):
        asked(data, test)
    alone = load_dataset(str(test), role="unlabelled", class_names=("cat", "dog"))
    assert (alone.classes, alone.y.tolist()) == (2, [0, 0, 0])


def test_parts_of_one_root_have_the_classes_of_the_part_to_learn_from(tmp_path):
    pictures(tmp_path / "train", cat=2, dog=3)
    pictures(tmp_path / "test", dog=1)
    assert load_dataset(str(tmp_path), role="test").y.tolist() == [1]
    assert load_dataset(f"{tmp_path}@2x2", role="test").y.tolist() == [1]
    pictures(tmp_path / "test", wolf=1)
    with pytest.raises(DataError, match="has not: wolf"):
        load_dataset(str(tmp_path), role="test")


def test_words_in_a_table_are_matched_too(tmp_path):
    (tmp_path / "a.csv").write_text("size,kind\n1,oak\n2,ash\n3,elm\n")
    (tmp_path / "b.csv").write_text("size,kind\n4,oak\n5,elm\n")
    sample, fresh = asked(f"{tmp_path / 'a.csv'}:kind", f"{tmp_path / 'b.csv'}:kind")
    assert sample.class_names == ("ash", "elm", "oak")
    assert (fresh.y.tolist(), fresh.classes) == ([2, 1], 3)
    (tmp_path / "c.csv").write_text("size,kind\n4,oak\n5,yew\n")
    with pytest.raises(DataError, match="holds classes that the sample has not: yew"):
        asked(f"{tmp_path / 'a.csv'}:kind", f"{tmp_path / 'c.csv'}:kind")
    with pytest.raises(DataError, match="needs its classes in the order"):
        load_dataset(f"{tmp_path / 'b.csv'}:kind", role="test", classes=3)


def test_levels_of_a_frame_are_brought_into_the_order_of_the_sample():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": [1.0, 2.0], "label": pandas.Categorical(["b", "a"], ["b", "a"])})
    sample = from_frame(frame.assign(label=["a", "b"]))
    assert from_frame(frame).y.tolist() == [0, 1]
    assert as_dataset(frame, role="test", like=sample).y.tolist() == [1, 0]


def test_names_are_as_many_as_classes():
    sample = from_arrays(np.zeros((2, 2)), [0, 1], name="two")
    assert named_alike(sample, ("a", "b")) is sample  # it has no names to compare
    with pytest.raises(DataError, match="1 name for 2 classes"):
        replace(sample, class_names=("a",))
