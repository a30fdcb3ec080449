"""The kernel knows the papers' codes from one table alone."""

import ast
from pathlib import Path

import codebound_verify
from codebound_verify.codes import OF_THE_PAPERS
from codebound_verify.tensors import CODES

KERNEL = sorted(Path(codebound_verify.__file__).parent.glob("*.py"))


def test_every_mode_has_one_reader():
    assert sorted([*CODES, *OF_THE_PAPERS]) == list(range(1, 15))


def test_no_other_module_of_the_kernel_imports_the_papers_codes():
    importers = [
        path.stem
        for path in KERNEL
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and "papers" in (node.module or "")
    ]
    assert importers == ["codes"]
