"""Fixtures for the tests of the API."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from api_fakes import FakeExecutor

from millstream.datastream import StreamExecutionEnvironment


@pytest.fixture(autouse=True)
def _no_outer_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONF_DIR", "PROGRAM_CONFIGURATION", "PROGRAM_ARTIFACTS", "PLAN_FILE"):
        monkeypatch.delenv(f"MILLSTREAM_{name}", raising=False)


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> FakeExecutor:
    fake = FakeExecutor()
    module = ModuleType("millstream.client.executors")
    module.make_executor = fake.make_executor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "millstream.client.executors", module)
    return fake


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()
