from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hosts import Hosts, network, why_no_hosts
from waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.skipif(why_no_hosts() is not None, reason=str(why_no_hosts()))]


def hears(hosts: Hosts, sender: str, receiver: str) -> bool:
    """Whether a datagram arrives."""
    with hosts.entered(receiver):
        ears = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with hosts.entered(sender):
        mouth = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with ears, mouth:
        ears.bind((hosts.address(receiver), 0))
        ears.settimeout(0.2)
        mouth.sendto(b"hello", ears.getsockname())
        try:
            return ears.recv(10) == b"hello"
        except TimeoutError:
            return False


def test_a_drop_affects_one_direction_and_healing_removes_it() -> None:
    with network("a", "b", "c") as hosts:
        assert hears(hosts, "a", "b")
        hosts.drop(["a"], ["a", "b"])
        hosts.drop(["a"], ["b"])
        undo = hosts.drop(["a"], ["c"])
        assert not hears(hosts, "a", "b")
        assert not hears(hosts, "a", "c")
        assert hears(hosts, "b", "a")
        undo()
        assert not hears(hosts, "a", "b")
        assert hears(hosts, "a", "c")
        hosts.heal()
        assert hears(hosts, "a", "b")


def test_nothing_is_left_of_a_run_that_was_killed() -> None:
    run = """
import subprocess, sys, time
from hosts import Hosts
hosts = Hosts(["lost"])
hosts.make()
print(hosts.within("lost")[-1], subprocess.Popen([*hosts.within("lost"), "sleep", "1000"]).pid, flush=True)
time.sleep(1000)
"""
    here = Path(__file__).parent
    killed = subprocess.Popen([sys.executable, "-c", run], stdout=subprocess.PIPE, text=True, cwd=here)
    assert killed.stdout is not None
    with killed.stdout:
        space, pid = killed.stdout.readline().split()
    killed.kill()
    killed.wait()
    wait_until(lambda: "sleep" in Path(f"/proc/{pid}/cmdline").read_text(), "it to sleep")
    with network():
        assert not Path("/run/netns", space).exists()
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "what ran in there to be gone")


def test_a_host_is_left_as_it_was_entered() -> None:
    before = os.readlink("/proc/thread-self/ns/net")
    with network("a") as hosts:
        with hosts.entered("a"):
            assert os.readlink("/proc/thread-self/ns/net") != before
            sleeper = subprocess.Popen(["sleep", "1000"])
        assert os.readlink("/proc/thread-self/ns/net") == before
    assert sleeper.wait(30) == -signal.SIGKILL
