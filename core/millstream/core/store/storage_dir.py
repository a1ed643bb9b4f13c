"""The cluster's part of `high-availability.storageDir`: a local folder, or a URI as for checkpoints.

A URI may contain credentials, which errors never show. The store of `high-availability.type: file` requires a
folder: its locks are the kernel's.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from millstream.core.errors import ConfigurationError
from millstream.core.files.directories import private_folder
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import HA_CLUSTER_ID, HA_STORAGE_DIR
from millstream.core.settings.secrets import without_secrets
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.metadata.model import is_uri
from millstream.core.snapshot.storage.uri_files import UriFiles, with_options_of
from millstream.core.store.file_contents import ContentFiles
from millstream.core.store.folder_files import FolderFiles
from millstream.core.store.uri_content_files import UriContentFiles

_ID = re.compile(r"/?(?!\.+\Z)[A-Za-z0-9_.\-]{1,120}\Z")


class StorageDir(Struct, frozen=True):
    """The locations below the storage directory."""

    graphs: ContentFiles
    results: ContentFiles
    artifacts: Path | UriFiles
    checkpoints: str
    """As an `execution.checkpointing.dir`, with the credentials."""


def open_storage_dir(configuration: Configuration) -> StorageDir:
    """Opens the configured storage. Raises ConfigurationError when it cannot be used."""
    value = configuration.get(HA_STORAGE_DIR)
    if _is_local(value):
        folder = _folder(configuration)
        artifacts = private_folder(folder, "artifacts", option=HA_STORAGE_DIR)
        graphs, results = FolderFiles(folder / "job-graphs"), FolderFiles(folder / "job-results")
        return StorageDir(graphs, results, artifacts, (folder / "checkpoints").as_uri())
    try:
        root = f"{UriFiles(value).root}/{cluster_id(configuration)}"
    except SnapshotError as error:
        raise ConfigurationError(f"option '{HA_STORAGE_DIR}': {without_secrets(str(error))}") from error

    def below(name: str) -> str:
        return with_options_of(value, f"{root}/{name}")

    return StorageDir(
        UriContentFiles(UriFiles(below("job-graphs"))),
        UriContentFiles(UriFiles(below("job-results"))),
        UriFiles(below("artifacts")),
        below("checkpoints"),
    )


def store_folder(configuration: Configuration) -> Path:
    """Returns the folder of the store of `high-availability.type: file`. Raises ConfigurationError."""
    value = configuration.get(HA_STORAGE_DIR)
    if not _is_local(value):
        raise ConfigurationError(
            f"option '{HA_STORAGE_DIR}' is '{without_secrets(value)}', and 'high-availability.type: file' keeps its "
            "locks there: name a folder of this host, or use 'high-availability.type: zookeeper'"
        )
    return private_folder(_folder(configuration), "store", option=HA_STORAGE_DIR)


def cluster_id(configuration: Configuration) -> str:
    """Returns `high-availability.cluster-id`, as the name of a folder. Raises ConfigurationError."""
    value = configuration.get(HA_CLUSTER_ID)
    if not _ID.match(value):
        raise ConfigurationError(
            f"option 'high-availability.cluster-id': '{value}' is not of 1 to 120 letters, digits, _, . and -"
        )
    return value.removeprefix("/")


def _is_local(value: str) -> bool:
    """Whether the value is a path; an invalid URI counts as one, and is rejected as such."""
    return not is_uri(value) or urlsplit(value).scheme.lower() == "file"


def _folder(configuration: Configuration) -> Path:
    value = configuration.get(HA_STORAGE_DIR)
    try:
        path = unquote(urlsplit(UriFiles(value).root).path) if value.lower().startswith("file:/") else value
    except SnapshotError as error:
        raise ConfigurationError(f"option '{HA_STORAGE_DIR}': {error}") from error
    if not path.startswith("/"):
        why = "is not set" if not value else f"is '{value}'"
        raise ConfigurationError(
            f"option '{HA_STORAGE_DIR}' {why}; it has to be the absolute path of a folder that all services share, or "
            "a URI (s3://, hdfs://, gs://)"
        )
    return private_folder(Path(path), cluster_id(configuration), option=HA_STORAGE_DIR)
