"""Builds the operators of a task from its chain and wires them: each emits straight into the next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import length_hint
from typing import assert_never

from millstream.core import plan
from millstream.core.adoption import Adopt, adopter
from millstream.core.batches import Batch, RowBatch
from millstream.core.copying import is_immutable_type
from millstream.core.exact_values import InexactError
from millstream.core.forking import leave_if_forked
from millstream.core.handover import Handover
from millstream.core.types import PICKLED, TypeInformation
from millstream.datastream.checkpointed import CheckpointedFunction
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink
from millstream.datastream.functions import RuntimeContext
from millstream.taskmanager.checkpointing.restoring import RestoredTask
from millstream.taskmanager.consumers import Consumers
from millstream.taskmanager.interruption import TaskInterrupted
from millstream.taskmanager.operators.base import Emit, FunctionOperator, Operator, OperatorError
from millstream.taskmanager.operators.broadcast_process import BroadcastProcessOperator
from millstream.taskmanager.operators.collect import CollectOperator
from millstream.taskmanager.operators.committing_sink import CommittingSinkOperator
from millstream.taskmanager.operators.functional import FilterOperator, FlatMapOperator, MapOperator
from millstream.taskmanager.operators.map_batches import MapBatchesOperator
from millstream.taskmanager.operators.process import ProcessOperator
from millstream.taskmanager.operators.reduce import ReduceOperator
from millstream.taskmanager.operators.sinks import SinkOperator
from millstream.taskmanager.operators.source import ReaderContext, SourceOperator
from millstream.taskmanager.operators.transactions import recovery
from millstream.taskmanager.operators.two_input import (
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    TwoInputOperator,
)
from millstream.taskmanager.runtime_context import TaskRuntimeContext
from millstream.taskmanager.state.backend import KeyedStateBackend, OperatorStateBackend
from millstream.taskmanager.state.heap import HeapOperatorStateBackend


class OperatorChain:
    """The operators of one task, in topological order. Opened and closed from the last to the first, as Flink does."""

    def __init__(
        self,
        operators: list[Operator],
        specs: Sequence[plan.ChainedOperator],
        restored_checkpoint_id: int | None = None,
    ) -> None:
        self.operators = operators
        self.specs = specs
        self.ids = [spec.operator_id for spec in specs]
        self._restored_checkpoint_id = restored_checkpoint_id

    @property
    def head(self) -> Operator:
        """The one that takes the task's input."""
        return self.operators[0]

    def input(self, index: int) -> Emit:
        """Where batches of the task's first or second input go."""
        if index == 0:
            return self.head.process
        assert isinstance(self.head, TwoInputOperator), "only an operator of two inputs has a second one"
        return self.head.process2

    def ways(self) -> dict[str, tuple[Emit, TypeInformation]]:
        """How records travel on the edges inside of the chain, and of which type they are, by the edges' names.

        The last edges come first: what is on its way there was ahead of what is on its way to them.
        """
        return {
            output.edge: (self.operators[output.operator].process, spec.type_of(output))
            for spec in reversed(self.specs)
            for output in spec.outputs
            if output.operator is not None
        }

    def open(self) -> None:
        """Consumers before producers."""
        for operator in reversed(self.operators):
            operator.initialize_state(self._restored_checkpoint_id)
            operator.open()

    def finish(self) -> None:
        """Producers before consumers: what one emits at its end, the next still processes."""
        for operator in self.operators:
            operator.finish()

    def close(self) -> list[BaseException]:
        """Closes all, whatever happens; answers what went wrong."""
        errors: list[BaseException] = []
        for operator in reversed(self.operators):
            try:
                operator.close()
            except TaskInterrupted:
                raise
            except BaseException as error:
                errors.append(error)
        return errors


