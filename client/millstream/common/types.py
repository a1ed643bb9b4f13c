"""`Row`, under the module name that PyFlink gives it."""

from __future__ import annotations

from millstream.core.row import Row

__all__ = ["Row"]
