"""Job environments, made with the real venv and pip from wheels that the tests write; no index is asked."""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.core.environments import Environment, EnvironmentCache, EnvironmentFailedError
from millstream.core.graph import Artifact, ArtifactKind


@pytest.fixture(autouse=True)
def _no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")


def wheel_bytes(
    name: str, version: str, files: dict[str, str | bytes], requires: tuple[str, ...] = (), tag: str = "py3-none-any"
) -> bytes:
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    members: dict[str, str | bytes] = {
        **files,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    members[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*members, f"{info}/RECORD"])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in members.items():
            archive.writestr(path, content)
    return buffer.getvalue()


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

    def wheel(self, name: str, version: str, files: dict[str, str | bytes], requires: tuple[str, ...] = ()) -> Artifact:
        content = wheel_bytes(name, version, files, requires)
        return self.add(f"{name}-{version}-py3-none-any.whl", content, ArtifactKind.WHEEL)

    async def fetch(self, artifact: Artifact, path: Path) -> None:
        self.fetched.append(artifact.name)
        await asyncio.to_thread(path.write_bytes, self.contents[artifact.sha256])

    def prepare(self, cache: EnvironmentCache, *artifacts: Artifact) -> Environment:
        return asyncio.run(cache.prepare(artifacts, self.fetch, self.progress.append))


def run_in(environment: Environment, code: str) -> str:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(environment.python_path)}
    command = [environment.python, "-c", code]
    done = subprocess.run(command, cwd=environment.working_directory, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_no_artifacts_need_no_environment(tmp_path: Path) -> None:
    store = Store()
    assert store.prepare(EnvironmentCache(tmp_path / "cache")) == Environment(sys.executable, (), None)
    assert store.prepare(EnvironmentCache(tmp_path / "cache", "/some/python")).python == "/some/python"
    assert not (tmp_path / "cache").exists()


def test_a_wheel_with_bundled_wheels_and_requirements_is_installed_once(tmp_path: Path) -> None:
    store = Store()
    helper = wheel_bytes("helperlib", "1.0", {"helperlib.py": "VALUE = 'bundled'"})
    other = wheel_bytes("otherlib", "2.0", {"otherlib.py": "VALUE = 'required'"})
    foreign = wheel_bytes("foreignlib", "1.0", {"foreignlib.py": ""}, tag="cp27-cp27m-win32")
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
    environment = store.prepare(EnvironmentCache(tmp_path), job)
    code = "import myjob, helperlib, otherlib, millstream.core.ids; print(helperlib.VALUE, otherlib.VALUE)"
    assert run_in(environment, code) == "bundled required"
    assert run_in(environment, "import importlib.util as u; print(u.find_spec('foreignlib'))") == "None"
    assert any(line.startswith("installing myjob-1.0-py3-none-any.whl: ") for line in store.progress)

    assert store.prepare(EnvironmentCache(tmp_path), job) == environment
    assert store.fetched == [job.name]


def test_two_versions_of_a_library_beside_a_third_in_the_runtime(tmp_path: Path) -> None:
    store = Store()
    cache = EnvironmentCache(tmp_path)
    versions = []
    for version in ("6.9.1", "6.9.2"):
        library = wheel_bytes("pluggy", version, {"pluggy.py": f"VERSION = {version!r}"})
        job = store.wheel(
            "job" + version[-1], "1.0",
            {"x.py": "", f"deps/wheels/pluggy-{version}-py3-none-any.whl": library},
            requires=(f"pluggy=={version}",),
        )  # fmt: skip
        versions.append(run_in(store.prepare(cache, job), "import pluggy; print(pluggy.VERSION)"))
    assert versions == ["6.9.1", "6.9.2"]
    assert subprocess.run([sys.executable, "-c", "import pluggy; pluggy.HookimplMarker"], check=True).returncode == 0


def test_a_jobs_wheel_hides_the_same_version_in_the_runtime(tmp_path: Path) -> None:
    import pluggy

    store = Store()
    job = store.wheel("pluggy", pluggy.__version__, {"pluggy.py": "VERSION = 'the job'"})
    environment = store.prepare(EnvironmentCache(tmp_path), job)
    assert run_in(environment, "import pluggy; print(pluggy.VERSION)") == "the job"


def test_a_failed_install_is_pips_reason_and_leaves_nothing(tmp_path: Path) -> None:
    store = Store()
    job = store.wheel("badjob", "1.0", {"badjob.py": ""}, requires=("no-such-library-at-all==9",))
    with pytest.raises(EnvironmentFailedError) as caught:
        store.prepare(EnvironmentCache(tmp_path), job)
    message = str(caught.value)
    assert message.startswith("cannot install badjob-1.0-py3-none-any.whl: ")
    assert "no-such-library-at-all==9" in message
    assert "\n" not in message
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_what_millstream_needs_cannot_be_replaced_by_something_older(tmp_path: Path) -> None:
    store = Store()
    old = wheel_bytes("click", "6.0", {"click.py": ""})
    job = store.wheel("old", "1.0", {"a/wheels/click-6.0-py3-none-any.whl": old}, requires=("click==6.0",))
    with pytest.raises(EnvironmentFailedError, match="click"):
        store.prepare(EnvironmentCache(tmp_path), job)


def test_a_requirements_file_that_is_wrong(tmp_path: Path) -> None:
    store = Store()
    requirements = store.add("requirements.txt", b"not a requirement at all\n", ArtifactKind.REQUIREMENTS)
    with pytest.raises(EnvironmentFailedError, match=r"cannot install requirements.txt: .*Invalid requirement"):
        store.prepare(EnvironmentCache(tmp_path), requirements)


def test_an_interpreter_that_does_not_exist(tmp_path: Path) -> None:
    store = Store()
    with pytest.raises(EnvironmentFailedError, match="cannot run /no/such/python"):
        store.prepare(EnvironmentCache(tmp_path, "/no/such/python"), store.wheel("a", "1", {"a.py": ""}))


def test_python_files_and_archives(tmp_path: Path) -> None:
    store = Store()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("zipped_module.py", "VALUE = 2")
        archive.writestr("data/words.txt", "hello")
    tarred = io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w:gz") as tar:
        info = tarfile.TarInfo("model.bin")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"abc"))
    environment = store.prepare(
        EnvironmentCache(tmp_path),
        store.add("plain_module.py", b"VALUE = 1", ArtifactKind.PYTHON_FILE),
        store.add("library.zip", packed.getvalue(), ArtifactKind.PYTHON_FILE),
        store.add("data.zip", packed.getvalue(), ArtifactKind.ARCHIVE),
        store.add("model.tar.gz#model", tarred.getvalue(), ArtifactKind.ARCHIVE),
    )
    assert environment.python == sys.executable
    code = "import plain_module, zipped_module; print(plain_module.VALUE + zipped_module.VALUE, "
    code += "open('data.zip/data/words.txt').read(), open('model/model.bin').read())"
    assert run_in(environment, code) == "3 hello abc"


