"""The key selectors and partitioners of a task, which are opened and closed with it.

They are called in two places: by keyed operators, for the key of each record that they take, and by outputs, for the
target of a record. A shuffle has a copy on either side. Each copy is opened once, before it is first called, and closed
once, after its last call, by the task's thread, as all of its functions are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from millstream.core.jobs.plan import plan
from millstream.datastream.functions import Function
from millstream.taskmanager.worker.operators.base import guarded
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext


class Selector(Struct, frozen=True):
    """A selector with a lifecycle, unlike a plain callable."""

    function: Function
    context: TaskRuntimeContext

    def open(self) -> None:
        """Called before the task's operators are opened, which may emit in `open`."""
        guarded(self.context.get_task_name(), lambda: self.function.open(self.context))

    def close(self) -> None:
        """Called when the task's operators are closed."""
        guarded(self.context.get_task_name(), self.function.close)


def selectors_of(
    operators: Sequence[plan.ChainedOperator],
    edges: Sequence[plan.EdgeSpec],
    make_context: Callable[[str], TaskRuntimeContext],
) -> list[Selector]:
    """The selectors of a chain and of its outgoing edges, each once, although several operators may share one."""
    names = {chained.operator_id: chained.name for chained in operators}
    owners: list[tuple[str, Iterable[Any]]] = []
    for chained in operators:
        owners.append((chained.operator_id, [selector.function for selector in chained.spec.keyed_by()]))
    for edge in edges:
        owners.append((edge.source, plan.partitioner_code(edge.partitioner)))
    found: dict[int, Selector] = {}
    for operator_id, functions in owners:
        for function in functions:
            if isinstance(function, Function) and id(function) not in found:
                context = make_context(names.get(operator_id, operator_id))
                context.operator_id = operator_id
                found[id(function)] = Selector(function, context)
    return list(found.values())
