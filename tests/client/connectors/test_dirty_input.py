"""Input that is no record: named, counted, or sent to a side output; once, whatever is restored."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from compressors import COMPRESSORS
from hypothesis import given
from hypothesis import strategies as st
from source_harness import SourceHarness

from millstream.core.errors import InvalidProgramError
from millstream.datastream import OutputTag, StreamExecutionEnvironment
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system import DEAD_LETTERS, DeadLetter, FileSource, StreamFormat
from millstream.datastream.connectors.file_system.csv.format import CsvFormat
from millstream.datastream.connectors.file_system.csv.records import CsvRecords
from millstream.datastream.connectors.file_system.csv.suspects import certain
from millstream.datastream.connectors.malformed import ERROR_COUNTER


@dataclass(frozen=True)
class Order:
    item: str
    quantity: int


def _text(path: Path, on_error: Any = "fail", **options: Any) -> FileSource:
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(**options), path, on_error=on_error)


def _read(source: FileSource, parallelism: int = 1, max_rows: int = 7) -> tuple[list[Any], list[DeadLetter], int]:
    with SourceHarness(source, parallelism) as harness:
        rows = harness.run_to_end(max_rows)
        return rows, harness.side, harness.count(ERROR_COUNTER)


@dataclass(frozen=True)
class _Case:
    """A format, the bytes of a dirty file in it, and which of its pieces are no records."""

    make: Callable[..., FileSource]
    pieces: tuple[tuple[bytes, bool], ...]  # with line ends; whether it is a record

    @property
    def content(self) -> bytes:
        return b"".join(piece for piece, _ in self.pieces)

    def letters(self) -> list[tuple[int, bytes]]:
        found, offset = [], 0
        for piece, good in self.pieces:
            if not good:
                found.append((offset, piece.rstrip(b"\r\n")))
            offset += len(piece)
        return found


_CASES = {
    "text": _Case(
        _text,
        ((b"a\r\n", True), (b"caf\xe9\n", False), (b"nul \x00\n", True), (b"\xff\xfe\n", False), (b"\n", True),
         (b"last \xc3", False)),
    ),
    "JSON": _Case(
        FileSource.for_json_lines,
        ((b'{"a": 1}\n', True), (b"{bad\n", False), (b'"\xff"\n', False), (b"\x00\n", False), (b"NaN\n", False),
         (b"[" * 5000 + b"\n", False), (b"2\r\n", True), (b'{"cut": ', False)),
    ),
    "JSON of a type": _Case(
        lambda path, **more: FileSource.for_json_lines(path, type_info=Order, **more),
        ((b'{"item": "x", "quantity": 1}\n', True), (b'{"item": "x", "quantity": "1"}\n', False), (b"[]\n", False),
         (b'{"item": "x"}\n', False), (b'{"item": "y", "quantity": 2}', True)),
    ),
    "CSV": _Case(
        lambda path, **more: FileSource.for_csv(path, types=Order, header=False, **more),
        ((b"x,1\n", True), (b"x,one\n", False), (b"x,1,2\r\n", False), (b"caf\xe9,1\n", False), (b'"a\nb",2\n', True),
         (b"x\n", False), (b"nul \x00,3\n", True), (b'5" pipe,4\n', True), (b"x,99999999999999999999\n", False),
         (b'"cut,5', False)),
    ),
    "CSV of any type": _Case(
        lambda path, **more: FileSource(CsvFormat(header=False, block_size=12), path, **more),
        ((b"x,1\n", True), (b"y,2\n", True), (b"z\n", False), (b"x,one\n", False), (b"\xff,1\n", False),
         (b"w,3", True)),
    ),
}  # fmt: skip


@pytest.fixture(params=_CASES)
def case(request: pytest.FixtureRequest) -> _Case:
    return _CASES[request.param]


@pytest.fixture
def path(tmp_path: Path, case: _Case) -> Path:
    (tmp_path / "dirty").write_bytes(case.content)
    return tmp_path / "dirty"


def test_the_first_is_named_and_fails_the_source(case: _Case, path: Path) -> None:
    offset, raw = case.letters()[0]
    line = case.content[:offset].count(b"\n") + 1
    with pytest.raises(ConnectorError) as raised:
        _read(case.make(path))
    assert f"{path}, line {line}: " in str(raised.value)
    assert f"at byte {offset}: {raw[:50]!r}"[:60] in str(raised.value)
    assert "on_error" in str(raised.value)
    assert len(str(raised.value)) < 2000


@pytest.mark.parametrize("max_rows", [1, 3, 100])
def test_they_are_skipped_and_counted(case: _Case, path: Path, max_rows: int) -> None:
    rows, side, count = _read(case.make(path, on_error="skip"), max_rows=max_rows)
    assert len(rows) == sum(good for _, good in case.pieces)
    assert side == []
    assert count == len(case.letters())


def test_dead_letters_have_their_place_and_reason(case: _Case, path: Path) -> None:
    rows, side, count = _read(case.make(path, on_error="dead-letter"))
    assert [(letter.offset, letter.raw) for letter in side] == case.letters()
    assert {letter.source for letter in side} == {str(path)}
    assert all(letter.reason for letter in side)
    assert count == len(side)
    assert len(rows) == len(case.pieces) - len(side)


@pytest.mark.parametrize("block", [1, 5, 17, 1000])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_splits_share_them(case: _Case, path: Path, block: int, parallelism: int) -> None:
    source = case.make(path, on_error="dead-letter").with_block_size(block)
    _, side, count = _read(source, parallelism, max_rows=2)
    assert sorted((letter.offset, letter.raw) for letter in side) == case.letters()
    assert count == len(side)


@given(seed=st.integers(0, 2**32))
def test_a_restore_loses_and_repeats_none(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    choose = random.Random(seed)
    case = _CASES[choose.choice(list(_CASES))]
    folder = tmp_path_factory.mktemp("dirty")
    (folder / "a").write_bytes(case.content)
    (folder / "b").write_bytes(case.content)
    source = case.make(folder, on_error="dead-letter").with_block_size(choose.choice([5, 1000]))
    expected = _read(source)
    harness = SourceHarness(source, 2)
    for _ in range(choose.randrange(40)):
        harness.step(choose.randrange(100), choose.randrange(1, 5))
    snapshot = harness.snapshot()
    for _ in range(choose.randrange(10)):
        harness.step(choose.randrange(100), 2)
    harness.close()
    restored = SourceHarness(source, choose.choice([1, 3]), snapshot)
    rows = restored.run_to_end(3)
    restored.close()
    assert sorted(map(repr, rows)) == sorted(map(repr, expected[0]))
    assert sorted(map(repr, restored.side)) == sorted(map(repr, expected[1]))
    assert restored.count(ERROR_COUNTER) == expected[2]


@pytest.mark.parametrize(
    ("make", "good"),
    [
        (_text, b"x\n"),
        (FileSource.for_json_lines, b"1\n"),
        (lambda path, **more: FileSource.for_csv(path, header=False, **more), b"1,2\n"),
    ],
)
@pytest.mark.parametrize("length", [101, 5000, 3_000_000])
def test_a_line_that_is_too_long_costs_no_memory_and_no_other_line(
    tmp_path: Path, make: Any, good: bytes, length: int
) -> None:
    (tmp_path / "a").write_bytes(good * 3 + b"9" * length + b"\n" + good * 2)
    options = {"max_line_length": 100}
    with pytest.raises(ConnectorError, match=r"a, line 4: .*max_line_length"):
        _read(make(tmp_path, **options))
    rows, (letter,), count = _read(make(tmp_path, on_error="dead-letter", **options))
    assert (len(rows), count) == (5, 1)
    assert letter.offset == len(good) * 3
    assert letter.raw == b"9" * min(length, 65536)


def test_a_quote_that_is_never_closed_costs_its_line(tmp_path: Path) -> None:
    content = b'a,b\n1,2\n"3,4\n' + b"5,6\n" * 1000
    (tmp_path / "a").write_bytes(content)
    rows, (letter,), _ = _read(FileSource.for_csv(tmp_path, on_error="dead-letter", types={"a": int, "b": int}))
    assert (letter.offset, letter.raw) == (8, b'"3,4')
    assert len(rows) == 1001
    rows, (letter,), _ = _read(FileSource.for_csv(tmp_path, on_error="dead-letter", max_line_length=500))
    assert (letter.offset, letter.raw, len(rows)) == (8, b'"3,4', 1001)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (_text, b"some text %d\n"),
        (FileSource.for_json_lines, b"%d\n"),
        (lambda path, **more: FileSource.for_csv(path, header=False, **more), b"%d,x\n"),
    ],
)
@pytest.mark.parametrize("ending", [".gz", ".deflate", ".zst"])  # the others hold more than is left of this one
def test_a_compressed_file_that_ends_too_early_gives_what_there_is(
    tmp_path: Path, make: Any, line: bytes, ending: str
) -> None:
    content = b"".join(line % random.Random(i).randrange(10**9) for i in range(20_000))
    (tmp_path / f"a{ending}").write_bytes(COMPRESSORS[ending](content)[:-3000])
    with pytest.raises(ConnectorError, match=rf"a\{ending}: "):
        _read(make(tmp_path), max_rows=1000)
    rows, (letter,), count = _read(make(tmp_path, on_error="dead-letter"), max_rows=1000)
    assert 10_000 < len(rows) < 20_000
    assert count == 1
    lines = content.splitlines(keepends=True)
    assert letter.offset == sum(map(len, lines[: len(rows)]))
    assert lines[len(rows)].startswith(letter.raw)


def test_files_that_are_no_parquet_are_one_record_each(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no parquet at all")
    pq.write_table(pa.table({"other": [1]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "c.parquet")
    whole = (tmp_path / "c.parquet").read_bytes()
    (tmp_path / "d.parquet").write_bytes(whole[: len(whole) // 2])
    rows, side, count = _read(FileSource.for_parquet(tmp_path, columns=["n"], on_error="dead-letter"))
    assert [row.n for row in rows] == [1, 2]
    assert [Path(letter.source).name for letter in side] == ["a.parquet", "b.parquet", "d.parquet"]
    assert "no column n; it has other" in side[1].reason
    assert count == 3


def test_a_file_whose_name_is_no_utf_8_has_dead_letters_that_can_be_written(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    path.write_bytes(b"\xff\n")
    _, (letter,), _ = _read(_text(path, "dead-letter"))
    assert letter.source == f"{tmp_path}/caf\\udce9"


def test_a_file_that_is_gone_is_no_dirty_input(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    harness = SourceHarness(_text(tmp_path, "skip"), 1)
    harness._work()
    (tmp_path / "a").unlink()
    with pytest.raises(ConnectorError, match="No such file"):
        harness.run_to_end()
    harness.close()


@pytest.mark.parametrize("charset", ["UTF-16", "UTF-16-LE", "UTF-32"])
def test_character_sets_without_single_bytes_for_line_ends(tmp_path: Path, charset: str) -> None:
    unmarked = f"{charset[:6]}-LE"
    bad = "d\ud800,2".encode(unmarked, "surrogatepass")
    (tmp_path / "a").write_bytes("é,1\n".encode(charset) + bad + "\ne,3\n".encode(unmarked))
    rows, (letter,), _ = _read(_text(tmp_path, "dead-letter", charset=charset))
    assert rows == ["é,1", "e,3"]
    assert letter.offset == 5
    with pytest.raises(ConnectorError, match="a, line 2: not valid utf-"):
        _read(_text(tmp_path, charset=charset))
    csv = FileSource.for_csv(tmp_path, header=False, charset=charset, types=tuple[str, int], on_error="dead-letter")
    rows, (letter,), _ = _read(csv)
    assert [tuple(row) for row in rows] == [("é", 1), ("e", 3)]
    assert letter.offset == 5


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfname\nx\n")
    assert _read(_text(tmp_path))[0] == ["name", "x"]
    assert [row.name for row in _read(FileSource.for_csv(tmp_path))[0]] == ["x"]


_VALUES = st.text(alphabet='ab,;"\r\n', max_size=6)


@given(text=st.lists(_VALUES, max_size=12).map("".join), quote=st.sampled_from(['"', None]))
def test_records_end_where_arrow_sees_their_end(text: str, quote: str | None) -> None:
    from pyarrow import csv

    data = text.encode()
    cutter = CsvRecords(",", quote)
    records, end = cutter.split(data), cutter.end(data)
    assert cutter.split(data[:end]) == [record for record in records if record[1] <= end]
    assert not data[end:].strip(b"\r\n") or records[-1][1] > end or b"\r" in data[end:]
    for begin, stop in records[:-1]:  # the last may have no end
        others: list[Any] = []
        parse = csv.ParseOptions(
            quote_char=quote or False,
            newlines_in_values=True,
            invalid_row_handler=lambda row, others=others: others.append(row) or "skip",
        )
        options = csv.ReadOptions(column_names=["a"], use_threads=False)
        table = csv.read_csv(pa.BufferReader(data[begin:stop]), read_options=options, parse_options=parse)
        assert table.num_rows + len(others) == 1, (data[begin:stop], data)


def test_dead_letters_have_to_be_read(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    mine = OutputTag("mine", DeadLetter)
    stream = env.from_source(_text(tmp_path, mine), None, "lines")
    stream.print()
    with pytest.raises(InvalidProgramError, match=r"'Source: lines' sends .* 'mine', and nothing reads it"):
        env.get_execution_plan()
    with pytest.raises(InvalidProgramError, match="sends nothing to the side output 'dead-letters'"):
        stream.get_side_output(DEAD_LETTERS)
    stream.get_side_output(mine).print()
    assert "mine" not in env.get_execution_plan()


@pytest.mark.parametrize("on_error", ["ignore", "", None, 1])
def test_other_ways_are_refused(tmp_path: Path, on_error: Any) -> None:
    with pytest.raises(InvalidProgramError, match="on_error must be one of 'fail', 'skip', 'dead-letter'"):
        _text(tmp_path, on_error)


_KINDS = [pa.int64(), pa.float64(), pa.string(), pa.date32(), pa.timestamp("us"), pa.time64("us"), pa.bool_()]
_NUMBERS = [b"1", b"0x1F", b" 7\t", b"+1", b"1e5", b"nan", b"-inf", b"Infinity", b"true", b"x", b"\xff"]
_MOMENTS = [b"2024-01-02", b"2024-01-02T03:04:05Z", b"2024-01-02 03:04:05.123456", b"03:04", b"3:4:5"]
_SHORT = st.binary(max_size=4).filter(lambda value: not set(value) & set(b'",\r\n'))


@given(st.sampled_from(_NUMBERS + _MOMENTS) | _SHORT, st.sampled_from(_KINDS))
def test_only_what_arrow_refuses_is_certain(value: bytes, kind: pa.DataType) -> None:
    from pyarrow import csv

    if not certain(pa.array([value], pa.binary()), kind):
        return
    with pytest.raises(pa.ArrowInvalid):
        csv.read_csv(
            pa.BufferReader(b'"' + value + b'"\n'),
            read_options=csv.ReadOptions(column_names=["a"]),
            convert_options=csv.ConvertOptions(column_types={"a": kind}, null_values=[""]),
        )


def test_a_third_of_a_large_file_may_be_malformed(tmp_path: Path) -> None:
    lines = [(b"x%d,%d\n", b"x%d,n%d\n", b"%d\xff,%d\n", b"%d,%d,\n")[i % 4] % (i, i) for i in range(20_000)]
    (tmp_path / "a").write_bytes(b"".join(lines))
    source = FileSource.for_csv(tmp_path, header=False, types=tuple[str, int], on_error="dead-letter")
    rows, side, count = _read(source, max_rows=4096)
    assert [row.f1 for row in rows] == list(range(0, 20_000, 4))
    assert [letter.raw + b"\n" for letter in side] == [line for i, line in enumerate(lines) if i % 4]
    assert count == 15_000
