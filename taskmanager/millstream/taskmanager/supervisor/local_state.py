"""The folders on this host in which the slots of one task manager keep copies of their state.

```
<dir>/localState/<task manager>/<allocation>/<vertex>-<subtask>/<copies>
```

`<dir>` is one of `execution.checkpointing.local-backup.dirs`, else the working directory of services. A slot's folder
lives as long as its allocation, so it survives the slot's worker. The task manager holds a lock on its own folders, by
which one that starts later tells those of task managers that were killed, and deletes them.
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
from millstream.core.snapshot.storage.storage import safe_name

log = logging.getLogger(__name__)

_LOCK = ".lock"
_FOLDER = "localState"
_OPTION = "execution.checkpointing.local-backup.dirs"


class LocalState:
    """The folders of one task manager; nothing is made before the first is asked for. Deleting may take its time."""

    def __init__(self, task_manager: TaskManagerId, configuration: Configuration) -> None:
        self._configuration = configuration
        self._name = safe_name(task_manager)
        self._locks: dict[Path, IO[bytes]] = {}

    def folder(self, allocation_id: AllocationId) -> Path:
        """Where an allocation keeps its copies: always the same. What is above it is made and ours.

        Raises ConfigurationError when someone else has a hand in it.
        """
        dirs = self._dirs()
        chosen = dirs[zlib.crc32(allocation_id.encode()) % len(dirs)]
        root = chosen / _FOLDER
        home = root / self._name
        if home not in self._locks:
            self._check(chosen)
            with _locked(root):  # nobody may find our folder before our lock is on it
                home.mkdir(mode=0o700)
                self._locks[home] = os.fdopen(for_user_only(str(home / _LOCK), os.O_WRONLY | os.O_CREAT), "wb")
                fcntl.flock(self._locks[home], fcntl.LOCK_EX)
        return home / safe_name(allocation_id)

    def remove(self, allocation_id: AllocationId) -> None:
        """The allocation is over: its copies go."""
        for home in list(self._locks):
            shutil.rmtree(home / safe_name(allocation_id), ignore_errors=True)

    def remove_dead(self) -> None:
        """Deletes what task managers left that are no more."""
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
                log.info("removing the local state of a task manager that is gone: %s", home)
                shutil.rmtree(home, ignore_errors=True)

    def close(self) -> None:
        """The task manager is over: everything of it goes."""
        for home, lock in self._locks.items():
            shutil.rmtree(home, ignore_errors=True)
            lock.close()
        self._locks.clear()

    def _dirs(self) -> list[Path]:
        configured = self._configuration.string(_OPTION)
        parts = [part.strip() for part in re.split(f"[,{os.pathsep}]", configured) if part.strip()]
        return [Path(part).absolute() for part in parts] or [work_directory(self._configuration)]

    def _check(self, chosen: Path) -> None:
        if self._configuration.string(_OPTION):
            private_folder(chosen, _FOLDER, option=_OPTION)
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
