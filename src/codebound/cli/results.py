"""How ``certify`` and ``demo`` print what they found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound.cli.console import Format, emit, note
from codebound.report.tables import Table

if TYPE_CHECKING:
    from codebound.results import Saved


def print_result(saved: Saved, output: Format, *, quiet: bool) -> None:
    """Prints the result; the sentence and the way to check it go to stderr."""
    from codebound.bounds.risk import percent

    result = saved.result
    rows = [
        {
            "what": "certified error",
            "value": percent(result["bound"]),
            "note": f"{result['statement']}, for {result['subject']}"
            + (", VACUOUS: guessing does as well" if result["vacuous"] else ""),
        },
        {
            "what": "training errors",
            "value": f"{result['train_errors']} of {result['n']}",
            "note": f"of the decoded network; {result['original_train_errors']} before compression",
        },
        {
            "what": "message",
            "value": f"{result['code_bits']} bits",
            "note": f"by {result['method']}: everything the decoder needs to be told",
        },
        {"what": "verifier", "value": result["verdict"], "note": "the independent program agrees"},
    ]
    if "base_declared" in result:
        rows.append(
            {
                "what": "DECLARED",
                "value": "g is the base" if result["base_is_g"] else "a base",
                "note": f"{result['base_declared']} No program can check that; without it the bound is void.",
            }
        )
    if "holdout" in result:
        rows.insert(
            1,
            {
                "what": "hold-out bound",
                "value": percent(result["holdout"]),
                "note": f"C-11, {result['test_errors']} errors on the held-out examples "
                f"({result['test_copies_in_sample']} of them copies), for comparison",
            },
        )
    emit(result, output, [Table("", rows)], rows=[result])
    if output is Format.table and not quiet:
        if result["interrupted"]:
            note("The search was interrupted; this is the best message found until then.")
        for method, reason in result["methods_skipped"].items():
            note(f"Skipped {method}: {reason}")
        note(saved.sentence)
        note(f"Check it: {result['verify']}")
        note(f"Report: {saved.folder / 'report.html'}")
