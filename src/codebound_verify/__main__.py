"""The command ``codebound-verify``: exit status 0 for ACCEPT, 1 for REFUSE or an unmet requirement.

Status 2: wrong usage, or something that is needed was not given: nothing is said about the file.
Status 3: the file is accepted, and the test data that were given refute what it claims.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import re
import shutil
import sys
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, NoReturn, TextIO

from .container import load
from .files import GivenFiles, certificate_in, unreadable, verdict_record, verify_file
from .refusal import Refused
from .rooms import room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .holdout.ledger import LedgerVerdict
    from .verdict import Verdict


INTERRUPTED = 130
PROGRAM = "codebound-verify"
REQUIREMENTS = ("max_error", "max_delta", "loss", "signed_by")
REFUTED = 3  # exit status: accepted, and refuted by test data


class _Parser(argparse.ArgumentParser):
    """Errors in one line."""

    def error(self, message: str) -> NoReturn:
        text = f"{self.prog}: {message.rstrip('.')}. See {self.prog} --help."
        self.exit(2, _fold(text, sys.stderr) + "\n")


def main(arguments: Sequence[str] | None = None, *, prog: str = PROGRAM) -> int:
    """Check one certificate and print the verdict."""
    try:
        return _main(arguments, prog)
    except KeyboardInterrupt:
        if prog != PROGRAM:  # of another program, which answers for itself
            raise
        sys.stderr.write("Interrupted: nothing is said about the file.\n")
        return INTERRUPTED


def _main(arguments: Sequence[str] | None, prog: str) -> int:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # whoever started the program has closed it; the status says enough
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    parser = _parser(prog)
    options = parser.parse_args(arguments)
    given = GivenFiles(**{each.name: getattr(options, each.name) for each in dataclasses.fields(GivenFiles)})
    if any(map(math.isnan, (options.max_error or 0.0, options.max_delta or 0.0))):
        parser.error("a limit is a number")
    progress = _show_progress if sys.stderr.isatty() else None
    try:
        options.content = load(certificate_in(options.file))  # once: all that is said is about the same bytes
        verdict = verify_file(
            options.file, given, content=options.content, progress=progress, announce=_announce
        )
    except (Refused, OSError) as error:
        parser.error(_printable(str(unreadable(error))))
    is_met = _conclude(parser, options, verdict)
    if getattr(verdict, "refuted_by_test", None):
        return REFUTED
    return 0 if verdict.is_accepted and is_met else 1


def _conclude(
    parser: argparse.ArgumentParser, options: argparse.Namespace, verdict: Verdict | LedgerVerdict
) -> bool:
    """Print a verdict, and return True if every requirement is met."""
    unmet: tuple[str, ...] = ()
    try:
        if any(getattr(options, name) is not None for name in REQUIREMENTS):
            unmet = room("requirements").list_unmet(certificate_in(options.file), verdict, options)
    except (Refused, OSError) as error:
        parser.error(_printable(str(unreadable(error))))
    if options.format == "json":
        text = json.dumps(verdict_record(verdict, unmet), indent=2)
    else:
        told = _text(verdict) if hasattr(verdict, "claim") else _ledger_text(verdict)  # type: ignore[arg-type]
        text = _fold("\n".join([*_answer(options, verdict, unmet), told]), sys.stdout)
    try:
        _write(text)
    except BrokenPipeError:
        _give_up_stdout()  # whoever reads has read enough; the status says the rest
    except OSError as error:
        _give_up_stdout()
        parser.error(f"the verdict cannot be written: {error.strerror}")
    return not unmet


def _answer(options: argparse.Namespace, verdict: Verdict | LedgerVerdict, unmet: Sequence[str]) -> list[str]:
    """First lines of the output if there are requirements: PASS, or FAIL with the reasons."""
    if all(getattr(options, name) is None for name in REQUIREMENTS):
        return []
    reasons = [*unmet, *(["the test data refute it"] if getattr(verdict, "refuted_by_test", None) else [])]
    if not verdict.is_accepted:
        reasons.append("the file is refused")
    return ["FAIL" if reasons else "PASS", *(f"  - {_printable(each)}" for each in reasons)]


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=prog,
        description="Decide whether a certificate is true. Carries out its rule, decodes its network or reads"
        " its scores, counts errors, recomputes the bound; shares no code with the program that wrote it.",
    )
    add = parser.add_argument
    add("file", type=Path, help="the certificate (.cbound), its folder, or a ledger (.jsonl)")
    add("--head", help="hash of the last line of a ledger, if it was written down elsewhere")
    add("--data", help="the sample, if not beside it: an .npz file (x, y) or a name such as mnist")
    add("--data-folder", type=Path, help="where the files of a named dataset lie, if not in the cache")
    add("--clusters", type=Path, help="numbers of the clusters (.npy or .npz), if not in the sample's file")
    add("--groups", type=Path, help="numbers of the groups, likewise")
    add(
        "--scores",
        type=Path,
        action="append",
        default=[],
        help="safetensors file of a declared table of scores; repeat it for each, in the order of the header",
    )
    add("--base", type=Path, help="safetensors file of the base, if the message codes differences to one")
    add(
        "--unlabelled",
        help="unlabelled inputs of a certificate about the network that was given, like --data",
    )
    add("--answers", type=Path, help="safetensors file of declared answers of the original network on them")
    add("--subject-weights", type=Path, help="safetensors file of that network")
    add("--weights", type=Path, help="g.safetensors beside a certificate: is it what was certified?")
    add(
        "--test",
        help="labelled examples, given like --data, that took no part in making the network; if they "
        f"refute the claim, the exit status is {REFUTED}",
    )
    add("--by-class", action="store_true", help="bound the error on every class too, all at once")
    add("--max-error", type=float, help="status 1 unless the bound is at most this")
    add("--max-delta", type=float, help="status 1 unless the failure probability is at most this")
    add("--loss", help="status 1 unless the bound is on this loss, such as class:3, or 'wrong on answered:1'")
    add("--signed-by", type=Path, help="public Ed25519 key (PEM): status 1 unless FILE.sig is its signature")
    add("--format", choices=("text", "json"), default="text", help="how to print the verdict")
    return parser


def _show_progress(done: int, total: int) -> None:
    end = "\n" if done == total else ""
    sys.stderr.write(f"\revaluated {done} of {total} examples{end}")
    sys.stderr.flush()


def _announce(sentence: str) -> None:
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()


def _text(verdict: Verdict) -> str:
    from .words import limit_text

    lines: list[str] = [verdict.first_line]
    if verdict.is_accepted:
        lines.append(verdict.claim or "")
        if verdict.test is not None:
            alarm = "REFUTED BY TEST DATA: " if verdict.refuted_by_test else "Test data: "
            lines.append(alarm + verdict.test.sentence)
        lines += verdict.counts
        lines.append(f"{verdict.code_bits} bit{'' if verdict.code_bits == 1 else 's'}.")
        if verdict.by_class:
            lines.append(
                f"Error on each class, all at once with probability at least 1 - {verdict.delta} (a "
                "statement beside the first):"
            )
        for row in verdict.by_class:
            limit = "no rows" if row.bound is None else f"at most {limit_text(row.bound)}"
            lines.append(f"  - class {row.label}: {limit}; {row.errors} errors on {row.n} rows")
    return "\n".join(lines + _sections(verdict))


def _ledger_text(verdict: LedgerVerdict) -> str:
    from .words import limit_text

    lines: list[str] = [verdict.verdict]
    if verdict.kind == "watch":
        lines.append(
            f"A watch for an error above {verdict.watched}, at level {verdict.delta}; head {verdict.head}."
        )
    elif verdict.is_accepted:
        state = "closed" if verdict.is_final else "open"
        lines.append(
            f"{verdict.looks} statement{'' if verdict.looks == 1 else 's'}, {state}; head {verdict.head}."
        )
        lines.append(
            f"With probability at least 1 - {verdict.delta} over the draw of the {verdict.n} units that the "
            f"loss {verdict.loss} is about, all of them hold at once."
        )
        if verdict.bound is not None:
            lines.append(f"The smallest limit is {limit_text(verdict.bound)}, of {verdict.best_model}.")
    lines += [f"  - {each}" for each in verdict.statements]
    return "\n".join([*map(_printable, lines), *_sections(verdict)])


def _sections(verdict: Verdict | LedgerVerdict) -> list[str]:
    sections = [("Reasons to refuse:", verdict.reasons), ("Checked:", verdict.checked)]
    if verdict.is_accepted:
        sections.append(("Cannot be checked, and has to be true:", verdict.assumptions))
        sections.append(("The file declares:", getattr(verdict, "declarations", ())))
    lines: list[str] = []
    for title, entries in sections:
        lines += [title, *(f"  - {_printable(entry)}" for entry in entries)] if entries else []
    return lines


def _printable(text: str) -> str:
    """The text with control characters escaped: a file must not be able to write its own verdict."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _write(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    sys.stdout.flush()


def _give_up_stdout() -> None:
    """Discard further output, so that nothing fails again when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fold(text: str, stream: TextIO) -> str:
    """The text in lines that fit a terminal. What a file says never begins a line of its own."""
    if not stream.isatty():
        return text
    width = max(shutil.get_terminal_size().columns, 20)
    return "\n".join(part for line in text.split("\n") for part in _lines(line, width))


def _lines(line: str, width: int) -> list[str]:
    """One line in parts: numbers keep their signs, and a long word such as a hash stays whole."""
    kept = re.sub(r"\d - \d|\d %", lambda found: found[0].replace(" ", "\xa0"), line)
    indent = "    " if line.startswith("  - ") else "  "
    parts = wrap(kept, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [part.replace("\xa0", " ") for part in parts] or [""]


if __name__ == "__main__":
    sys.exit(main())
