"""The slots that one job holds, with their workers: which are there, which are missing, what is lost. Pure.

A job needs a slot for each slice (`SlotKey`). It may hold spare ones besides, in which nothing runs: those that it is
about to be rescaled to, or from. An allocation that was lost is never taken again: what runs in it belongs
to attempts that count as dead.
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
"""Where an attempt runs: what is needed for messages to it."""


class JobSlots:
    """Owned by the JobMaster, which decides when slots are wanted."""

    def __init__(self, keys: Collection[SlotKey]) -> None:
        self._keys = tuple(keys)
        self._spares_wanted = 0
        self._held: dict[SlotKey, Slot] = {}
        self._keys_of: dict[str, SlotKey] = {}  # by allocation; a job may have thousands, each asked about often
        self._vacant = dict.fromkeys(self._keys)
        self._lost: set[AllocationId] = set()
        self._supply: ev.SlotSupply | None = None

    @property
    def required(self) -> int:
        """How many slots the job needs in all."""
        return len(self._keys)

    @property
    def wanted(self) -> int:
        """How many it would take, with spare ones."""
        return len(self._keys) + self._spares_wanted

    @property
    def held(self) -> Mapping[SlotKey, Slot]:
        """The slots that are there, with spare ones."""
        return MappingProxyType(self._held)

    @property
    def complete(self) -> bool:
        """Whether none is missing."""
        return not self._vacant

    @property
    def ready(self) -> bool:
        """Whether there is a worker in every slot that the job needs."""
        return self.complete and all(self._held[key].data_address for key in self._keys)

    @property
    def all_ready(self) -> bool:
        """The same, and in every spare one."""
        return self.complete and all(slot.data_address for slot in self._held.values())

    def want(self, slots: int) -> list[ev.Effect]:
        """From now on so many in all, but never fewer than are needed; spare ones that are too many go back."""
        self._spares_wanted = max(0, slots - len(self._keys))
        spares = [key for key in self._held if key.group == _SPARE]
        extra = len(spares) - self._spares_wanted
        dropped = self.drop(spares[len(spares) - extra :]) if extra > 0 else []
        return [free(slot, "the job does not need it") for slot in dropped]

    def rearrange(self, keys: Collection[SlotKey]) -> None:
        """The job, of which nothing runs, needs slots for other slices; those that it keeps stay where they are.

        Slots that no slice needs become spare ones, and those with a worker are used first.
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
        """After slots have gone, or moved."""
        self._keys_of = {slot.allocation_id: key for key, slot in self._held.items()}
        self._vacant = dict.fromkeys(key for key in self._keys if key not in self._held)

    @property
    def supply(self) -> ev.SlotSupply | None:
        """What the cluster has, as last heard; of interest only to a job that misses slots."""
        return None if self.complete else self._supply

    def not_enough(self, supply: ev.SlotSupply | None) -> None:
        """The resource manager cannot give what is missing, for this reason."""
        self._supply = supply

    def waiting(self, available: int = 0) -> str:
        """What a job that misses slots says; some that are available may not have been offered yet."""
        why = f" ({self.supply})" if self.supply is not None else ""
        return f"waiting for slots: {max(available, len(self._held))} of {self.required}{why}"

    def holds(self, allocation_id: str) -> bool:
        """Whether the slot is one of the job's."""
        return allocation_id in self._keys_of

    def take(self, offer: ev.SlotOffered) -> bool:
        """Takes a slot for the first slice that has none, or a spare one; answers whether it could be used."""
        free = self._first_free()
        if free is None or offer.allocation_id in self._lost:
            return False
        self.hold(free, Slot(offer.allocation_id, offer.task_manager, offer.host))
        return True

    def _first_free(self) -> SlotKey | None:
        if self._vacant:
            return next(iter(self._vacant))
        spares = [key for key in self._held if key.group == _SPARE]  # some that had lower numbers may be gone
        if len(spares) >= self._spares_wanted:
            return None
        return next(key for key in (SlotKey(_SPARE, number) for number in itertools.count()) if key not in spares)

    def hold(self, key: SlotKey, slot: Slot) -> None:
        """The slot is this slice's, as an earlier leader of the job had it."""
        self._held[key] = slot
        self._keys_of[slot.allocation_id] = key
        self._vacant.pop(key, None)

    def release(self, keys: Iterable[SlotKey]) -> None:
        """Out of reach for now; what is found in them when they come back may be taken."""
        for key in keys:
            self._held.pop(key, None)
        self._index()

    def start_workers(self, in_spares: bool = False) -> list[ev.Effect]:
        """In the slots that have none."""
        idle = [
            slot for key, slot in self._held.items() if not slot.worker_started and (in_spares or key.group != _SPARE)
        ]
        for slot in idle:
            slot.worker_started = True
        return [ev.StartWorker(slot.allocation_id, slot.task_manager) for slot in idle]

    def worker_readied(self, allocation_id: str, address: str) -> None:
        """Its worker takes tasks, and data at this address."""
        if allocation_id in self._keys_of:
            self._held[self._keys_of[allocation_id]].data_address = address

    def of_allocation(self, allocation_id: str) -> list[SlotKey]:
        """The slices in this slot."""
        return [self._keys_of[allocation_id]] if allocation_id in self._keys_of else []

    def of_task_manager(self, task_manager: str) -> list[SlotKey]:
        """The slices in the slots of this task manager."""
        return [key for key, slot in self._held.items() if slot.task_manager == task_manager]

    def drop(self, keys: Iterable[SlotKey]) -> list[Slot]:
        """These are lost, as far as they are still held."""
        dropped = [self._held.pop(key) for key in keys if key in self._held]
        self._lost.update(slot.allocation_id for slot in dropped)
        self._index()
        return dropped

    def give_back(self, reason: str) -> list[ev.Effect]:
        """All of them."""
        return [free(slot, reason) for slot in self.drop(list(self._held))]

    def place_of(self, execution: Execution | None) -> Place | None:
        """Where an execution runs, if it does."""
        slot = self._held.get(execution.slot_key) if execution is not None else None
        if execution is None or slot is None or not execution.is_deployed:
            return None
        return slot.task_manager, slot.allocation_id, execution


def slot_needs(graph: JobGraph) -> tuple[Resources, Resources]:
    """What each slot of a job needs of its task manager on average, and what the one that needs most.

    Which slot is for which slot sharing group is decided when slots are there, so all count alike.
    """
    slots = graph.slots_by_group()
    asked = [resources for resources in graph.slot_resources if resources.group in slots]
    if not asked:
        return NOTHING, NOTHING
    cores = sum(resources.cpu_cores * slots[resources.group] for resources in asked) / sum(slots.values())
    memory = sum(resources.memory_bytes * slots[resources.group] for resources in asked) // sum(slots.values())
    largest = Resources(max(r.cpu_cores for r in asked), max(r.memory_bytes for r in asked))
    return Resources(cores, memory), largest


def free(slot: Slot, reason: str) -> ev.FreeSlot:
    """Gives one slot back."""
    return ev.FreeSlot(slot.allocation_id, slot.task_manager, reason)
