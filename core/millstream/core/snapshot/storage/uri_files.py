"""Files by URI through pyarrow's file systems: local paths, `file://`, `s3://`, `hdfs://`, `gs://`.

A root may carry credentials and options (`s3://key:secret@bucket/path?endpoint_override=...`). They are used for every
URI of the same scheme that has none of its own, and they never appear in a URI that this module hands out or in an
error. On a local file system what was written is on the disk when a call returns, and a file written whole appears
whole or not at all; object stores give both by themselves.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from millstream.core.files import deleting
from millstream.core.files.directories import for_user_only
from millstream.core.files.durable import make_folder, sync, sync_folder
from millstream.core.settings.secrets import HIDDEN, without_secrets
from millstream.core.snapshot.errors import MissingFileError, SnapshotError, one_line
from millstream.core.snapshot.metadata.model import is_uri, local_path
from millstream.core.snapshot.storage.storage import location_of

_SCHEMES = ("file", "s3", "hdfs", "viewfs", "gs", "gcs")
_DOTS = frozenset({".", ".."})
_BUCKETS = ("s3", "gs", "gcs")
_GCS_PATIENCE = "retry_limit_seconds=30"  # without it, missing credentials are found out after a quarter of an hour
_TEMPORARY = ".tmp-"


def plain_uri(location: str) -> str:
    """A location as an absolute URI without credentials, options or a slash at the end."""
    if not is_uri(location):
        return f"file://{quote(local_path(location))}"
    parts = urlsplit(location)
    path = parts.path.rstrip("/")
    if parts.scheme.lower() == "file" and not _DOTS.isdisjoint(unquote(path).split("/")):
        path = quote(local_path(unquote(path)))  # as in a path: else one behind a link seemed to be none
    return f"{parts.scheme.lower()}://{parts.netloc.rpartition('@')[2]}{path}"


def has_options(location: str) -> bool:
    """Whether a location has credentials or options in it."""
    parts = urlsplit(location if is_uri(location) else "")
    return "@" in parts.netloc or bool(parts.query)


def with_options_of(root: str, location: str) -> str:
    """A location as a URI with the credentials and options of a root: for a process that does not know the root."""
    parts, plain = urlsplit(root if is_uri(root) else ""), urlsplit(plain_uri(location))
    credentials, at, _ = parts.netloc.rpartition("@")
    query = f"?{parts.query}" if parts.query else ""
    return f"{plain.scheme}://{credentials}{at}{plain.netloc}{plain.path}{query}"


def root_of(location: str, directories: Iterable[str]) -> str:
    """The directory whose credentials and options serve a location that has none.

    The innermost one that it lies in, else the first of the same scheme, else the location itself.
    """
    uri, known = plain_uri(location), list(directories)
    inside = [d for d in known if f"{uri}/".startswith(f"{location_of(plain_uri(d))}/")]
    alike = [d for d in known if urlsplit(plain_uri(d)).scheme == urlsplit(uri).scheme]
    return max(inside, key=lambda d: len(plain_uri(d)), default=alike[0] if alike else location)


class StoredFile(Struct, frozen=True):
    """A file of a folder: its name, its size in bytes, and when it was written, by the clock of the storage."""

    name: str
    size: int
    written: datetime


class UriFiles:
    """Reads, writes and deletes files by URI, with the credentials and options of one root."""

    def __init__(self, root: str, write_buffer: int | None = None) -> None:
        """`write_buffer`: how many bytes are gathered before they are written; None: as they come."""
        self.root = plain_uri(root)
        self._write_buffer = write_buffer
        self._parts = urlsplit(root if is_uri(root) else self.root)
        scheme = self._parts.scheme.lower()
        if scheme not in _SCHEMES:
            known = ", ".join(f"{scheme}://" for scheme in _SCHEMES)
            raise SnapshotError(self.root, f"has a scheme that is not known: use a path, or one of {known}")
        if scheme == "file" and self._parts.netloc not in ("", "localhost"):
            raise SnapshotError(self.root, "names a host: the path after file:// starts with a third slash")
        if not is_uri(root) and (remote := root.partition(":")[0].lower()) in _SCHEMES[1:]:
            raise SnapshotError(root, f"is neither a path nor a URI: write {remote}:// for a URI, ./ before a path")
        if scheme in _BUCKETS and not self._parts.netloc.rpartition("@")[2]:
            raise SnapshotError(self.root, f"names no bucket: write {scheme}://bucket/path")

    def __repr__(self) -> str:
        return f"UriFiles({self.root!r})"

    def locate(self, uri: str) -> tuple[Any, str]:
        """The file system and the path in it."""
        parts = urlsplit(uri if is_uri(uri) else plain_uri(uri))
        with self.explained(plain_uri(uri)):
            if parts.scheme.lower() == "file":
                return _file_system("file", "/", ""), unquote(parts.path) or "/"
            netloc, query = parts.netloc, parts.query
            if parts.scheme.lower() == self._parts.scheme.lower():
                credentials, at, _ = self._parts.netloc.rpartition("@")
                netloc = netloc if "@" in netloc else f"{credentials}{at}{netloc}"
                query = query or self._parts.query
            system = _file_system(parts.scheme.lower(), netloc, query)
            bucket = parts.netloc.rpartition("@")[2] if parts.scheme.lower() in _BUCKETS else ""
            return system, f"{bucket}{unquote(parts.path)}"

    @contextlib.contextmanager
    def explained(self, uri: str) -> Iterator[None]:
        """Converts errors of the file system to snapshot errors with the URI."""
        import pyarrow as pa

        try:
            yield
        except FileNotFoundError as error:
            raise MissingFileError(uri) from error
        except (OSError, ValueError, pa.ArrowException) as error:
            detail = self._without_secrets(one_line(error))
            if "libjvm" in detail or "libhdfs" in detail:
                detail = "HDFS needs Java and Hadoop's libhdfs; set JAVA_HOME, HADOOP_HOME and CLASSPATH"
            raise SnapshotError(uri, f"storage failed: {detail}") from error

    def _without_secrets(self, text: str) -> str:
        credentials = self._parts.netloc.rpartition("@")[0]
        for secret in (credentials, credentials.partition(":")[2], self._parts.query):
            for written in (secret, unquote(secret)):
                text = text.replace(written, HIDDEN) if written else text
        return without_secrets(text)

    def read(self, uri: str) -> Any:
        """Returns the whole content as an Arrow buffer: a copy, which later changes of the file do not affect."""
        system, path = self.locate(uri)
        with self.explained(plain_uri(uri)), system.open_input_file(path) as stream:
            return stream.read_buffer()

    def pieces(self, uri: str, size: int) -> Iterator[bytes]:
        """Iterates over the content in chunks of at most this many bytes."""
        system, path = self.locate(uri)
        with self.explained(plain_uri(uri)), system.open_input_stream(path) as stream:
            while data := stream.read(size):
                yield data

    def open_output(self, uri: str, *, private: bool = False) -> Any:
        """A stream into a new file, whose folders are made. A private one is for this user only where it is local."""
        system, path = self.locate(uri)
        with self.explained(plain_uri(uri)):
            _make_folder(system, path.rpartition("/")[0], 0o700 if private else 0o777)
            if private and _is_local(system):
                os.close(for_user_only(path, os.O_WRONLY | os.O_CREAT))
            return system.open_output_stream(path, buffer_size=self._write_buffer)

    def settle(self, uri: str) -> None:
        """Makes a closed file, and its name, survive a power failure."""
        system, path = self.locate(uri)
        if _is_local(system):
            with self.explained(plain_uri(uri)):
                sync(path)
                _sync_folders(os.path.dirname(path), 2)

    def copy_whole(self, source: str, uri: str) -> None:
        """Writes a local file's content, private, as `write_whole` does."""
        import pyarrow as pa

        with pa.memory_map(source) as file:  # not read piece by piece: an error between would end the object there
            self.write_whole(uri, file.read_buffer(), private=True)

    def write_whole(self, uri: str, data: Any, *, private: bool = False) -> None:
        """Writes or replaces a file atomically. The data are bytes, or an Arrow buffer."""
        system, path = self.locate(uri)
        target = uri
        with self.explained(plain_uri(uri)):
            if not _is_object_store(system):
                folder = path.rpartition("/")[0]
                target = f"{uri.rpartition('/')[0]}/{_TEMPORARY}{uuid.uuid4().hex}"
                temporary = f"{folder}/{target.rpartition('/')[2]}"
            try:
                with self.open_output(target, private=private) as stream:
                    stream.write(data)
                if target == uri:
                    return
                if _is_local(system):
                    sync(temporary)
                    sync_folder(folder)  # what the file refers to is there before it is
                    os.replace(temporary, path)
                    _sync_folders(folder, 3)
                else:
                    system.move(temporary, path)
            except BaseException as error:
                if target != uri:
                    with contextlib.suppress(Exception):
                        system.delete_file(temporary)
                if isinstance(error, SnapshotError):
                    raise SnapshotError(plain_uri(uri), error.reason) from error
                raise

    def delete_file(self, uri: str) -> bool:
        """Deletes a file; returns whether there was one. Never a folder.

        No symbolic link below the root is followed, or below the file's folder where it is outside of that.
        """
        from pyarrow import fs

        system, path = self.locate(uri)
        with self.explained(plain_uri(uri)):
            if _is_local(system):
                try:
                    return deleting.delete_file(*self._below_root(path))
                except (IsADirectoryError, deleting.LinkError) as error:
                    raise SnapshotError(plain_uri(uri), str(error.strerror)) from error
            info = system.get_file_info(path)
            if info.type == fs.FileType.NotFound:
                return False
            if info.type == fs.FileType.Directory:
                raise SnapshotError(plain_uri(uri), "is a folder, and a file was to be deleted")
            try:
                system.delete_file(path)
            except FileNotFoundError:
                return False
        return True

    def delete_folder(self, uri: str) -> None:
        """Deletes a folder with all that is in it, if it is there. A symbolic link is deleted itself."""
        from pyarrow import fs

        system, path = self.locate(uri)
        with self.explained(plain_uri(uri)):
            if _is_local(system):
                deleting.delete_tree(*self._below_root(path))
            elif system.get_file_info(path).type == fs.FileType.Directory:
                with contextlib.suppress(FileNotFoundError):
                    system.delete_dir(path)

    def delete_if_empty(self, uri: str) -> bool:
        """Deletes a folder if it has no files, in it or below; returns whether it is gone. Links: as `delete_file`."""
        from pyarrow import fs

        system, path = self.locate(uri)
        with self.explained(plain_uri(uri)):
            if _is_local(system):
                return deleting.delete_if_empty(*self._below_root(path))
            found = system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
            if any(info.type == fs.FileType.File for info in found):
                return False
            if system.get_file_info(path).type == fs.FileType.Directory:
                system.delete_dir(path)
            return True

    def is_link(self, uri: str) -> bool:
        """Whether it is a symbolic link; object stores have none."""
        system, path = self.locate(uri)
        with self.explained(plain_uri(uri)):
            return _is_local(system) and deleting.is_link(path)

    def path_of_local(self, uri: str) -> str | None:
        """Where it is on a local file system; None: on another one."""
        system, path = self.locate(uri)
        return path if _is_local(system) else None

    def _below_root(self, path: str) -> tuple[str, list[str]]:
        """The folder below which no symbolic link is followed, and the names from there to a local path."""
        top = self.locate(self.root)[1].rstrip("/")
        if not path.startswith(f"{top}/"):
            top = os.path.dirname(path).rstrip("/")
        return top or "/", path[len(top) :].strip("/").split("/")

    def create_folder(self, uri: str, *, private: bool = False) -> None:
        """Makes a folder to write to, and those above it. An object store has none, and is checked for the bucket.

        A private one is for this user only where it is local; those above it that are made are writable by no other
        user.
        """
        system, path = self.locate(uri)
        with self.explained(plain_uri(uri)):
            if _is_object_store(system):
                _find_bucket(system, path)
            try:
                _make_folder(system, path.rpartition("/")[0], 0o755 if private else 0o777)
                _make_folder(system, path, 0o700 if private else 0o777)
            except FileNotFoundError:
                raise OSError("it cannot be made there") from None
            if _is_local(system) and not os.access(path, os.W_OK | os.X_OK):
                raise OSError("it cannot be written to")

    def size(self, uri: str) -> int:
        """How many bytes a file has."""
        from pyarrow import fs

        system, path = self.locate(uri)
        with self.explained(plain_uri(uri)):
            info = system.get_file_info(path)
        if info.type != fs.FileType.File:
            raise MissingFileError(plain_uri(uri))
        return int(info.size)

    def exists(self, uri: str) -> bool:
        """Whether there is a file or a folder."""
        from pyarrow import fs

        system, path = self.locate(uri)
        with self.explained(plain_uri(uri)):
            found: bool = system.get_file_info(path).type != fs.FileType.NotFound
            return found

    def folders(self, uri: str) -> list[str]:
        """The names of the folders in a folder, or none when it is not there."""
        from pyarrow import fs

        system, path = self.locate(uri)
        with self.explained(plain_uri(uri)):
            found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
            return sorted(info.base_name for info in found if info.type == fs.FileType.Directory)

    def listing(self, uri: str) -> list[StoredFile]:
        """The files in a folder, or none when it is not there."""
        from pyarrow import fs

        system, path = self.locate(uri)
        with self.explained(plain_uri(uri)):
            found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
            return [StoredFile(i.base_name, int(i.size), i.mtime) for i in found if i.type == fs.FileType.File]

    def sweep(self, uri: str, older_than: timedelta) -> None:
        """Deletes old temporary files that crashes have left in a folder."""
        if not _is_object_store(self.locate(uri)[0]):
            for file in self.listing(uri):
                if file.name.startswith(_TEMPORARY) and file.written < datetime.now(UTC) - older_than:
                    self.delete_file(f"{uri}/{file.name}")

    def files(self, uri: str) -> list[str]:
        """The paths of all files below a folder, relative to it."""
        from pyarrow import fs

        system, path = self.locate(uri)
        with self.explained(plain_uri(uri)):
            found = system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
            return sorted(info.path[len(path) :].lstrip("/") for info in found if info.type == fs.FileType.File)


