"""Which implementation a process uses, and what it says about that."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.core.kernels import native
from millstream.core.kernels.loading import KernelsError, choose, kernels
from millstream.core.settings.variables import KERNELS


@pytest.fixture(autouse=True)
def _chosen_anew() -> Iterator[None]:
    kernels.cache_clear()
    yield
    kernels.cache_clear()


@pytest.mark.skipif(not native.LIBRARY.exists(), reason="there is no native library")
def test_the_native_library_is_used_where_it_is(caplog: pytest.LogCaptureFixture) -> None:
    for requested in ("", "native"):
        assert choose(requested).kernels.name == "native"
        assert choose(requested).reason == str(native.LIBRARY)


def test_without_a_library_numpy_is_used_and_the_reason_says_what_to_do(tmp_path: Path) -> None:
    chosen = choose("", tmp_path / "kernels.so")
    assert (chosen.kernels.name, chosen.is_slower) == ("numpy", True)
    assert chosen.reason == f"there is no {tmp_path / 'kernels.so'}"
    assert chosen.advice.startswith("install a C compiler")


def test_a_file_that_is_no_library_of_the_kernels_is_not_used(tmp_path: Path) -> None:
    broken = tmp_path / "kernels.so"
    broken.write_text("not a library")
    chosen = choose("", broken)
    assert chosen.kernels.name == "numpy"
    assert str(broken) in chosen.reason


def test_a_library_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    if not native.LIBRARY.exists():
        pytest.skip("there is no native library")
    monkeypatch.setattr(native, "ABI", native.ABI + 1)
    chosen = choose("")
    assert chosen.kernels.name == "numpy"
    assert "install Millstream again" in chosen.reason


def test_numpy_can_be_forced() -> None:
    chosen = choose("numpy")
    assert (chosen.kernels.name, chosen.is_slower, chosen.advice) == ("numpy", False, "")
    assert KERNELS in chosen.reason


def test_a_library_that_is_required_and_cannot_be_loaded_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KernelsError, match=r"MILLSTREAM_KERNELS is native, but there is no .*: install a C compiler"):
        choose("native", tmp_path / "kernels.so")


def test_anything_else_is_an_error() -> None:
    with pytest.raises(KernelsError, match="MILLSTREAM_KERNELS is 'fast': expected native or numpy"):
        choose("fast")


def test_a_process_chooses_once_and_logs_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(KERNELS, "numpy")
    with caplog.at_level(logging.INFO):
        assert kernels() is kernels()
    assert [record.getMessage() for record in caplog.records] == ["Kernels: numpy (as MILLSTREAM_KERNELS requests)"]
