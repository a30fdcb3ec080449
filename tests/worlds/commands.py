"""Programs and what they write to: other processes, fake programs on PATH, terminals, engines, pages."""

import importlib.util
import io
import stat
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

from codebound.run.job import Engine, Finished, call


def python(code: str, *arguments: object, env: dict[str, str] | None = None) -> str:
    """What a fresh Python prints that runs the code."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def refused(ran: tuple[int, str, str], code: int, message: str) -> None:
    """The command line ended with this status and said why in one message."""
    assert ran[:2] == (code, "")
    assert message in ran[2]
    assert "Traceback" not in ran[2]


def script(path: Path) -> ModuleType:
    """A program that is in no package, as a module."""
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


def fake_program(folder: Path, name: str, body: str) -> Path:
    """A Python program in ``folder / "bin"``; ``arguments`` are its own, ``tmp`` is the folder."""
    path = folder / "bin" / name
    head = f"#!{sys.executable}\nimport sys, pathlib, shutil\n"
    head += f"arguments = sys.argv[1:]\ntmp = pathlib.Path({str(folder)!r})\n"
    path.write_text(head + body)
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self):
        return True


class Here:
    """An engine of that many slots that runs its jobs in this process, the last one first."""

    parts_of = Engine.parts_of

    def __init__(self, slots):
        self.slots = slots
        self.functions = []

    def as_finished(self, jobs):
        for job in reversed(jobs):
            self.functions.append(job.function.rpartition(".")[2])
            yield Finished(job, *call(job))


class Page(HTMLParser):
    """What a browser would fetch, and the text it would show."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.links, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        fetched = ("src", "href", "srcset", "action", "data")
        self.links += [value for key, value in attrs if key.endswith(fetched)]

    def handle_data(self, data):
        self.text += data
