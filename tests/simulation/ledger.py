"""What sinks have committed, compared with what jobs read: the output of all jobs, as seen from outside.

A sink writes into transactions, which are pre-committed at a barrier and committed when the checkpoint is complete, or
by the attempt that is restored from it. Whatever crashes:

- a checkpoint that completes is a cut through the job: each record that its sources have read up to there is in exactly
  one place, in a channel, in a timer or in a transaction, and keys were counted as often as records have passed;
- only what a completed checkpoint holds is committed, no record twice, and none that the input does not have;
- a job that has finished has committed all of it, once. Without checkpoints it has committed all of it, at least once.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from inputs import Input, Kind, Row, Split, Token
from simulated_disk import Place, SimulatedDisk
from story import Violation, must
from world import World

from millstream.core.jobs.barriers import Barrier
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import JobId, VertexId
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.snapshot import SnapshotMetadata
from millstream.core.store.checkpoint_pointers import JobPointers
from millstream.core.store.store import Key
from millstream.core.store.store import Kind as StoreKind
from millstream.jobmanager.snapshot_content import enumerator_states

COUNTING = b"counts"
"""The code of the vertex that counts records by key, and sets timers."""


@dataclass(eq=False, slots=True)
class Transaction:
    """Of one attempt of one sink."""

    number: int
    place: Place
    attempt: int
    status: str = "open"
    rows: list[Row] = field(default_factory=list)

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.place} with {len(self.rows)} records"


class JobOutput:
    """Of one job: what it reads, and what is known of what it wrote."""

    def __init__(self, graph: JobGraph, given: Input) -> None:
        self.job_id = graph.job_id
        self.graph = graph
        self.given = given
        self.takes_checkpoints = "execution.checkpointing.interval" in graph.configuration
        self.counting = next((place for place, v in enumerate(graph.vertices) if v.chain == COUNTING), None)
        self.has_run_twice = False
        self.completed: set[int] = set()
        self.held: set[int] = set()
        """Transactions that are part of a completed checkpoint."""
        self.transactions: dict[int, Transaction] = {}
        self.committed: dict[Token, Transaction] = {}
        self.counted: dict[tuple[int, int], Token] = {}
        self.deployed: set[Place] = set()

    @property
    def counts(self) -> bool:
        return self.counting is not None

    def begin(self, place: Place, attempt: int) -> Transaction:
        number = len(self.transactions)
        begun = self.transactions[number] = Transaction(number, place, attempt)
        return begun

    def left_by(self, place: Place, attempt: int) -> list[Transaction]:
        """What earlier attempts of a subtask have not committed."""
        mine = (t for t in self.transactions.values() if t.place == place and t.attempt < attempt)
        return [transaction for transaction in mine if transaction.status != "committed"]

    def abort(self, transaction: Transaction) -> None:
        """Without checkpoints, the end commits; a rescale that meets it goes back to before, and writes again."""
        may_be = transaction.status != "committed" or not self.takes_checkpoints
        must(may_be, f"{transaction} is aborted after it was committed", self.job_id)
        transaction.status = "aborted"

    def commit(self, transaction: Transaction) -> None:
        """To users, its records are there now."""
        job_id = self.job_id
        must(transaction.status != "aborted", f"{transaction} is committed after it was aborted", job_id)
        must(transaction.status != "open", f"{transaction} is committed before its barrier", job_id)
        transaction.status = "committed"
        if not self.takes_checkpoints:
            self.committed.update((row.token, transaction) for row in transaction.rows)
            return
        held = transaction.number in self.held
        must(held, f"{transaction} is committed, and no completed checkpoint holds it", job_id)
        for row in transaction.rows:
            token = row.token
            must(self.given.holds(token), f"{transaction} has {token}, which is not in the input", job_id)
            before = self.committed.setdefault(token, transaction)
            must(before is transaction, f"{token} is committed twice: in {before} and in {transaction}", job_id)
            if self.counts and token.kind is Kind.READ:
                same = self.counted.setdefault((token.key, row.count), token)
                must(same == token, f"key {token.key} has the count {row.count} twice: {same} and {token}", job_id)

    def finished(self) -> None:
        """To users the job has finished: all that it had to write is there, and counted in order."""
        whole = (token for split in self.given.whole() for token in self.given.read(split))
        wanted = set(self.given.outputs(list(whole), self.counts))
        missing = wanted - self.committed.keys()
        words = f"job {self.job_id} has finished, and has not committed"
        some = f"{len(missing)} of {len(wanted)} records, such as {min(missing, default=None)}"
        must(not missing, f"{words} {some}", self.job_id)
        if self.takes_checkpoints and self.counts:
            of_keys = Counter(token.key for token in wanted if token.kind is Kind.READ)
            counts = {(key, number) for key, most in of_keys.items() for number in range(1, most + 1)}
            must(self.counted.keys() == counts, f"{words} these counts: {counts - self.counted.keys()}", self.job_id)
        if not self.has_run_twice:
            rows = [row.token for t in self.transactions.values() if t.status == "committed" for row in t.rows]
            number = f"{len(rows)} records and not {len(wanted)}"
            must(len(rows) == len(wanted), f"job {self.job_id} has committed {number}, and some twice", self.job_id)


class Ledger:
    """Watches the store for completed checkpoints, and receives all commits."""

    def __init__(self, world: World, disk: SimulatedDisk) -> None:
        self._world = world
        self._disk = disk
        self._outputs: dict[JobId, JobOutput] = {}
        self._taken: dict[tuple[JobId, int], Barrier] = {}
        self._pointers: dict[str, JobPointers] = {}
        self.commits = 0

    def submitted(self, graph: JobGraph, given: Input) -> None:
        self._outputs[graph.job_id] = JobOutput(graph, given)

    def output(self, job_id: JobId) -> JobOutput:
        return self._outputs[job_id]

    def deployed(self, deployment: TaskDeployment) -> None:
        """One that runs its tasks again writes again what it wrote, if it takes no checkpoints."""
        output, place = self._outputs[deployment.job_id], (deployment.vertex_id, deployment.subtask)
        output.has_run_twice |= place in output.deployed
        output.deployed.add(place)

    def stored(self, key: Key, value: bytes | None) -> None:
        """A write to the store took effect."""
        if key.kind is not StoreKind.CHECKPOINTS:
            return
        if value is None:
            self._pointers.pop(key.name, None)
            return
        stored = self._pointers[key.name] = JobPointers.from_bytes(value)
        output = self._outputs[JobId(key.name)]
        for pointer in stored.pointers:
            if pointer.checkpoint_id not in output.completed:
                output.completed.add(pointer.checkpoint_id)
                self._world.tell(f"checkpoint {pointer.checkpoint_id} of job {key.name} is complete")
                metadata = self._disk.metadata(pointer.location)
                why = f"the pointer to checkpoint {pointer.checkpoint_id} was stored before its metadata"
                must(metadata is not None, why, key.name)
                if metadata is not None and output.takes_checkpoints:
                    self._check_cut(output, metadata, pointer.location)

    def is_current(self, job_id: JobId, place: Place, attempt: int) -> bool:
        """Whether the job is running and this is the subtask's latest attempt; a late deployment is neither."""
        stored = self._pointers.get(job_id)
        return stored is not None and attempt == stored.attempt(*place)

    def takes(self, job_id: JobId, barrier: Barrier) -> None:
        """A task takes a snapshot: an id stands for one checkpoint of its job under all leaders."""
        known = self._taken.setdefault((job_id, barrier.checkpoint_id), barrier)
        same = known.timestamp == barrier.timestamp and known.location == barrier.location
        must(same, f"the id {barrier.checkpoint_id} has come twice: {known} and {barrier}", job_id)

    def commit(self, job_id: JobId, transaction: Transaction) -> None:
        """What is committed already stays so."""
        if transaction.status != "committed":
            self._world.tell(f"job {job_id} commits {transaction}")
            self._outputs[job_id].commit(transaction)
            self.commits += 1

    def job_finished(self, job_id: JobId) -> None:
        self._outputs[job_id].finished()

    # A completed checkpoint

    def _check_cut(self, output: JobOutput, metadata: SnapshotMetadata, location: str) -> None:
        states = _States(self._disk, metadata, location)
        of_checkpoint = f"checkpoint {metadata.checkpoint_id} of job {output.job_id}"
        held = [transaction for _, transaction in states.elements(StateKind.SINK_TRANSACTIONS, "pre-committed")]
        output.held.update(transaction.number for transaction in held)
        in_flight = states.in_flight([vertex.id for vertex in output.graph.vertices])
        if output.counting is None:
            uncounted: list[Token] = []
        else:
            uncounted = [row.token for place, row in in_flight if place < output.counting]
        counted = Counter(self._emitted(output, metadata, states, of_checkpoint))
        expected = Counter(output.given.outputs(list(counted), output.counts))
        expected.subtract(token._replace(kind=Kind.TIMED) for token in uncounted if output.counts and token.has_timer)
        found = Counter(row.token for _, row in in_flight)
        found.update(states.keyed(StateKind.TIMERS).keys())
        found.update(row.token for held_ in held if held_.status != "committed" for row in held_.rows)
        found.update(output.committed.keys())
        expected = +expected
        if found != expected:
            lost, more = sorted((expected - found).elements()), sorted((found - expected).elements())
            what = f"lost are {len(lost)} {lost[:3]}, and too many are {len(more)} {more[:3]}"
            raise Violation(f"{of_checkpoint} is no cut: {what}", output.job_id)
        if output.counting is not None:
            self._check_counts(output, states, counted - Counter(uncounted), of_checkpoint)

    def _emitted(
        self, output: JobOutput, metadata: SnapshotMetadata, states: _States, of_checkpoint: str
    ) -> list[Token]:
        """The records that were read up to the checkpoint: of splits that no reader or enumerator holds, all."""
        pending: list[Split] = [
            split for state in enumerator_states(output.graph, metadata).values() for split in pickle.loads(state)
        ]
        reading: list[Split] = states.elements(StateKind.SPLITS)
        held = Counter(split.number for split in (*pending, *reading))
        twice = [number for number, times in held.items() if times > 1]
        must(not twice, f"{of_checkpoint} holds the splits {twice} twice: {pending} and {reading}", output.job_id)
        positions = {split.number: split.offset for split in (*pending, *reading)}
        given = output.given
        return [token for split in given.whole() for token in given.read(split, positions.get(split.number))]

    def _check_counts(self, output: JobOutput, states: _States, passed: Counter[Token], of_checkpoint: str) -> None:
        """Those of subtasks that had finished are gone with them."""
        wanted = Counter(token.key for token in passed.elements())
        counts = states.keyed(StateKind.VALUE)
        for key, count in counts.items():
            same = f"{count} of key {key}, and not {wanted[key]}"
            must(wanted[key] == count, f"{of_checkpoint} counts {same}", output.job_id)


