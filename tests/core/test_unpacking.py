"""Artifacts that unpack to more than is allowed are refused, whatever their headers state, and leave nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from archives import tar_of, zip_of

from millstream.core.environments.artifacts import sha256_of, validate_wheel
from millstream.core.environments.environment_failures import EnvironmentFailedError
from millstream.core.environments.environments import EnvironmentCache
from millstream.core.environments.unpacking import UnpackBudget, UnpackLimits
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import Artifact, ArtifactKind
from millstream.core.settings.configuration import Configuration

_NAME = "job-1.0-py3-none-any.whl"
_INFO = "job-1.0.dist-info"
_MEGABYTE = 1024 * 1024


def wheel_of(members: dict[str, bytes]) -> bytes:
    info = {f"{_INFO}/METADATA": b"Name: job\nVersion: 1.0\n", f"{_INFO}/WHEEL": b"Wheel-Version: 1.0\n"}
    return zip_of({**members, **info})


def lying(packed: bytes) -> bytes:
    """The zip file with the size of its first member changed to ten bytes."""
    content = bytearray(packed)
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<L", content, content.index(signature) + offset, 10)
    return bytes(content)


def prepare(tmp_path: Path, name: str, content: bytes, kind: ArtifactKind, limits: UnpackLimits) -> list[Path]:
    """The contents of the environment's working directory."""
    stored = tmp_path / "stored"
    stored.write_bytes(content)

    async def fetch(artifact: Artifact, path: Path) -> None:
        shutil.copyfile(stored, path)

    cache = EnvironmentCache(tmp_path / "cache", limits=limits)
    made = asyncio.run(cache.prepare([Artifact(sha256_of(stored), name, kind)], fetch, lambda _: None))
    assert made.working_directory is not None
    return [path for path in Path(made.working_directory).rglob("*") if path.is_file()]


@pytest.mark.process
@pytest.mark.parametrize(
    ("limits", "option"),
    [
        (UnpackLimits(size=10_000), "more than 10000 bytes .*python.unpack.max-size"),
        (UnpackLimits(entries=2), "more than 2 files and folders .*python.unpack.max-entries"),
    ],
)
@pytest.mark.parametrize("kind", ["wheel", "zip", "tar", "tar.gz", "tar.bz2", "tar.xz"])
def test_size_and_number_are_bounded(tmp_path: Path, kind: str, limits: UnpackLimits, option: str) -> None:
    members = {f"f{number}": os.urandom(4000) for number in range(3)}
    if kind == "wheel":
        path = tmp_path / _NAME
        path.write_bytes(wheel_of(members))
        assert validate_wheel(path, _MEGABYTE).name == "job"
        with pytest.raises(InvalidProgramError, match=option):
            validate_wheel(path, _MEGABYTE, limits=limits)
        with pytest.raises(EnvironmentFailedError, match=option):
            prepare(tmp_path, _NAME, path.read_bytes(), ArtifactKind.WHEEL, limits)
    else:
        content = zip_of(members) if kind == "zip" else tar_of(members, f"w:{kind[4:]}")
        with pytest.raises(EnvironmentFailedError, match=option):
            prepare(tmp_path, f"data.{kind}", content, ArtifactKind.ARCHIVE, limits)
        assert len(prepare(tmp_path, f"data.{kind}", content, ArtifactKind.ARCHIVE, UnpackLimits())) == 3
    assert len([folder for folder in (tmp_path / "cache").iterdir() if folder.is_dir()]) == (kind != "wheel")


@pytest.mark.parametrize("pack", [zip_of, tar_of])
def test_data_that_grows_a_thousandfold_is_refused(tmp_path: Path, pack: Callable[[dict[str, bytes]], bytes]) -> None:
    content = pack({"zeros": bytes(40 * _MEGABYTE)})
    assert len(content) < 50_000
    with pytest.raises(EnvironmentFailedError, match=r"more than 100 times its own size \(python.unpack.max-ratio\)"):
        prepare(tmp_path, "bomb", content, ArtifactKind.ARCHIVE, UnpackLimits())
    assert not list((tmp_path / "cache").rglob("zeros"))


@pytest.mark.process
def test_a_wheel_in_a_wheel_is_counted_with_it(tmp_path: Path) -> None:
    inner = wheel_of({"zeros": bytes(40 * _MEGABYTE)})
    outer = wheel_of({"job/wheels/inner-1.0-py3-none-any.whl": inner})
    path = tmp_path / _NAME
    path.write_bytes(outer)
    validate_wheel(path, _MEGABYTE)
    with pytest.raises(EnvironmentFailedError, match=f"{_NAME} is refused: .*100 times"):
        prepare(tmp_path, _NAME, outer, ArtifactKind.WHEEL, UnpackLimits())


