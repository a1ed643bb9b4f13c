"""Builds the operators of a task from its chain and connects them: each emits directly into the next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from operator import length_hint

from millstream.core.jobs.plan import plan
from millstream.core.jobs.state_kinds import KEYED, OPERATOR
from millstream.core.processes.forking import leave_if_forked
from millstream.core.records.adoption import Adopt, adopter
from millstream.core.records.batches import Batch, LatencyMarker, RowBatch, StreamSignal
from millstream.core.records.copying import is_immutable_type
from millstream.core.records.exact_values import InexactError
from millstream.core.records.handover import Handover
from millstream.core.records.types import PICKLED, TypeInformation
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import CHECKPOINTING_UNALIGNED_ENABLED
from millstream.taskmanager.worker.consumers import Consumers
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import Operator, OperatorError
from millstream.taskmanager.worker.operators.batch.held_input import in_order
from millstream.taskmanager.worker.operators.output import Emit, LocalOutput, Output, Passed, Send
from millstream.taskmanager.worker.operators.setup import OperatorSetup, TaskServices
from millstream.taskmanager.worker.tasks.latencies import Latencies
from millstream.taskmanager.worker.tasks.selectors import Selector, selectors_of

UNALIGNED = CHECKPOINTING_UNALIGNED_ENABLED


class OperatorChain:
    """The operators of one task, in topological order. Opened and closed from the last to the first, as in Flink."""

    def __init__(
        self,
        operators: list[Operator],
        specs: Sequence[plan.ChainedOperator],
        restored_checkpoint_id: int | None = None,
        selectors: Sequence[Selector] = (),
        passed: Sequence[Mapping[str | None, Passed]] = (),
        latencies: Latencies | None = None,
    ) -> None:
        self.latencies = latencies
        self.passed = passed
        """For each operator, what has left through its outputs, by their tags."""
        self.operators = operators
        self.specs = specs
        self.ids = [spec.operator_id for spec in specs]
        self._restored_checkpoint_id = restored_checkpoint_id
        self._selectors = selectors
        self._finished = 0
        self.source = operators[0] if operators and specs[0].spec.inputs == 0 else None
        """The operator that is polled, if the task has no inputs."""
        self.sinks = [operator for operator, spec in zip(operators, specs, strict=True) if spec.spec.is_sink]
        self.bounded = self._overriding(Operator.has_room)
        self.draining = self._overriding(Operator.is_drained)
        self.timed = self._overriding(Operator.on_time)

    @property
    def head(self) -> Operator:
        """The operator that takes the task's input."""
        return self.operators[0]

    def signal(self, signal: StreamSignal, input_index: int) -> None:
        """Delivers a signal of one of the task's inputs to the operators, if there are any."""
        if self.operators:
            if self.latencies is not None and isinstance(signal, LatencyMarker):
                self.latencies.arrived(self.ids[0], signal)
            self.head.on_signal(signal, input_index)

    def mark(self, now: float) -> float | None:
        """Has the source emit a latency marker if one is due; returns when to call this method again, if at all."""
        if self.latencies is None or self.source is None:
            return None
        return self.latencies.mark(self.ids[0], self.source.output.signal, now)

    @cached_property
    def entered(self) -> list[list[Passed]]:
        """For each operator, what reaches it from others of the chain, counted at their outputs."""
        entered: list[list[Passed]] = [[] for _ in self.specs]
        for spec, passed in zip(self.specs, self.passed, strict=True):
            for edge in spec.outputs:
                if edge.operator is not None:
                    entered[edge.operator].append(passed[edge.tag])
        return entered

    def records_into(self, operator: int, taken: int) -> int:
        """The number of records that have reached an operator; for the first, those that the task has taken."""
        return sum(passed.records for passed in self.entered[operator]) if operator else taken

    @property
    def holds_back(self) -> bool:
        """Whether there are records of the task's input that no function has processed yet."""
        return bool(self.operators) and self.head.holds_back

    def ways(self) -> dict[str, tuple[Emit, TypeInformation]]:
        """How records travel on the edges inside of the chain, and their types, by the edges' names.

        The last edges come first: what is in flight there is ahead of what is in flight to them.
        """
        return {
            output.edge: (self.operators[output.operator].process, spec.type_of(output))
            for spec in reversed(self.specs)
            for output in spec.outputs
            if output.operator is not None
        }

    def open(self) -> None:
        """Opens consumers before producers, and before all of them what determines the keys of records."""
        for selector in self._selectors:
            selector.open()
        for operator in reversed(self.operators):
            operator.initialize_state(self._restored_checkpoint_id)
            operator.open()

    def finish(self) -> bool:
        """Finishes producers before consumers: what one emits at its end, the next still processes.

        Stops before an operator that waits for results, and continues there in the next call; returns whether all are
        finished.
        """
        for operator in self.operators[self._finished :]:
            if not operator.is_settled:
                return False
            operator.finish()
            self._finished += 1
        return True

    def close(self) -> list[BaseException]:
        """Closes all operators, even if some raise; returns the errors raised."""
        errors: list[BaseException] = []
        opened: list[Operator | Selector] = [*reversed(self.operators), *self._selectors]
        for one in opened:
            try:
                one.close()
            except TaskInterrupted:
                raise
            except BaseException as error:
                errors.append(error)
        return errors

    def _overriding(self, hook: Callable[..., object] | property) -> list[Operator]:
        """The operators that override a hook of `Operator`."""
        name = (hook.fget if isinstance(hook, property) else hook).__name__  # type: ignore[union-attr]  # it has a getter
        return [operator for operator in self.operators if getattr(type(operator), name) is not hook]


