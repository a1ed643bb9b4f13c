"""Which native library the suites of this folder use."""

from __future__ import annotations

import os
from pathlib import Path

from millstream.core.kernels import native

LIBRARY_VARIABLE = "KERNELS_UNDER_TEST"
"""Names a library other than the installed one: that with sanitizers, which `test_kernels_sanitized.py` compiles."""


def named_library() -> Path | None:
    """The library that the variable names."""
    return Path(os.environ[LIBRARY_VARIABLE]) if LIBRARY_VARIABLE in os.environ else None


def library() -> Path:
    """That one, or the installed one, which need not be there."""
    return named_library() or native.LIBRARY
