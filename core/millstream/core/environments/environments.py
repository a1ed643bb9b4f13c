"""Job environments: the installed artifacts of jobs, built once per content on each host and shared by processes.

A folder below the cache's root contains one environment, named after a hash of the artifacts and of the runtime that it
is built from. It is built in place under a file lock, so that several processes on a host build it once; a marker that
is written last, when everything else is on the disk, marks it as complete, and a folder without it is built again.
Unused ones are deleted by total size and age.

The environment is a virtual environment without pip. The runtime's own site folders follow its own on the import
path: Millstream and its dependencies are visible, and the job's own packages take precedence. The requirements of
Millstream itself are passed to pip as constraints, so that a job that conflicts with them fails with pip's reason.

A job's wheel may carry its dependencies. Members that match `**/wheels/*.whl` are bundled wheels: those that fit the
interpreter are installed, and pip prefers them to any index. A member named `requirements.txt` at the wheel's root, in
the root of a package or in its dist-info is installed from as well.

An archive is unpacked into a folder of the working directory that has the archive's file name, or the name after a
`#` at the end of it, as in Flink; single files are copied there in the same way. Processes of jobs with equal artifacts
share the working directory. If packages are provided with the requirements, pip uses these and no index.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import math
import os
import re
import shutil
import signal
import sys
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from itertools import product
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from msgspec import Struct

from millstream.core.environments.artifacts import UNREADABLE_ZIP
from millstream.core.environments.environment_failures import ImpossibleEnvironmentError, failed, not_run
from millstream.core.environments.environment_use import (
    lock_of,
    mark_ready,
    mark_requested,
    release_lock,
    remove_partial,
    remove_unused,
    take_lock,
)
from millstream.core.environments.unpacking import UnpackBudget, UnpackLimitError, UnpackLimits
from millstream.core.files.directories import make_private, work_directory
from millstream.core.jobs.graph import Artifact, ArtifactKind
from millstream.core.jobs.ids import stable_id
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.submission import (
    PYTHON_ENVIRONMENTS_MAX_SIZE,
    PYTHON_ENVIRONMENTS_RETENTION,
    PYTHON_EXECUTABLE,
)

_LOCK_POLL = 0.1
_FILES = (ArtifactKind.FILE, ArtifactKind.EXECUTABLE)
_CONTENT = "content"  # where a folder for the import path is unpacked
_PIPS_OWN_FAILURE = "ERROR: Exception:"  # followed by a traceback of pip's own code, of which the last line is shown
_NO_ZIP = re.compile(r"(zipfile\.BadZipFile|zlib\.error|struct\.error|EOFError)\b")
_MOST_LINES = 100  # of pip's explanation: the log of a build may be very long
_PROBE = """
import json, os, re, site, sys
from importlib.metadata import distributions, requires, version
folders = site.getsitepackages() + ([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])
folders = [folder for folder in folders if os.path.isdir(folder)]
named = [(d.metadata["Name"], d.version) for d in distributions()]
installed = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in reversed(named) if name}
try:
    needs = ["millstream==" + version("millstream")] + [r for r in requires("millstream") or () if "extra ==" not in r]
except Exception:
    needs = []
try:
    from pip._vendor.packaging.tags import sys_tags
    tags = [str(t) for t in sys_tags()]
except ImportError:
    tags = None
