"""Log files are bounded, and no line of them is lost, whichever process writes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import DEADLINE

from millstream.core.logs.log_files import LogBounds, OutputFile, open_to_append, rotated
from millstream.core.logs.shared_file import SharedFileHandler


@pytest.fixture
def output(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    path = tmp_path / "service-1.log"
    descriptor = open_to_append(path)
    yield descriptor, path
    os.close(descriptor)


def lines_of(path: Path, kept: int) -> list[str]:
    files = [rotated(path, number) for number in range(kept, 0, -1)] + [path]
    return [line for file in files if file.exists() for line in file.read_text().splitlines()]


def test_a_file_that_is_too_large_is_rotated_and_old_ones_are_deleted(output: tuple[int, Path]) -> None:
    descriptor, path = output
    bounds = LogBounds(size=100, kept=3)
    file = OutputFile(descriptor, path)
    for number in range(200):
        os.write(descriptor, f"line {number}\n".encode())
        file.keep_within(bounds)
    assert sorted(p.name for p in path.parent.iterdir()) == [path.name, *(f"{path.name}.{i}" for i in (1, 2, 3))]
    left = lines_of(path, 3)
    assert left == [f"line {number}" for number in range(200 - len(left), 200)]
    assert all(rotated(path, number).stat().st_size <= 110 for number in (1, 2, 3))
    assert path.stat().st_mode & 0o777 == 0o600


def test_nothing_is_lost_while_others_write(output: tuple[int, Path]) -> None:
    descriptor, path = output
    file = OutputFile(descriptor, path)

    def write() -> None:
        for number in range(5000):
            os.write(descriptor, f"{number}\n".encode())

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        file.keep_within(LogBounds(size=2000, kept=1000))
    writer.join()
    assert lines_of(path, 1000) == [str(number) for number in range(5000)]


def test_without_old_files_it_starts_over(output: tuple[int, Path]) -> None:
    descriptor, path = output
    os.write(descriptor, b"x" * 2000)
    OutputFile(descriptor, path).keep_within(LogBounds(size=1000, kept=0))
    os.write(descriptor, b"new\n")
    assert path.read_text() == "new\n"


def test_other_writers_of_the_file_follow(output: tuple[int, Path]) -> None:
    descriptor, path = output
    shared = os.dup(descriptor)
    try:
        os.write(shared, b"x" * 2000)
        OutputFile(descriptor, path).keep_within(LogBounds(size=1000, kept=1))
        OutputFile(shared, path).follow()
        os.write(shared, b"child\n")
        assert path.read_text() == "child\n"
    finally:
        os.close(shared)


def test_a_file_moved_by_another_program_is_left_alone(output: tuple[int, Path]) -> None:
    descriptor, path = output
    os.write(descriptor, b"x" * 2000)
    path.rename(path.with_name("taken.log"))
    OutputFile(descriptor, path).keep_within(LogBounds(size=1000, kept=1))
    assert [p.name for p in path.parent.iterdir()] == ["taken.log"]


@pytest.mark.process
def test_a_process_bounds_its_printed_output(tmp_path: Path) -> None:
    program = f"""
import os, time
from millstream.core.settings.configuration import Configuration
from millstream.core.logs.log_files import bound_output
bound_output(Configuration({{"env.log.dir": {str(tmp_path)!r}, "env.log.max-size": "1 kb"}}))
print("x" * 5000, flush=True)
while not os.path.exists({str(tmp_path / "job.out.1")!r}):
    time.sleep(0.01)
print("later", flush=True)
"""
    with (tmp_path / "job.out").open("ab") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True, timeout=DEADLINE)
    assert (tmp_path / "job.out").read_text() == "later\n"


def test_a_shared_file_is_rotated_by_any_of_its_processes(tmp_path: Path) -> None:
    path = tmp_path / "local.log"
    handlers = [SharedFileHandler(str(path), LogBounds(size=200, kept=50)) for _ in range(3)]
    for number in range(100):
        handlers[number % 3].emit(logging.makeLogRecord({"msg": f"line {number}"}))
    for handler in handlers:
        handler.close()
    assert lines_of(path, 50) == [f"line {number}" for number in range(100)]
    assert all(rotated(path, number).stat().st_size <= 210 for number in range(1, 4))
