"""Floating-point numbers as Flink writes them into CSV, which is as Java does: `1.5`, `3.0E38`, `Infinity`. Pure.

The digits are the fewest that are read back as the same number: of `Types.FLOAT()`, the same of single precision.
"""

from __future__ import annotations

import math
from decimal import Decimal


def double_text(value: float) -> str:
    """Of a number of double precision."""
    return _laid_out(repr(value), value)


def float_text(value: float) -> str:
    """Of a number of single precision."""
    import numpy as np

    return _laid_out(np.format_float_positional(np.float32(value), trim="0"), value)


def _laid_out(shortest: str, value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return shortest
    sign, digits, _ = Decimal(shortest).normalize().as_tuple()
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{Decimal(shortest).adjusted()}"
