"""The folder that a program was started from, sent with its jobs: modules beside it are imported on the cluster too.

A program's folder is sent as a whole, without what `.millstreamignore` and the defaults leave out. Where that is no
program's own folder (the home directory, the system's temporary one) or too much, only the modules are sent that the
program has imported from it; what is imported later, or opened, is not there then.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import site
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from msgspec.structs import replace

from millstream.client.folder_scan import FolderTooLargeError, FoundFiles, scan
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import Artifact, ArtifactKind, JobGraph
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.submission import PYTHON_JOB_FOLDER_MAX_SIZE

_SHOWN = 3


@contextlib.contextmanager
def with_job_folder(
    graph: JobGraph, paths: dict[str, str], configuration: Configuration
) -> Iterator[tuple[JobGraph, dict[str, str]]]:
    """The job with its folder among the artifacts, and where those are, as long as this lasts.

    Raises InvalidProgramError when modules that the program imported cannot be sent.
    """
    folder = program_folder(sys.modules.get("__main__"))
    limit = configuration.get(PYTHON_JOB_FOLDER_MAX_SIZE)
    with tempfile.TemporaryDirectory(prefix="millstream-folder-") as scratch:
        packed = _pack(folder, limit, Path(scratch)) if folder is not None and limit > 0 else None
        if packed is None:
            yield graph, paths
            return
        with packed.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        artifact = Artifact(digest, packed.name, ArtifactKind.PYTHON_FOLDER)
        # First, for so it is where the program runs: its folder is before everything else on the import path.
        yield replace(graph, artifacts=(artifact, *graph.artifacts)), {**paths, digest: str(packed)}


def program_folder(main: ModuleType | None) -> Path | None:
    """The folder that modules beside the program are imported from; None for installed programs and for none at all."""
    file = getattr(main, "__file__", None)
    if main is None or not file or not os.path.isfile(file):
        return None
    folder = Path(file).resolve().parent if main.__spec__ is None else Path(file).absolute().parent
    name = main.__spec__.name if main.__spec__ is not None else ""
    for _ in range(name.removesuffix(".__main__").count(".") + name.endswith(".__main__")):
        folder = folder.parent  # of `-m package.module`, where the package is
    installed = [sys.prefix, sys.base_prefix, *site.getsitepackages(), site.getusersitepackages()]
    own = any(Path(file).absolute().is_relative_to(path) for path in _millstream_folders())
    return None if own or any(folder.is_relative_to(os.path.realpath(path)) for path in installed) else folder


def _millstream_folders() -> list[str]:
    import millstream

    return [os.path.abspath(path) for path in millstream.__path__]


def _pack(folder: Path, limit: int, scratch: Path) -> Path | None:
    try:
        if _is_shared(folder):
            raise FolderTooLargeError("it is not the program's alone")
        found = scan(folder, limit)
    except FolderTooLargeError as problem:
        found = _imported_only(folder, limit, problem)
    if found.too_large:
        names = ", ".join(f"{path} ({size} bytes)" for path, size in found.too_large[:_SHOWN])
        more = f" and {len(found.too_large) - _SHOWN} more" if len(found.too_large) > _SHOWN else ""
        text = f"millstream: large files in {folder} are not sent with the job: {names}{more}; -pyarch sends archives"
        print(text, file=sys.stderr)
    main = Path(str(getattr(sys.modules["__main__"], "__file__", ""))).name
    if not any(path != main for path in found.paths):
        return None  # the program stands alone
    target = scratch / f"{folder.name or 'root'}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in found.paths:  # without times, so that equal content is uploaded and unpacked once
            with contextlib.suppress(FileNotFoundError):
                archive.writestr(zipfile.ZipInfo(path), (folder / path).read_bytes(), zipfile.ZIP_DEFLATED, 1)
    return target


def _is_shared(folder: Path) -> bool:
    shared = {"/", os.path.expanduser("~"), tempfile.gettempdir(), "/tmp", "/var/tmp"}
    return any(os.path.realpath(path) == str(folder) for path in shared)


def _imported_only(folder: Path, limit: int, problem: FolderTooLargeError) -> FoundFiles:
    names = _imported_from(folder)
    if not names:
        return FoundFiles((), ())
    try:
        return scan(folder, limit, only=frozenset(names))
    except FolderTooLargeError as error:
        raise InvalidProgramError(
            f"the program imports {', '.join(sorted(names))} from {folder}, which cannot be sent with the job:"
            f" {problem}, and of these alone {error}. Name what the job needs with -pyfs, or leave files out in"
            " .millstreamignore"
        ) from error


def _imported_from(folder: Path) -> set[str]:
    """The names in the folder that modules which are loaded were loaded from: files and packages at its top."""
    names: set[str] = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name == "__main__" or not isinstance(file, str):
            continue
        path = Path(os.path.abspath(file))
        if path.is_relative_to(folder):
            inside = path.relative_to(folder).parts
            dotted = name.split(".")
            top = inside[0].partition(".")[0]
            if top == dotted[0]:  # imported from here, and not from some folder further down that is on the path too
                names.add(inside[0])
    return names
