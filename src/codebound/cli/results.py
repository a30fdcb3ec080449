"""How ``certify`` and ``demo`` print what they found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound.cli.console import Format, emit, note
from codebound.report.tables import tabulate

if TYPE_CHECKING:
    from codebound.results import Saved


def print_result(saved: Saved, output: Format, *, quiet: bool) -> None:
    """Prints the result; the sentence and the way to check it go to stderr."""
    from codebound.bounds.risk import percent

    result = saved.result
    vacuous = ", VACUOUS: guessing does as well" if result["vacuous"] else ""
    bound = percent(result["bound"])
    rows = [("certified error", bound, f"{result['statement']}, for {result['subject']}{vacuous}")]
    if "holdout" in result:
        counted = (
            f"{result['test_errors']} errors on the held-out examples "
            f"({result['test_copies_in_sample']} of them copies)"
        )
        rows.append(("hold-out bound", percent(result["holdout"]), f"C-11, {counted}, for comparison"))
    errors, before = f"{result['train_errors']} of {result['n']}", result["original_train_errors"]
    told = f"by {result['method']}: everything the decoder needs to be told"
    rows += [
        ("training errors", errors, f"of the decoded network; {before} before compression"),
        ("message", f"{result['code_bits']} bits", told),
        ("verifier", result["verdict"], "the independent program agrees"),
    ]
    if "base_declared" in result:
        declared = f"{result['base_declared']} No program can check that; without it the bound is void."
        rows.append(("DECLARED", "g is the base" if result["base_is_g"] else "a base", declared))
    emit(result, output, [tabulate(("what", "value", "note"), rows)], rows=[result])
    if output is Format.table and not quiet:
        if result["interrupted"]:
            note("The search was interrupted; this is the best message found until then.")
        for method, reason in result["methods_skipped"].items():
            note(f"Skipped {method}: {reason}")
        note(saved.sentence)
        note(f"Check it: {result['verify']}")
        note(f"Report: {saved.folder / 'report.html'}")
