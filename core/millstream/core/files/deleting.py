"""Deletes files and folders below a folder that the user configured, without following symbolic links.

Others may be able to write to a part of what is deleted: a savepoint may lie in a folder of several users. So no path
is resolved twice. Each folder below `top` is opened by its name relative to its open parent, without following links.
Files are deleted by their name relative to an open folder. A link that replaces a folder in the meantime is not
followed, and its target is kept. `top` is resolved as usual: it may be a link, or be below one. Where it is not
configured but named by a user, it is opened once (`opened`), since others may replace what is above it, too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class LinkError(OSError):
    """A folder below the top is a symbolic link."""


def is_link(path: str) -> bool:
    """Whether the path is a symbolic link."""
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


class OpenedFolder:
    """A folder that is read and emptied through its descriptor, whatever its path leads to by then."""

    def __init__(self, above: int, name: str, folder: int) -> None:
        self._above = above
        self._name = name
        self._folder = folder

    def read(self, name: str) -> bytes:
        """Returns the content of a file in it."""
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder), "rb") as file:
            return file.read()

    def is_link(self, path: str) -> bool:
        """Whether a path in it is a symbolic link. Raises LinkError if a folder above is one."""
        names = path.split("/")
        with _folder_of(self._folder, names) as folder:
            mode = None if folder is None else _mode(folder, names[-1])
        return mode is not None and stat.S_ISLNK(mode)

    def delete_file(self, path: str) -> bool:
        """As `delete_file`, of a path in it."""
        return delete_file(self._folder, path.split("/"))

    def delete_if_empty(self, path: str = "") -> bool:
        """As `delete_if_empty`, of a path in it, or of the folder itself."""
        return delete_if_empty(self._folder, path.split("/")) if path else _delete_if_empty(self._above, self._name)


@contextlib.contextmanager
def opened(path: str) -> Iterator[OpenedFolder]:
    """Opens a folder, and the one above it. Raises OSError if it is a link or not a folder."""
    above, name = os.path.split(path)
    with contextlib.ExitStack() as held:
        parent = os.open(above, _FOLDER)
        held.callback(os.close, parent)
        folder = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
        held.callback(os.close, folder)
        yield OpenedFolder(parent, name, folder)


def delete_file(top: str | int, names: Sequence[str]) -> bool:
    """Deletes a file or a link; returns whether there was one. Raises IsADirectoryError for a folder, LinkError."""
    with _folder_of(top, names) as folder:
        if folder is None or (mode := _mode(folder, names[-1])) is None:
            return False
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder, and a file was to be deleted")
        return _unlink(folder, names[-1])


def delete_tree(top: str, names: Sequence[str]) -> None:
    """Deletes a folder recursively, or a link, if it exists. Raises LinkError if a folder above it is a link."""
    with _folder_of(top, names) as folder:
        mode = None if folder is None else _mode(folder, names[-1])
        if folder is None or mode is None:
            return
        if stat.S_ISLNK(mode):
            _unlink(folder, names[-1])
        elif stat.S_ISDIR(mode):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(names[-1], dir_fd=folder)


def delete_if_empty(top: str | int, names: Sequence[str]) -> bool:
    """Deletes a folder without files and links at any level; returns whether it is deleted. Raises LinkError."""
    with _folder_of(top, names) as folder:
        return folder is None or _delete_if_empty(folder, names[-1])


@contextlib.contextmanager
def _folder_of(top: str | int, names: Sequence[str]) -> Iterator[int | None]:
    """Opens the folder that contains the last of the names; None if it does not exist."""
    with contextlib.ExitStack() as held:
        yield _open(top, names[:-1], held)


def _open(top: str | int, names: Sequence[str], held: contextlib.ExitStack) -> int | None:
    try:
        folder = os.open(top, _FOLDER) if isinstance(top, str) else os.dup(top)
        held.callback(os.close, folder)
        for name in names:
            mode = _mode(folder, name)
            if mode is not None and stat.S_ISLNK(mode):
                raise LinkError(errno.ELOOP, f"nothing is deleted through the symbolic link '{name}'")
            folder = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            held.callback(os.close, folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return folder


def _mode(folder: int, name: str) -> int | None:
    try:
        return os.lstat(name, dir_fd=folder).st_mode
    except FileNotFoundError:
        return None


def _unlink(folder: int, name: str) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def _delete_if_empty(above: int, name: str) -> bool:
    try:
        folder = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            return False
        raise
    try:
        with os.scandir(folder) as entries:
            for entry in list(entries):
                if not entry.is_dir(follow_symlinks=False) or not _delete_if_empty(folder, entry.name):
                    return False
        os.rmdir(name, dir_fd=above)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        os.close(folder)
    return True
