"""The folders for local copies: one for each allocation, removed with it, and never left behind permanently."""

from __future__ import annotations

from pathlib import Path

from millstream.core.jobs.ids import AllocationId, TaskManagerId
from millstream.core.settings.configuration import Configuration
from millstream.taskmanager.supervisor.local_state import LocalState

A, B = AllocationId("a"), AllocationId("b")


def local_state(name: str, *roots: Path) -> LocalState:
    dirs = ",".join(map(str, roots))
    return LocalState(TaskManagerId(name), Configuration({"execution.checkpointing.local-backup.dirs": dirs}))


def keep(state: LocalState, allocation_id: AllocationId) -> Path:
    copy = state.folder(allocation_id) / "vertex-0" / "copy"
    copy.parent.mkdir(parents=True)
    copy.write_text("content")
    return copy


def test_an_allocations_folder_lives_until_it_is_removed(tmp_path: Path) -> None:
    state = local_state("127.0.0.1:5000-x", tmp_path)
    first, second = keep(state, A), keep(state, B)
    assert state.folder(A) == first.parents[1]
    state.remove(A)
    assert (first.parents[1].exists(), second.exists()) == (False, True)
    state.close()
    assert not list(tmp_path.rglob("vertex-*"))


def test_the_default_is_below_the_working_directory(tmp_path: Path) -> None:
    state = LocalState(TaskManagerId("one"), Configuration({"io.tmp.dirs": str(tmp_path)}))
    assert state.folder(A) == tmp_path / "localState" / "one" / "a"
    state.close()


def test_allocations_are_distributed_over_the_directories(tmp_path: Path) -> None:
    state = local_state("one", tmp_path / "x", tmp_path / "y")
    used = {state.folder(AllocationId(str(number))).parents[2].name for number in range(20)}
    assert used == {"x", "y"}
    state.close()


def test_what_a_killed_task_manager_left_is_removed_by_the_next(tmp_path: Path) -> None:
    killed, living = local_state("killed", tmp_path), local_state("living", tmp_path)
    left, kept = keep(killed, A), keep(living, B)
    for lock in killed._locks.values():
        lock.close()  # as its process's end would
    local_state("starting", tmp_path).remove_dead()
    assert (left.parents[2].exists(), kept.exists()) == (False, True)
    living.close()


def test_nothing_is_created_before_it_is_needed(tmp_path: Path) -> None:
    state = local_state("one", tmp_path / "x")
    state.remove_dead()
    state.remove(A)
    state.close()
    assert not (tmp_path / "x").exists()