print(json.dumps({"version": sys.version, "folders": folders, "installed": installed, "needs": needs, "tags": tags}))
"""

_T = TypeVar("_T")
Fetch = Callable[[Artifact, Path], Awaitable[None]]
Progress = Callable[[str], None]


class Environment(Struct, frozen=True):
    """The environment with which a process of the job is started. The process holds the lock while it runs."""

    python: str
    python_path: tuple[str, ...]
    working_directory: str | None
    lock: str | None = None


class _Runtime(Struct, frozen=True):
    """The interpreter from which environments are built, as it describes itself."""

    python: str
    version: str
    folders: tuple[str, ...]
    installed: dict[str, str]
    needs: tuple[str, ...]
    tags: frozenset[str] | None

    def fingerprint(self) -> str:
        packages = (f"{name}=={version}" for name, version in sorted(self.installed.items()))
        return stable_id(self.python, self.version, *self.folders, *packages)


class EnvironmentCache:
    """Builds and finds environments below `root`. Processes of one host may share a root."""

    def __init__(
        self,
        root: Path,
        python: str | None = None,
        limits: UnpackLimits | None = None,
        max_size: int | None = None,
        unused_for: float = math.inf,
    ) -> None:
        self._root = root
        self._python = python or sys.executable
        self._limits = limits or UnpackLimits()
        self._max_size = max_size
        self._unused_for = unused_for
        self._runtime: _Runtime | None = None

    @staticmethod
    def of(configuration: Configuration) -> EnvironmentCache:
        """Returns the cache of this host, which its services and programs share."""
        python = configuration.get(PYTHON_EXECUTABLE) or None
        max_size = configuration.get(PYTHON_ENVIRONMENTS_MAX_SIZE)
        root = work_directory(configuration, "environments")
        unused_for = configuration.get(PYTHON_ENVIRONMENTS_RETENTION)
        return EnvironmentCache(root, python, UnpackLimits.of(configuration), max_size, unused_for)

    async def prepare(self, artifacts: Sequence[Artifact], fetch: Fetch, progress: Progress) -> Environment:
        """Returns the environment of these artifacts, and builds it if it does not exist.

        `fetch` writes an artifact's content to a path; it is called only if the environment has to be built.
        `progress` is called with lines for the user. Raises EnvironmentFailedError,
        or ImpossibleEnvironmentError if another attempt cannot succeed. Cancelling it stops pip.
        """
        artifacts = [artifact for artifact in artifacts if artifact.kind is not ArtifactKind.DATA]
        if not artifacts:
            return Environment(self._python, (), None)
        installs = any(a.kind in (ArtifactKind.WHEEL, ArtifactKind.REQUIREMENTS) for a in artifacts)
        runtime = await self._probe() if installs else None
        key = stable_id(
            runtime.fingerprint() if runtime else self._python,
            *(part for a in artifacts for part in (a.kind.name, a.sha256, a.name)),
        )
        folder = self._root / key
        if not mark_requested(folder):
            make_private(self._root)
            progress("waiting for the job's environment")
            async with _lock(folder, lambda: mark_requested(folder)) as release:
                if not mark_requested(folder):
                    await _in_thread(self._remove_partial, folder)
                    await self._make(folder, artifacts, runtime, fetch, progress)
                    await _in_thread(_finish, folder, release)
            if self._max_size is not None:
                await asyncio.to_thread(remove_unused, self._root, self._max_size, self._unused_for)
        return _describe(folder, artifacts, self._python, installs)

    async def _make(
        self, folder: Path, artifacts: Sequence[Artifact], runtime: _Runtime | None, fetch: Fetch, progress: Progress
    ) -> None:
        try:
            for index, artifact in enumerate(artifacts):
                path = _fetched(folder, index, artifact)
                make_private(path.parent)
                progress(f"fetching {artifact.name}")
                await fetch(artifact, path)
            if runtime is not None:
                await _install(runtime, folder, artifacts, progress, self._limits)
            for index, artifact in enumerate(artifacts):
                if artifact.kind is ArtifactKind.ARCHIVE:
                    target = _work(folder) / _archive_target(artifact.name)
                    path = _fetched(folder, index, artifact)
                    progress(f"unpacking {artifact.name}")
                    budget = UnpackBudget(artifact.name, path.stat().st_size, self._limits)
                    await _in_thread(_unpack, path, artifact.name, target, budget, on_cancel=budget.stop)
                elif artifact.kind in _FILES:
                    target = _work(folder) / _archive_target(artifact.name)
                    await _in_thread(_put, _fetched(folder, index, artifact), target, artifact.kind)
                elif artifact.kind is ArtifactKind.PYTHON_FOLDER:
                    path = _fetched(folder, index, artifact)
                    budget = UnpackBudget(artifact.name, path.stat().st_size, self._limits)
                    content = path.parent / _CONTENT
                    await _in_thread(_unpack, path, artifact.name, content, budget, on_cancel=budget.stop)
        except BaseException as error:
            await _in_thread(shutil.rmtree, folder, True)
            if isinstance(error, UnpackLimitError):
                raise ImpossibleEnvironmentError(str(error)) from error
            raise

    async def _probe(self) -> _Runtime:
        if self._runtime is None:
            status, lines = await _run([self._python, "-c", _PROBE], lambda _: None)
            if status != 0 or not lines:
                raise failed(f"cannot run the interpreter {self._python}: {_last(lines)}", lines, status)
            found = json.loads(lines[-1])
            self._runtime = _Runtime(
                python=self._python,
                version=found["version"],
                folders=tuple(found["folders"]),
                installed=found["installed"],
                needs=tuple(found["needs"]),
                tags=frozenset(found["tags"]) if found["tags"] is not None else None,
            )
        return self._runtime

    def _remove_partial(self, folder: Path) -> None:
        """Deletes the remains of this environment, and of others that are not being built."""
        shutil.rmtree(folder, ignore_errors=True)
        remove_partial(self._root)


def _fetched(folder: Path, index: int, artifact: Artifact) -> Path:
    name = Path(artifact.name.partition("#")[0]).name
    if not name or name in (".", ".."):
        raise ImpossibleEnvironmentError(f"an artifact cannot be named '{artifact.name}'; it needs a file name")
    return folder / "artifacts" / str(index) / name


def _work(folder: Path) -> Path:
    return folder / "work"


def _describe(folder: Path, artifacts: Sequence[Artifact], python: str, installs: bool) -> Environment:
    python_path: list[str] = []
    for index, artifact in enumerate(artifacts):
        if artifact.kind is ArtifactKind.PYTHON_FILE:
            path = _fetched(folder, index, artifact)
            python_path.append(str(path.parent if path.suffix == ".py" else path))
        elif artifact.kind is ArtifactKind.PYTHON_FOLDER:
            python_path.append(str(_fetched(folder, index, artifact).parent / _CONTENT))
    unpacks = any(a.kind is ArtifactKind.ARCHIVE or a.kind in _FILES for a in artifacts)
    return Environment(
        python=str(folder / "venv" / "bin" / "python") if installs else python,
        python_path=tuple(python_path),
        working_directory=str(_work(folder)) if unpacks else None,
        lock=str(lock_of(folder)),
    )


def _finish(folder: Path, release: Callable[[], None]) -> None:
    """Marks and releases on one thread: a caller that sees the marker may block the loop that releases the lock."""
    try:
        mark_ready(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    release()


@contextlib.asynccontextmanager
async def _lock(folder: Path, unneeded: Callable[[], bool]) -> AsyncIterator[Callable[[], None]]:
    """Holds the environment's exclusive lock on this host. Waits without blocking the loop.

    The wait ends when the lock is `unneeded`, since processes that run in the environment hold a lock all the time.
    The yielded function releases the lock before the end of the block, from any thread.
    """
    while True:
        try:
            held = take_lock(lock_of(folder), fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if unneeded():
                yield lambda: None
                return
            await asyncio.sleep(_LOCK_POLL)
    release = contextlib.ExitStack()
    release.callback(release_lock, held, folder)
    with release:
        yield release.close


async def _in_thread(work: Callable[..., _T], *arguments: Any, on_cancel: Callable[[], None] = lambda: None) -> _T:
    """Runs work on a thread, and waits for its end even if cancelled, so that the folder is no longer in use."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        on_cancel()
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # marks it as retrieved
        raise


