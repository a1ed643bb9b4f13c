"""Wheels that were uploaded over REST: files named `<uuid>_<file name>` in `web.upload.dir`, as Flink keeps jars.

Unlike there, they have bounds: those that were not used for long go, and the longest unused when there are too many.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import time
import uuid
from pathlib import Path

from msgspec import Struct

from millstream.core.environments.artifacts import PARTIAL, WheelInfo, WheelTooLargeError, validate_wheel
from millstream.core.environments.unpacking import UnpackLimits
from millstream.core.errors import ConfigurationError, InvalidProgramError, MillstreamError
from millstream.core.files.directories import private_folder, work_directory
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.submission import (
    WEB_UPLOAD_DIR,
    WEB_UPLOAD_MAX_SIZE,
    WEB_UPLOAD_MAX_TOTAL_SIZE,
    WEB_UPLOAD_RETENTION,
)

log = logging.getLogger(__name__)
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}_([^/\\]+\.whl)\Z")
_LONGEST_NAME = 200


class UnknownWheelError(MillstreamError):
    """No uploaded wheel has this id."""


class UploadedWheel(Struct, frozen=True):
    """A wheel that was found valid when it came."""

    id: str
    name: str
    path: Path
    uploaded_ms: int
    info: WheelInfo


class UploadedWheels:
    """The folder of uploaded wheels. What is listed is what the folder holds, also after a restart."""

    def __init__(self, configuration: Configuration) -> None:
        chosen = configuration.get(WEB_UPLOAD_DIR)
        self.max_size = configuration.get(WEB_UPLOAD_MAX_SIZE)
        self._max_total_size = configuration.get(WEB_UPLOAD_MAX_TOTAL_SIZE)
        self._retention = configuration.get(WEB_UPLOAD_RETENTION)
        self._limits = UnpackLimits.of(configuration)
        if chosen:
            self._folder = private_folder(Path(chosen), option=WEB_UPLOAD_DIR)
        else:
            self._folder = work_directory(configuration, "uploads")
        self._infos: dict[str, WheelInfo] = {}
        try:
            for left_over in self._folder.glob(f"{PARTIAL}*"):
                left_over.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigurationError(f"option 'web.upload.dir': cannot use {self._folder}: {error.strerror}") from error

    def partial(self) -> Path:
        """A path to write an upload to before it is added."""
        return self._folder / f"{PARTIAL}{uuid.uuid4()}"

    async def add(self, partial: Path, name: str) -> UploadedWheel:
        """Checks the upload and gives it an id. Raises InvalidProgramError with the reason of a refusal."""
        if len(name) > _LONGEST_NAME:
            raise InvalidProgramError(f"the file name has {len(name)} characters, more than {_LONGEST_NAME}")
        info = await asyncio.to_thread(validate_wheel, partial, self.max_size, name, self._limits)
        size = (await asyncio.to_thread(os.stat, partial)).st_size
        if size > self._max_total_size:
            raise WheelTooLargeError(
                f"{name} has {size} bytes, and all uploaded wheels together may have {self._max_total_size} "
                "(web.upload.max-total-size)"
            )
        await asyncio.to_thread(self.make_room, size)
        path = await asyncio.to_thread(partial.rename, self._folder / f"{uuid.uuid4()}_{name}")
        self._infos[path.name] = info
        return self._describe(path, info)

    def make_room(self, size: int = 0) -> None:
        """Deletes what was not used for long, and then the longest unused until a wheel of this size fits as well."""
        found = []
        for path in self._folder.iterdir():
            if _ID.match(path.name):
                with contextlib.suppress(OSError):  # it was deleted meanwhile
                    status = path.stat()
                    found.append((max(status.st_atime, status.st_mtime), status.st_size, path))
        total, oldest = size + sum(taken for _, taken, _ in found), time.time() - self._retention
        for used, taken, path in sorted(found):
            if used >= oldest and total <= self._max_total_size:
                break
            log.info("deleted the uploaded wheel %s, which was unused for longest", path.name)
            path.unlink(missing_ok=True)
            self._infos.pop(path.name, None)
            total -= taken

    def used(self, wheel: UploadedWheel) -> None:
        """The wheel is about to be run or planned."""
        with contextlib.suppress(OSError):  # its time of use is the one that a file has for being read
            os.utime(wheel.path, ns=(time.time_ns(), wheel.path.stat().st_mtime_ns))

    def get(self, wheel_id: str) -> UploadedWheel:
        """One wheel. Raises UnknownWheelError."""
        path = self._folder / wheel_id
        if not _ID.match(wheel_id) or not path.is_file():
            raise UnknownWheelError(f"no uploaded wheel has the id {wheel_id}")
        info = self._infos.get(wheel_id)
        if info is None:
            info = self._infos[wheel_id] = self._validated(path)
        return self._describe(path, info)

    def _validated(self, path: Path) -> WheelInfo:
        return validate_wheel(path, self.max_size, _file_name(path.name), self._limits)

    def all(self) -> list[UploadedWheel]:
        """All wheels, the newest first. Files that are no valid wheels are left out."""
        wheels = []
        for path in self._folder.iterdir():
            if _ID.match(path.name):
                try:
                    wheels.append(self.get(path.name))
                except MillstreamError:
                    continue
        return sorted(wheels, key=lambda wheel: (-wheel.uploaded_ms, wheel.id))

    def delete(self, wheel_id: str) -> None:
        """Removes a wheel. Jobs that were made from it keep their own copy."""
        self.get(wheel_id).path.unlink(missing_ok=True)
        self._infos.pop(wheel_id, None)

    def _describe(self, path: Path, info: WheelInfo) -> UploadedWheel:
        return UploadedWheel(path.name, _file_name(path.name), path, int(path.stat().st_mtime * 1000), info)


def _file_name(wheel_id: str) -> str:
    match = _ID.match(wheel_id)
    assert match is not None, wheel_id
    return match.group(1)
