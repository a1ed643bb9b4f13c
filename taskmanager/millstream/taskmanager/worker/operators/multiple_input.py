"""Operators with several inputs, each with a type of its own and, if they are keyed, with a key selector of its own.

The task delivers whole batches, its inputs in turn; between the inputs there is no other order. Event time is that of
all inputs together, and barriers are aligned over all of them: an operator does neither by itself. If its inputs are
keyed, the key of each record is set before the user function is called for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from millstream.core.jobs.plan import plan
from millstream.core.overriding import override
from millstream.core.records.batches import Batch
from millstream.taskmanager.worker.operators.base import FunctionOperator, KeyOf
from millstream.taskmanager.worker.operators.output import Emit
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.partitioning import key_function


class MultipleInputOperator(FunctionOperator):
    """Base of operators with a user function and more than one input; `key_functions` has one for each input."""

    def __init__(self, setup: OperatorSetup, function: Any, keys: plan.InputKeys | plan.TwoInputKeys | None) -> None:
        super().__init__(setup, function)
        self.keyed_state = None if keys is None else setup.keyed_state(keys.key_type)
        selectors = (None,) * len(setup.input_types) if keys is None else keys.selectors
        self.key_functions: tuple[KeyOf | None, ...] = tuple(
            [None if selector is None else key_function(selector) for selector in selectors]
        )

    @override
    def receivers(self) -> Sequence[Emit]:
        return [partial(self.process_input, number) for number in range(len(self.input_types))]

    def process_input(self, input_index: int, batch: Batch) -> None:
        """Processes a batch of one of the inputs, which are numbered from 0."""
        raise NotImplementedError

    def records_of(self, input_index: int, batch: Batch) -> list[Any]:
        """The records of a batch of one of the inputs as Python objects."""
        return batch.records(self.input_types[input_index])

    def entering(self, records: Iterator[Any], key_of: KeyOf | None) -> Iterator[Any]:
        """Iterates over the records; the key of each is set before it is returned."""
        if self.keyed_state is None or key_of is None:
            return records
        return _entering(records, key_of, self.keyed_state.set_current_key)


def _entering(records: Iterator[Any], key_of: KeyOf, enter: Callable[[Any], None]) -> Iterator[Any]:
    for record in records:
        enter(key_of(record))
        yield record
