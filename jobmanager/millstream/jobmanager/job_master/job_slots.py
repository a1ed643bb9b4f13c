"""The slots that one job holds, with their workers. Pure.

A job needs a slot for each slice (`SlotKey`). It may hold spare ones in addition, in which no task runs: those that it
is about to be rescaled to, or from. An allocation that was lost is never accepted again: its tasks belong to attempts
that are considered dead.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AllocationId, TaskManagerId
from millstream.core.messages.resource_manager import NOTHING, Resources
from millstream.jobmanager.job_master import events as ev
from millstream.jobmanager.job_master.execution_graph import Execution, Slot, SlotKey

_SPARE = ""  # no slot sharing group
Place = tuple[TaskManagerId, AllocationId, Execution]
"""Where an attempt runs: the address for messages to it."""


class JobSlots:
    """Owned by the JobMaster, which decides when slots are wanted."""

    def __init__(self, keys: Collection[SlotKey]) -> None:
        self._keys = tuple(keys)
        self._spares_wanted = 0
        self._held: dict[SlotKey, Slot] = {}
        self._keys_of: dict[str, SlotKey] = {}  # by allocation; a job may have thousands, with frequent lookups
        self._vacant = dict.fromkeys(self._keys)
        self._lost: set[AllocationId] = set()
        self._supply: ev.SlotSupply | None = None

    @property
    def required(self) -> int:
        """The total number of slots that the job needs."""
        return len(self._keys)

    @property
    def wanted(self) -> int:
        """The number of slots that it requests, including spare ones."""
        return len(self._keys) + self._spares_wanted

    @property
    def held(self) -> Mapping[SlotKey, Slot]:
        """The slots that are held, including spare ones."""
        return MappingProxyType(self._held)

    @property
    def complete(self) -> bool:
        """Whether no slot is missing."""
        return not self._vacant

    @property
    def ready(self) -> bool:
        """Whether there is a worker in every slot that the job needs."""
        return self.complete and all(self._held[key].data_address for key in self._keys)

    @property
    def all_ready(self) -> bool:
        """Whether there is also a worker in every spare slot."""
        return self.complete and all(slot.data_address for slot in self._held.values())

    def want(self, slots: int) -> list[ev.Effect]:
        """Sets the number of requested slots, at least those that are needed; releases spare ones in excess."""
        self._spares_wanted = max(0, slots - len(self._keys))
        spares = [key for key in self._held if key.group == _SPARE]
        extra = len(spares) - self._spares_wanted
        dropped = self.drop(spares[len(spares) - extra :]) if extra > 0 else []
        return [free(slot, "the job no longer needs it") for slot in dropped]

    def rearrange(self, keys: Collection[SlotKey]) -> None:
        """Assigns the slots to other slices while no task runs; slices that remain keep their slots.

        Slots that no slice needs become spare ones; slots with a worker are used first.
        """
        before, wanted = self._held, self.wanted
        kept = {key: before[key] for key in keys if key in before}
        others = [slot for key, slot in before.items() if key not in kept]
        others.sort(key=lambda slot: not slot.data_address)
        for key in keys:
            if key not in kept and others:
                kept[key] = others.pop(0)
        for number, slot in enumerate(others):
            kept[SlotKey(_SPARE, number)] = slot
        self._keys, self._held = tuple(keys), kept
        self._index()
        self._spares_wanted = max(0, wanted - len(self._keys), len(others))

    def _index(self) -> None:
        """Rebuilds the index after slots were removed or reassigned."""
        self._keys_of = {slot.allocation_id: key for key, slot in self._held.items()}
        self._vacant = dict.fromkeys(key for key in self._keys if key not in self._held)

    @property
    def supply(self) -> ev.SlotSupply | None:
        """The slots of the cluster, as last reported; None unless the job misses slots."""
        return None if self.complete else self._supply

    def not_enough(self, supply: ev.SlotSupply | None) -> None:
        """Records the slots of the cluster when the resource manager cannot allocate the missing slots."""
        self._supply = supply

    def waiting(self, available: int = 0) -> str:
        """Returns the message of a job that waits for slots; available ones may not have been offered yet."""
        why = f" ({self.supply})" if self.supply is not None else ""
        return f"waiting for slots: {max(available, len(self._held))} of {self.required}{why}"

    def holds(self, allocation_id: str) -> bool:
        """Whether the job holds the slot."""
        return allocation_id in self._keys_of

    def take(self, offer: ev.SlotOffered) -> bool:
        """Assigns an offered slot to the first slice without one, or as a spare; returns whether it was accepted."""
        free = self._first_free()
        if free is None or offer.allocation_id in self._lost:
            return False
        self.hold(free, Slot(offer.allocation_id, offer.task_manager, offer.host))
        return True

    def _first_free(self) -> SlotKey | None:
        if self._vacant:
            return next(iter(self._vacant))
        spares = [key for key in self._held if key.group == _SPARE]  # some with lower numbers may have been released
        if len(spares) >= self._spares_wanted:
            return None
        return next(key for key in (SlotKey(_SPARE, number) for number in itertools.count()) if key not in spares)

    def hold(self, key: SlotKey, slot: Slot) -> None:
        """Assigns the slot to this slice, as an earlier leader of the job did."""
        self._held[key] = slot
        self._keys_of[slot.allocation_id] = key
        self._vacant.pop(key, None)

    def release(self, keys: Iterable[SlotKey]) -> None:
        """Removes slots that are unreachable for now; they are accepted when they are offered again."""
        for key in keys:
            self._held.pop(key, None)
        self._index()

    def start_workers(self, in_spares: bool = False) -> list[ev.Effect]:
        """Starts workers in the slots that have none."""
        idle = [
            slot for key, slot in self._held.items() if not slot.worker_started and (in_spares or key.group != _SPARE)
        ]
        for slot in idle:
            slot.worker_started = True
        return [ev.StartWorker(slot.allocation_id, slot.task_manager) for slot in idle]

    def worker_readied(self, allocation_id: str, address: str) -> None:
        """Records that the slot's worker is ready and receives data at this address."""
        if allocation_id in self._keys_of:
            self._held[self._keys_of[allocation_id]].data_address = address

    def of_allocation(self, allocation_id: str) -> list[SlotKey]:
        """Returns the slices in this slot."""
        return [self._keys_of[allocation_id]] if allocation_id in self._keys_of else []

    def of_task_manager(self, task_manager: str) -> list[SlotKey]:
        """Returns the slices in the slots of this task manager."""
        return [key for key, slot in self._held.items() if slot.task_manager == task_manager]

    def drop(self, keys: Iterable[SlotKey]) -> list[Slot]:
        """Removes lost slots, as far as they are still held."""
        dropped = [self._held.pop(key) for key in keys if key in self._held]
        self._lost.update(slot.allocation_id for slot in dropped)
        self._index()
        return dropped

    def give_back(self, reason: str) -> list[ev.Effect]:
        """Releases all slots."""
        return [free(slot, reason) for slot in self.drop(list(self._held))]

    def place_of(self, execution: Execution | None) -> Place | None:
        """Returns where an execution runs, or None."""
        slot = self._held.get(execution.slot_key) if execution is not None else None
        if execution is None or slot is None or not execution.is_deployed:
            return None
        return slot.task_manager, slot.allocation_id, execution


def slot_needs(graph: JobGraph) -> tuple[Resources, Resources]:
    """Returns the resources that each slot of a job needs on average, and the maximum of any of them.

    Slots are assigned to slot sharing groups only when they are offered, so all slots count the same.
    """
    slots = graph.slots_by_group()
    requested = [resources for resources in graph.slot_resources if resources.group in slots]
    if not requested:
        return NOTHING, NOTHING
    cores = sum(resources.cpu_cores * slots[resources.group] for resources in requested) / sum(slots.values())
    memory = sum(resources.memory_bytes * slots[resources.group] for resources in requested) // sum(slots.values())
    largest = Resources(max(r.cpu_cores for r in requested), max(r.memory_bytes for r in requested))
    return Resources(cores, memory), largest


def free(slot: Slot, reason: str) -> ev.FreeSlot:
    """Releases one slot."""
    return ev.FreeSlot(slot.allocation_id, slot.task_manager, reason)
