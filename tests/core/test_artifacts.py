"""Metadata of wheels, and files that appear completely or not at all."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import pytest
from archives import zip_of
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import cases

from millstream.core.environments.artifacts import (
    ArtifactError,
    WheelInfo,
    WheelTooLargeError,
    WholeFile,
    sha256_of,
    validate_wheel,
)
from millstream.core.errors import InvalidProgramError

NAME = "my_job-1.0-py3-none-any.whl"
INFO = "my_job-1.0.dist-info"
GOOD = {
    f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: my-job\nVersion: 1.0\n\nA body",
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\n",
}


def write(folder: Path, members: dict[str, str], name: str = NAME) -> Path:
    path = folder / name
    path.write_bytes(zip_of(members))
    return path


def test_a_wheel_and_its_entry_points(tmp_path: Path) -> None:
    entry_points = "[console_scripts]\nx = a:b\n\n[millstream.jobs]\nFirst = pkg.one:main [x]\nsecond = pkg.two:main"
    path = write(tmp_path, {**GOOD, f"{INFO}/entry_points.txt": entry_points, "single.py": "", "pkg/one.py": ""})
    info = validate_wheel(path, 10_000)
    assert info == WheelInfo("my-job", "1.0", {"First": "pkg.one:main", "second": "pkg.two:main"}, info.modules)
    assert info.entry("First") == "pkg.one:main"
    assert info.entry("other.module:run") == "other.module:run"
    assert info.entry("other.module") == "other.module:main"
    with pytest.raises(InvalidProgramError, match=r"several .*First \(pkg.one:main\), second .*-c") as several:
        info.entry()
    assert "\n" not in str(several.value)
    with pytest.raises(InvalidProgramError, match="not an entry point"):
        info.entry("two words")
    assert info.entry("single") == "single:main"
    with pytest.raises(InvalidProgramError, match=r"'frist' is not .* of my-job 1.0: there are First .*, second .*-c"):
        info.entry("frist")


def test_an_entry_named_millstream_counts_without_the_group(tmp_path: Path) -> None:
    path = write(tmp_path, {**GOOD, f"{INFO}/entry_points.txt": "[console_scripts]\nmillstream = pkg:main\nx = a:b\n"})
    assert validate_wheel(path, 10_000).entry() == "pkg:main"


def test_a_missing_entry_point_is_reported_with_how_to_add_one(tmp_path: Path) -> None:
    info = validate_wheel(write(tmp_path, GOOD), 10_000)
    assert info.entry_points == {}
    with pytest.raises(InvalidProgramError, match=r"names no entry point: .*millstream\.jobs.*-c package\.module:main"):
        info.entry()


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({}, "no .dist-info"),
        ({f"{INFO}/METADATA": "Name: x\nVersion: 1\n"}, "METADATA and WHEEL"),
        ({**GOOD, f"{INFO}/METADATA": "Name: x\n"}, "no Name or no Version"),
        ({**GOOD, "../evil.py": ""}, "points outside"),
        ({**GOOD, "pkg/../../evil.py": ""}, "points outside"),
        ({**GOOD, "..\\evil.py": ""}, "points outside"),
        ({**GOOD, "/etc/evil": ""}, "points outside"),
        ({**GOOD, "C:\\evil": ""}, "points outside"),
        ({**GOOD, f"{INFO}/entry_points.txt": "no section"}, "entry_points.txt is malformed"),
    ],
)
def test_refused_wheels(tmp_path: Path, members: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidProgramError, match=reason) as caught:
        validate_wheel(write(tmp_path, members), 10_000)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["job.zip", "job.whl", "job-1.0.whl", "-1-py3-none-any.whl", "a b-1-py3-none-any.whl"])
def test_refused_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidProgramError, match=r"expected a name like job-1.0-py3-none-any.whl"):
        validate_wheel(write(tmp_path, GOOD, name), 10_000)


def test_too_large(tmp_path: Path) -> None:
    with pytest.raises(WheelTooLargeError, match=r"more than web.upload.max-size allows \(10\)"):
        validate_wheel(write(tmp_path, GOOD), 10)


@settings(max_examples=cases(300))
@given(content=st.binary(max_size=300), cut=st.integers(0, 400))
def test_damaged_wheels_are_refused_with_a_reason(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, cut: int
) -> None:
    path, whole = tmp_path_factory.mktemp("damaged") / NAME, zip_of(GOOD)
    path.write_bytes(whole[:cut] + content + whole[cut + len(content) :])
    with contextlib.suppress(InvalidProgramError):
        validate_wheel(path, 10_000)


def test_files_appear_completely_or_not_at_all(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"abc").hexdigest()
    with WholeFile(tmp_path / "deep" / "file", digest) as file:
        file.write(b"ab")
        file.write(b"c")
        assert not (tmp_path / "deep" / "file").exists()
        file.commit("file")
    assert sha256_of(tmp_path / "deep" / "file") == digest
    with WholeFile(tmp_path / "other", digest) as file:
        file.write(b"abd")
        with pytest.raises(ArtifactError, match="other arrived damaged"):
            file.commit("other")
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["file"]
