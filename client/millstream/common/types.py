"""`Row` and `RowKind`, under the module name that PyFlink gives them."""

from __future__ import annotations

from millstream.core.row import Row, RowKind

__all__ = ["Row", "RowKind"]
