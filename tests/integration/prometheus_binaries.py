"""Prometheus itself, from Debian's packages: found on the path, or fetched and unpacked into a folder of the tests."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest

_PACKAGE = "prometheus"


def binaries(folder: Path) -> Path:
    """The folder with `prometheus` and `promtool`; skips the test where they cannot be had."""
    found = shutil.which("prometheus")
    if found is not None and shutil.which("promtool") is not None:
        return Path(found).parent
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("Prometheus is not installed, and this is no Debian to fetch it from")
    if not _download(folder):
        with contextlib.suppress(subprocess.SubprocessError, OSError):  # which only root may do
            subprocess.run(["apt-get", "update"], cwd=folder, capture_output=True, timeout=120, check=True)
        if not _download(folder):
            pytest.skip("Prometheus is not installed, and apt-get cannot fetch its package")
    (package,) = folder.glob(f"{_PACKAGE}_*.deb")
    subprocess.run(["dpkg-deb", "-x", str(package), str(folder / "unpacked")], check=True, timeout=120)
    return folder / "unpacked" / "usr" / "bin"


def _download(folder: Path) -> bool:
    with contextlib.suppress(subprocess.SubprocessError, OSError):
        subprocess.run(["apt-get", "download", _PACKAGE], cwd=folder, capture_output=True, timeout=120, check=True)
    return bool(list(folder.glob(f"{_PACKAGE}_*.deb")))
