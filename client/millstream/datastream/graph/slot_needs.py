"""What the slots of a job need: of the slot sharing groups that its operators are in."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import SlotResources
from millstream.datastream.graph.stream_graph import StreamGraph
from millstream.datastream.slot_sharing_group import SlotSharingGroup


def slot_needs(graph: StreamGraph, registered: Iterable[SlotSharingGroup]) -> tuple[SlotResources, ...]:
    """Returns the resources of the groups in use that declare any, both of operators and of `registered`."""
    groups: dict[str, SlotSharingGroup] = {}
    given = [node.operator.group for node in graph.nodes if node.operator.group is not None]
    for group in (*registered, *given):
        known = groups.setdefault(group.get_name(), group)
        if known != group:
            raise InvalidProgramError(
                f"the slot sharing group '{group.get_name()}' is described in two ways, {known} and {group}; a group "
                "has one description"
            )
    used = {node.slot_sharing_group for node in graph.nodes}
    return tuple(_needs(group) for name, group in groups.items() if name in used and group.get_cpu_cores() is not None)


def _needs(group: SlotSharingGroup) -> SlotResources:
    if group.get_external_resources():
        names = ", ".join(sorted(group.get_external_resources()))
        raise InvalidProgramError(
            f"the slot sharing group '{group.get_name()}' requires {names}: task managers offer cores and memory only"
        )
    return SlotResources(group.get_name(), group.get_cpu_cores() or 0.0, group.memory_bytes)
