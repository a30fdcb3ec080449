"""What people see of long work: a bar where somebody sits, one at a time, nothing elsewhere."""

import re
import sys
import time
from types import SimpleNamespace

from worlds.commands import Terminal

from codebound.run import progress
from codebound.run.progress import progress_bar, show_progress, silent


@show_progress
def work(steps, *, progress=silent):
    """Tells what it does."""
    for done in range(steps):
        progress(done, steps, "a note")
    return progress


def terminal_of(monkeypatch):
    """A terminal in place of stderr, for the rest of the test."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return found


def test_nobody_is_shown_anything_without_a_terminal(capsys):
    assert work(3) is silent
    assert capsys.readouterr() == ("", "")


def test_a_bar_by_default_and_none_for_who_watches_himself(monkeypatch):
    terminal = terminal_of(monkeypatch)
    assert work(3) is not silent
    assert "work" in terminal.getvalue()
    before = terminal.getvalue()
    told = []
    work(2, progress=lambda *seen: told.append(seen))
    assert (told, terminal.getvalue()) == ([(0, 2, "a note"), (1, 2, "a note")], before)


def test_names_are_no_markup(monkeypatch):
    terminal = terminal_of(monkeypatch)
    with progress_bar("a[/b]") as bar:
        bar(1, 3, "[/red] c[bold]")
    assert "a[/b]" in terminal.getvalue()
    assert "[/red] c[bold]" in terminal.getvalue()


def test_there_is_room_for_one_bar(monkeypatch):
    terminal_of(monkeypatch)
    with progress_bar("outer"):
        assert work(2) is silent
    assert work(2) is not silent


def test_the_clock_goes_on_when_a_step_is_done_and_another_begins(monkeypatch):
    terminal, now = terminal_of(monkeypatch), [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with progress_bar("long") as report:
        for begun in (0.0, 100.0):
            for done in (0, 5, 10):
                now[0] = begun + done
                report(done, 10, "")
                time.sleep(0.15)  # ten pictures a second
    assert re.search(r"0:01:(40|45|50)", terminal.getvalue())


def test_a_notebook_has_a_line_of_its_own(monkeypatch):
    shown = []

    class Line:
        def update(self, text):
            shown.append(text)

    module = type(sys)("IPython")
    module.get_ipython = lambda: SimpleNamespace(config={"IPKernelApp": {}})
    module.display = type(sys)("IPython.display")
    module.display.HTML = lambda text: text
    begun = []  # a bare name would be read as a file where one has it
    module.display.display = lambda text, display_id: begun.append(text) or Line()
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", module.display)
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN", -1.0)
    work(2)
    assert begun == ["<span>work</span>"]
    assert shown == ["work 0% 0:00:00 a note", "work 50% 0:00:00 a note", ""]
