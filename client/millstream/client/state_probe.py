"""Which states a program declares: its operators are built and opened once, on empty state, and nothing is processed.

Functions declare their states in `initialize_state` and `open`, so both are called, and then `close`, in the program's
own process. Readers of sources and writers of sinks are not created. An operator whose function raises is reported
with the error, because what it declares is not known then.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from millstream.core.clock import SystemClock
from millstream.core.jobs.graph import JobGraph, JobVertex
from millstream.core.jobs.ids import NO_ATTEMPT
from millstream.core.jobs.plan import plan
from millstream.core.keys.key_groups import key_group_range
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.records.batches import Batch
from millstream.core.snapshot.fitting.fit import ProgramOperator
from millstream.core.snapshot.metadata.model import StateSnapshot
from millstream.taskmanager.worker.operators.base import FunctionOperator, Operator, OperatorError
from millstream.taskmanager.worker.operators.output import LocalOutput
from millstream.taskmanager.worker.operators.setup import TaskServices
from millstream.taskmanager.worker.operators.sources.source import ReaderContext
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext
from millstream.taskmanager.worker.state.heap import HashMapStateBackend
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.tasks.chain import ChainBuilder, OperatorChain

Failed = Callable[[BaseException], None]


def declared_operators(graph: JobGraph, failed: Failed = lambda error: None) -> tuple[ProgramOperator, ...]:
    """All operators of a job, with what they declare. Runs user code; `failed` is called with what that raises."""
    return tuple(operator for vertex in graph.vertices for operator in _probed(graph, vertex, failed))


def _probed(graph: JobGraph, vertex: JobVertex, failed: Failed) -> Iterator[ProgramOperator]:
    try:
        chain = _build(graph, vertex)
    except Exception as failure:  # whatever user code raises when it is loaded
        failed(failure)
        for info in vertex.operators:
            yield ProgramOperator.of(vertex, info, error=_told(failure))
        return
    errors = _opened(chain, failed)
    for info, operator in zip(vertex.operators, chain.operators, strict=True):
        yield ProgramOperator.of(vertex, info, tuple(_states(operator)), errors.get(info.id))


def _build(graph: JobGraph, vertex: JobVertex) -> OperatorChain:
    """The operators of the vertex's first subtask, as its task would build them."""
    deployment = TaskDeployment(
        NO_ATTEMPT, graph.job_id, vertex.id, vertex.name, subtask=0, parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism, attempt=0, chain=vertex.chain,
    )  # fmt: skip
    inputs = {e.input: pickle.loads(e.spec).type for e in graph.edges if e.target == vertex.id}
    outputs = 1 + max((e.output for e in graph.edges if e.source == vertex.id), default=-1)
    index = KeyGroupIndex(vertex.max_parallelism, key_group_range(0, vertex.max_parallelism, vertex.parallelism))
    backend, clock = HashMapStateBackend(), SystemClock()

    services = TaskServices(
        make_context=lambda name: TaskRuntimeContext(deployment, name, graph.configuration, {}, {}),
        make_reader_context=lambda context: ReaderContext(
            context, "", lambda event: None, lambda: None, lambda seconds: None
        ),
        make_keyed_backend=lambda name, key_type: backend.keyed_backend(name, key_type, index, clock),
        make_operator_backend=backend.operator_backend,
    )
    dropped = LocalOutput(_drop)  # nothing is processed; what open() may emit is dropped
    builder = ChainBuilder(services, [dropped] * outputs, inputs)
    chain: plan.Chain = pickle.loads(vertex.chain)
    return builder.build(chain)


def _drop(batch: Batch) -> None:
    pass


def _opened(chain: OperatorChain, failed: Failed) -> dict[str, str]:
    """Opens and closes the functions, consumers first as a task does; what failed to open, by operator."""
    errors: dict[str, str] = {}
    for operator_id, operator in zip(reversed(chain.ids), reversed(chain.operators), strict=True):
        if isinstance(operator, FunctionOperator):
            try:
                operator.initialize_state(None)
                operator.open()
            except OperatorError as error:
                cause = error.__cause__ or error
                errors[operator_id] = _told(cause)
                failed(cause)
    chain.close()  # a failure here does not concern the states
    return errors


def _states(operator: Operator) -> Iterator[StateSnapshot]:
    """What the operator's backends hold by now, as a snapshot would describe it."""
    for backend in (operator.keyed_state, operator.operator_state):
        if backend is not None:
            captured = backend.capture(0)
            for state in captured.states:
                declaration = state.declaration
                yield replace(declaration.types.snapshot(declaration.name, declaration.kind), ttl=declaration.ttl)
            captured.release()


def _told(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
