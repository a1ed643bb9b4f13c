"""Job environments, created with the real venv and pip from wheels that the tests write; no package index is used."""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from archives import tar_of, zip_of
from waiting import DEADLINE
from wheels import wheel_bytes

from millstream.core.environments import environments
from millstream.core.environments.environment_failures import EnvironmentFailedError, ImpossibleEnvironmentError, failed
from millstream.core.environments.environment_use import in_use, lock_of, mark_ready, remove_unused
from millstream.core.environments.environments import Environment, EnvironmentCache
from millstream.core.jobs.graph import Artifact, ArtifactKind


@pytest.fixture(autouse=True)
def _no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")


class Store:
    """Artifacts by content, and how often each was fetched."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.progress: list[str] = []

    def add(self, name: str, content: bytes, kind: ArtifactKind) -> Artifact:
        digest = hashlib.sha256(content).hexdigest()
        self.contents[digest] = content
        return Artifact(digest, name, kind)

    def module(self) -> Artifact:
        return self.add("one.py", b"", ArtifactKind.PYTHON_FILE)

    def wheel(self, name: str, version: str, files: dict[str, str | bytes], requires: tuple[str, ...] = ()) -> Artifact:
        content = wheel_bytes(files, name, version, requires=requires)
        return self.add(f"{name}-{version}-py3-none-any.whl", content, ArtifactKind.WHEEL)

    async def fetch(self, artifact: Artifact, path: Path) -> None:
        self.fetched.append(artifact.name)
        await asyncio.to_thread(path.write_bytes, self.contents[artifact.sha256])

    def prepare(self, cache: EnvironmentCache, *artifacts: Artifact) -> Environment:
        return asyncio.run(cache.prepare(artifacts, self.fetch, self.progress.append))


@pytest.fixture
def store() -> Store:
    return Store()


def run_in(environment: Environment, code: str) -> str:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(environment.python_path)}
    command = [environment.python, "-c", code]
    done = subprocess.run(command, cwd=environment.working_directory, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_no_artifacts_need_no_environment(tmp_path: Path, store: Store) -> None:
    assert store.prepare(EnvironmentCache(tmp_path / "cache")) == Environment(sys.executable, (), None)
    assert store.prepare(EnvironmentCache(tmp_path / "cache", "/some/python")).python == "/some/python"
    assert not (tmp_path / "cache").exists()


@pytest.mark.process
def test_a_wheel_with_bundled_wheels_and_requirements_is_installed_once(tmp_path: Path, store: Store) -> None:
    helper = wheel_bytes({"helperlib.py": "VALUE = 'bundled'"}, "helperlib", "1.0")
    other = wheel_bytes({"otherlib.py": "VALUE = 'required'"}, "otherlib", "2.0")
    foreign = wheel_bytes({"foreignlib.py": ""}, "foreignlib", "1.0", tag="cp27-cp27m-win32")
    job = store.wheel(
        "myjob", "1.0",
        {
            "myjob/__init__.py": "def main(): pass",
            "myjob/wheels/helperlib-1.0-py3-none-any.whl": helper,
            "myjob/wheels/otherlib-2.0-py3-none-any.whl": other,
            "myjob/wheels/foreignlib-1.0-cp27-cp27m-win32.whl": foreign,
            "myjob/requirements.txt": "otherlib>=2\n",
        },
        requires=("helperlib", "millstream"),
    )  # fmt: skip
    model = store.add("model.zip", zip_of({"deep/er/file": ""}), ArtifactKind.ARCHIVE)
    before = os.umask(0)
    try:
        environment = store.prepare(EnvironmentCache(tmp_path / "new" / "cache"), job, model)
    finally:
        os.umask(before)
    assert [p for p in (tmp_path / "new").rglob("*") if not p.is_symlink() and p.stat().st_mode & 0o077] == []
    assert run_in(environment, "import os; print(os.path.exists('model.zip/deep/er/file'))") == "True"
    code = "import myjob, helperlib, otherlib, millstream.core.jobs.ids; print(helperlib.VALUE, otherlib.VALUE)"
    assert run_in(environment, code) == "bundled required"
    assert run_in(environment, "import importlib.util as u; print(u.find_spec('foreignlib'))") == "None"
    assert any(line.startswith("installing myjob-1.0-py3-none-any.whl: ") for line in store.progress)

    assert store.prepare(EnvironmentCache(tmp_path / "new" / "cache"), job, model) == environment
    assert store.fetched == [job.name, model.name]


@pytest.mark.process
def test_two_versions_of_a_library_beside_a_third_in_the_runtime(tmp_path: Path, store: Store) -> None:
    cache = EnvironmentCache(tmp_path)
    versions = []
    for version in ("6.9.1", "6.9.2"):
        library = wheel_bytes({"pluggy.py": f"VERSION = {version!r}"}, "pluggy", version)
        job = store.wheel(
            "job" + version[-1], "1.0",
            {"x.py": "", f"deps/wheels/pluggy-{version}-py3-none-any.whl": library},
            requires=(f"pluggy=={version}",),
        )  # fmt: skip
        versions.append(run_in(store.prepare(cache, job), "import pluggy; print(pluggy.VERSION)"))
    assert versions == ["6.9.1", "6.9.2"]
    assert subprocess.run([sys.executable, "-c", "import pluggy; pluggy.HookimplMarker"], check=True).returncode == 0


@pytest.mark.process
def test_a_jobs_wheel_hides_the_same_version_in_the_runtime(tmp_path: Path, store: Store) -> None:
    import pluggy

    job = store.wheel("pluggy", pluggy.__version__, {"pluggy.py": "VERSION = 'the job'"})
    environment = store.prepare(EnvironmentCache(tmp_path), job)
    assert run_in(environment, "import pluggy; print(pluggy.VERSION)") == "the job"


@pytest.mark.process
def test_a_failed_install_reports_pips_reason_and_leaves_nothing(tmp_path: Path, store: Store) -> None:
    job = store.wheel("badjob", "1.0", {"badjob.py": ""}, requires=("no-such-library-at-all==9",))
    with pytest.raises(ImpossibleEnvironmentError) as caught:
        store.prepare(EnvironmentCache(tmp_path), job)
    message = str(caught.value)
    assert message.startswith("cannot install badjob-1.0-py3-none-any.whl: ")
    assert "no-such-library-at-all==9" in message
    assert not list(tmp_path.iterdir())


@pytest.mark.process
def test_what_millstream_needs_cannot_be_replaced_by_something_older(tmp_path: Path, store: Store) -> None:
    old = wheel_bytes({"click.py": ""}, "click", "6.0")
    job = store.wheel("old", "1.0", {"a/wheels/click-6.0-py3-none-any.whl": old}, requires=("click==6.0",))
    with pytest.raises(ImpossibleEnvironmentError) as caught:
        store.prepare(EnvironmentCache(tmp_path), job)
    message = str(caught.value)
    for part in ("cannot install old-1.0", "conflict", "requested click 6.0", "(constraint) click"):
        assert part in message, message
    assert len(message.splitlines()) > 3


@pytest.mark.process
def test_an_invalid_requirements_file(tmp_path: Path, store: Store) -> None:
    requirements = store.add("requirements.txt", b"not a requirement at all\n", ArtifactKind.REQUIREMENTS)
    with pytest.raises(ImpossibleEnvironmentError, match=r"cannot install requirements.txt: .*Invalid requirement"):
        store.prepare(EnvironmentCache(tmp_path), requirements)


@pytest.mark.process
def test_an_interpreter_that_does_not_exist(tmp_path: Path, store: Store) -> None:
    with pytest.raises(ImpossibleEnvironmentError, match="cannot run /no/such/python"):
        store.prepare(EnvironmentCache(tmp_path, "/no/such/python"), store.wheel("a", "1", {"a.py": ""}))


@pytest.mark.process
def test_python_files_and_archives(tmp_path: Path, store: Store) -> None:
    packed = zip_of({"zipped_module.py": "VALUE = 2", "data/words.txt": "hello"})
    beside = "VALUE = open(__file__.replace('beside.py', 'note.txt')).read()"
    folder = zip_of({"beside.py": beside, "note.txt": "beside"})
    environment = store.prepare(
        EnvironmentCache(tmp_path),
        store.add("plain_module.py", b"VALUE = 1", ArtifactKind.PYTHON_FILE),
        store.add("library.zip", packed, ArtifactKind.PYTHON_FILE),
        store.add("folder.zip", folder, ArtifactKind.PYTHON_FOLDER),
        store.add("data.zip", packed, ArtifactKind.ARCHIVE),
        store.add("model.tar.gz#model", tar_of({"model.bin": b"abc"}), ArtifactKind.ARCHIVE),
    )
    assert environment.python == sys.executable
    code = "import beside, plain_module, zipped_module; print(plain_module.VALUE + zipped_module.VALUE, beside.VALUE, "
    code += "open('data.zip/data/words.txt').read(), open('model/model.bin').read())"
    assert run_in(environment, code) == "3 beside hello abc"


EVIL = {"../../evil.txt": b"x"}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("evil.zip", zip_of(EVIL), "member outside"),
        ("evil.tar.gz", tar_of(EVIL), "member outside"),
        ("junk.zip", b"junk", "neither a readable zip nor tar"),
        ("good.zip#../up", zip_of(EVIL), "outside of the working directory"),
    ],
)
def test_refused_archives(tmp_path: Path, store: Store, name: str, content: bytes, reason: str) -> None:
    with pytest.raises(ImpossibleEnvironmentError, match=reason):
        store.prepare(EnvironmentCache(tmp_path / "cache"), store.add(name, content, ArtifactKind.ARCHIVE))
    assert not list(tmp_path.rglob("evil.txt"))


def test_a_partial_environment_is_rebuilt_and_leftovers_of_others_are_removed(tmp_path: Path, store: Store) -> None:
    artifact = store.module()
    environment = store.prepare(EnvironmentCache(tmp_path), artifact)
    folder = Path(environment.python_path[0]).parents[1]
    (folder / ".ready").unlink()
    (tmp_path / "abandoned").mkdir()
    (tmp_path / "failed.lock").touch()
    assert store.prepare(EnvironmentCache(tmp_path), artifact) == environment
    assert store.fetched == ["one.py", "one.py"]
    assert {path.name for path in tmp_path.iterdir()} == {folder.name, f"{folder.name}.lock"}


def test_a_lock_file_that_was_removed_while_waiting_is_locked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a process would run in an environment that another one considers unused, and removes."""
    folder, locked = tmp_path / "environment", []

    def flock(held: int, operation: int) -> None:
        if not locked:
            lock_of(folder).unlink()  # by the previous holder
        locked.append(operation)

    monkeypatch.setattr("millstream.core.environments.environment_use.fcntl.flock", flock)
    with in_use(str(lock_of(folder))) as (held,):
        assert os.path.samestat(os.fstat(held), lock_of(folder).stat())
    assert len(locked) == 2


