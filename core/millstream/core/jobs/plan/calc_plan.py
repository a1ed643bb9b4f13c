"""Specification of the operator that evaluates expressions over columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from millstream.core.jobs.plan.plan import OperatorSpec

if TYPE_CHECKING:
    from millstream.core.expressions import Expression


class CalcSpec(OperatorSpec, Struct, frozen=True):
    """Keeps the rows for which a condition is true, and makes other columns of them.

    The expressions are resolved against the type of the input. Without `columns`, records are kept as they are.
    """

    reads_timestamps = False
    condition: Expression | None = None
    columns: tuple[tuple[str, Expression], ...] | None = None

    @property
    def kind(self) -> str:
        """That of the operator with a function in place of an expression."""
        return "filter" if self.columns is None else "map"

    def keeps_records(self) -> bool:
        """Returns False: it only reads records, and passes them on."""
        return False
