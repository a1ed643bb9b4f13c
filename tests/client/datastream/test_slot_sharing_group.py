"""Slot sharing groups, and what their slots need."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import SlotResources
from millstream.datastream import MemorySize, SlotSharingGroup, StreamExecutionEnvironment


def heavy(cores: float = 2.0, memory: int = 512) -> SlotSharingGroup:
    return SlotSharingGroup.builder("heavy").set_cpu_cores(cores).set_task_heap_memory_mb(memory).build()


def test_a_group_returns_what_it_was_built_with() -> None:
    sizes = [MemorySize.of_mebi_bytes(number) for number in (100, 200, 300)]
    builder = SlotSharingGroup.builder("g").set_cpu_cores(1).set_task_heap_memory(sizes[0])
    group = (
        builder.set_task_off_heap_memory(sizes[1]).set_managed_memory(sizes[2]).set_external_resource("gpu", 1).build()
    )
    assert (group.get_name(), group.get_cpu_cores(), group.get_external_resources()) == ("g", 1.0, {"gpu": 1.0})
    assert [group.get_task_heap_memory(), group.get_task_off_heap_memory(), group.get_managed_memory()] == sizes
    assert group.memory_bytes == 600 * 1024 * 1024
    same = builder.set_task_off_heap_memory_mb(200).set_managed_memory_mb(300).build()
    assert (same, hash(same)) == (group, hash(group))
    plain = SlotSharingGroup.builder("g").build()
    assert (plain.get_cpu_cores(), plain.get_task_heap_memory(), plain.get_external_resources()) == (None, None, {})


def test_a_group_that_requests_resources_names_cores_and_heap() -> None:
    with pytest.raises(
        InvalidProgramError, match="'g': a group that requests resources needs both cores and task heap memory"
    ):
        SlotSharingGroup.builder("g").set_cpu_cores(1.0).set_task_off_heap_memory_mb(10).build()
    with pytest.raises(InvalidProgramError, match="set_task_heap_memory: a slot needs more than 0 bytes"):
        SlotSharingGroup.builder("g").set_task_heap_memory(MemorySize(bytes_size=0))


@pytest.mark.parametrize("wrong", [0, -1.0, True, "2", float("inf"), float("nan")])
def test_cores_are_a_number_above_zero(wrong: Any) -> None:
    with pytest.raises(InvalidProgramError, match="set_cpu_cores: expected a number above 0"):
        SlotSharingGroup.builder("g").set_cpu_cores(wrong)


def test_memory_sizes() -> None:
    size = MemorySize(3 * 1024**4 + 1)
    larger = [size.get_kibi_bytes(), size.get_mebi_bytes(), size.get_gibi_bytes(), size.get_tebi_bytes()]
    assert (size.get_bytes(), larger) == (3 * 1024**4 + 1, [3 * 1024**3, 3 * 1024**2, 3 * 1024, 3])
    assert MemorySize.of_mebi_bytes(100) <= MemorySize.of_mebi_bytes(100) < MemorySize.of_mebi_bytes(200)
    assert [str(MemorySize(n)) for n in (0, 1, 1024, 1536, 2 * 1024**3)] == [
        "0 bytes",
        "1 bytes",
        "1 kb",
        "1536 bytes",
        "2 gb",
    ]
    with pytest.raises(InvalidProgramError, match="a MemorySize is a whole number of bytes, not -1"):
        MemorySize(-1)


def test_the_job_has_the_resources_of_the_slots_of_its_groups(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_sequence(1, 9).slot_sharing_group(heavy())
    numbers.map(abs).slot_sharing_group("small").print().slot_sharing_group(SlotSharingGroup.builder("end").build())
    graph = env.generate_job().graph
    assert [vertex.slot_sharing_group for vertex in graph.vertices] == ["heavy", "small", "end"]
    assert graph.slot_resources == (SlotResources("heavy", 2.0, 512 * 1024 * 1024),)


def test_a_registered_group_counts_for_operators_that_name_it(env: StreamExecutionEnvironment) -> None:
    assert env.register_slot_sharing_group(heavy(1.5)) is env
    env.register_slot_sharing_group(
        SlotSharingGroup.builder("unused").set_cpu_cores(9).set_task_heap_memory_mb(1).build()
    )
    env.from_sequence(1, 9).slot_sharing_group("heavy").print()
    assert env.generate_job().graph.slot_resources == (SlotResources("heavy", 1.5, 512 * 1024 * 1024),)
    with pytest.raises(
        InvalidProgramError, match="register_slot_sharing_group: expected a SlotSharingGroup, got 'heavy'"
    ):
        env.register_slot_sharing_group("heavy")  # type: ignore[arg-type]


def test_a_group_has_one_description(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 9).slot_sharing_group(heavy(1)).map(abs).slot_sharing_group(heavy(2)).print()
    with pytest.raises(InvalidProgramError, match="the slot sharing group 'heavy' is described in two ways"):
        env.generate_job()


def test_what_no_task_manager_offers_is_refused(env: StreamExecutionEnvironment) -> None:
    group = SlotSharingGroup.builder("g").set_cpu_cores(1).set_task_heap_memory_mb(1).set_external_resource("gpu", 1)
    env.from_sequence(1, 9).slot_sharing_group(group.build()).print()
    with pytest.raises(InvalidProgramError, match="'g' requests gpu: task managers offer cores and memory only"):
        env.generate_job()


def test_a_description_is_in_the_plan_of_tasks(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 9).map(abs).set_description("makes <b>positive</b>").print()
    (vertex,) = env.generate_job().graph.vertices
    assert vertex.name == "Source: Sequence Source -> Map -> Sink: Print to Std. Out"
    assert vertex.description == "Source: Sequence Source -> makes <b>positive</b> -> Sink: Print to Std. Out"
