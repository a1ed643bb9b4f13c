"""Builds a task from its deployment: gates, partitions and the operators between them."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from msgspec.structs import replace

from millstream.core.clock import Clock
from millstream.core.jobs.graph import Exchange
from millstream.core.jobs.plan import plan
from millstream.core.keys.key_groups import key_group_range
from millstream.core.messages import deployment as msg
from millstream.core.messages.sources import Custom, ReaderEvent, Registered, SplitRequest, WatermarkReport
from millstream.core.pickling import load_program
from millstream.core.records.batches import Signal
from millstream.core.records.types import TypeInformation
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import (
    EXECUTION_BATCH_MAX_COLUMN_ROWS,
    EXECUTION_BATCH_MAX_ROWS,
    EXECUTION_BUFFER_TIMEOUT_INTERVAL,
)
from millstream.core.settings.options.metrics import METRICS_HOT_KEYS_ENABLED
from millstream.core.settings.options.scheduling import PIPELINE_OBJECT_REUSE
from millstream.core.settings.options.tasks import (
    BUFFER_DEBLOAT_ENABLED,
    BUFFER_DEBLOAT_PERIOD,
    BUFFER_DEBLOAT_SAMPLES,
    BUFFER_DEBLOAT_TARGET,
    BUFFER_DEBLOAT_THRESHOLD_PERCENTAGES,
    NETWORK_BUFFERS_PER_CHANNEL,
    NETWORK_COMPRESSION_CODEC,
    NETWORK_FLOATING_BUFFERS_PER_GATE,
    NETWORK_OUTPUT_BUFFERS,
    TASKMANAGER_MEMORY_SEGMENT_SIZE,
)
from millstream.core.snapshot.errors import SnapshotError
from millstream.datastream.functions import RuntimeContext
from millstream.taskmanager.worker.checkpointing.in_flight import share_of
from millstream.taskmanager.worker.checkpointing.restoring import RestoredTask, restore_task
from millstream.taskmanager.worker.checkpointing.storages import Storages
from millstream.taskmanager.worker.network.channel_table import ChannelTable
from millstream.taskmanager.worker.network.codecs import ElementCodec
from millstream.taskmanager.worker.network.credit import CreditReceiver
from millstream.taskmanager.worker.network.data_plane import DataPlane
from millstream.taskmanager.worker.network.debloating import Debloater
from millstream.taskmanager.worker.network.frames import Credit
from millstream.taskmanager.worker.network.inputs import InputChannel, InputGate, RemoteInputChannel
from millstream.taskmanager.worker.network.output_channel import OutputChannel
from millstream.taskmanager.worker.network.outputs import LocalOutputChannel, RemoteOutputChannel, ResultPartition
from millstream.taskmanager.worker.network.overtaking import is_overtakable
from millstream.taskmanager.worker.operators.output import Emit
from millstream.taskmanager.worker.operators.setup import TaskServices
from millstream.taskmanager.worker.operators.sources.source import ReaderContext
from millstream.taskmanager.worker.partitioning import make_router
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext
from millstream.taskmanager.worker.state.backend import KeyedStateBackend
from millstream.taskmanager.worker.state.backends import state_backend
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.tasks.chain import ChainBuilder
from millstream.taskmanager.worker.tasks.hot_keys import sketch_of
from millstream.taskmanager.worker.tasks.latencies import Latencies
from millstream.taskmanager.worker.tasks.pacing import Outlet
from millstream.taskmanager.worker.tasks.selectors import selectors_of
from millstream.taskmanager.worker.tasks.task import OperatorMail, Task

_DEBLOAT = "taskmanager.network.memory.buffer-debloat"


def is_debloating(configuration: Configuration) -> bool:
    """Whether tasks limit their in-flight data by what they process."""
    return configuration.get(BUFFER_DEBLOAT_ENABLED)


def _spec(pickled: bytes) -> plan.EdgeSpec:
    spec: plan.EdgeSpec = load_program(pickled, "the type or the partitioner between two tasks")
    return spec


def _leaving(output: msg.ResultPartition) -> plan.EdgeSpec:
    spec = _spec(output.spec)
    return replace(spec, max_parallelism=output.max_parallelism) if output.max_parallelism else spec


class TaskFactory:
    """What is shared by all tasks of a worker when they are built."""

    def __init__(
        self,
        host: str,
        options: dict[str, str],
        data_plane: DataPlane,
        channels: ChannelTable,
        send: Callable[[ReaderEvent | WatermarkReport], None],
        wake_up: Callable[[str], None],
        wake_up_in: Callable[[str, float], None],
        clock: Clock,
        storages: Storages,
        post: Callable[[OperatorMail], None],
    ) -> None:
        self._host = host
        self._options = options
        self._configuration = Configuration(options)
        self._data_plane = data_plane
        self._channels = channels
        self._send = send
        self._wake_up = wake_up
        self._wake_up_in = wake_up_in
        self._clock = clock
        self._storages = storages
        self._post = post
        self._state_backend = state_backend(self._configuration)
        self._looks_for_hot_keys = self._configuration.get(METRICS_HOT_KEYS_ENABLED)
        self._object_reuse = self._configuration.get(PIPELINE_OBJECT_REUSE)
        self.max_rows = self._configuration.get(EXECUTION_BATCH_MAX_ROWS)
        self.max_column_rows = self._configuration.get(EXECUTION_BATCH_MAX_COLUMN_ROWS)

    def connect(self, deployment: msg.TaskDeployment) -> None:
        """Connects to the task's peers, which wait for the connection: called before anything that may take long."""
        peers = {channel.producer_address for gate in deployment.inputs for channel in gate.channels}
        peers |= {channel.consumer_address for output in deployment.outputs for channel in output.channels}
        for peer in peers - {self._data_plane.address}:
            self._data_plane.connect(peer)

    def build(self, task: Task) -> None:
        """Creates the task's channels, state and operators. User code is loaded here for the first time."""
        deployment = task.deployment
        exchanges = {gate.exchange for gate in deployment.inputs} | {output.exchange for output in deployment.outputs}
        assert exchanges <= {Exchange.PIPELINED}, "a job with blocking edges is refused when it is submitted"
        task.gates += [self._gate(gate, len(deployment.inputs)) for gate in deployment.inputs]
        edges = [_leaving(output) for output in deployment.outputs]
        task.partitions += [self._partition(task, *leaving) for leaving in zip(deployment.outputs, edges, strict=True)]
        restored = self._restored(task)
        if restored is not None and restored.finished:
            task.attach_finished(selectors_of((), edges, lambda name: self._context(task, name)))
            self._restore_in_flight(task, edges, restored)
            return
        types: dict[int, TypeInformation] = {gate.input: _spec(gate.spec).type for gate in deployment.inputs}
        builder = ChainBuilder(
            self._services(task, restored),
            task.partitions,
            types,
            [index for index, partition in enumerate(task.partitions) if not partition.passes_references],
            self._object_reuse,
            edges,
            Latencies.of(self._configuration, deployment.subtask, self._clock),
        )
        limited = is_debloating(self._configuration) and task.partitions
        outlet = Outlet(self.max_column_rows, self._configuration.get(BUFFER_DEBLOAT_TARGET) if limited else None)
        task.attach(builder.build(load_program(deployment.chain, f"the code of {deployment.task_name}")), outlet)
        if restored is not None:
            self._restore_in_flight(task, edges, restored)

    def _services(self, task: Task, restored: RestoredTask | None) -> TaskServices:
        attempt_id = task.attempt_id
        return TaskServices(
            make_context=lambda name: self._context(task, name),
            make_reader_context=lambda context: self._reader_context(task, context),
            make_keyed_backend=lambda name, key_type: self._keyed_backend(task, name, key_type),
            make_operator_backend=self._state_backend.operator_backend,
            post=lambda operator_id, mail: self._post(OperatorMail(attempt_id, operator_id, mail)),
            max_rows=self.max_rows,
            max_column_rows=self.max_column_rows,
            options=self._options,
            clock=self._clock,
            restored=restored,
            failed_savepoints=frozenset(task.deployment.failed_savepoints),
            held_up=lambda: task.steps.pacing.held_up,
            report_watermark=lambda alignment, watermark: self._send(
                WatermarkReport(task.deployment.job_id, attempt_id, alignment.group, alignment.max_drift_ms, watermark)
            ),
        )

    def _restored(self, task: Task) -> RestoredTask | None:
        deployment = task.deployment
        if not deployment.restore:
            return None
        storage = self._storages.at(deployment.restore_location)
        return restore_task(deployment, storage, task.checkpoints.copies)

    def _gate(self, gate: msg.InputGate, gates: int) -> InputGate:
        spec = _spec(gate.spec)
        channels: list[InputChannel] = []
        remote: list[RemoteInputChannel] = []
        for c in gate.channels:
            if c.producer_address == self._data_plane.address:
                channels.append(self._channels.local(c.channel_id, c.producer_name))
            else:
                remote.append(RemoteInputChannel(c.channel_id, c.producer_name, c.producer_address))
                channels.append(remote[-1])
            channels[-1].producer_subtask = c.producer_subtask
        exclusive = self._configuration.get(NETWORK_BUFFERS_PER_CHANNEL)
        floating = self._configuration.get(NETWORK_FLOATING_BUFFERS_PER_GATE)
        made = InputGate(
            channels, ElementCodec(spec.type), CreditReceiver([c.channel_id for c in remote], exclusive, floating),
            self._grant, gate.input, (spec.source, spec.name), is_overtakable(spec.partitioner),
            self._debloater(len(channels), exclusive, floating, gates),
            sketch_of(spec.partitioner, spec.type) if self._looks_for_hot_keys else None,
        )  # fmt: skip
        for channel in remote:
            self._channels.add_input(made, channel)
        return made

    def _debloater(self, channels: int, exclusive: int, floating: int, gates: int) -> Debloater | None:
        """The gates of a task share the target duration: what is queued at all of them is processed by one task."""
        options = self._configuration
        if not is_debloating(options):
            return None
        return Debloater(
            channels, exclusive, floating, options.get(BUFFER_DEBLOAT_TARGET) / gates,
            options.get(BUFFER_DEBLOAT_PERIOD), options.get(BUFFER_DEBLOAT_SAMPLES),
            options.get(BUFFER_DEBLOAT_THRESHOLD_PERCENTAGES) / 100,
        )  # fmt: skip

    def _grant(self, channel: InputChannel, buffers: int, rows: int) -> None:
        self._data_plane.send(channel.peer, Credit(channel.channel_id, buffers, rows))

    def _partition(self, task: Task, output: msg.ResultPartition, spec: plan.EdgeSpec) -> ResultPartition:
        segment = self._configuration.get(TASKMANAGER_MEMORY_SEGMENT_SIZE)
        compressed = self._configuration.get(NETWORK_COMPRESSION_CODEC) == "LZ4"
        channels: list[OutputChannel] = []
        for c in output.channels:
            if c.consumer_address == self._data_plane.address:
                channels.append(LocalOutputChannel(c.consumer_name, self._channels.local(c.channel_id, "")))
                continue
            codec = ElementCodec(spec.type)
            remote = RemoteOutputChannel(
                c.channel_id, c.consumer_name, c.consumer_address, codec, segment, compressed, self._data_plane.send,
                self._channels.limit,
            )  # fmt: skip
            self._channels.add_output(remote)
            channels.append(remote)
        timeout = spec.buffer_timeout
        local = [index for index, channel in enumerate(channels) if channel.by_reference]
        seed = zlib.crc32(task.attempt_id.encode())
        return ResultPartition(
            make_router(spec, len(channels), task.deployment.subtask, seed, () if self._object_reuse else local),
            channels,
            self._configuration.get(EXECUTION_BUFFER_TIMEOUT_INTERVAL) if timeout is None else timeout,
            self._configuration.get(NETWORK_OUTPUT_BUFFERS),
            is_overtakable(spec.partitioner),
            (spec.source, spec.name),
        )

    def _restore_in_flight(self, task: Task, edges: list[plan.EdgeSpec], restored: RestoredTask) -> None:
        deployment = task.deployment
        shares = share_of(restored.in_flight(), deployment.subtask, deployment.parallelism)
        ways: dict[str, tuple[Emit, TypeInformation]] = {}
        for spec, partition in zip(edges, task.partitions, strict=True):
            ways[spec.name] = (partition.emit, spec.type)
        ways.update(task.chain.ways())
        if shares.keys() - ways.keys():
            raise SnapshotError(
                deployment.restore_location,
                f"holds records in flight that {deployment.task_name} cannot send on, because the program's graph "
                "has changed since: restore from a savepoint, which holds none",
            )
        for edge, (emit, record_type) in ways.items():
            codec = ElementCodec(record_type)
            batches = [codec.decode(number, payload) for number, payload in shares.get(edge, ())]
            task.restored_in_flight.append((emit, [b for b in batches if not isinstance(b, Signal)]))

    def _keyed_backend(self, task: Task, name: str, key_type: TypeInformation) -> KeyedStateBackend:
        d = task.deployment
        owned = key_group_range(d.subtask, d.max_parallelism, d.parallelism)
        index = KeyGroupIndex(d.max_parallelism, owned)
        backend = self._state_backend.keyed_backend(name, key_type, index, self._clock)
        task.keyed_backends.append(backend)
        return backend

    def _context(self, task: Task, name: str) -> TaskRuntimeContext:
        counts = task.counts
        return TaskRuntimeContext(
            task.deployment, name, self._options, counts.counters, counts.accumulators, counts.functions
        )

    def _reader_context(self, task: Task, context: RuntimeContext) -> ReaderContext:
        d, attempt_id = task.deployment, task.attempt_id

        def send(event: Registered | SplitRequest | Custom) -> None:
            self._send(ReaderEvent(d.job_id, d.vertex_id, d.subtask, event, attempt_id))

        send(Registered())
        return ReaderContext(
            context,
            self._host,
            send,
            lambda: self._wake_up(attempt_id),
            lambda seconds: self._wake_up_in(attempt_id, seconds),
            self._object_reuse,
        )