class Disk:
    """Replaces the C library: records what was made durable, with its contents at that moment."""

    def __init__(self, folder: Path, status: int = 0) -> None:
        self.folder, self.status = folder, status
        self.synced: list[set[str]] = []

    def syncfs(self, descriptor: int) -> int:
        assert self.folder in Path(os.readlink(f"/proc/self/fd/{descriptor}")).parents
        self.synced.append({path.name for path in self.folder.rglob("*") if path.is_file()})
        return self.status


def test_an_environment_is_on_the_disk_before_it_counts_as_ready(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power failure, a marker without the files would start workers in an incomplete environment."""
    disk = Disk(tmp_path)
    monkeypatch.setattr(ctypes, "CDLL", lambda *arguments, **options: disk)
    artifact = store.module()
    store.prepare(EnvironmentCache(tmp_path), artifact)
    (synced,) = disk.synced
    assert "one.py" in synced
    assert ".ready" not in synced


def test_an_environment_that_cannot_be_made_durable_does_not_count(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *arguments, **options: Disk(tmp_path, -1))
    artifact = store.module()
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        store.prepare(EnvironmentCache(tmp_path), artifact)
    assert not list(tmp_path.rglob(".ready"))


async def test_concurrent_preparations_make_it_once(tmp_path: Path, store: Store) -> None:
    async def slow_fetch(artifact: Artifact, path: Path) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        await store.fetch(artifact, path)

    artifact, caches = store.module(), [EnvironmentCache(tmp_path) for _ in range(4)]
    made = await asyncio.gather(*(cache.prepare([artifact], slow_fetch, store.progress.append) for cache in caches))
    assert len(set(made)) == 1
    assert store.fetched == ["one.py"]


@pytest.mark.process
async def test_cancelling_stops_the_install_and_releases_the_environment(tmp_path: Path, store: Store) -> None:
    job = store.wheel("slowjob", "1.0", {"slowjob.py": ""})
    cache = EnvironmentCache(tmp_path)

    def progress(line: str) -> None:
        if "Processing" in line:
            task.cancel()

    task = asyncio.create_task(cache.prepare([job], store.fetch, progress))
    with pytest.raises(asyncio.CancelledError):
        await task
    await cache.prepare([job], store.fetch, store.progress.append)
    assert store.fetched == [job.name, job.name]


@pytest.mark.process
def test_unused_environments_are_removed_when_all_together_are_too_large(tmp_path: Path, store: Store) -> None:
    files = [store.add(f"file{n}.py", b"#" * 1000 + bytes([65 + n]), ArtifactKind.PYTHON_FILE) for n in range(4)]

    def folder(environment: Environment) -> Path:
        return Path(environment.python_path[0]).parents[1]

    def unused_since(environment: Environment, seconds: int) -> None:
        os.utime(folder(environment) / ".ready", (seconds, seconds))

    roomy, tight = EnvironmentCache(tmp_path), EnvironmentCache(tmp_path, max_size=2100)
    running, old, older = (store.prepare(roomy, file) for file in files[:3])
    with in_use(running.lock) as held:
        process = subprocess.Popen(["sleep", "1000"], pass_fds=held)
    try:
        for environment, seconds in ((running, 1), (older, 2), (old, 3)):
            unused_since(environment, seconds)
        assert store.prepare(roomy, files[1]) == old  # requested just now: it may be about to be used
        new = store.prepare(tight, files[3])
        assert [folder(e).exists() for e in (running, older, old, new)] == [True, False, True, True]
        assert store.prepare(roomy, files[2]) == older  # rebuilt
        assert store.fetched.count(files[2].name) == 2
    finally:
        process.kill()
        process.wait()
    unused_since(running, 1)
    assert remove_unused(tmp_path, 3100) == [folder(running).name]
    assert not lock_of(folder(running)).exists()
    left = sorted(folder(e).name for e in (older, old, new))
    unused_since(older, round(time.time()) - 7300)
    assert remove_unused(tmp_path, 1 << 30, unused_for=7400) == []
    assert remove_unused(tmp_path, 1 << 30, unused_for=7200) == [folder(older).name]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name in left) == sorted(
        folder(e).name for e in (old, new)
    )


async def test_a_waiting_process_takes_over_when_the_first_is_cancelled(tmp_path: Path, store: Store) -> None:
    artifact, fetching, waiting = store.module(), asyncio.Event(), asyncio.Event()

    async def endless_fetch(artifact: Artifact, path: Path) -> None:
        fetching.set()
        await asyncio.Event().wait()

    first = asyncio.create_task(EnvironmentCache(tmp_path).prepare([artifact], endless_fetch, lambda _: None))
    await fetching.wait()
    second = EnvironmentCache(tmp_path).prepare([artifact], store.fetch, lambda _: waiting.set())
    taking_over = asyncio.create_task(second)
    await waiting.wait()
    first.cancel()
    environment = await taking_over
    assert os.listdir(environment.python_path[0]) == ["one.py"]
    assert store.fetched == ["one.py"]


async def test_an_unneeded_archive_is_released_before_its_folder(tmp_path: Path, store: Store) -> None:
    """Its thread cannot be killed: if the lock were released while it writes, the next holder would find its files."""
    artifact = store.add("some.zip", zip_of({"member": "x"}), ArtifactKind.ARCHIVE)

    def progress(line: str) -> None:
        if line.startswith("unpacking"):
            task.cancel()

    task = asyncio.create_task(EnvironmentCache(tmp_path).prepare([artifact], store.fetch, progress))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [entry for entry in os.scandir(tmp_path) if entry.is_dir()] == []


@pytest.mark.timeout(60)
async def test_an_environment_can_be_used_at_once_on_the_loop_that_created_it(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, module, seen = EnvironmentCache(tmp_path / "environments"), store.module(), threading.Event()

    def mark(folder: Path) -> None:
        mark_ready(folder)
        assert seen.wait(DEADLINE)

    monkeypatch.setattr(environments, "mark_ready", mark)
    making = asyncio.ensure_future(cache.prepare([module], store.fetch, store.progress.append))
    while not (await asyncio.to_thread(lambda: list(tmp_path.glob("environments/*/.ready")))):
        assert not making.done()
    environment = await cache.prepare([module], store.fetch, store.progress.append)
    seen.set()
    with in_use(environment.lock) as held:
        assert len(held) == 1
    assert await making == environment


def test_a_waiting_process_continues_once_the_environment_exists_although_its_lock_is_held(
    tmp_path: Path,
    store: Store,
) -> None:
    artifact = store.module()
    first = store.prepare(EnvironmentCache(tmp_path), artifact)
    (ready,) = tmp_path.glob("*/.ready")
    hidden = ready.rename(ready.with_name("hidden"))

    def progress(_: str) -> None:
        hidden.rename(ready)  # created by another process in the meantime, whose processes run in it already

    with in_use(first.lock):
        second = EnvironmentCache(tmp_path).prepare([artifact], store.fetch, progress)
        assert asyncio.run(asyncio.wait_for(second, DEADLINE)) == first


@pytest.mark.parametrize(
    ("line", "status", "may_pass"),
    [
        ("WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError()': /simple/x/", 1, True),
        ("ERROR: HTTP error 503 while getting https://example.org/simple/x/", 1, True),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", 1, True),
        ("Collecting x", -9, True),
        ("ERROR: No matching distribution found for x", 1, False),
        ("ERROR: HTTP error 404 while getting https://example.org/x.whl", 1, False),
        ("ERROR: ResolutionImpossible: for help visit https://example.org", 1, False),
    ],
)
def test_only_transient_errors_are_retried(line: str, status: int, may_pass: bool) -> None:
    error = failed("cannot install x", ["Looking in indexes: https://example.org", line], status)
    assert type(error) is (EnvironmentFailedError if may_pass else ImpossibleEnvironmentError)


@pytest.mark.process
def test_requirements_are_installed_from_bundled_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/no-index")
    store = Store()
    content = wheel_bytes({"packaged.py": "ANSWER = 42"}, "packaged", "1.0")
    environment = store.prepare(
        EnvironmentCache(tmp_path),
        store.add("requirements.txt", b"packaged==1.0\n", ArtifactKind.REQUIREMENTS),
        store.add("packaged-1.0-py3-none-any.whl", content, ArtifactKind.PACKAGE),
    )
    assert run_in(environment, "import packaged; print(packaged.ANSWER)").strip() == "42"


@pytest.mark.process
def test_the_reason_of_a_failed_build_is_reported(tmp_path: Path) -> None:
    described = b"Metadata-Version: 1.0\nName: built\nVersion: 1.0\n"
    content = tar_of({"built-1.0/setup.py": b"", "built-1.0/PKG-INFO": described})
    store = Store()
    with pytest.raises(ImpossibleEnvironmentError, match=r"cannot install r\.txt: No matching .* setuptools"):
        store.prepare(
            EnvironmentCache(tmp_path),
            store.add("r.txt", b"built==1.0\n", ArtifactKind.REQUIREMENTS),
            store.add("built-1.0.tar.gz", content, ArtifactKind.PACKAGE),
        )


def test_single_files_are_put_into_the_working_directory(tmp_path: Path) -> None:
    store = Store()
    environment = store.prepare(
        EnvironmentCache(tmp_path),
        store.add("words.txt#data/words", b"to be", ArtifactKind.FILE),
        store.add("tool.sh#tool", b"#!/bin/sh\necho ran", ArtifactKind.EXECUTABLE),
    )
    assert environment.working_directory is not None
    work = Path(environment.working_directory)
    assert (work / "data" / "words").read_text() == "to be"
    assert [(work / name).stat().st_mode & 0o777 for name in ("data/words", "tool")] == [0o600, 0o700]


def test_a_file_cannot_be_put_elsewhere(tmp_path: Path) -> None:
    store = Store()
    with pytest.raises(ImpossibleEnvironmentError, match="outside of the working directory"):
        store.prepare(EnvironmentCache(tmp_path), store.add("a#../a", b"", ArtifactKind.FILE))
