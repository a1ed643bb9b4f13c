"""What of a program's folder is sent with its jobs."""

from __future__ import annotations

import importlib.machinery
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from millstream.client import folder_scan, job_folder
from millstream.client.folder_scan import FolderTooLargeError, scan
from millstream.client.job_folder import program_folder, with_job_folder
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import Artifact, ArtifactKind, JobGraph
from millstream.core.jobs.ids import JobId
from millstream.core.settings.configuration import Configuration

LIMIT = 10_000
GRAPH = JobGraph(JobId("a" * 32), "job", (), (), artifacts=(Artifact("0" * 64, "lib.zip", ArtifactKind.PYTHON_FILE),))


def write(folder: Path, *names: str, text: str = "x = 1\n") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program that is being run."""
    root = tmp_path / "project"
    write(root, "job.py")
    main = ModuleType("__main__")
    main.__file__ = str(root / "job.py")
    monkeypatch.setitem(sys.modules, "__main__", main)
    return root


def loaded(monkeypatch: pytest.MonkeyPatch, name: str, path: Path) -> None:
    module = ModuleType(name)
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, name, module)


def sent(limit: int = LIMIT) -> list[str] | None:
    """The names in what is sent; None when nothing is."""
    options = Configuration({"python.job-folder.max-size": limit})
    with with_job_folder(GRAPH, {"other": "path"}, options) as (graph, paths):
        if graph is GRAPH:
            assert paths == {"other": "path"}
            return None
        artifact = graph.artifacts[0]
        assert artifact.kind is ArtifactKind.PYTHON_FOLDER
        assert graph.artifacts[1:] == GRAPH.artifacts
        with zipfile.ZipFile(paths[artifact.sha256]) as archive:
            return archive.namelist()


def test_modules_packages_and_data_beside_the_program(folder: Path) -> None:
    write(folder, "helper.py", "pkg/__init__.py", "pkg/deep/mod.py", "plain/mod.py", "data/small.csv")
    write(folder, ".env", ".git/config", "pkg/__pycache__/x.pyc", "node_modules/a.js", "mine/pyvenv.cfg", "mine/lib.py")
    write(folder, "server.pem", "cluster.secret")
    write(folder, "skipped/x.py", "c/conf/config.yaml", "c/run/one.json", "c/log/one.log")
    write(folder, ".millstreamignore", text="skipped/\n")
    assert sent() == [
        "data/small.csv", "helper.py", "job.py", "pkg/__init__.py", "pkg/deep/mod.py", "plain/mod.py",
    ]  # fmt: skip


def test_the_same_content_is_the_same_artifact(folder: Path, tmp_path: Path) -> None:
    write(folder, "helper.py")
    options = Configuration()
    with with_job_folder(GRAPH, {}, options) as (first, _):
        pass
    (folder / "helper.py").touch()
    with with_job_folder(GRAPH, {}, options) as (second, _):
        assert first.artifacts == second.artifacts


def test_a_program_alone_sends_nothing(folder: Path) -> None:
    assert sent() is None
    write(folder, "helper.py")
    assert sent(limit=0) is None


def test_a_large_file_stays_behind_and_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, "helper.py")
    write(folder, "data/big.csv", text="x" * (LIMIT // 5 + 1))
    assert sent() == ["helper.py", "job.py"]
    assert "data/big.csv (2001 bytes)" in capsys.readouterr().err


def test_of_a_folder_that_is_too_large_what_is_imported_is_sent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, *(f"file{number}.txt" for number in range(20)), text="x" * 1000)
    assert sent() is None, "nothing is imported from it"
    write(folder, "helper.py", "pkg/__init__.py", "pkg/later.py", "other.py")
    loaded(monkeypatch, "helper", folder / "helper.py")
    loaded(monkeypatch, "pkg", folder / "pkg" / "__init__.py")
    loaded(monkeypatch, "elsewhere", folder / "lib" / "elsewhere.py")
    assert sent() == ["helper.py", "pkg/__init__.py", "pkg/later.py"]
    write(folder, *(f"pkg/file{number}.txt" for number in range(20)), text="x" * 1000)
    with pytest.raises(InvalidProgramError, match=r"imports helper.py, pkg from .* -pyfs"):
        sent()


def test_a_folder_that_is_not_the_programs_alone_is_not_sent_as_a_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, "helper.py", "diary.txt")
    monkeypatch.setenv("HOME", str(folder))
    assert sent() is None
    loaded(monkeypatch, "helper", folder / "helper.py")
    assert sent() == ["helper.py"]


def test_a_huge_folder_is_not_walked_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_scan, "MOST_ENTRIES", 50)
    monkeypatch.setattr(folder_scan, "MOST_FILES", 20)
    write(tmp_path / "files", *(f"{number}.py" for number in range(30)))
    write(tmp_path / "entries", *(f"{number}/.hidden" for number in range(60)))
    for name, reason in (("files", "20 files"), ("entries", "50 entries")):
        with pytest.raises(FolderTooLargeError, match=reason):
            scan(tmp_path / name, LIMIT)
    write(tmp_path / "entries", "helper.py")
    assert scan(tmp_path / "entries", LIMIT, only=frozenset({"helper.py"})).paths == ("helper.py",)


def test_links_are_followed_and_do_not_go_round_in_circles(tmp_path: Path) -> None:
    write(tmp_path / "shared", "common.py")
    write(tmp_path / "project", "job.py")
    (tmp_path / "project" / "shared").symlink_to(tmp_path / "shared")
    (tmp_path / "project" / "round").symlink_to(tmp_path / "project")
    (tmp_path / "project" / "above").symlink_to(tmp_path)
    (tmp_path / "project" / "nowhere.py").symlink_to(tmp_path / "gone")
    (tmp_path / "project" / "linked.py").symlink_to(tmp_path / "shared" / "common.py")
    assert scan(tmp_path / "project", LIMIT).paths == ("job.py", "linked.py", "shared/common.py")


def test_a_folder_with_two_names_has_both(tmp_path: Path) -> None:
    write(tmp_path, "package/module.py", "package/secret.txt", "data/large.txt")
    (tmp_path / "latest").symlink_to("package")
    (tmp_path / "package" / "again").symlink_to("../latest")
    (tmp_path / "current").symlink_to("data")
    (tmp_path / ".millstreamignore").write_text("/data\npackage/secret.txt\n")
    assert scan(tmp_path, LIMIT).paths == ("latest/module.py", "package/module.py")


def test_the_folder_of_a_program(tmp_path: Path) -> None:
    def main(file: str | None, name: str | None = None) -> ModuleType:
        module = ModuleType("__main__")
        module.__file__ = file
        module.__spec__ = importlib.machinery.ModuleSpec(name, None) if name else None
        return module

    write(tmp_path, "job.py", "pkg/sub/job.py", "pkg/__main__.py")
    assert program_folder(main(str(tmp_path / "job.py"))) == tmp_path
    assert program_folder(main(str(tmp_path / "job.py"), "job")) == tmp_path
    assert program_folder(main(str(tmp_path / "pkg/sub/job.py"), "pkg.sub.job")) == tmp_path
    assert program_folder(main(str(tmp_path / "pkg/__main__.py"), "pkg.__main__")) == tmp_path
    assert program_folder(main(None)) is None
    assert program_folder(None) is None
    assert program_folder(main(str(tmp_path / "gone.py"))) is None
    assert program_folder(main(job_folder.__file__)) is None
    assert program_folder(main(pytest.__file__)) is None
