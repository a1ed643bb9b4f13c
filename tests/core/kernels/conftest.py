"""The suites of this folder run with each implementation: one contract for both."""

from __future__ import annotations

from pathlib import Path

import pytest
from library_under_test import library, named_library

from millstream.core.kernels import native
from millstream.core.kernels.contract import Kernels
from millstream.core.kernels.twin import NumpyKernels


@pytest.fixture(scope="session", params=["numpy", "native"])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    if request.param == "numpy":
        return NumpyKernels()
    if not library().exists():
        pytest.skip("there is no native library: no compiler was found when Millstream was installed")
    return native.load(library())


@pytest.fixture
def tested_library() -> Path:
    """The library with functions for tests."""
    named = named_library()
    if named is None:
        pytest.skip("runs in the process that test_kernels_sanitized.py starts")
    return named
