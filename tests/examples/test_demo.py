"""`make demo`: it ends well, and leaves nothing behind when it is interrupted."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from example_process import DEADLINE

pytestmark = pytest.mark.process

Start = Callable[..., Any]
ENDLESS = ("--lines", "1000000000")  # whenever the signal arrives, the job still runs


def test_the_demo_ends_well(start_example: Start) -> None:
    output = start_example("demo.py").output()
    assert "FINISHED" in output
    assert "Correct: 360,000 words" in output
    assert "nothing is left running" in output


@pytest.mark.parametrize(
    ("moment", "number"),
    [("cluster start", signal.SIGTERM), ("RUNNING", signal.SIGINT)],
)
def test_an_interrupted_demo_leaves_nothing_behind(start_example: Start, moment: str, number: int) -> None:
    demo = start_example("demo.py", *ENDLESS)
    demo.wait_for_line(moment)
    demo.process.send_signal(number)
    _, errors = demo.process.communicate(timeout=DEADLINE)
    assert demo.process.returncode == 130, errors
    assert demo.processes() == []
    assert list(demo.folder.glob("millstream-demo-*")) == []
