"""Inspecting a process: dumps of its threads, readable stacks, and flame graphs of samples."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import DEADLINE

from millstream.core.inspection.flame_graph import FlameGraphType, flame_graph
from millstream.core.inspection.frames import SeenFrame, frame_names
from millstream.core.inspection.outside import dump_from_outside
from millstream.core.inspection.threads import dump_threads
from millstream.core.linux.threads import cpu_seconds, scheduler_state
from millstream.core.messages.inspection import SampledStack
from millstream.core.services.inspection import OwnLogs
from millstream.core.settings.configuration import Configuration


async def _wait_inside(event: asyncio.Event) -> None:
    await event.wait()


async def test_a_dump_has_threads_and_the_tasks_of_their_loops() -> None:
    go, event = threading.Event(), asyncio.Event()
    held = threading.Thread(target=go.wait, name="held up", daemon=True)
    held.start()
    waiting = asyncio.create_task(_wait_inside(event), name="awaiting it")
    await asyncio.sleep(0)
    try:
        dump = await asyncio.to_thread(dump_threads)
    finally:
        go.set()
        event.set()
        await waiting
    found = {one.name: one.stack for one in dump}
    assert "threading.py" in found["held up"]
    assert found["held up"].startswith('"held up" (thread ')
    assert "in _wait_inside\n    await event.wait()" in found["asyncio task awaiting it: _wait_inside"]
    assert dump[0].name == "MainThread"


def test_clocks_of_threads() -> None:
    native = threading.get_native_id()
    before = cpu_seconds(native)
    sum(range(100_000))
    after = cpu_seconds(native)
    assert (before is None) == (after is None) == (sys.platform != "linux")
    if before is not None and after is not None:
        assert after > before
        assert scheduler_state(native) == "R"
    assert cpu_seconds(2**22 + 1) is None
    assert scheduler_state(2**22 + 1) is None


def frame(module: str, name: str, line: int = 1) -> SeenFrame:
    return SeenFrame(name, f"/somewhere/{module.rpartition('.')[2]}.py", line, module)


def test_frames_of_user_code_are_shown_and_those_of_the_runtime_are_not() -> None:
    ours = [frame("runpy", "run"), frame("millstream.taskmanager.worker.main", "main")]
    users = [frame("shop.prices", "discount", 42), frame("json", "loads", 7)]
    assert frame_names([*ours, *users], False, 100) == (
        "shop.prices.discount (prices.py:42)", "json.loads (json.py:7)",
    )  # fmt: skip
    assert frame_names([*ours, frame("__main__", "price", 3)], False, 100) == ("price (__main__.py:3)",)
    back = frame("millstream.datastream.state", "value")
    assert frame_names([*ours, *users[:1], back], False, 100)[-1] == "[datastream.state.value]"
    assert frame_names([*ours, *users[:1], back, frame("numpy", "dot")], False, 100)[-1] == "numpy.dot (numpy.py:1)"
    assert frame_names([*ours, frame("threading", "wait")], False, 100) == ("[taskmanager.worker.main.main]",)
    assert frame_names([frame("threading", "wait")], False, 100) == ("[threading.wait]",)
    assert len(frame_names([*ours, *users], True, 100)) == 4
    assert frame_names([*ours, *users], False, 1) == ("json.loads (json.py:7)",)
    assert frame_names([], False, 1) == ()


_STACKS = st.lists(
    st.builds(
        SampledStack, st.lists(st.sampled_from("abc"), max_size=5).map(tuple), st.booleans(), st.integers(1, 9)
    ),
    max_size=20,
)  # fmt: skip


@given(_STACKS)
def test_flame_graphs_lose_no_sample(stacks: list[SampledStack]) -> None:
    full, on, off = (flame_graph(stacks, kind) for kind in FlameGraphType)
    assert full["value"] == on["value"] + off["value"] == sum(stack.count for stack in stacks)
    waiting = [full]
    while waiting:
        node = waiting.pop()
        children = node["children"]
        assert node["value"] >= sum(child["value"] for child in children)
        assert len({child["name"] for child in children}) == len(children)
        assert [c["value"] for c in children] == sorted((c["value"] for c in children), reverse=True)
        waiting += children
    json.dumps(full)


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="needs proc(5)")
def test_threads_are_sampled_from_outside_while_native_code_holds_the_interpreter_lock() -> None:
    program = """
import re
from millstream.core.inspection.outside import allow_dumps_from_outside
allow_dumps_from_outside()
def stuck():
    print(flush=True)
    re.match(r"(a+)+$", "a" * 60 + "b")
stuck()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"\n"
            assert "in stuck" in dump_from_outside(child.pid)
            assert "in stuck" in dump_from_outside(child.pid), "as often as requested"
        finally:
            child.kill()
            child.wait(DEADLINE)
    assert dump_from_outside(child.pid) == ""


def test_files_of_others_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "other.log").write_text("secret")
    logs = OwnLogs(Configuration({"env.log.dir": str(tmp_path)}))
    assert logs.files() == []
    assert logs.read("other.log", None, 100) is None
    assert logs.read("../other.log", None, 100) is None
    assert logs.read("log", None, 0) is not None
