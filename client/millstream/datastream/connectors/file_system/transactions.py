"""What a file sink keeps in checkpoints, and how its files get their visible names.

A file is complete and durable before it is pending. Committing renames it, in one step, so a file that a reader moves
away does not come again; done twice, it is as done once. A visible file is never overwritten.

It is not in `sink/` because snapshots name its classes by the path of this module.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from millstream.core.files.durable import sync, sync_folder
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system.sink.hidden_names import Owner

log = logging.getLogger(__name__)

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES})


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A finished part. `held`: a checkpoint may hold its beginning as an open part, so only a commit ends it."""

    hidden: str
    visible: str
    held: bool = False


@dataclass(frozen=True, slots=True)
class FileTransaction:
    """The parts that were finished between two barriers.

    `superseded` are hidden files that an earlier checkpoint needs until this transaction is committed.
    """

    files: list[PendingFile] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PartState:
    """A part that continues over a checkpoint: the first `length` bytes of its hidden file belong to it."""

    hidden: str
    visible: str
    bucket: str
    length: int
    format_state: Any


@dataclass(frozen=True, slots=True)
class GatheredPart:
    """A finished part that waits, hidden, to become part of a larger one."""

    hidden: str
    visible: str
    bucket: str
    size: int


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Puts a path to an error of the operating system."""
    try:
        yield
    except OSError as error:
        raise ConnectorError(f"file sink: {path}: {error.strerror or error}") from error


def publish(transaction: FileTransaction, recovered: bool = False) -> None:
    """Gives all files of a transaction their visible names, durably.

    One that is recovered may have been published long ago, and its files may have been moved since by their
    consumer: that one is gone is an error only for a transaction of one's own.
    """
    visible: list[str] = []
    for file in transaction.files:
        if _publish(file):
            visible.append(file.visible)
        else:
            lost = (
                f"file sink: {file.visible} is lost: neither it nor its hidden file {os.path.basename(file.hidden)} is "
                "there any more; another process removed it before it was committed, or moved it away after"
            )
            if not recovered:
                raise ConnectorError(lost)
            log.warning("%s", lost)
    sync_directories(map(os.path.dirname, visible))
    for path in transaction.superseded:
        remove(path)


def _publish(file: PendingFile) -> bool:
    """Whether the file is visible now. An attempt that does not know yet that it is dead may be doing the same."""
    with naming(file.visible), contextlib.suppress(FileNotFoundError):
        if not os.path.exists(file.visible):
            os.rename(file.hidden, file.visible)
            return True
        if os.path.samefile(file.hidden, file.visible):
            remove(file.hidden)
        else:
            raise ConnectorError(
                f"file sink: {file.visible} is another file, which is not overwritten; move it away to have "
                f"{os.path.basename(file.hidden)} published"
            )
    return os.path.exists(file.visible)


def keep(transaction: FileTransaction, owner: Owner, savepoint: int) -> None:
    """Gives the files hidden names that stay until they are committed, because a savepoint is to hold them.

    A file whose beginning a checkpoint may hold also keeps its name until then.
    """
    for number, file in enumerate(transaction.files):
        kept = os.path.join(os.path.dirname(file.visible), owner.keep(os.path.basename(file.visible), savepoint))
        with naming(file.hidden):
            if file.held:
                _link_or_copy(file.hidden, kept)
                transaction.superseded.append(file.hidden)
            else:
                os.rename(file.hidden, kept)
        transaction.files[number] = replace(file, hidden=kept)


def _link_or_copy(path: str, other: str) -> None:
    try:
        os.link(path, other)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copyfile(path, other)
        sync(other)


def discard(transaction: FileTransaction) -> None:
    """Removes the files of a transaction that was not pre-committed, but for those that a checkpoint may hold."""
    for file in transaction.files:
        if not file.held:
            remove(file.hidden)


def remove(path: str) -> None:
    """Removes a file unless it is gone."""
    with naming(path), contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def make_directory(path: str) -> None:
    """Makes a directory and those above it, durably, also when another process has just made it."""
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        make_directory(parent)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise ConnectorError(f"file sink: cannot make the directory {path}: {error.strerror}") from error
    sync_directories([parent])


def sync_directories(paths: Iterable[str]) -> None:
    """Makes the names in directories durable, where the file system can."""
    for path in dict.fromkeys(paths):
        with naming(path):
            sync_folder(path)
