"""Wheels written by tests: modules, requirements, an entry point, and other files."""

from __future__ import annotations

import io
import textwrap
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path


def wheel_bytes(
    files: Mapping[str, str | bytes], name: str = "tinyjob", version: str = "1.0", *, entry: str | None = None,
    requires: Iterable[str] = (), tag: str = "py3-none-any",
) -> bytes:  # fmt: skip
    """A wheel with these files. `entry` is a function in the group for jobs."""
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    members = {
        **{path: textwrap.dedent(content) if isinstance(content, str) else content for path, content in files.items()},
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    if entry is not None:
        members[f"{info}/entry_points.txt"] = f"[millstream.jobs]\nmain = {entry}\n"
    members[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*members, f"{info}/RECORD"])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in members.items():
            archive.writestr(path, content)
    return buffer.getvalue()


def write_wheel(
    folder: Path, files: Mapping[str, str | bytes], name: str = "tinyjob", version: str = "1.0",
    entry: str | None = None,
) -> Path:  # fmt: skip
    """The same, written to a file."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    path.write_bytes(wheel_bytes(files, name, version, entry=entry))
    return path
