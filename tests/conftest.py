"""Applies to all tests."""

from __future__ import annotations

import inspect
import logging
import os
import signal
from collections.abc import Generator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import pytest
from process_marks import ProcessMarks
from thoroughness import register_profiles
from waiting import run

register_profiles()

# A shell that runs the tests in the background makes them ignore SIGINT, and so every process that they start: the
# tests of Ctrl-C would wait forever. With a handler of its own in this process, children start with the default again.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Services on this machine are reached without the proxy that downloads of packages may need.
os.environ["no_proxy"] = ",".join(filter(None, (os.environ.get("no_proxy"), "127.0.0.1", "localhost")))

# Spark runs for seconds here: the JVM's optimizing compiler, which takes half of its time, would never pay off.
os.environ["SPARK_SUBMIT_OPTS"] = os.environ["SPARK_LAUNCHER_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def _of_this_test(record: logging.LogRecord) -> bool:
    return "PollerCompletionQueue" not in record.getMessage() or "Event loop is closed" not in str(record.exc_info)


# gRPC has one queue for all loops of a process. Errors from the queue of a test which has ended are logged during the
# next one, to which they do not belong.
logging.getLogger("asyncio").addFilter(_of_this_test)


def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are cores: for much of their time, tests without processes wait for clocks and sockets."""
    return len(os.sched_getaffinity(0)) + 2


_LONG_FILES = ("test_rest_fuzzed", "test_docs_bootstrap", "test_dashboard_pages", "test_docs_", "tests/spark/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs files that take minutes first: otherwise one core waits at the end for the last of them."""
    order = {name: at for at, name in enumerate(_LONG_FILES)}
    items.sort(key=lambda item: min((at for name, at in order.items() if name in item.nodeid), default=len(order)))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ProcessMarks())


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_handlecrashitem(report: pytest.TestReport) -> Generator[None, Any, Any]:
    """A test that ends its process has failed: the plugin for reruns would repeat it, whatever `--only-rerun` says."""
    result = yield
    report.outcome = "failed"
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine on a loop of its own, within the deadline.

    A fixture that is an asynchronous context manager is entered on that loop: the test gets what it yields.
    """
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None

    async def with_fixtures() -> None:
        async with AsyncExitStack() as stack:
            given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
            for name, value in given.items():
                if isinstance(value, AbstractAsyncContextManager):
                    given[name] = await stack.enter_async_context(value)
            await pyfuncitem.obj(**given)

    run(with_fixtures)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Removes invalid characters from logged or printed text, since xdist sends it to another process as UTF-8."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(scope="session")
def s3_root() -> Iterator[str]:
    """The URI of a bucket in a real S3 API on loopback, with `{path}` in place of the path."""
    from moto.server import ThreadedMotoServer
    from pyarrow import fs

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        options = f"scheme=http&endpoint_override={host}:{port}&region=us-east-1&allow_bucket_creation=true"
        uri = f"s3://testkey:testsecret@bucket/{{path}}?{options}"
        system, path = fs.FileSystem.from_uri(uri.format(path=""))
        system.create_dir(path.rstrip("/"))
        yield uri
    finally:
        server.stop()
