"""The files of a task manager's workers: named after the job and the slot, listed, read, and removed in time."""

from __future__ import annotations

import os
from pathlib import Path

from millstream.core.settings.configuration import Configuration
from millstream.taskmanager.supervisor.worker_logs import WorkerLogs


def logs_in(folder: Path, **options: object) -> WorkerLogs:
    return WorkerLogs(
        Configuration({"env.log.dir": str(folder), **{k.replace("_", "."): v for k, v in options.items()}})
    )


def write(logs: WorkerLogs, job: str, slot: int, text: str) -> None:
    opened = logs.open(job, slot)
    assert opened is not None
    for descriptor, name in zip(opened, ("out", "log"), strict=True):
        os.write(descriptor, f"{text} {name}\n".encode())
        os.close(descriptor)


def test_a_worker_appends_to_files_of_its_job_and_slot(tmp_path: Path) -> None:
    logs = logs_in(tmp_path / "log")
    write(logs, "a" * 32, 0, "first")
    write(logs, "a" * 32, 0, "second")
    name = f"taskmanager.{'a' * 32}.slot-0"
    assert [file.name for file in logs.files()] == [f"{name}.log", f"{name}.out"]
    piece = logs.read(f"{name}.log", None, 1000)
    assert piece.content == b"first log\nsecond log\n"
    printed = logs.read("stdout", None, 1000)
    assert printed.content.endswith(b"first out\nsecond out\n")
    for other in ("../secret", "nothing.log", str(tmp_path / "log" / f"{name}.log")):
        assert logs.read(other, None, 1000) is None


def test_files_of_jobs_that_ended_are_removed_the_oldest_first(tmp_path: Path) -> None:
    logs = logs_in(tmp_path, env_log_max=2)
    for number in range(5):
        write(logs, f"{number}" * 32, 0, "text")
        for path in tmp_path.glob(f"taskmanager.{number}*"):
            os.utime(path, (number, number))
    logs.remove_old({"0" * 32})
    left = {file.name.split(".")[1][0] for file in logs.files()}
    assert left == {"0", "3", "4"}, "the running job, and the two newest"


def test_without_a_folder_workers_log_to_the_files_of_the_task_manager() -> None:
    logs = WorkerLogs(Configuration())
    assert logs.open("a" * 32, 0) is None
    assert logs.files() == []
    logs.remove_old(set())
    assert logs.options["env.log.dir"] == ""
