"""Deletes files and folders below a folder that the user configured, without following symbolic links.

Others may be able to write to a part of what is deleted: a savepoint may lie in a folder of several users. So no path
is resolved twice. Each folder below `top` is opened by its name relative to its open parent, without following links.
Files are deleted by their name relative to an open folder. A link that replaces a folder in the meantime is not
followed, and its target is kept. `top` is resolved as usual: it may be a link, or be below one.
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


def delete_file(top: str, names: Sequence[str]) -> bool:
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


def delete_if_empty(top: str, names: Sequence[str]) -> bool:
    """Deletes a folder without files and links at any level; returns whether it is deleted. Raises LinkError."""
    with _folder_of(top, names) as folder:
        return folder is None or _delete_if_empty(folder, names[-1])


@contextlib.contextmanager
def _folder_of(top: str, names: Sequence[str]) -> Iterator[int | None]:
    """Opens the folder that contains the last of the names; None if it does not exist."""
    with contextlib.ExitStack() as opened:
        yield _open(top, names[:-1], opened)


def _open(top: str, names: Sequence[str], opened: contextlib.ExitStack) -> int | None:
    try:
        folder = os.open(top, _FOLDER)
        opened.callback(os.close, folder)
        for name in names:
            mode = _mode(folder, name)
            if mode is not None and stat.S_ISLNK(mode):
                raise LinkError(errno.ELOOP, f"nothing is deleted through the symbolic link '{name}'")
            folder = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            opened.callback(os.close, folder)
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
