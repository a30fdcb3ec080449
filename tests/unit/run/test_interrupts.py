"""Somebody who interrupts is answered at once, whatever the main thread is busy with."""

import os
import signal
import subprocess
import sys
import time

import pytest

from codebound.run.progress import answer_interrupts, finish_block

BUSY = """
import hashlib, signal, sys
from codebound.run.progress import answer_interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)  # which whoever started the tests may ignore
print("begun", flush=True)
try:
    with answer_interrupts(lambda text: print(text, flush=True)):
        hashlib.pbkdf2_hmac("sha256", b"", b"", {rounds})  # no signal is handled in here
except KeyboardInterrupt:
    print("kept", flush=True)
"""


def start_program(rounds):
    program = subprocess.Popen(
        [sys.executable, "-c", BUSY.format(rounds=rounds)], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout.readline() == "begun\n"
    return program


@pytest.mark.thorough
def test_the_answer_comes_while_the_main_thread_is_busy():
    program = start_program(2_000_000_000)
    time.sleep(0.5)  # until it is in there
    begun = time.monotonic()
    program.send_signal(signal.SIGINT)
    assert program.stdout.readline().startswith("Stopping: what was found until now")
    assert time.monotonic() - begun < 3.0
    for _ in range(2):  # and who insists leaves
        time.sleep(0.2)
        program.send_signal(signal.SIGINT)
    assert program.wait(timeout=3.0) == 130


def test_what_ends_at_once_says_nothing_more():
    program = start_program(1)
    program.send_signal(signal.SIGINT)
    assert program.communicate(timeout=10.0)[0] in ("kept\n", "")


def test_who_interrupts_again_is_obeyed_while_the_best_is_counted():
    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)

    def count():
        with finish_block():
            interrupt()
            pytest.fail("the second interrupt was held back")

    answer = signal.signal(signal.SIGINT, signal.default_int_handler)
    with answer_interrupts(print):
        with finish_block():
            interrupt()  # the first is held back where something is nearly done
        with pytest.raises(KeyboardInterrupt):
            count()
    with finish_block():
        os.kill(os.getpid(), signal.SIGINT)  # and another command begins anew
    signal.signal(signal.SIGINT, answer)


def test_interrupts_are_counted_for_each_command_alone():
    before, answer = signal.set_wakeup_fd(-1), signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.set_wakeup_fd(before)
    for _ in range(4):  # three in one command would end this process
        with pytest.raises(KeyboardInterrupt), answer_interrupts(print):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.set_wakeup_fd(before) == before
    signal.signal(signal.SIGINT, answer)
