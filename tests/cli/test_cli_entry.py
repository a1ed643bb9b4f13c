"""Ctrl-C while the command line is loaded."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

INTERRUPTED_AT_AN_IMPORT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from millstream.cli.entry import main
main()
"""


def test_ctrl_c_while_modules_are_loaded_prints_nothing() -> None:
    command = [sys.executable, "-c", INTERRUPTED_AT_AN_IMPORT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", -signal.SIGINT)


def test_ctrl_c_afterwards_is_an_exception_again() -> None:
    code = (
        "import signal, sys; sys.argv = ['millstream', '--version']; from millstream.cli.entry import main; "
        "assert main() == 0; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout.startswith("millstream "), done.stderr, done.returncode) == (True, "", 0)