async def _install(
    runtime: _Runtime, folder: Path, artifacts: Sequence[Artifact], progress: Progress, limits: UnpackLimits
) -> None:
    names = ", ".join(a.name for a in artifacts if a.kind in (ArtifactKind.WHEEL, ArtifactKind.REQUIREMENTS))
    if runtime.tags is None:
        raise ImpossibleEnvironmentError(f"cannot install {names}: the interpreter {runtime.python} has no pip")
    progress(f"installing {names}: creating the environment")
    venv = folder / "venv"
    status, lines = await _run([runtime.python, "-m", "venv", "--without-pip", str(venv)], lambda _: None)
    if status != 0:
        raise failed(f"cannot create an environment with {runtime.python}: {_last(lines)}", lines, status)
    _link_runtime(venv, runtime)

    wheels, requirements = await _in_thread(_collect, runtime.tags, folder, artifacts, limits)
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{need}\n" for need in runtime.needs))
    pip = [runtime.python, "-m", "pip", "--python", str(venv / "bin" / "python"), "install"]
    pip += ["--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--no-warn-script-location"]

    def show(line: str) -> None:
        progress(f"installing {names}: {line.strip()}")

    # pip skips a wheel whose version is already installed, including the runtime's packages.
    hidden = [w for w in wheels if runtime.installed.get(_distribution(w)[0]) == _distribution(w)[1]]
    if hidden:
        await _pip([*pip, "--no-deps", "--force-reinstall", *map(str, hidden)], names, show)
    arguments = ["--constraint", str(constraints), "--find-links", str(folder / "bundled")]
    for path in requirements:
        arguments += ["--requirement", str(path)]
    for index, artifact in enumerate(artifacts):
        if artifact.kind is ArtifactKind.PACKAGE:
            arguments += ["--no-index", "--find-links", str(_fetched(folder, index, artifact).parent)]
    await _pip([*pip, *arguments, *map(str, wheels)], names, show)


