"""Makes small wheels."""

from __future__ import annotations

import zipfile
from pathlib import Path


def make_wheel(folder: Path, source: str, entry_points: str = "[millstream.jobs]\njob = tinyjob:main\n") -> Path:
    """A wheel of one module, `tinyjob`."""
    path = folder / "tinyjob-1.0-py3-none-any.whl"
    info = "tinyjob-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tinyjob.py", source)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinyjob\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        if entry_points:
            archive.writestr(f"{info}/entry_points.txt", entry_points)
        archive.writestr(f"{info}/RECORD", "")
    return path