def _evil_zip() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("../../evil.txt", "x")
    return packed.getvalue()


def _evil_tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("../../evil.txt"))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("evil.zip", _evil_zip, "member outside"),
        ("evil.tar.gz", _evil_tar, "member outside"),
        ("junk.zip", lambda: b"junk", "neither a readable zip nor tar"),
        ("good.zip#../up", _evil_zip, "outside of the working directory"),
    ],
)
def test_refused_archives(tmp_path: Path, name: str, content: Callable[[], bytes], reason: str) -> None:
    store = Store()
    with pytest.raises(EnvironmentFailedError, match=reason):
        store.prepare(EnvironmentCache(tmp_path / "cache"), store.add(name, content(), ArtifactKind.ARCHIVE))
    assert not list(tmp_path.rglob("evil.txt"))


def test_a_partial_environment_is_made_again_and_others_remains_are_removed(tmp_path: Path) -> None:
    store = Store()
    artifact = store.add("one.py", b"", ArtifactKind.PYTHON_FILE)
    environment = store.prepare(EnvironmentCache(tmp_path), artifact)
    folder = Path(environment.python_path[0]).parents[1]
    (folder / ".ready").unlink()
    (tmp_path / "abandoned").mkdir()
    assert store.prepare(EnvironmentCache(tmp_path), artifact) == environment
    assert store.fetched == ["one.py", "one.py"]
    assert not (tmp_path / "abandoned").exists()


class Disk:
    """In place of the C library: what it was asked to make durable, as it was at that moment."""

    def __init__(self, folder: Path, status: int = 0) -> None:
        self.folder, self.status = folder, status
        self.synced: list[set[str]] = []

    def syncfs(self, descriptor: int) -> int:
        assert self.folder in Path(os.readlink(f"/proc/self/fd/{descriptor}")).parents
        self.synced.append({path.name for path in self.folder.rglob("*") if path.is_file()})
        return self.status


def test_an_environment_is_on_the_disk_before_it_counts_as_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut, a marker without all that it vouches for would start workers in half of an environment."""
    store, disk = Store(), Disk(tmp_path)
    monkeypatch.setattr(ctypes, "CDLL", lambda *arguments, **options: disk)
    artifact = store.add("one.py", b"", ArtifactKind.PYTHON_FILE)
    store.prepare(EnvironmentCache(tmp_path), artifact)
    (synced,) = disk.synced
    assert "one.py" in synced
    assert ".ready" not in synced


def test_an_environment_that_cannot_be_made_durable_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store()
    monkeypatch.setattr(ctypes, "CDLL", lambda *arguments, **options: Disk(tmp_path, -1))
    artifact = store.add("one.py", b"", ArtifactKind.PYTHON_FILE)
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        store.prepare(EnvironmentCache(tmp_path), artifact)
    assert not list(tmp_path.rglob(".ready"))


def test_concurrent_preparations_make_it_once(tmp_path: Path) -> None:
    store = Store()
    artifact = store.add("one.py", b"", ArtifactKind.PYTHON_FILE)

    async def all_at_once() -> list[Environment]:
        caches = [EnvironmentCache(tmp_path) for _ in range(4)]
        return await asyncio.gather(*(cache.prepare([artifact], slow_fetch, store.progress.append) for cache in caches))

    async def slow_fetch(artifact: Artifact, path: Path) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        await store.fetch(artifact, path)

    assert len(set(asyncio.run(all_at_once()))) == 1
    assert store.fetched == ["one.py"]


def test_cancelling_stops_the_install_and_releases_the_environment(tmp_path: Path) -> None:
    store = Store()
    job = store.wheel("slowjob", "1.0", {"slowjob.py": ""})
    cache = EnvironmentCache(tmp_path)

    async def cancel_while_installing() -> None:
        def progress(line: str) -> None:
            if "Processing" in line:
                task.cancel()

        task = asyncio.create_task(cache.prepare([job], store.fetch, progress))
        with pytest.raises(asyncio.CancelledError):
            await task
        await cache.prepare([job], store.fetch, store.progress.append)

    asyncio.run(cancel_while_installing())
    assert store.fetched == [job.name, job.name]
