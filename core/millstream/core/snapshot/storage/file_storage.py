"""Checkpoints in a directory of any file system that a URI names."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, urlsplit

from millstream.core.files import deleting
from millstream.core.jobs.ids import JobId, new_id
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.metadata.model import METADATA_FILE, SnapshotMetadata, is_uri
from millstream.core.snapshot.metadata.model_json import metadata_from_bytes, metadata_to_bytes
from millstream.core.snapshot.storage.storage import (
    StoredCheckpoint,
    checkpoint_folder,
    checkpoint_id_of,
    location_of,
    part_path,
    safe_name,
    savepoint_folder,
)
from millstream.core.snapshot.storage.uri_files import UriFiles, plain_uri
from millstream.core.snapshot.tables.writers import FileWriter

_SHARED = "shared"


class FileSystemStorage:
    """`CheckpointStorage` below `<uri>/<job id>`. Snapshots elsewhere can be read and deleted by their pointer."""

    def __init__(self, uri: str, job_id: JobId, write_buffer: int | None = None) -> None:
        self._files = UriFiles(uri, write_buffer)
        self._job_id = job_id
        self._home = f"{self._files.root}/{quote(safe_name(job_id))}"

    @property
    def home(self) -> str:
        """The folder of the job's checkpoints."""
        return plain_uri(self._home)

    def create_root(self, *, private: bool = True) -> None:
        """Creates the directory, so that a directory that is not writable is detected before tasks use it.

        That of checkpoints is private: for this user only. That of savepoints is made by the umask.
        """
        self._files.create_folder(self._files.root, private=private)

    def checkpoint_location(self, checkpoint_id: int) -> str:
        """`<root>/<job id>/chk-<n>`."""
        return f"{self._home}/{checkpoint_folder(checkpoint_id)}"

    def savepoint_location(self, directory: str | None = None) -> str:
        """Returns a location with a random name."""
        parent = self._files.root if directory is None else plain_uri(directory)
        if directory is not None:
            self._files.locate(directory)
        return f"{parent}/{savepoint_folder(self._job_id, new_id())}"

    def create_writer(
        self, location: str, operator: str, state: str, subtask: int, suffix: str, *, part: int = 0,
        shared: bool = False, inline_below: int = 0,
    ) -> FileWriter:  # fmt: skip
        """A writer into the snapshot's folder, or into the job's shared one."""
        if shared:
            uri = f"{self._home}/{_SHARED}/{new_id()}.{suffix}"
            return FileWriter(self._files, uri, uri, inline_below, private=True)
        path = part_path(operator, state, subtask, part, suffix)
        private = self._is_own(location)
        return FileWriter(self._files, f"{location_of(location)}/{path}", path, inline_below, private=private)

    def _is_own(self, location: str) -> bool:
        """Whether files are private to this user: those of checkpoints are, savepoints follow the umask."""
        return plain_uri(location_of(location)).startswith(f"{self._home}/")

    def write_metadata(self, location: str, metadata: SnapshotMetadata) -> str:
        """By a rename, or by one upload."""
        pointer = plain_uri(location_of(location))
        uri, data = f"{location_of(location)}/{METADATA_FILE}", metadata_to_bytes(metadata)
        self._files.write_whole(uri, data, private=self._is_own(location))
        return pointer

    def read_metadata(self, pointer: str) -> SnapshotMetadata:
        """Reads and checks the metadata."""
        uri = f"{_uri(pointer)}/{METADATA_FILE}"
        try:
            data = self._files.read(uri)
        except SnapshotError as error:
            if not isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                raise
            reason = f"is no snapshot: there is no {METADATA_FILE} in it{self._nearby(_uri(pointer))}"
            raise SnapshotError(plain_uri(_uri(pointer)), reason) from error
        return metadata_from_bytes(data.to_pybytes(), plain_uri(uri))

    def _nearby(self, uri: str) -> str:
        """Returns the newest checkpoint in or beside a folder that is not a snapshot, to suggest it in an error."""
        for where, folder in (("in it", uri), ("beside it", uri.rpartition("/")[0])):
            with contextlib.suppress(SnapshotError):
                ids = [n for n in map(checkpoint_id_of, self._files.folders(folder)) if n is not None]
                for name in map(checkpoint_folder, sorted(ids, reverse=True)):
                    if self._files.exists(f"{folder}/{name}/{METADATA_FILE}"):
                        return f"; the newest checkpoint {where} is {name}"
        return ""

    def read_file(self, location: str, path: str) -> Any:
        """Reads a whole file."""
        return self._files.read(path if is_uri(path) else f"{_uri(location)}/{quote(path)}")

    def file_size(self, location: str, path: str) -> int:
        """Reads it from the file system."""
        return self._files.size(path if is_uri(path) else f"{_uri(location)}/{quote(path)}")

    def list_checkpoints(self) -> list[StoredCheckpoint]:
        """By the folders' names."""
        ids = sorted(n for n in map(checkpoint_id_of, self._files.folders(self._home)) if n is not None)
        return [
            StoredCheckpoint(n, location, self._files.exists(f"{location}/{METADATA_FILE}"))
            for n in ids
            for location in (self.checkpoint_location(n),)
        ]

    def delete_checkpoint(self, checkpoint_id: int) -> None:
        """By its location."""
        self.delete_folder(self.checkpoint_location(checkpoint_id))

    def delete_folder(self, location: str) -> None:
        """Deletes the metadata first, so that an interrupted deletion leaves no snapshot that seems complete."""
        if not self._files.is_link(location):
            self._files.delete_file(f"{location}/{METADATA_FILE}")
        self._files.delete_folder(location)

    def delete_unfinished(self, location: str) -> None:
        """Deletes the files of an aborted snapshot; a complete one is kept."""
        if not self._files.exists(f"{location}/{METADATA_FILE}"):
            self._files.delete_folder(location)

    def delete_snapshot(self, pointer: str) -> None:
        """What a user put beside a savepoint's files stays, and so does then its folder.

        A symbolic link to the folder of a snapshot is refused. One in place of a folder or file of the snapshot is
        deleted; what it leads to stays.
        """
        metadata, location = self.read_metadata(pointer), _uri(pointer)
        if self._files.is_link(location):
            reason = "is a symbolic link: name the folder that it leads to; nothing was deleted"
            raise SnapshotError(plain_uri(location), reason)
        path = self._files.path_of_local(location)
        if path is None:
            self._delete_stored(location, metadata)
        else:
            with self._files.explained(plain_uri(location)), deleting.opened(path) as folder:
                self._delete_opened(location, folder)

    def _delete_opened(self, location: str, folder: deleting.OpenedFolder) -> None:
        """Deletes what the metadata in the opened folder names: its path may lead to another one by now."""
        data = folder.read(METADATA_FILE)
        files, folders = _own_files(metadata_from_bytes(data, plain_uri(f"{location}/{METADATA_FILE}")))
        folder.delete_file(METADATA_FILE)
        for name in folders:
            if folder.is_link(name):
                folder.delete_file(name)
        for name in files:
            folder.delete_file(name)
        for name in reversed(folders):
            folder.delete_if_empty(name)
        folder.delete_if_empty()

    def _delete_stored(self, location: str, metadata: SnapshotMetadata) -> None:
        """Of a file system that is not local, which has no links."""
        files, folders = _own_files(metadata)
        for name in (METADATA_FILE, *files):
            self._files.delete_file(f"{location}/{quote(name)}")
        for name in reversed(folders):
            self._files.delete_if_empty(f"{location}/{quote(name)}")
        self._files.delete_if_empty(location)

    def delete_files(self, paths: Iterable[str]) -> None:
        """Deletes files one by one; the first error is raised after all were tried."""
        failure: SnapshotError | None = None
        for path in paths:
            if not is_uri(path):
                raise SnapshotError(path, "is not a URI, by which files are deleted")
            try:
                self._files.delete_file(path)
            except SnapshotError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def delete_unused_files(self, in_use: Collection[str]) -> None:
        """By their names, which are random."""
        used = {uri.rpartition("/")[2] for uri in in_use}
        self.delete_shared_files(name for name in self.shared_files() if name not in used)

    def shared_files(self) -> list[str]:
        """The names of the files in the job's shared folder."""
        return self._files.files(f"{self._home}/{_SHARED}")

    def delete_shared_files(self, names: Iterable[str]) -> None:
        """Those of these names."""
        self.delete_files(f"{self._home}/{_SHARED}/{quote(name)}" for name in names)

    def delete_empty_folders(self) -> None:
        """The job's folder and its shared one."""
        self._files.delete_if_empty(self._home)


def storage_at(pointer: str) -> tuple[FileSystemStorage, str]:
    """Returns the storage for a snapshot of a user, whose URI may contain credentials and options, and its location."""
    path, _, query = pointer.partition("?") if is_uri(pointer) else (pointer, "", "")
    folder = location_of(path)
    return FileSystemStorage(f"{folder}?{query}" if query else folder, JobId("none")), plain_uri(folder)


def _own_files(metadata: SnapshotMetadata) -> tuple[list[str], list[str]]:
    """The paths of the files that only this snapshot has, and of the folders with them, outer ones first."""
    files = [file.path for file in metadata.files() if not file.shared and file.inline is None]
    parents = {str(parent) for path in files for parent in PurePosixPath(path).parents if str(parent) != "."}
    return files, sorted(parents, key=len)


def _uri(pointer: str) -> str:
    """A pointer's folder as a URI."""
    if not is_uri(pointer):
        return plain_uri(location_of(pointer))
    query = urlsplit(pointer).query
    if query:
        raise SnapshotError(plain_uri(pointer), "has options in it: give those to the storage, not to a pointer")
    folder = location_of(pointer)
    return plain_uri(folder) if urlsplit(folder).scheme.lower() == "file" else folder
