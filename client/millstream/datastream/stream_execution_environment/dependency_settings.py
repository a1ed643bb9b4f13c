"""The part of the environment that is about what a job ships and installs, with PyFlink's names."""

from __future__ import annotations

import os
from typing import NoReturn

from millstream.common.configuration import Configuration
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import ArtifactKind
from millstream.core.settings.options.submission import PYTHON_EXECUTABLE
from millstream.datastream.graph.artifacts import LocalFile, local_file, local_packages, python_file


class DependencySettings:
    """Setters, which add to the environment's files and explicit options."""

    _explicit: Configuration
    _local_files: list[LocalFile]

    def add_python_file(self, file_path: str | os.PathLike[str]) -> None:
        """Ships `file_path`: a .py, .zip or .whl file that functions import, or a folder that they import from.

        For example:

            env.add_python_file("shared/prices.py")
        """
        self._local_files.append(python_file(file_path, "add_python_file"))

    def set_python_requirements(
        self, requirements_file_path: str | os.PathLike[str], requirements_cache_dir: str | None = None
    ) -> None:
        """Ships a requirements.txt that the job's environment is made from, in place of one set before.

        `requirements_file_path` is the file. With `requirements_cache_dir`, a folder of packages as `pip download -d`
        fills it, these are shipped as well, and no package index is used.

            env.set_python_requirements("requirements.txt")
        """
        method = "set_python_requirements"
        files = [local_file(requirements_file_path, ArtifactKind.REQUIREMENTS, method)]
        if requirements_cache_dir is not None:
            files += local_packages(requirements_cache_dir, method)
        replaced = (ArtifactKind.REQUIREMENTS, ArtifactKind.PACKAGE)
        self._local_files = [f for f in self._local_files if f.kind not in replaced] + files

    def add_python_archive(self, archive_path: str | os.PathLike[str], target_dir: str | None = None) -> None:
        """Ships the archive `archive_path`, which is unpacked into a folder of the tasks' working directory.

        The folder has the name `target_dir`, without it that of the archive.

            env.add_python_archive("model.zip", "model")
        """
        self._local_files.append(local_file(archive_path, ArtifactKind.ARCHIVE, "add_python_archive", target_dir))

    def register_cached_file(self, file_path: str | os.PathLike[str], name: str, executable: bool = False) -> None:
        """Ships the file `file_path` into the tasks' working directory, under `name`; as a program if `executable`.

        For example:

            env.register_cached_file("cities.csv", "cities")
        """
        kind = ArtifactKind.EXECUTABLE if executable else ArtifactKind.FILE
        path = os.fspath(file_path).removeprefix("file://")
        self._local_files.append(local_file(path, kind, "register_cached_file", name))

    def add_jars(self, *jars_path: str) -> NoReturn:
        """Raises an error for any `jars_path`: there is no JVM."""
        raise InvalidProgramError(
            f"add_jars: {', '.join(map(str, jars_path)) or 'a jar'} cannot be used, because there is no JVM here. "
            "Connectors and formats are Python: see the page on connectors; add_python_file() ships Python code"
        )

    def add_classpaths(self, *classpaths: str) -> NoReturn:
        """Raises an error for any `classpaths`: there is no JVM."""
        raise InvalidProgramError(
            f"add_classpaths: {', '.join(map(str, classpaths)) or 'a class path'} cannot be used, because there is no "
            "JVM here; add_python_file() and add_python_archive() ship what functions need"
        )

    def set_python_executable(self, python_exec: str | os.PathLike[str]) -> None:
        """Sets the interpreter that the job's environment is made from: `python_exec`.

        For example:

            env.set_python_executable("/opt/python3.12/bin/python")
        """
        self._explicit.set(PYTHON_EXECUTABLE, os.fspath(python_exec))
