"""The state backends selected by `state.backend.type`, which a task closes at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from worker_rig import WorkerRig, reading, writing

from millstream.core.errors import ConfigurationError
from millstream.core.jobs.plan.plan import KeyedProcessSpec, KeySelector, MapSpec, OperatorSpec
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.messages.sources import NoMoreSplits
from millstream.core.records.types import LONG
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import OPTIONS
from millstream.datastream import state_backend
from millstream.datastream.functions import KeyedProcessFunction, RuntimeContext
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.state.backends import STATE_BACKENDS
from millstream.taskmanager.worker.state.heap import HashMapStateBackend, HeapKeyedStateBackend


def test_every_value_of_the_option_has_a_backend() -> None:
    names = set(OPTIONS["state.backend.type"].choices)
    assert set(STATE_BACKENDS) == set(state_backend.STATE_BACKENDS) == names


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"state\.backend\.type.*hashmap"):
        Configuration({"state.backend.type": "shelf"}).value("state.backend.type")


class Noting(HashMapStateBackend):
    """Records which of its backends are open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.made = 0

    def keyed_backend(self, operator_name: str, *rest: Any) -> HeapKeyedStateBackend:
        made = super().keyed_backend(operator_name, *rest)
        self.open.append(operator_name)
        self.made += 1
        made.close = lambda: self.open.remove(operator_name)  # type: ignore[method-assign]  # to be notified
        return made


class Uses(KeyedProcessFunction):
    """Uses state until the end."""

    def __init__(self, fails_in: str = "", by: type[BaseException] = RuntimeError) -> None:
        self._fails_in = fails_in
        self._by = by

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state("s", int)
        self._at("open")

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.state.update(value)
        self._at("process")
        return (value,)

    def close(self) -> None:
        assert noting.open
        self._at("close")

    def _at(self, place: str) -> None:
        if place == self._fails_in:
            raise self._by(place)


noting = Noting()


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Iterable[Callable[..., tuple[WorkerRig, TaskDeployment]]]:
    global noting  # functions are pickled by reference to this module
    noting = Noting()
    monkeypatch.setitem(STATE_BACKENDS, "hashmap", lambda configuration: noting)  # type: ignore[arg-type]
    rig = WorkerRig()

    def deploy(*specs: OperatorSpec, waits: bool = False) -> tuple[WorkerRig, TaskDeployment]:
        source, sink = reading([1, 2], waits=waits), writing("uses")
        return rig, rig.start(source, *specs, sink)

    yield deploy
    rig.close()


def keyed(function: Uses) -> KeyedProcessSpec:
    return KeyedProcessSpec(function, KeySelector(function=lambda n: n), LONG)


@pytest.mark.parametrize(
    ("function", "state"),
    [
        (Uses(), "FINISHED"), (Uses("open"), "FAILED"), (Uses("process"), "FAILED"), (Uses("close"), "FAILED"),
        (Uses("process", TaskInterrupted), "FAILED"), (Uses("close", TaskInterrupted), "FAILED"),
    ],
)  # fmt: skip
def test_state_is_closed_when_a_task_ends(deployed: Any, function: Uses, state: str) -> None:
    rig, task = deployed(keyed(function), keyed(Uses()))
    rig.turn_until(rig.ended(task))
    assert rig.state(task) == state
    assert (noting.made, noting.open) == (2, [])


def test_state_is_closed_when_a_task_is_cancelled(deployed: Any) -> None:
    rig, task = deployed(keyed(Uses()), waits=True)
    rig.turns(3)
    assert noting.open
    rig.cancel(task.attempt_id)
    assert (rig.state(task), noting.open) == ("CANCELED", [])


def test_state_is_closed_when_a_task_cannot_be_built(deployed: Any) -> None:
    rig, task = deployed(MapSpec(5), keyed(Uses()))
    assert rig.state(task) == "FAILED"
    assert (noting.made, noting.open) == (1, [])


def test_a_backend_that_cannot_be_closed_fails_the_task_and_leaves_no_other_open(deployed: Any) -> None:
    rig, task = deployed(keyed(Uses()), keyed(Uses()), waits=True)
    backend = rig.running(task).keyed_backends[-1]
    closes = backend.close

    def close() -> None:
        closes()
        raise OSError("the disk is gone")

    backend.close = close
    rig.send_event(task, NoMoreSplits())
    rig.turn_until(rig.ended(task))
    assert (rig.state(task), noting.open) == ("FAILED", [])
    assert "the disk is gone" in rig.failure(task).exception