def _link_runtime(venv: Path, runtime: _Runtime) -> None:
    (site_packages,) = venv.glob("lib/python*/site-packages")
    lines = [f"import site; site.addsitedir({folder!r})\n" for folder in runtime.folders]
    (site_packages / "_millstream_runtime.pth").write_text("".join(lines))


def _collect(
    tags: frozenset[str], folder: Path, artifacts: Sequence[Artifact], limits: UnpackLimits
) -> tuple[list[Path], list[Path]]:
    """Collects the wheels and requirement files to install: the artifacts and the contents of wheels."""
    bundled = folder / "bundled"
    make_private(bundled)
    wheels: list[Path] = []
    requirements: list[Path] = []
    for index, artifact in enumerate(artifacts):
        path = _fetched(folder, index, artifact)
        if artifact.kind is ArtifactKind.REQUIREMENTS:
            requirements.append(path)
        elif artifact.kind is ArtifactKind.WHEEL:
            wheels.append(path)
            budget = UnpackBudget(artifact.name, path.stat().st_size, limits)
            try:
                carried = _extract_carried(path, bundled, path.parent / "carried", budget)
            except UNREADABLE_ZIP as error:
                raise failed(f"{artifact.name} is not a readable wheel: {error}", [str(error)]) from error
            wheels += [w for w in carried if w.suffix == ".whl" and _fits(w, tags) and w not in wheels]
            requirements += [r for r in carried if r.suffix == ".txt"]
    return wheels, requirements


def _extract_carried(wheel: Path, bundled: Path, requirements: Path, budget: UnpackBudget) -> list[Path]:
    """Unpacks bundled wheels and requirements. Counts their size, and that of what pip will unpack."""
    extracted: list[Path] = []
    with budget.open_zip(wheel) as archive:
        budget.take_zip(archive)
        for member in archive.infolist():
            parts = PurePosixPath(member.filename).parts
            if member.is_dir() or not parts:
                continue
            if len(parts) >= 2 and parts[-2] == "wheels" and parts[-1].endswith(".whl"):
                target = bundled / parts[-1]
            elif len(parts) <= 2 and parts[-1] == "requirements.txt":
                target = requirements / f"{len(extracted)}-requirements.txt"
            else:
                continue
            make_private(target.parent)
            with archive.open(member) as source, open(target, "wb") as sink:
                budget.copy(source, sink)
            if target.suffix == ".whl":
                with budget.open_zip(target) as inner:
                    budget.take_zip(inner)
            extracted.append(target)
    return extracted


