"""The way of a command through the house: python benchmarks/walk.py VERB [OPTION ...] [--steps]

Functions of ours are noted when they are first called. Printed is how many there are, in how many files and
packages they lie, and how often the way goes from one file or package to another; with --steps, the way. What
runs while a module is imported is not noted, nor are lambdas and comprehensions. A package is a folder below
``codebound`` or ``codebound_papers``; the modules beside these folders are one, the second program is one.

    python benchmarks/walk.py certify digits --model linear --network runs/f/model.safetensors \
        --holdout 0.2 --method prune --run effort=quick --out runs/c -q
    python benchmarks/walk.py compare --model linear --network runs/f/model.safetensors --data digits \
        --holdout 0.2 --certificate runs/c/certificate.cbound
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import codebound

SOURCES = Path(codebound.__file__).parents[1]
STEPS = "--steps"


class Walk:
    """Functions in the order of their first calls, each with its file."""

    def __init__(self) -> None:
        self.visits: list[tuple[Path, str]] = []
        self._seen: set[Any] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call of a function; ``sys.setprofile`` calls this."""
        code = frame.f_code
        if event != "call" or code in self._seen or not code.co_filename.startswith(str(SOURCES)):
            return
        if "<" in code.co_name or _is_imported(frame):
            return
        self._seen.add(code)
        self.visits.append((Path(code.co_filename).relative_to(SOURCES), code.co_qualname))

    def summary(self) -> str:
        """Length of the way, and its switches of file and package."""
        files = [file for file, _ in self.visits]
        packages = [package(file) for file in files]
        programs = {True: "the second program", False: "the first"}
        shares = []
        for is_second, program in sorted(programs.items()):
            own = [file for file in files if (file.parts[0] == "codebound_verify") == is_second]
            shares.append(f"{program}: {len(own)} functions, {len(set(own))} files")
        return (
            f"{'; '.join(shares)}\n"
            f"{len(self.visits)} functions, {len(set(files))} files, {_switches(files)} file switches, "
            f"{len(set(packages))} packages, {_switches(packages)} package switches"
        )

    def steps(self) -> str:
        """A line for each stay in a package."""
        groups = itertools.groupby(self.visits, key=lambda visit: package(visit[0]))
        return "\n".join(
            f"{name}: " + " ".join(f"{file.stem}.{function}" for file, function in stay)
            for name, stay in groups
        )


def package(file: Path) -> str:
    """The package of a file: see above.

    Example:
        >>> package(Path("codebound_networks/chains/message.py")), package(Path("codebound/sample/losses.py"))
        ('codebound_networks.chains', 'codebound.sample')
    """
    first, *rest = file.parts
    return first if first == "codebound_verify" or len(rest) == 1 else f"{first}.{rest[0]}"


def loaded_modules() -> dict[str, int]:
    """Count the modules of each of our packages that this process has loaded."""
    ours = sorted(path.parent.name for path in SOURCES.glob("codebound*/__init__.py"))
    return {name: sum(each.partition(".")[0] == name for each in sys.modules) for name in ours}


def _is_imported(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(str(SOURCES)):
            return True
        frame = frame.f_back
    return False


def _switches(names: list[Any]) -> int:
    return sum(here != there for here, there in itertools.pairwise(names))


def main() -> None:
    """Runs the command of the arguments, and prints its way."""
    from codebound.cli.main import main as command

    walk = Walk()
    with_steps = STEPS in sys.argv
    sys.argv = ["codebound", *(each for each in sys.argv[1:] if each != STEPS)]
    sys.setprofile(walk)
    try:
        command()
    finally:
        sys.setprofile(None)
        print(walk.steps() + "\n" if with_steps else "", walk.summary(), sep="")
        print("; ".join(f"{name}: {count} modules loaded" for name, count in loaded_modules().items()))


if __name__ == "__main__":
    main()
