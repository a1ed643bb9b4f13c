"""The suites of this folder run with each implementation: one contract for both."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millstream.core.kernels import native
from millstream.core.kernels.contract import Kernels
from millstream.core.kernels.twin import NumpyKernels

LIBRARY_VARIABLE = "KERNELS_UNDER_TEST"
"""A library other than the installed one: that with sanitizers, in the process that `test_sanitized.py` starts."""


@pytest.fixture(scope="session", params=["numpy", "native"])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    if request.param == "numpy":
        return NumpyKernels()
    library = Path(os.environ.get(LIBRARY_VARIABLE, native.LIBRARY))
    if not library.exists():
        pytest.skip("there is no native library: no compiler was found when Millstream was installed")
    return native.load(library)
