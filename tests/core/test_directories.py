"""The folders from which code is run: private to this user, and refused if others could modify them."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millstream.core.errors import ConfigurationError
from millstream.core.files.directories import private_folder, work_directory
from millstream.core.jobs.ids import AllocationId, TaskManagerId
from millstream.core.settings.configuration import Configuration
from millstream.dispatcher.uploads import UploadedWheels
from millstream.taskmanager.supervisor.local_state import LocalState

_OPTION = "io.tmp.dirs"


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder as systems have it: all users may write, each changes only their own files."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def own(temporary: Path) -> Path:
    return temporary / f"millstream-{os.geteuid()}"


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_every_created_folder_is_private_to_this_user(tmp_path: Path, temporary: Path, mask: int) -> None:
    with umask(mask):
        default = work_directory(Configuration(), "environments")
        named = private_folder(tmp_path / "a" / "b", "c", option=_OPTION)
    assert default == own(temporary) / "environments"
    for folder in (default, default.parent, named, named.parent, named.parent.parent):
        assert mode(folder) == 0o700, folder


def test_an_existing_folder_of_this_user_is_used_unchanged(temporary: Path) -> None:
    own(temporary).mkdir(mode=0o755)
    assert work_directory(Configuration()) == own(temporary)
    assert work_directory(Configuration(), "log") == work_directory(Configuration(), "log")


@pytest.mark.parametrize("below", [(), ("environments",)])
def test_a_link_in_the_temporary_folder_is_refused(tmp_path: Path, temporary: Path, below: tuple[str, ...]) -> None:
    target = tmp_path / "target"
    target.mkdir()
    link = own(temporary).joinpath(*below)
    link.parent.mkdir(mode=0o700, exist_ok=True)
    link.symlink_to(target)
    with pytest.raises(ConfigurationError, match=f"refusing to use {link}.*symbolic link.*{_OPTION}"):
        work_directory(Configuration(), "environments")
    assert not list(target.iterdir())
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match="symbolic link"):
        work_directory(Configuration(), "environments")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("others", [0o720, 0o702, 0o777])
@pytest.mark.parametrize("below", [(), ("environments",)])
def test_a_folder_that_others_may_write_to_is_refused(temporary: Path, below: tuple[str, ...], others: int) -> None:
    folder = own(temporary).joinpath(*below)
    folder.mkdir(parents=True)
    own(temporary).chmod(0o700)
    folder.chmod(others)
    with pytest.raises(ConfigurationError, match=rf"refusing to use {folder}, .*mode is {others:o}.*chmod"):
        work_directory(Configuration(), "environments")


def test_a_folder_of_another_user_is_refused(tmp_path: Path, temporary: Path) -> None:
    if os.geteuid() != 0:
        with pytest.raises(ConfigurationError, match="belongs to user 0"):
            private_folder(Path("/usr"), "lib", option=_OPTION)
        return
    for folder in (own(temporary) / "environments", own(temporary), tmp_path / "named"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chown(folder, 12345, 12345)
        options = Configuration({_OPTION: str(folder)} if folder.name == "named" else {})
        with pytest.raises(ConfigurationError, match=f"refusing to use {folder}, .*belongs to user 12345"):
            work_directory(options, "environments")
        os.chown(folder, 0, 0)


def test_a_temporary_folder_without_the_sticky_bit_is_refused(temporary: Path) -> None:
    temporary.chmod(0o777)
    with pytest.raises(ConfigurationError, match="no sticky bit"):
        work_directory(Configuration())


def test_the_user_may_configure_a_link_of_theirs(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    assert work_directory(Configuration({_OPTION: str(tmp_path / "link")}), "log") == tmp_path / "link" / "log"
    (tmp_path / "disk").chmod(0o777)
    with pytest.raises(ConfigurationError, match="mode is 777"):
        work_directory(Configuration({_OPTION: str(tmp_path / "link")}), "log")
    if os.geteuid() == 0:
        (tmp_path / "disk").chmod(0o755)
        os.chown(tmp_path / "link", 12345, 12345, follow_symlinks=False)
        with pytest.raises(ConfigurationError, match="a symbolic link that belongs to user 12345"):
            work_directory(Configuration({_OPTION: str(tmp_path / "link")}), "log")


def test_the_user_may_configure_the_systems_temporary_folder(tmp_path: Path, temporary: Path) -> None:
    options = Configuration({_OPTION: str(temporary)})
    assert mode(work_directory(options, "log")) == 0o700
    (temporary / "environments").symlink_to(tmp_path)
    with pytest.raises(ConfigurationError, match="symbolic link"):
        work_directory(options, "environments")
    with pytest.raises(ConfigurationError, match=f"refusing to use {temporary}, "):
        private_folder(temporary, option="web.upload.dir")


def test_an_unusable_folder_is_named_with_its_option(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"option 'io.tmp.dirs': cannot use .*file"):
        private_folder(tmp_path / "file" / "below", option=_OPTION)


def test_uploads_and_local_state_are_checked_too(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(ConfigurationError, match=r"web.upload.dir"):
        UploadedWheels(Configuration({"web.upload.dir": str(shared)}))
    (tmp_path / "mine").mkdir()
    (shared / "victim").mkdir()
    (shared / "victim" / ".lock").touch()
    (tmp_path / "mine" / "localState").symlink_to(shared)
    state = LocalState(
        TaskManagerId("one"), Configuration({"execution.checkpointing.local-backup.dirs": str(tmp_path / "mine")})
    )
    with pytest.raises(ConfigurationError, match=r"local-backup.dirs"):
        state.folder(AllocationId("a"))
    state.remove_dead()
    assert (shared / "victim").exists()


def test_a_folder_of_this_user_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    inner = tmp_path / "named" / "inner"
    inner.mkdir(parents=True)
    inner.chmod(0o755)
    assert private_folder(tmp_path / "named", "inner", option=_OPTION) == inner
    assert mode(inner) == 0o700