def test_a_header_with_a_wrong_size_does_not_help_an_attacker(tmp_path: Path) -> None:
    """Only as much as the directory states is ever written, and then the checksum does not match."""
    liar = lying(zip_of({"zeros": bytes(40 * _MEGABYTE)}))
    with pytest.raises(EnvironmentFailedError, match="neither a readable zip nor tar"):
        prepare(tmp_path, "liar.zip", liar, ArtifactKind.ARCHIVE, UnpackLimits())
    assert not list((tmp_path / "cache").rglob("zeros"))


@pytest.mark.process
def test_a_wheel_with_wrong_sizes_is_reported_in_one_clear_message(tmp_path: Path) -> None:
    content = lying(wheel_of({"zeros": bytes(40 * _MEGABYTE), f"{_INFO}/RECORD": b""}))
    with pytest.raises(EnvironmentFailedError) as caught:
        prepare(tmp_path, _NAME, content, ArtifactKind.WHEEL, UnpackLimits())
    assert str(caught.value) == (
        f"cannot install {_NAME}: pip failed: zipfile.BadZipFile: Bad CRC-32 for file 'zeros'; "
        "the wheel is damaged, or its sizes are not those in its directory"
    )
    assert not list((tmp_path / "cache").iterdir())


def test_a_directory_of_too_many_entries_is_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / _NAME
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", *[0] * 18)
    count = 200_000
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count & 0xFFFF, count & 0xFFFF, count * len(entry), 0, 0)
    path.write_bytes(entry * count + end)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidProgramError, match=r"python.unpack.max-entries"):
            validate_wheel(path, 1 << 30, limits=UnpackLimits(entries=1000))
        assert tracemalloc.get_traced_memory()[1] < _MEGABYTE
    finally:
        tracemalloc.stop()


def test_the_holes_of_a_sparse_file_count(tmp_path: Path) -> None:
    member = tarfile.TarInfo("holes")
    sparse = {"major": "0", "minor": "1", "size": str(1 << 40), "numblocks": "1", "map": "0,512", "name": "holes"}
    member.pax_headers = {f"GNU.sparse.{key}": value for key, value in sparse.items()}
    with pytest.raises(EnvironmentFailedError, match=r"python\.unpack\.max-size"):
        prepare(tmp_path, "sparse.tar", tar_of({member: bytes(512)}, "w"), ArtifactKind.ARCHIVE, UnpackLimits())
    assert not list((tmp_path / "cache").rglob("holes"))


def test_a_device_is_not_created(tmp_path: Path) -> None:
    member = tarfile.TarInfo("null")
    member.type = tarfile.CHRTYPE
    with pytest.raises(EnvironmentFailedError, match="has a member that is not a file: 'null'"):
        prepare(tmp_path, "device.tar", tar_of({member: b""}, "w"), ArtifactKind.ARCHIVE, UnpackLimits())


def test_links_do_not_lead_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, str(outside)
    packed = tar_of({link: b"", "link/evil": b""}, "w")
    with pytest.raises(EnvironmentFailedError, match="outside"):
        prepare(tmp_path, "links.tar", packed, ArtifactKind.ARCHIVE, UnpackLimits())
    assert not list(outside.iterdir())
    linked = zipfile.ZipInfo("link")
    linked.external_attr = 0o120777 << 16
    packed = zip_of({linked: str(outside), "link2/good": "x"})
    held = prepare(tmp_path, "links.zip", packed, ArtifactKind.ARCHIVE, UnpackLimits())
    assert not any(path.is_symlink() for path in held)


def test_small_archives_with_high_compression_are_allowed_and_limits_are_configurable(tmp_path: Path) -> None:
    assert len(prepare(tmp_path, "a", zip_of({"a": bytes(_MEGABYTE)}), ArtifactKind.ARCHIVE, UnpackLimits())) == 1
    chosen = Configuration({"python.unpack.max-size": "1 kb", "python.unpack.max-ratio": 7})
    assert UnpackLimits.of(chosen) == UnpackLimits(1024, 100_000, 7)
    budget = UnpackBudget("x", 10 * _MEGABYTE, UnpackLimits(ratio=7))
    budget.take(70 * _MEGABYTE)
    with pytest.raises(InvalidProgramError, match="7 times"):
        budget.take(1)
