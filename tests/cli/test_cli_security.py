"""`millstream security`: what it writes is its user's alone, and a cluster and its clients work with it."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import grpc
import pytest
from waiting import DEADLINE

from millstream.cli.main import main
from millstream.cli.rest import RestClient
from millstream.core.errors import MillstreamError
from millstream.core.messages.session import Empty
from millstream.core.services.rpc import Stub, open_channel
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contracts import DISPATCHER
from millstream.dispatcher.service import DispatcherService

FREE = {"dispatcher.rpc.port": 0, "rest.port": 0, "resourcemanager.rpc.port": 1}


def loaded(folder: Path, work: Path) -> Configuration:
    return Configuration.load(folder).merged({**FREE, "io.tmp.dirs": str(work)})


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(list(arguments)) == status
    seen = capsys.readouterr()
    return seen.err if status else seen.out


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    made = tmp_path / "a folder: with signs"
    assert f"--configDir {made}" in printed(capsys, "security", "init", str(made), "--host", "10.1.2.3")
    return made


def test_everything_is_its_users_alone(folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    names = sorted(file.name for file in folder.iterdir())
    assert names == [
        "authority.crt", "authority.key", "cluster.secret", "config.yaml", "internal.crt", "internal.key", "rest.crt",
        "rest.key", "tokens",
    ]  # fmt: skip
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


async def test_services_and_clients_work_with_it_and_others_do_not(folder: Path, tmp_path: Path) -> None:
    options = loaded(folder, tmp_path / "work")
    service = DispatcherService(options)
    await service.start()
    try:
        async with open_channel(service.address, options) as channel:
            assert (await Stub(channel, DISPATCHER).list_jobs(Empty(), timeout=DEADLINE)).jobs == ()
        only_secret = options.merged({"security.ssl.internal.enabled": False})
        for lacking in (only_secret, Configuration()):
            async with open_channel(service.address, lacking) as channel:
                with pytest.raises(grpc.RpcError):
                    await Stub(channel, DISPATCHER).list_jobs(Empty(), timeout=DEADLINE)
        port = service.rest_address.rpartition(":")[2]
        for host in ("127.0.0.1", "localhost"):
            reached = options.merged({"rest.address": host, "rest.port": port})
            assert await asyncio.to_thread(RestClient(reached, timeout=DEADLINE).get, "/jobs") == {"jobs": []}
        stranger = reached.merged({"security.ssl.rest.ca": "", "security.ssl.rest.cert": ""})
        with pytest.raises(MillstreamError, match=r"Name a file with its authority in 'security\.ssl\.rest\.ca'"):
            await asyncio.to_thread(RestClient(stranger, timeout=DEADLINE).get, "/jobs")
    finally:
        await service.stop()


def test_a_second_time_only_the_certificates_are_new(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert "config.yaml is left as it is" in printed(capsys, "security", "init", str(folder))
    after = {file.name: file.read_bytes() for file in folder.iterdir()}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"internal.crt", "internal.key", "rest.crt", "rest.key"}


def test_an_authority_without_its_key_signs_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "authority.key").unlink()
    before = (folder / "rest.crt").read_bytes()
    assert "cannot be used: No such file" in printed(capsys, "security", "init", str(folder), status=1)
    assert (folder / "rest.crt").read_bytes() == before


def test_a_token_is_printed_and_only_its_hash_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = printed(capsys, "security", "token", "--configDir", str(folder), "--role", "operate", "alice").strip()
    text = (folder / "tokens").read_text()
    assert len(token) == 64
    assert token not in text
    assert "alice operate " in text
    again = printed(capsys, "security", "token", "--configDir", str(folder), "alice", status=1)
    assert "there is a token of alice" in again
    assert "is no name for a token" in printed(capsys, "security", "token", "--file", "x", "al ice", status=2)
    assert "--file FILE" in printed(capsys, "security", "token", "bob", status=1)


def test_a_folder_of_links_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert "it is a symbolic link" in printed(capsys, "security", "init", str(tmp_path / "link"), status=1)
