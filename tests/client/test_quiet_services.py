"""A program's logging gets nothing of the services in its process but errors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.client.loop_thread import LoopThread
from millstream.client.quiet_services import QuietServices
from millstream.core.settings.configuration import Configuration


class Collecting(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture
def program() -> Iterator[Collecting]:
    """What `logging.basicConfig(level=DEBUG)` does."""
    handler, root = Collecting(), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.setLevel(before)
    root.removeHandler(handler)


def on_thread(name: str, logger: str, message: str) -> None:
    thread = threading.Thread(target=lambda: logging.getLogger(logger).debug(message), name=name)
    thread.start()
    thread.join()


def test_only_errors_reach_the_program_until_it_ends(program: Collecting) -> None:
    quiet = QuietServices()
    services = logging.getLogger("millstream.dispatcher.service")
    logging.getLogger("grpc._cython.cygrpc")  # is there once gRPC is imported
    quiet.begin(Configuration())
    quiet.begin(Configuration())
    services.info("service")
    services.warning("service")
    services.error("our error")
    on_thread("millstream", "asyncio", "ours")
    on_thread("millstream worker_0", "grpc._cython.cygrpc", "ours")
    on_thread("the program's", "asyncio", "theirs")
    quiet.end()
    services.info("service")
    quiet.end()
    services.info("after")
    on_thread("millstream", "asyncio", "after")
    assert program.messages == ["our error", "theirs", "after", "after"]


def test_a_loop_is_made_and_ended_in_silence(program: Collecting) -> None:
    quiet = QuietServices()
    quiet.begin(Configuration())
    LoopThread("millstream").close()
    quiet.end()
    assert program.messages == []


def test_all_of_it_goes_to_a_file_when_one_is_named(program: Collecting, tmp_path: Path) -> None:
    file = tmp_path / "services.log"
    quiet = QuietServices()
    quiet.begin(Configuration({"execution.local.log-file": str(file)}))
    logging.getLogger("millstream.dispatcher.service").info("service")
    logging.getLogger("millstream.dispatcher.service").debug("details")
    quiet.end()
    assert program.messages == []
    assert [line.partition(": ")[2] for line in file.read_text().splitlines()] == ["service"]
