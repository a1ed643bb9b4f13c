"""Whether the values of a state stay what they are when a program reads them as wider numbers. Reads all of them."""

from __future__ import annotations

from millstream.core.snapshot.errors import IncompatibleStateError
from millstream.core.snapshot.fitting.fit import Fit, OperatorFit, StateFit, StateMatch, named
from millstream.core.snapshot.inspection.opened import OpenedSnapshot
from millstream.core.snapshot.metadata.types_json import type_from_json
from millstream.core.snapshot.tables.table import ELEMENT, MAP_VALUE, VALUE
from millstream.core.snapshot.tables.widening import check_exact

_CONTENT = (VALUE, ELEMENT, MAP_VALUE)


def inexact_values(snapshot: OpenedSnapshot, found: Fit) -> list[str]:
    """What stands in a restore's way because of values, though the types fit; one for each state."""
    pairs = ((operator, state) for operator in found.operators for state in operator.states)
    detected = (
        _inexact(snapshot, operator, state) for operator, state in pairs if state.match is StateMatch.COMPATIBLE
    )
    return [problem for problem in detected if problem]


def _inexact(snapshot: OpenedSnapshot, operator: OperatorFit, state: StateFit) -> str:
    before, after = (None if side is None else side.value_type for side in (state.stored, state.declared))
    if state.stored is None or before is None or after is None:
        return ""
    stored, declared = type_from_json(before), type_from_json(after)
    for file, table in snapshot.tables(state.stored):
        for name in (name for name in _CONTENT if name in table.column_names):
            try:
                where = f"{snapshot.where(file)}: column {name}"
                check_exact(table.column(name).combine_chunks(), stored, declared, where)
            except IncompatibleStateError as error:
                return f"operator {named(operator.operator)}, state '{state.name}': {error}"
    return ""
