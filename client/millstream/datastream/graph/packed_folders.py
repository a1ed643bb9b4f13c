"""Folders that a job ships: packed into zip files, as artifacts are files."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import zipfile
from functools import cache
from pathlib import Path


def packed(folder: Path, scratch: Path | None = None) -> Path:
    """A zip of the folder's content, equal for equal content, so that it is uploaded and unpacked once.

    It lies in `scratch`, or in a folder that is there until this process ends.
    """
    target = Path(tempfile.mkdtemp(dir=scratch or _scratch())) / f"{folder.resolve().name}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for base, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                path = Path(base, name)
                archive.writestr(zipfile.ZipInfo(str(path.relative_to(folder))), path.read_bytes())
    return target


@cache
def _scratch() -> str:
    folder = tempfile.mkdtemp(prefix="millstream-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
