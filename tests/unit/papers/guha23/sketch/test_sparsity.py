import math

import pytest
import torch

from codebound.run.errors import UsageError
from codebound_papers.guha23.sketch.sparsity import (
    column_degree,
    distributed_sparsity,
    published_sketch_size,
    sketch_size,
)


def test_counts_rows_columns_and_the_diagonal():
    x = torch.tensor([[1, 0, 2], [0, 0, 0], [3, 0, 4]])
    found = distributed_sparsity(x)
    assert (found.nonzeros, found.j_r, found.j_c, found.full_diagonal) == (4, 2, 2, False)


def test_names_a_dense_row_and_a_dense_column():
    x = torch.eye(10)
    x[4] = 1
    assert "row 4 has 10" in distributed_sparsity(x).name_crowded(12)
    assert "column 4 has 10" in distributed_sparsity(x.T).name_crowded(12)
    assert distributed_sparsity(x).name_crowded(20) == ""


def test_the_theorem_counts_rows_and_columns_apart():
    expected = math.ceil(math.sqrt(2 * 784) * math.log(784))  # j_c d1 = 1568 beats j_r d2 = 500
    assert published_sketch_size(50, 2, d1=784, d2=10) == expected


@pytest.mark.parametrize(
    ("p", "j", "measured"), [(100, 1, 25), (100, 8, 53), (200, 4, 65), (400, 4, 100), (784, 8, 202)]
)
def test_the_law_lies_just_above_measured_thresholds(p, j, measured):
    assert measured <= sketch_size(j * p, d1=p, d2=p) <= 1.2 * measured


def test_degrees_fall_with_density():
    assert [column_degree(n, m=100) for n in (1000, 2500, 4000)] == [5, 4, 3]


def test_nonsense_is_refused():
    with pytest.raises(UsageError, match="from 1 to 100"):
        sketch_size(101, d1=10, d2=10)
    with pytest.raises(UsageError, match="of a matrix"):
        distributed_sparsity(torch.zeros(3))
