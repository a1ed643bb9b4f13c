"""Where services keep what they write on this host: one folder, from `io.tmp.dirs`."""

from __future__ import annotations

import getpass
import tempfile
from pathlib import Path

from millstream.core.configuration import Configuration


def work_directory(configuration: Configuration, *parts: str) -> Path:
    """A folder below the configured one, created private to this user when missing."""
    root = configuration.string("io.tmp.dirs") or str(Path(tempfile.gettempdir()) / f"millstream-{getpass.getuser()}")
    path = Path(root).joinpath(*parts)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
