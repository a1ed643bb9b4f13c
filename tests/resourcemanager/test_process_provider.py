"""The provider that starts processes, with small programs in place of task managers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from waiting import DEADLINE

from millstream.core.backoff import Backoff
from millstream.core.settings.configuration import Configuration
from millstream.resourcemanager.process_provider import ProcessProvider, task_manager_command
from millstream.resourcemanager.process_records import ProcessRecord, processes_with, read_records

WAITS = "import signal; signal.pause()"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
DIES = "import sys; sys.exit('no such luck')"
ADDRESS = "127.0.0.1:6124"


class FastProvider(ProcessProvider):
    STOP_TIMEOUT = 0.3
    BACKOFF = Backoff(0.01, 60.0)
    POLL_ADOPTED = 0.02


@contextlib.asynccontextmanager
async def providing(tmp_path: Path, program: str, **options: str) -> AsyncIterator[FastProvider]:
    more = {key.replace("__", "."): value for key, value in options.items()}
    configuration = Configuration({"io.tmp.dirs": str(tmp_path), **more})
    provider = FastProvider(configuration, lambda _: [sys.executable, "-c", program])
    await provider.start(ADDRESS)
    try:
        yield provider
    finally:
        await provider.stop()
        await provider.stop()
    assert read_records(tmp_path / "run") == {}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110 - the condition is about other processes
            await asyncio.sleep(0.01)


def records(tmp_path: Path) -> list[ProcessRecord]:
    return list(read_records(tmp_path / "run").values())


def token_of(record: ProcessRecord) -> str:
    return record.details["token"]


@pytest.mark.process
async def test_starts_as_many_as_are_wanted_and_stops_them(tmp_path: Path) -> None:
    async with providing(tmp_path, WAITS) as provider:
        provider.request(2)
        await until(lambda: len(records(tmp_path)) == 2)
        started = records(tmp_path)
        assert all(record.is_running() for record in started)
        assert all(os.getsid(record.pid) == record.pid for record in started)
        first = started[0]
        assert [r.pid for r in processes_with("MILLSTREAM_PROVIDER_TOKEN", token_of(first))] == [first.pid]
        assert provider.registered(token_of(started[0]))
        assert not provider.registered("someone else's")
        assert not provider.registered("")
        provider.request(2)
        await until(lambda: len(records(tmp_path)) == 3)
    assert not any(record.is_running() for record in started)


@pytest.mark.process
async def test_a_released_process_that_does_not_end_is_killed(tmp_path: Path) -> None:
    async with providing(tmp_path, STUBBORN) as provider:
        provider.request(1)
        await until(lambda: any(p.read_text() for p in (tmp_path / "log").glob("*.out")))
        (record,) = records(tmp_path)
        assert provider.registered(token_of(record))
        provider.request(0)
        provider.release(token_of(record))
        await until(lambda: not record.is_running() and not records(tmp_path))


@pytest.mark.process
async def test_one_that_is_lost_and_does_not_come_back_is_ended(tmp_path: Path) -> None:
    async with providing(tmp_path, WAITS, heartbeat__timeout="50 ms") as provider:
        provider.request(1)
        await until(lambda: len(records(tmp_path)) == 1)
        (record,) = records(tmp_path)
        assert provider.registered(token_of(record))
        provider.request(0)
        provider.lost(token_of(record))
        await until(lambda: not record.is_running())


@pytest.mark.process
def test_deaths_before_registering_are_replaced_and_explained(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with providing(tmp_path, DIES) as provider:
            provider.request(1)
            await until(lambda: any(r.levelno == logging.ERROR for r in caplog.records))

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    (first, *_) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert "3 times in a row" in first.getMessage()
    assert "exit status 1 before it registered: no such luck" in first.getMessage()


@pytest.mark.process
async def test_a_command_that_cannot_be_started_is_a_death_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    provider = FastProvider(Configuration({"io.tmp.dirs": str(tmp_path)}), lambda _: ["/no/such/python"])
    await provider.start(ADDRESS)
    try:
        provider.request(1)
        await until(lambda: "cannot start a process" in caplog.text)
    finally:
        await provider.stop()


@pytest.mark.process
async def test_a_resource_manager_that_comes_back_takes_its_processes_over(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", WAITS, start_new_session=True)
    try:
        details = {"owner": ADDRESS, "token": "t1", "log": str(tmp_path / "a.log")}
        ProcessRecord.of("taskmanager", process.pid, details).write(tmp_path / "run" / "taskmanager-a.json")
        foreign = {**details, "owner": "127.0.0.1:9", "token": "t2"}
        ProcessRecord.of("taskmanager", os.getpid(), foreign).write(tmp_path / "run" / "taskmanager-b.json")
        gone = ProcessRecord("taskmanager", process.pid, 1, {**details, "token": "t3"})
        gone.write(tmp_path / "run" / "taskmanager-c.json")
        provider = FastProvider(Configuration({"io.tmp.dirs": str(tmp_path)}))
        provider.STOP_TIMEOUT = DEADLINE  # on a busy machine, even one that ends by itself takes its time
        await provider.start(ADDRESS)
        assert [provider.registered(token) for token in ("t1", "t2", "t3")] == [True, False, False]
        await provider.stop()
        assert await asyncio.wait_for(process.wait(), DEADLINE) == -signal.SIGTERM
        assert [path.name for path in read_records(tmp_path / "run")] == ["taskmanager-b.json"]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def test_the_command_hands_the_configuration_on() -> None:
    command = task_manager_command(Configuration({"taskmanager.numberOfTaskSlots": 3}))
    assert command == [
        sys.executable, "-P", "-m", "millstream.cli.main", "taskmanager", "-D", "taskmanager.numberOfTaskSlots=3",
    ]  # fmt: skip


@pytest.mark.process
async def test_credentials_are_not_on_the_command_line_and_reach_the_process(tmp_path: Path) -> None:
    secret = "s3://key:verysecret@bucket/checkpoints"
    seen = tmp_path / "seen"
    program = (
        "import pathlib, signal; from millstream.core.processes.handed_down import handed_down_options\n"
        "own = ''.join(pathlib.Path(f'/proc/self/{name}').read_text() for name in ('cmdline', 'environ'))\n"
        f"written = pathlib.Path({str(seen)!r} + '.new')\n"
        'written.write_text(f\'{handed_down_options()} {"very" "secret" in own}\')\n'
        f"written.rename({str(seen)!r})\n"
        "signal.pause()"
    )
    options = {"execution__checkpointing__dir": secret}
    command = task_manager_command(Configuration({"execution.checkpointing.dir": secret}))
    assert not any("verysecret" in part for part in command)
    async with providing(tmp_path, program, **options) as provider:
        provider.request(1)
        await until(seen.exists)
    assert seen.read_text() == f"{ {'execution.checkpointing.dir': secret} } False"
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "log").iterdir()} == {0o600}


def test_a_record_of_a_reused_process_id_is_not_running(tmp_path: Path) -> None:
    own = ProcessRecord.of("test", os.getpid())
    assert own.is_running()
    assert not ProcessRecord("test", own.pid, own.start_time - 1).is_running()
    own.write(tmp_path / "run" / "test.json")
    assert ProcessRecord.read(tmp_path / "run" / "test.json") == own
    (tmp_path / "run" / "broken.json").write_text("{")
    assert list(read_records(tmp_path / "run").values()) == [own]