def _fits(wheel: Path, tags: frozenset[str]) -> bool:
    parts = wheel.stem.split("-")
    if len(parts) not in (5, 6):
        raise ImpossibleEnvironmentError(f"the bundled wheel {wheel.name} has no valid wheel file name")
    return any("-".join(tag) in tags for tag in product(*(part.split(".") for part in parts[-3:])))


def _distribution(wheel: Path) -> tuple[str, str]:
    name, _, rest = wheel.stem.partition("-")
    return name.lower().replace("_", "-").replace(".", "-"), rest.partition("-")[0]


def _archive_target(name: str) -> str:
    target = name.partition("#")[2] or Path(name).name
    if PurePosixPath(target).is_absolute() or ".." in PurePosixPath(target).parts:
        raise ImpossibleEnvironmentError(f"the archive {name} cannot be unpacked outside of the working directory")
    return target


def _put(path: Path, target: Path, kind: ArtifactKind) -> None:
    make_private(target.parent)
    shutil.copyfile(path, target)
    target.chmod(0o700 if kind is ArtifactKind.EXECUTABLE else 0o600)


def _unpack(path: Path, name: str, target: Path, budget: UnpackBudget) -> None:
    import lzma
    import tarfile

    make_private(target)
    try:
        if zipfile.is_zipfile(path):
            with budget.open_zip(path) as archive:
                budget.take_zip(archive)
                for member in archive.infolist():
                    budget.check_stopped()
                    parts = PurePosixPath(member.filename.replace("\\", "/"))
                    if parts.is_absolute() or ".." in parts.parts:
                        raise ImpossibleEnvironmentError(f"the archive {name} has a member outside it: {parts}")
                    extracted = archive.extract(member, target)
                    if not member.is_dir() and member.external_attr >> 16 & 0o777:
                        os.chmod(extracted, member.external_attr >> 16 & 0o700 | 0o600)
        else:
            budget.extract_tar(path, target)
    except tarfile.SpecialFileError as error:
        raise ImpossibleEnvironmentError(f"the archive {name} has a member that is not a file: {error}") from error
    except tarfile.FilterError as error:
        raise ImpossibleEnvironmentError(f"the archive {name} has a member outside of it: {error}") from error
    except (tarfile.TarError, lzma.LZMAError, *UNREADABLE_ZIP) as error:
        reason = f"the archive {name} is neither a readable zip nor tar file: {error}"
        raise failed(reason, [str(error)]) from error


async def _pip(command: list[str], names: str, show: Progress) -> None:
    status, lines = await _run(command, show)
    if status != 0:
        raise failed(f"cannot install {names}: {_explanation(lines)}", lines, status)


def _explanation(lines: Sequence[str]) -> str:
    """Returns pip's output from its first error; the lines between errors explain conflicts."""
    first = next((i for i, line in enumerate(lines) if line.startswith("ERROR:")), None)
    if first is None:  # pip quotes the output of the build of a package
        quoted = [line.strip().removeprefix("ERROR: ") for line in lines if line.strip().startswith("ERROR: ")]
        return _last(quoted or lines)
    if lines[first] == _PIPS_OWN_FAILURE:
        raised = next((line for line in reversed(lines[first + 1 :]) if re.match(r"[\w.]+(:|$)", line)), "")
        damaged = "; the wheel is damaged, or its sizes are not those in its directory" if _NO_ZIP.match(raised) else ""
        return f"pip failed: {raised or _last(lines)}{damaged}"
    return "\n".join(line.removeprefix("ERROR: ") for line in lines[first:][-_MOST_LINES:]).strip()


async def _run(command: Sequence[str], show: Progress) -> tuple[int, list[str]]:
    """Runs a command; returns its status and the lines of its output. Cancelling kills it and its children."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            limit=1 << 20,
        )
    except OSError as error:
        raise not_run(command[0], error) from error
    assert process.stdout is not None
    lines: list[str] = []
    try:
        async for raw in process.stdout:
            line = raw.decode(errors="replace").rstrip()
            if line:
                lines.append(line)
                show(line)
        return await process.wait(), lines
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())


def _last(lines: Iterable[str]) -> str:
    return next(reversed([line.strip() for line in lines if line.strip()]), "it printed no reason")
