"""The folders on this host in which the slots of one task manager keep copies of their state.

```
<dir>/localState/<task manager>/<allocation>/<vertex>-<subtask>/<copies>
```

`<dir>` is one of `execution.checkpointing.local-backup.dirs`, else the working directory of services. A slot's folder
lives as long as its allocation, so it survives the slot's worker. The task manager holds a lock on its own folders: a
task manager that starts later deletes those which no process has locked any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from millstream.core.errors import ConfigurationError
from millstream.core.files.directories import for_user_only, private_folder, work_directory
from millstream.core.jobs.ids import AllocationId, TaskManagerId
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import CHECKPOINTING_LOCAL_BACKUP_DIRS
from millstream.core.snapshot.storage.storage import safe_name

log = logging.getLogger(__name__)

_LOCK = ".lock"
_FOLDER = "localState"


class LocalState:
    """The folders of one task manager; none is created before the first is requested. Deleting may take long."""

    def __init__(self, task_manager: TaskManagerId, configuration: Configuration) -> None:
        self._configuration = configuration
        self._name = safe_name(task_manager)
        self._locks: dict[Path, IO[bytes]] = {}

    def folder(self, allocation_id: AllocationId) -> Path:
        """The folder of an allocation's copies, always the same. Its parent folders are created.

        Raises ConfigurationError when another user could write to them.
        """
        dirs = self._dirs()
        chosen = dirs[zlib.crc32(allocation_id.encode()) % len(dirs)]
        root = chosen / _FOLDER
        home = root / self._name
        if home not in self._locks:
            self._check(chosen)
            with _locked(root):  # no other process may find the folder before it is locked
                home.mkdir(mode=0o700)
                self._locks[home] = os.fdopen(for_user_only(str(home / _LOCK), os.O_WRONLY | os.O_CREAT), "wb")
                fcntl.flock(self._locks[home], fcntl.LOCK_EX)
        return home / safe_name(allocation_id)

    def remove(self, allocation_id: AllocationId) -> None:
        """Deletes the copies of an allocation that has ended."""
        for home in list(self._locks):
            shutil.rmtree(home / safe_name(allocation_id), ignore_errors=True)

    def remove_dead(self) -> None:
        """Deletes what task managers have left that were killed."""
        for chosen in self._dirs():
            dead: list[Path] = []
            root = chosen / _FOLDER
            if not root.is_dir():
                continue
            with contextlib.suppress(OSError, ConfigurationError):
                self._check(chosen)
                with _locked(root):
                    dead += filter(_is_dead, root.iterdir())
            for home in dead:
                log.info("deleting the local state of a task manager that is gone: %s", home)
                shutil.rmtree(home, ignore_errors=True)

    def close(self) -> None:
        """Deletes everything of this task manager."""
        for home, lock in self._locks.items():
            shutil.rmtree(home, ignore_errors=True)
            lock.close()
        self._locks.clear()

    def _dirs(self) -> list[Path]:
        configured = self._configuration.get(CHECKPOINTING_LOCAL_BACKUP_DIRS)
        parts = [part.strip() for part in re.split(f"[,{os.pathsep}]", configured) if part.strip()]
        return [Path(part).absolute() for part in parts] or [work_directory(self._configuration)]

    def _check(self, chosen: Path) -> None:
        if self._configuration.get(CHECKPOINTING_LOCAL_BACKUP_DIRS):
            private_folder(chosen, _FOLDER, option=CHECKPOINTING_LOCAL_BACKUP_DIRS)
        else:
            work_directory(self._configuration, _FOLDER)


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    with open(root / _LOCK, "wb", opener=for_user_only) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_dead(home: Path) -> bool:
    try:
        with (home / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