class _States:
    """All that the files of a snapshot hold."""

    def __init__(self, disk: SimulatedDisk, metadata: SnapshotMetadata, location: str) -> None:
        self._of_kind: dict[StateKind, list[tuple[str, Any]]] = {}
        self._where = f"checkpoint {metadata.checkpoint_id} of job {metadata.job_id}"
        self._job_id = metadata.job_id
        for operator in metadata.operators:
            for state in operator.states:
                of_kind = self._of_kind.setdefault(state.kind, [])
                of_kind += ((operator.operator_id, disk.read_file(location, file)) for file in state.files)

    def elements(self, kind: StateKind, only: str = "") -> list[Any]:
        found = [element for _, elements in self._of_kind.get(kind, ()) for element in elements]
        return [element for element in found if element[0] == only] if only else found

    def keyed(self, kind: StateKind) -> dict[Any, Any]:
        """By key. No key is in two files."""
        entries: dict[Any, Any] = {}
        for _, part in self._of_kind.get(kind, ()):
            twice = entries.keys() & part.keys()
            must(not twice, f"{self._where} has the {kind.value} of {twice} twice", self._job_id)
            entries.update(part)
        return entries

    def in_flight(self, vertices: Collection[VertexId]) -> list[tuple[int, Row]]:
        """With the place of the vertex that sent it."""
        place = {str(vertex): index for index, vertex in enumerate(vertices)}
        return [
            (place[operator], row)
            for operator, elements in self._of_kind.get(StateKind.IN_FLIGHT, ())
            for _, _, _, rows in elements
            for row in rows
        ]
