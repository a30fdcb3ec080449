"""Networks and datasets by name as columns of answers."""

from pathlib import Path

import numpy as np
import pytest

from codebound.holdout.network_answers import answer_by_network, dataset_table
from codebound.holdout.seals import Plan, seal
from codebound.holdout.statements import look
from codebound.run.errors import UsageError

pytestmark = pytest.mark.usefixtures("empty_folder")


def test_a_dataset_of_a_factory_has_inputs_and_labels(own_cache):
    Path("made.py").write_text(
        "import numpy as np\nfrom codebound.sample.arrays import from_arrays\n"
        "def test_set():\n    return from_arrays(np.eye(4, dtype='f4'), np.arange(4) % 2, name='m')\n"
    )
    table = dataset_table("made:test_set:y")
    assert (table.name, table.cells("y")) == ("made:test_set", ("0", "1", "0", "1"))
    sealed = seal("made:test_set", Plan(looks=1), out="made.ledger.jsonl")
    assert sealed.seal["inputs"]["column"] == "x"
    assert look(sealed.path, "all", answers=table.cells("y")).statements[-1]["result"]["errors"] == 0


def test_a_network_answers_by_its_largest_score(own_cache, codebound):
    rng = np.random.default_rng(0)
    np.savez("test.npz", x=rng.normal(size=(300, 4)).astype("f4"), y=rng.integers(0, 3, 300))
    codebound("train", "linear", "--data", "test.npz", "--epochs", "1", "--out", "f")
    sealed = seal("test.npz:y", Plan(looks=1))
    weights = Path("f/model.safetensors")
    told = answer_by_network(sealed.seal["data"], weights, model="linear")
    assert len(told) == 300
    assert set(told) <= {"0", "1", "2"}
    with pytest.raises(UsageError, match="need a model"):
        answer_by_network(sealed.seal["data"], weights)
