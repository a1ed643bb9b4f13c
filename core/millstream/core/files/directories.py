"""The folders in which services write on this host, protected from other users.

Code is run from these folders (environments, wheels) and state is read from them, so a user that can write to one can
run code as its owner. A folder is created for its user only, and used only if it belongs to this user and other users
cannot write to it; folders below a configured one are made private if others could read them. By default they are in
the system's temporary folder, where another user may have created one of the same name before: there a symbolic link is
rejected as well.

No mode depends on the umask: `make_private` makes folders, `for_user_only` opens files, and `keep_private` takes from
group and others what programs such as pip have written.

To avoid races, a folder is opened without following links, and its open descriptor is checked.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import IO_TMP_DIRS

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def work_directory(configuration: Configuration, *parts: str) -> Path:
    """Returns a folder below `io.tmp.dirs`, and creates it for this user only. Raises ConfigurationError."""
    chosen = configuration.get(IO_TMP_DIRS)
    if chosen:
        return private_folder(Path(chosen), *parts, option=IO_TMP_DIRS)
    temporary = Path(tempfile.gettempdir())
    mode = temporary.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise ConfigurationError(
            f"refusing to use {temporary}: other users can replace files in it, because it has no sticky bit; "
            "configure another folder with the option 'io.tmp.dirs'"
        )
    return private_folder(temporary, f"millstream-{os.geteuid()}", *parts, option=IO_TMP_DIRS, is_shared=True)


def private_folder(root: Path, *parts: str, option: str, is_shared: bool = False) -> Path:
    """Returns the folder `root/parts`, and creates it. Raises ConfigurationError, which names the option, if unsafe.

    `root` is configured by the user: it may be a link of theirs, and a shared folder with a sticky bit (as `/tmp`) if
    there are parts below it. Folders below it are private. `is_shared` means that it is known to be a shared folder.
    """
    path = root = root.absolute()
    try:
        make_private(root)
        with contextlib.ExitStack() as opened:
            descriptor = _open_named(root, opened, option)
            if not is_shared and not (parts and _is_sticky(os.fstat(descriptor))):
                _check(os.fstat(descriptor), root, option)
            for part in parts:
                path = path / part
                inner = _open_inner(descriptor, part, opened)
                if inner is None:
                    raise _refusal(path, "it is a symbolic link or not a folder", option)
                descriptor = inner
                found = os.fstat(descriptor)
                _check(found, path, option)
                if found.st_mode & _OTHERS:  # a folder of this user that others could read, but not change
                    os.fchmod(descriptor, 0o700)
    except OSError as error:
        raise ConfigurationError(f"option '{option}': cannot use {path}: {error.strerror}") from error
    return path


def make_private(path: Path) -> None:
    """Creates a folder and its missing parents, each for this user only. Existing folders are not changed."""
    if path.is_dir():
        return
    make_private(path.parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)  # the umask may also have removed permissions of the user


def for_user_only(path: str, flags: int) -> int:
    """An `opener` of `open`: only this user can read the file, regardless of its previous permissions."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def keep_private(folder: Path) -> int:
    """Removes all permissions of group and others below a folder. Returns its total size in bytes."""
    total = 0
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            with contextlib.suppress(FileNotFoundError):
                found = os.lstat(path)
                total += 0 if stat.S_ISDIR(found.st_mode) else found.st_size
                if found.st_mode & _OTHERS and not stat.S_ISLNK(found.st_mode):
                    os.chmod(path, stat.S_IMODE(found.st_mode) & ~_OTHERS)
    return total


def _open_named(root: Path, opened: contextlib.ExitStack, option: str) -> int:
    named = os.lstat(root)
    if stat.S_ISLNK(named.st_mode) and named.st_uid not in (0, os.geteuid()):
        raise _refusal(root, f"it is a symbolic link that belongs to user {named.st_uid}", option)
    descriptor = os.open(root, _FOLDER)
    opened.callback(os.close, descriptor)
    return descriptor


def _open_inner(above: int, name: str, opened: contextlib.ExitStack) -> int | None:
    """Opens or creates a folder in an open one. Returns None if it is not a folder."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=above)
        os.chmod(name, 0o700, dir_fd=above)
    try:
        descriptor = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            return None
        raise
    opened.callback(os.close, descriptor)
    return descriptor


def _is_sticky(found: os.stat_result) -> bool:
    """Whether the folder is sticky and belongs to a trusted user, so that users can only change their own files."""
    return found.st_uid in (0, os.geteuid()) and bool(found.st_mode & stat.S_ISVTX)


def _check(found: os.stat_result, path: Path, option: str) -> None:
    if found.st_uid != os.geteuid():
        raise _refusal(path, f"it belongs to user {found.st_uid}, and this is user {os.geteuid()}", option)
    if found.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(found.st_mode)
        raise _refusal(path, f"others may write to it (its mode is {mode:o}; `chmod go-w` takes that away)", option)


def _refusal(path: Path, reason: str, option: str) -> ConfigurationError:
    return ConfigurationError(
        f"refusing to use {path}, from which code is run: {reason}. Configure another folder with the option "
        f"'{option}', or make sure that other users have not written to this one, and cannot"
    )
