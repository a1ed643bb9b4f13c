"""The environment of the measurements: machine, versions, date."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("millstream", "grpcio", "msgspec", "numpy", "pyarrow", "pyspark", "bytewax")


def describe() -> list[tuple[str, str]]:
    """Returns pairs of a name and a value, in the order in which they are printed."""
    return [
        ("date", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("cores", str(len(os.sched_getaffinity(0)))),
        ("processor", _processor()),
        ("memory", f"{_memory_bytes() / 2**30:.1f} GiB"),
        ("system", f"{platform.system()} {platform.release()}"),
        ("python", platform.python_version()),
        *((package, _version(package)) for package in _PACKAGES),
        ("load before the run", f"{os.getloadavg()[0]:.2f}"),
    ]


def cores() -> int:
    """Returns the number of cores that this process can use."""
    return len(os.sched_getaffinity(0))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