@lru_cache(maxsize=32)
def _file_system(scheme: str, netloc: str, query: str) -> Any:
    from pyarrow import fs

    if scheme in ("hdfs", "viewfs") and not netloc:
        if query:
            raise ValueError(f"options need a host: write {scheme}://host:port/path?{query}")
        return fs.HadoopFileSystem("default")  # the one in Hadoop's configuration
    if scheme in ("gs", "gcs") and "retry_limit_seconds" not in query:
        query = f"{query}&{_GCS_PATIENCE}" if query else _GCS_PATIENCE
    return fs.FileSystem.from_uri(f"{scheme}://{netloc}?{query}" if query else f"{scheme}://{netloc}")[0]


def _is_local(system: Any) -> bool:
    return bool(system.type_name == "local")


def _is_object_store(system: Any) -> bool:
    return system.type_name in ("s3", "gcs")


def _find_bucket(system: Any, path: str) -> None:
    """Raises when the store does not respond or has no such bucket. Not every user may query a bucket as such."""
    from pyarrow import fs

    if system.get_file_info(path).type != fs.FileType.NotFound:
        return
    bucket = path.partition("/")[0]
    try:
        found = system.get_file_info(bucket)
    except OSError:
        return
    if found.type == fs.FileType.NotFound:
        raise OSError(f"there is no bucket '{bucket}'")


def _make_folder(system: Any, path: str, mode: int = 0o777) -> None:
    if _is_local(system):
        make_folder(path, mode)
    elif not _is_object_store(system):
        system.create_dir(path, recursive=True)


def _sync_folders(folder: str, levels: int) -> None:
    """A folder and those above it that may be new: a state's and its operator's; a checkpoint's, its job's, a root."""
    for _ in range(levels):
        sync_folder(folder)
        folder = os.path.dirname(folder)
