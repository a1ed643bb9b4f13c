"""What sinks have committed: the output of all jobs, as somebody outside sees it.

A sink subtask of a job with checkpoints writes one epoch after the other. An epoch is pre-committed with a checkpoint,
in a transaction of the attempt that wrote it, and committed when that is complete, or by who is restored from it. So at
any time, whatever crashes: an epoch is committed only after a checkpoint that holds it is complete; never in two
transactions; and never before the one ahead of it. In the end a job that has finished has committed its last one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simulated_disk import Place, SimulatedDisk
from story import must
from world import World

from millstream.core.jobs.ids import AttemptId, JobId
from millstream.core.messages.checkpoints import CheckpointOptions
from millstream.core.store.checkpoint_pointers import JobPointers
from millstream.core.store.store import Key, Kind


@dataclass(frozen=True, slots=True)
class Transaction:
    """One epoch, as one attempt wrote it, up to the barrier of a checkpoint. Any that completes later holds it."""

    epoch: int
    attempt: AttemptId
    checkpoint_id: int
    is_last: bool


@dataclass(frozen=True, slots=True)
class SinkState:
    """What a checkpoint holds of a sink subtask."""

    next_epoch: int = 0
    pre_committed: tuple[Transaction, ...] = ()
    has_ended: bool = False


class Ledger:
    """Watches the store for checkpoints that are completed, and is told what is committed."""

    def __init__(self, world: World, disk: SimulatedDisk) -> None:
        self._world = world
        self._disk = disk
        self._completed: dict[str, set[int]] = {}
        self._committed: dict[tuple[JobId, Place], list[Transaction]] = {}
        self._taken: dict[tuple[JobId, int], CheckpointOptions] = {}
        self._pointers: dict[str, JobPointers] = {}
        self.commits = 0

    def stored(self, key: Key, value: bytes | None) -> None:
        """A write to the store took effect."""
        if key.kind is not Kind.CHECKPOINTS:
            return
        if value is None:
            self._pointers.pop(key.name, None)
            return
        stored = self._pointers[key.name] = JobPointers.from_bytes(value)
        completed = self._completed.setdefault(key.name, set())
        for pointer in stored.pointers:
            if pointer.checkpoint_id not in completed:
                completed.add(pointer.checkpoint_id)
                self._world.tell(f"checkpoint {pointer.checkpoint_id} of job {key.name} is complete")
                must(
                    self._disk.has_metadata(pointer.location),
                    f"the pointer to checkpoint {pointer.checkpoint_id} was stored before its metadata",
                    key.name,
                )

    def is_current(self, job_id: JobId, place: Place, attempt: int) -> bool:
        """Whether the job goes on, and this is the subtask's latest attempt: not so when who deploys it was slow."""
        stored = self._pointers.get(job_id)
        return stored is not None and attempt == stored.attempt(*place)

    def takes(self, job_id: JobId, options: CheckpointOptions) -> None:
        """A task takes a snapshot: an id stands for one checkpoint of its job, whoever leads that."""
        known = self._taken.setdefault((job_id, options.checkpoint_id), options)
        same = known.timestamp == options.timestamp and known.location == options.location
        must(same, f"the id {options.checkpoint_id} has come twice: {known} and {options}", job_id)

    def commit(self, job_id: JobId, place: Place, checkpoint_id: int, transactions: Iterable[Transaction]) -> None:
        """The sink commits what the checkpoint holds; what is committed already, in the same transaction, stays so."""
        committed = self._committed.setdefault((job_id, place), [])
        for transaction in transactions:
            self._world.tell(f"job {job_id} {place} commits {transaction}")
            epoch = transaction.epoch
            complete = checkpoint_id in self._completed.get(job_id, ())
            must(complete, f"{place} commits what checkpoint {checkpoint_id} holds, which is not complete", job_id)
            if epoch < len(committed):
                before = committed[epoch]
                must(before == transaction, f"{place} commits epoch {epoch} twice: {before}, {transaction}", job_id)
                continue
            must(epoch == len(committed), f"{place} commits epoch {epoch} and not {len(committed)}", job_id)
            ended = bool(committed) and committed[-1].is_last
            must(not ended, f"{place} commits epoch {epoch} after its last one", job_id)
            committed.append(transaction)
            self.commits += 1

    def job_finished(self, job_id: JobId, places: Iterable[Place]) -> None:
        """To users the job has finished: all that it wrote is there."""
        for place in places:
            committed = self._committed.get((job_id, place), [])
            is_all = bool(committed) and committed[-1].is_last
            must(is_all, f"job {job_id} has finished, and {place} has not committed its last epoch", job_id)
