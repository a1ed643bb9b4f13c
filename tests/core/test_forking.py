"""What a forked child inherits from its parent: its own connections unchanged, those of the runtime closed."""

from __future__ import annotations

import subprocess
import sys

import pytest
from waiting import DEADLINE

pytestmark = pytest.mark.process

SOCKETS = """
import os, socket, stat
from millstream.core.processes import forking

def connected():
    listening = socket.create_server(("127.0.0.1", 0))
    dialled = socket.create_connection(listening.getsockname())
    return listening, dialled, listening.accept()[0]

ours, theirs = connected(), connected()
pipe, other_end = socket.socketpair()
forking.keep_from_children(pipe)
forking.keep_port_from_children("127.0.0.1:%d" % ours[0].getsockname()[1])
if (child := os.fork()) == 0:
    for connection in (*ours, pipe):
        assert not stat.S_ISSOCK(os.fstat(connection.fileno()).st_mode), connection
        os.write(connection.fileno(), b"into the void")
    for connection in (*theirs, other_end):
        assert stat.S_ISSOCK(os.fstat(connection.fileno()).st_mode), connection
    theirs[1].sendall(b"of the child")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert theirs[2].recv(100) == b"of the child"
for sender, receiver in ((ours[1], ours[2]), (pipe, other_end)):
    sender.sendall(b"of the parent")
    assert receiver.recv(100) == b"of the parent"
"""

LEAVING = """
import os, sys
from millstream.core.processes import forking

forking.loops_start_here()
forking.leave_if_forked(ValueError("this is no forked child"))
if (child := os.fork()) == 0:
    print("printed by the child")
    forking.leave_if_forked(RAISED)
    os._exit(99)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

OWN_LOOP = """
import os
from millstream.core.processes import forking

if (child := os.fork()) == 0:
    forking.loops_start_here()
    forking.leave_if_forked()
    os._exit(42)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
"""


def _run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], timeout=DEADLINE, check=False, capture_output=True, text=True)


def test_a_forked_child_has_none_of_our_connections_and_all_of_the_users() -> None:
    done = _run(SOCKETS)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("raised", "status", "message"),
    [
        ("None", 0, ""),
        ("SystemExit()", 0, ""),
        ("SystemExit(3)", 3, ""),
        ("SystemExit('why')", 1, "why"),
        ("ValueError('what')", 1, "ValueError: what"),
    ],
)
def test_a_forked_child_that_returns_to_the_runtime_ends_as_a_program_would(
    raised: str, status: int, message: str
) -> None:
    done = _run(LEAVING.replace("RAISED", raised))
    assert (done.returncode, done.stdout) == (status, "printed by the child\n")
    assert message in done.stderr


def test_a_forked_child_may_run_loops_of_its_own() -> None:
    done = _run(OWN_LOOP)
    assert done.returncode == 0, done.stderr
