"""Whose line it is: splits at any byte, chunks of any size, resumed anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from compressors import COMPRESSORS
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import cases

from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system.lines.lines import LineReader, cut_lines
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.file_system.splits import WHOLE, FileSplit


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lines") / "file.txt"


_content = st.lists(st.sampled_from([b"\n", b"\r", b"a", b"bc", b"\xc3\xa9"]), max_size=60).map(b"".join)


def _expected(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


@settings(max_examples=cases(300))
@given(content=_content, block=st.integers(1, 30), chunk=st.integers(1, 12), takes=st.lists(st.integers(1, 5)))
def test_each_line_belongs_to_one_split_and_resumes_exactly(
    file: Path, content: bytes, block: int, chunk: int, takes: list[int]
) -> None:
    file.write_bytes(content)
    lines: list[bytes] = []
    for split in cut_lines(FoundFile(str(file), len(content)), block):
        reader = LineReader(split, chunk)
        for count in takes:
            before = reader.position()
            taken = reader.take(count)
            assert len(taken) <= count
            if taken:
                assert content[before : before + len(taken[0])] == taken[0]
            lines.extend(taken)
            position = reader.position()
            reader.close()
            reader = LineReader(FileSplit(split.path, split.start, split.end, position), chunk)
        while taken := reader.take(3):
            lines.extend(taken)
        assert reader.take(3) == []
        reader.close()
    assert lines == _expected(content)


@settings(max_examples=cases(50))
@given(content=_content.filter(bool), chunk=st.integers(1, 12), ending=st.sampled_from(list(COMPRESSORS)))
def test_compressed_files_are_one_split(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, chunk: int, ending: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"lines{ending}"
    path.write_bytes(COMPRESSORS[ending](content))
    (split,) = cut_lines(FoundFile(str(path), path.stat().st_size), 1)
    assert split.end == WHOLE
    reader = LineReader(split, chunk)
    first = reader.take(2)
    resumed = LineReader(FileSplit(split.path, split.start, split.end, reader.position()), chunk)
    rest: list[bytes] = []
    while taken := resumed.take(4):
        rest.extend(taken)
    reader.close()
    resumed.close()
    assert first + rest == _expected(content)


def test_line_numbers_count_from_one(file: Path) -> None:
    file.write_bytes(b"a\nbb\n\nc")
    reader = LineReader(FileSplit(str(file), 0, 7))
    assert [reader.line_number(offset) for offset in (0, 2, 5, 6)] == [1, 2, 3, 4]
    reader.close()


def test_compressed_files_may_be_of_several_pieces(tmp_path: Path) -> None:
    for ending, compress in COMPRESSORS.items():
        path = tmp_path / f"pieces{ending}"
        path.write_bytes(compress(b"a\nb") + compress(b"c\nd\n"))
        reader = LineReader(FileSplit(str(path), 0, WHOLE))
        assert reader.take(10) + reader.take(10) == [b"a", b"bc", b"d"], ending
        assert reader.line_number(5) == 3
        reader.close()


@pytest.mark.parametrize("ending", COMPRESSORS)
def test_a_truncated_compressed_file_is_named(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"cut{ending}"
    path.write_bytes(COMPRESSORS[ending](b"line\n" * 10000)[:-20])
    reader = LineReader(FileSplit(str(path), 0, WHOLE))
    with pytest.raises(ConnectorError, match=rf"cut\{ending}"):
        list(iter(lambda: reader.take(100000), []))
    reader.close()