class ChainBuilder:
    """Builds the chain of one task, which ends at `outputs`; those marked `remote` only encode their records.

    `input_types` are those that are known of the inputs of its head. `edges` are the edges of the outputs, whose
    partitioners route the records.
    """

    def __init__(
        self,
        services: TaskServices,
        outputs: Sequence[Output],
        input_types: Mapping[int, TypeInformation],
        remote: Collection[int] = (),
        object_reuse: bool = False,
        edges: Sequence[plan.EdgeSpec] = (),
        latencies: Latencies | None = None,
    ) -> None:
        self._services = services
        self._latencies = latencies
        self._outputs = outputs
        self._task_types = input_types
        self._remote = remote
        self._object_reuse = object_reuse
        self._keeps_times = Configuration(services.options).get(UNALIGNED)
        self._edges = edges

    def build(self, chain: plan.Chain) -> OperatorChain:
        """Builds consumers first, so that every producer finds where to emit."""
        specs, restored = chain.operators, self._services.restored
        input_types = self._input_types(chain)
        built: dict[int, Operator] = {}
        passed: dict[int, dict[str | None, Passed]] = {}
        for index in reversed(range(len(specs))):
            chained = specs[index]
            tags = {output.tag for output in chained.outputs}
            passed[index] = {tag: Passed() for tag in {None, *tags}}
            setup = self._setup(chained, input_types[index], built, passed[index], specs)
            operator = in_order(setup, chained)
            if restored is not None:
                for kind in chained.spec.held_state() - KEYED - OPERATOR:
                    operator.restore(restored.elements(chained.operator_id, kind))
            built[index] = operator
        checkpoint_id = None if restored is None else restored.checkpoint_id
        selectors = selectors_of(specs, self._edges, self._services.make_context)
        order = range(len(specs))
        operators, left = [built[i] for i in order], [passed[i] for i in order]
        return OperatorChain(operators, specs, checkpoint_id, selectors, left, self._latencies)

    def _setup(
        self,
        chained: plan.ChainedOperator,
        input_types: tuple[TypeInformation, ...],
        built: dict[int, Operator],
        passed: Mapping[str | None, Passed],
        specs: Sequence[plan.ChainedOperator],
    ) -> OperatorSetup:
        context = self._services.make_context(chained.name)
        context.operator_id = chained.operator_id
        outputs = {tag: self._output(chained, tag, built, count, specs) for tag, count in passed.items()}
        sides = {tag: output for tag, output in outputs.items() if tag is not None}
        return OperatorSetup(
            self._services, chained.operator_id, chained.name, context, input_types,
            outputs[None], sides,
            Handover(self._copies(chained)), chained.output_type,
        )  # fmt: skip

    def _input_types(self, chain: plan.Chain) -> list[tuple[TypeInformation, ...]]:
        types = [
            tuple([self._task_types.get(number, PICKLED) for number in range(chained.spec.inputs)])
            for chained in chain.operators
        ]
        for chained in chain.operators:
            for output in chained.outputs:
                if output.operator is not None:
                    types[output.operator] = (chained.type_of(output),)
        return types

    def _copies(self, chained: plan.ChainedOperator) -> bool:
        """Whether the operator's records may have to be copied, which their declared types may rule out."""
        if self._object_reuse or not chained.spec.keeps_records():
            return False
        types = [chained.type_of(output) for output in chained.outputs]
        return chained.spec.makes_columns or not all(map(is_immutable_type, types))

    def _output(
        self, chained: plan.ChainedOperator, tag: str | None, built: dict[int, Operator], passed: Passed,
        specs: Sequence[plan.ChainedOperator],
    ) -> Output:  # fmt: skip
        consumers = Consumers(chained.name)
        targets: list[Send] = []
        copies = False
        adopt: Adopt | None = None
        for output in chained.outputs:
            if output.tag != tag:
                continue
            adopt = adopter(chained.type_of(output))
            copies = not self._object_reuse and not is_immutable_type(chained.type_of(output))
            if output.operator is not None:
                consumer = built[output.operator]
                targets.append(self._timed(specs[output.operator].operator_id, consumer.on_signal))
                process = self._as_timed(output, consumer.process)
                (consumers.readers if consumer.only_reads else consumers.owners).append(process)
            else:
                assert output.output is not None
                leaving = self._outputs[output.output]
                targets.append(leaving.signal)
                leave = self._as_timed(output, leaving.emit)
                (consumers.encoders if output.output in self._remote else consumers.owners).append(leave)
        emit = _in_slices(consumers.emit(copies), self._services.max_rows, passed)
        return LocalOutput(emit if adopt is None else _adopting(emit, adopt, chained.name), targets, passed)

    def _timed(self, operator_id: str, target: Send) -> Send:
        return target if self._latencies is None else self._latencies.timed(operator_id, target)

    def _as_timed(self, output: plan.ChainedOutput, target: Emit) -> Emit:
        """Drops timestamps where no operator uses them.

        Not with unaligned checkpoints: they hold in-flight records, and a changed program may use their timestamps.
        """
        if output.timed or self._keeps_times:
            return target
        return lambda batch: target(batch.without_timestamps())


def _adopting(target: Emit, adopt: Adopt, operator_name: str) -> Emit:
    """Converts records to their declared type before they are emitted."""

    def emit(batch: Batch) -> None:
        if isinstance(batch, RowBatch):
            source = iter(batch.rows)
            try:
                batch = batch.with_rows(list(map(adopt, source)))
            except InexactError as error:
                record = batch.rows[len(batch) - length_hint(source) - 1]
                raise OperatorError(operator_name, record, error) from error
        target(batch)

    return emit


def _in_slices(target: Emit, max_rows: int, passed: Passed) -> Emit:
    """Splits the large batches that a flat map or a process function may emit; what a forked child emits is dropped."""
    most = 4 * max_rows

    def emit(batch: Batch) -> None:
        leave_if_forked()
        rows = len(batch)
        passed.records += rows
        if rows <= most or batch.in_columns:
            target(batch)
            return
        for start in range(0, rows, max_rows):
            target(batch.slice(start, start + max_rows))

    return emit