class ChainBuilder:
    """What a task hands in to have its chain built."""

    def __init__(
        self,
        task_outputs: list[Emit],
        input_type: TypeInformation,
        make_context: Callable[[str], TaskRuntimeContext],
        make_reader_context: Callable[[RuntimeContext], ReaderContext],
        make_backend: Callable[[str, TypeInformation], KeyedStateBackend],
        max_rows: int,
        max_column_rows: int,
        second_input_type: TypeInformation = PICKLED,
        make_operator_backend: Callable[[str], OperatorStateBackend] = HeapOperatorStateBackend,
        restored: RestoredTask | None = None,
        failed_savepoints: Collection[int] = (),
        remote_outputs: Collection[int] = (),
        object_reuse: bool = False,
    ) -> None:
        self._task_outputs = task_outputs
        self._input_type = input_type
        self._second_input_type = second_input_type
        self._make_operator_backend = make_operator_backend
        self._make_context = make_context
        self._make_reader_context = make_reader_context
        self._make_backend = make_backend
        self._max_rows = max_rows
        self._max_column_rows = max_column_rows
        self._restored = restored
        self._failed_savepoints = failed_savepoints
        self._remote_outputs = remote_outputs
        self._object_reuse = object_reuse

    def build(self, chain: plan.Chain) -> OperatorChain:
        """Builds consumers first, so that every producer finds where to emit."""
        specs = chain.operators
        input_types = self._input_types(chain)
        built: dict[int, Operator] = {}
        for index in reversed(range(len(specs))):
            chained = specs[index]
            operator = self._operator(chained, input_types[index], self._emit(chained, None, built))
            operator.handover = Handover(self._copies(chained, operator))
            self._give_operator_state(chained, operator)
            for tag in {output.tag for output in chained.outputs} - {None}:
                assert tag is not None
                operator.emit_side[tag] = self._emit(chained, tag, built)
            built[index] = operator
        checkpoint_id = None if self._restored is None else self._restored.checkpoint_id
        return OperatorChain([built[i] for i in range(len(specs))], specs, checkpoint_id)

    def _input_types(self, chain: plan.Chain) -> list[TypeInformation]:
        types = [self._input_type] * len(chain.operators)
        for chained in chain.operators:
            for output in chained.outputs:
                if output.operator is not None:
                    types[output.operator] = chained.type_of(output)
        return types

    def _copies(self, chained: plan.ChainedOperator, operator: Operator) -> bool:
        """Whether the operator's records may have to be copied, which their declared types may rule out."""
        if self._object_reuse or (isinstance(operator, SourceOperator) and not operator.keeps_records):
            return False
        types = [chained.type_of(output) for output in chained.outputs]
        return operator.makes_columns or not all(map(is_immutable_type, types))

    def _emit(self, chained: plan.ChainedOperator, tag: str | None, built: dict[int, Operator]) -> Emit:
        consumers = Consumers(chained.name)
        copies = False
        adopt: Adopt | None = None
        for output in chained.outputs:
            if output.tag != tag:
                continue
            adopt = adopter(chained.type_of(output))
            copies = not self._object_reuse and not is_immutable_type(chained.type_of(output))
            if output.operator is not None:
                consumer = built[output.operator]
                (consumers.readers if consumer.only_reads else consumers.owners).append(consumer.process)
            else:
                assert output.output is not None
                is_remote = output.output in self._remote_outputs
                (consumers.encoders if is_remote else consumers.owners).append(self._task_outputs[output.output])
        emit = _in_slices(consumers.emit(copies), self._max_rows)
        return emit if adopt is None else _adopting(emit, adopt, chained.name)

    def _give_operator_state(self, chained: plan.ChainedOperator, operator: Operator) -> None:
        if isinstance(operator, FunctionOperator) and isinstance(operator.function, CheckpointedFunction):
            operator.operator_state = operator.operator_state or self._make_operator_backend(chained.name)
        if isinstance(operator, CommittingSinkOperator):
            operator.failed_savepoints = self._failed_savepoints
        if self._restored is None:
            return
        if operator.operator_state is not None:
            operator.operator_state.restore(self._restored.operator_state(chained.operator_id))
        if isinstance(operator, SourceOperator):
            operator.restored_splits = self._restored.splits(chained.operator_id)
        if isinstance(operator, CommittingSinkOperator):
            operator.restored = recovery(*self._restored.transactions(chained.operator_id))

    def _operator(self, chained: plan.ChainedOperator, input_type: TypeInformation, emit: Emit) -> Operator:
        name, spec = chained.name, chained.spec
        context = self._make_context(name)
        context.operator_id = chained.operator_id
        common = (name, context, input_type, emit)
        match spec:
            case plan.SourceSpec(source):
                most = self._max_column_rows if source.produces_columns() else self._max_rows
                reader_context = self._make_reader_context(context)
                return SourceOperator(name, context, chained.output_type, emit, source, reader_context, most)
            case plan.MapSpec(function):
                return MapOperator(*common, function)
            case plan.FlatMapSpec(function):
                return FlatMapOperator(*common, function)
            case plan.FilterSpec(function):
                return FilterOperator(*common, function)
            case plan.ProcessSpec(function):
                return ProcessOperator(*common, function)
            case plan.KeyedProcessSpec(function, selector):
                return ProcessOperator(*common, function, selector, self._keyed_state(chained, context, spec.key_type))
            case plan.ReduceSpec():
                return ReduceOperator(*common, spec, self._keyed_state(chained, context, spec.key_type))
            case plan.CoMapSpec():
                state = self._shared_state(chained, context, spec.keys)
                return CoMapOperator(*common, self._second_input_type, spec, state)
            case plan.CoFlatMapSpec():
                state = self._shared_state(chained, context, spec.keys)
                return CoFlatMapOperator(*common, self._second_input_type, spec, state)
            case plan.CoProcessSpec():
                state = self._shared_state(chained, context, spec.keys)
                return CoProcessOperator(*common, self._second_input_type, spec, state)
            case plan.BroadcastProcessSpec():
                state = self._shared_state(chained, context, spec.keys)
                operator_state = self._make_operator_backend(name)
                return BroadcastProcessOperator(*common, self._second_input_type, spec, operator_state, state)
            case plan.MapBatchesSpec(function, batch_format):
                return MapBatchesOperator(*common, function, batch_format)
            case plan.SinkSpec(sink):
                if isinstance(sink, TwoPhaseCommitSink):
                    return CommittingSinkOperator(*common, sink, context.has_final_checkpoint)
                return SinkOperator(*common, sink)
            case plan.CollectSpec():
                return CollectOperator(*common, self._make_operator_backend(name))
        assert_never(spec)

    def _keyed_state(
        self, chained: plan.ChainedOperator, context: TaskRuntimeContext, key_type: TypeInformation
    ) -> KeyedStateBackend:
        backend = self._make_backend(chained.name, key_type)
        if self._restored is not None:
            backend.restore(self._restored.keyed_state(chained.operator_id))
        context.keyed_backend = backend
        return backend

    def _shared_state(
        self, chained: plan.ChainedOperator, context: TaskRuntimeContext, keys: plan.TwoInputKeys | None
    ) -> KeyedStateBackend | None:
        return None if keys is None else self._keyed_state(chained, context, keys.key_type)


def _adopting(target: Emit, adopt: Adopt, operator_name: str) -> Emit:
    """Emits records as what their declared type makes of them."""

    def emit(batch: Batch) -> None:
        if isinstance(batch, RowBatch):
            source = iter(batch.rows)
            try:
                batch = RowBatch(list(map(adopt, source)), batch.timestamps)
            except InexactError as error:
                record = batch.rows[len(batch) - length_hint(source) - 1]
                raise OperatorError(operator_name, record, error) from error
        target(batch)

    return emit


def _in_slices(target: Emit, max_rows: int) -> Emit:
    """Cuts the large batches that a flat map or a process function may make. What a forked child makes goes nowhere."""
    most = 4 * max_rows

    def emit(batch: Batch) -> None:
        leave_if_forked()
        if len(batch) <= most or not isinstance(batch, RowBatch):
            target(batch)
            return
        for start in range(0, len(batch), max_rows):
            target(batch.slice(start, start + max_rows))

    return emit
