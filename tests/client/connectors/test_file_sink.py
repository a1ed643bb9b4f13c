"""Names, rolling and errors of the file sink."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sink_harness import SinkHarness, write_all

from millstream.common import Duration, Encoder
from millstream.core.clock import ManualClock
from millstream.core.errors import InvalidProgramError
from millstream.core.records.batches import ColumnBatch, RowBatch
from millstream.core.row import Row
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system import BucketAssigner, FileSink, OutputFileConfig, RollingPolicy
from millstream.datastream.connectors.file_system.parquet import part as parquet_part

NOON = datetime.datetime(2024, 5, 1, 12)


def _write(sink: FileSink, *batches: list[Any], subtask: int = 0) -> None:
    write_all(sink, *map(RowBatch, batches), subtask=subtask, parallelism=4)


def _names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def _only(folder: Path) -> Path:
    (part,) = folder.iterdir()
    return part


def test_names_follow_the_configuration(tmp_path: Path) -> None:
    config = OutputFileConfig.builder().with_part_prefix("out").with_part_suffix(".txt").build()
    sink = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder()).with_output_file_config(config).build()
    _write(sink, [1], subtask=2)
    _write(FileSink.for_csv(tmp_path).with_output_file_config("c"), [{"a": 1}])
    _write(FileSink.for_json_lines(tmp_path).with_output_file_config("j", ".ndjson"), [1])
    names = [re.fullmatch(r"(\w+)-([0-9a-f]{32})-0(\.\w+)", name) for name in _names(tmp_path)]
    assert [name and (name[1], name[3]) for name in names] == [("c", ".csv"), ("j", ".ndjson"), ("out", ".txt")]
    assert len({name and name[2] for name in names}) == 3


def test_a_hidden_file_is_written_first(tmp_path: Path) -> None:
    writer = SinkHarness(FileSink.for_row_format(tmp_path), 3, 4)
    writer.write(RowBatch(["x"]))
    hidden = re.fullmatch(r"\.(part-[0-9a-f]{32}-0)\.[0-9a-f]{16}-3-0\.inprogress", _only(tmp_path).name)
    assert hidden
    writer.end()
    assert _names(tmp_path) == [hidden[1]]
    assert (tmp_path / hidden[1]).read_text() == "x\n"


def test_parts_roll_by_size(tmp_path: Path) -> None:
    sink = FileSink.for_row_format(tmp_path).with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=4))
    _write(sink, ["a"], ["b"], ["c"])
    assert [(tmp_path / name).read_text() for name in _names(tmp_path)] == ["a\nb\n", "c\n"]


def test_parts_roll_by_age_and_inactivity(tmp_path: Path) -> None:
    clock = ManualClock()
    policy = RollingPolicy.default_rolling_policy(
        rollover_interval=10_000, inactivity_interval=datetime.timedelta(seconds=4)
    )
    writer = SinkHarness(FileSink.for_row_format(tmp_path).with_rolling_policy(policy).with_clock(clock))
    for seconds, row in ((0, "a"), (3, "b"), (3, "c"), (3, "d"), (3, "e"), (5, "f")):
        clock.advance(seconds)
        writer.write(RowBatch([row]))
    writer.end()
    assert [(tmp_path / name).read_text() for name in _names(tmp_path)] == ["a\nb\nc\nd\n", "e\n", "f\n"]


def test_a_policy_without_limits_keeps_one_part(tmp_path: Path) -> None:
    sink = FileSink.for_row_format(tmp_path).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    _write(sink, ["a" * 1000], ["b" * 1000])
    assert len(_names(tmp_path)) == 1


def test_a_part_that_someone_else_made_is_not_overwritten(tmp_path: Path) -> None:
    writer = SinkHarness(FileSink.for_row_format(tmp_path), checkpointed=True)
    writer.write(RowBatch(["mine"]))
    hidden = _only(tmp_path)
    theirs = tmp_path / hidden.name[1:].split(".")[0]
    theirs.write_text("theirs\n")
    writer.finish()
    writer.checkpoint(1)
    for _ in range(2):
        with pytest.raises(ConnectorError, match=f"{theirs.name} is another file, which is not overwritten"):
            writer.complete(1)
    assert (theirs.read_text(), hidden.read_text()) == ("theirs\n", "mine\n")
    theirs.unlink()
    writer.complete(1)  # the commit stayed due
    writer.close()
    assert _only(tmp_path).read_text() == "mine\n"


def test_an_encoder_of_ones_own(tmp_path: Path) -> None:
    _write(FileSink.for_row_format(tmp_path, Encoder(lambda row: b"<%d>" % row)), [1, 2])
    assert _only(tmp_path).read_bytes() == b"<1>\n<2>\n"


def test_text_that_the_charset_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match=r"'é.n' cannot be written as ascii"):
        _write(FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder("ascii")), ["é"])


def test_csv_text(tmp_path: Path) -> None:
    rows = [{"a, b": 1, "s": 'say "x"\n'}, {"a, b": None, "s": ""}]
    _write(FileSink.for_csv(tmp_path / "with"), rows[:1], rows[1:])
    _write(FileSink.for_csv(tmp_path / "without", header=False, delimiter=";"), rows)
    assert _only(tmp_path / "with").read_text() == '"a, b",s\n1,"say ""x""\n"\n,""\n'
    assert _only(tmp_path / "without").read_text() == '1;"say ""x""\n"\n;""\n'


def test_csv_columns_may_come_in_another_order_but_must_be_the_same(tmp_path: Path) -> None:
    _write(FileSink.for_csv(tmp_path / "a"), [{"a": 1, "b": 2}], [{"b": 4, "a": 3.5}])
    assert _only(tmp_path / "a").read_text() == "a,b\n1,2\n3.5,4\n"
    with pytest.raises(ConnectorError, match=r"has the columns a, but a batch has b"):
        _write(FileSink.for_csv(tmp_path / "b"), [{"a": 1}], [{"b": 1}])
    assert _names(tmp_path / "b") == []


def test_json_of_everything(tmp_path: Path) -> None:
    @dataclasses.dataclass
    class Point:
        x: int

    rows = [Row(1, "a"), Row(a=Row(b=1)), Point(1), (1, None), np.int64(3), np.array([1, 2]), datetime.date(2024, 1, 2)]
    _write(FileSink.for_json_lines(tmp_path), rows)
    assert [json.loads(line) for line in _only(tmp_path).read_text().splitlines()] == [
        [1, "a"], {"a": {"b": 1}}, {"x": 1}, [1, None], 3, [1, 2], "2024-01-02",
    ]  # fmt: skip


def test_what_is_no_json_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match=r"\{'a': <object.*: a object cannot be written as JSON"):
        _write(FileSink.for_json_lines(tmp_path), [1, {"a": object()}])


def test_columns_as_json_are_objects(tmp_path: Path) -> None:
    maps = pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))
    columns = pa.RecordBatch.from_arrays([pa.array([{"x": 1}]), maps], names=["s", "m"])
    write_all(FileSink.for_json_lines(tmp_path), ColumnBatch(columns))
    assert json.loads(_only(tmp_path).read_text()) == {"s": {"x": 1}, "m": {"k": 1}}


def test_parquet_gathers_batches_into_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(FileSink.for_parquet(tmp_path / "a"), *[[{"i": i}] for i in range(100)])
    assert pq.read_metadata(_only(tmp_path / "a")).num_row_groups == 1
    monkeypatch.setattr(parquet_part, "ROW_GROUP_ROWS", 30)
    _write(FileSink.for_parquet(tmp_path / "b"), *[[{"i": i}] for i in range(100)])
    assert pq.read_metadata(_only(tmp_path / "b")).num_row_groups == 4
    assert pq.read_table(tmp_path / "b").to_pydict() == {"i": list(range(100))}


def test_an_inferred_parquet_schema_covers_the_first_row_group(tmp_path: Path) -> None:
    _write(FileSink.for_parquet(tmp_path), [{"a": None, "b": 1}], [{"a": "x", "b": 2.5}], [{"b": 3}])
    assert pq.read_table(tmp_path).to_pydict() == {"a": [None, "x", None], "b": [1.0, 2.5, 3.0]}


@pytest.mark.parametrize(
    ("second", "message"),
    [({"a": 1, "z": 2}, r"columns a, but a batch has also z"), ({"a": "x"}, r"column 'a' .*int64.*values are string")],
)
def test_rows_that_do_not_fit_the_parquet_file_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(parquet_part, "ROW_GROUP_ROWS", 1)
    with pytest.raises(ConnectorError, match=message):
        _write(FileSink.for_parquet(tmp_path), [{"a": 1}], [second])
    assert _names(tmp_path) == []


@pytest.mark.parametrize(
    ("arrow_type", "value"),
    [
        (pa.string(), b"abc"),
        (pa.binary(), "abc"),
        (pa.int64(), 2.0),
        (pa.int64(), True),
        (pa.int64(), "12"),
        (pa.bool_(), 5),
        (pa.timestamp("us"), NOON.replace(tzinfo=datetime.UTC)),
        (pa.timestamp("us", "UTC"), NOON.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2)))),
        (pa.timestamp("us", "UTC"), NOON),
        (pa.date32(), NOON),
        (pa.list_(pa.string()), [b"abc"]),
        (pa.struct([("x", pa.int64())]), {"x": 2.0}),
    ],
    ids=str,
)
def test_a_parquet_schema_does_not_make_other_values(tmp_path: Path, arrow_type: Any, value: Any) -> None:
    with pytest.raises(ConnectorError, match="column 'a'"):
        _write(FileSink.for_parquet(tmp_path, pa.schema([("a", arrow_type)])), [{"a": value}])
    assert _names(tmp_path) == []


def test_a_parquet_schema_keeps_values_in_other_widths(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int16()), ("b", pa.float64()), ("c", pa.large_string()), ("d", pa.int64())])
    _write(FileSink.for_parquet(tmp_path, schema), [{"a": 1, "b": 2, "c": "x", "d": None}])
    assert pq.read_table(tmp_path).to_pydict() == {"a": [1], "b": [2.0], "c": ["x"], "d": [None]}


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConnectorError, match=r"cannot make the directory .*file"):
        SinkHarness(FileSink.for_row_format(tmp_path / "file"))


def test_a_write_that_fails_names_the_file(tmp_path: Path) -> None:
    writer = SinkHarness(FileSink.for_row_format(tmp_path / "gone"))
    (tmp_path / "gone").rmdir()
    with pytest.raises(ConnectorError, match=r"gone/\.part-.*\.inprogress: No such file"):
        writer.write(RowBatch(["x"]))
    writer.close()


def test_a_sink_is_built_as_in_pyflink(tmp_path: Path) -> None:
    names = OutputFileConfig.builder().with_part_prefix("counts").with_part_suffix(".txt").build()
    assert (names.get_part_prefix(), names.get_part_suffix()) == ("counts", ".txt")
    policy = RollingPolicy.default_rolling_policy(
        part_size=1024, rollover_interval=Duration.of_minutes(15), inactivity_interval=5 * 60 * 1000
    )
    sink = (
        FileSink.for_row_format(base_path=str(tmp_path), encoder=Encoder.simple_string_encoder())
        .with_bucket_check_interval(interval=1000)
        .with_bucket_assigner(bucket_assigner=BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(rolling_policy=policy)
        .with_output_file_config(output_file_config=names)
        .build()
    )
    assert (policy.rollover_seconds, policy.inactivity_seconds) == (900, 300)
    _write(sink, ["a"])
    (part,) = tmp_path.iterdir()
    assert re.fullmatch(r"counts-.*-0\.txt", part.name)


@pytest.mark.parametrize(
    "make",
    [
        lambda: OutputFileConfig(".hidden"),
        lambda: OutputFileConfig("a/b"),
        lambda: OutputFileConfig(""),
        lambda: RollingPolicy.default_rolling_policy(part_size=0),
        lambda: RollingPolicy.default_rolling_policy(rollover_interval=0),
        lambda: FileSink.for_row_format("x").with_bucket_check_interval(0),
        lambda: BucketAssigner.date_time_bucket_assigner("yyyy-ww"),
        lambda: BucketAssigner.date_time_bucket_assigner("yyyy 'open"),
        lambda: BucketAssigner.date_time_bucket_assigner(timezone_id="Mars/Olympus"),
        lambda: BucketAssigner.date_time_bucket_assigner(timezone_id="GMT+99:00"),
        lambda: RollingPolicy.default_rolling_policy(rollover_interval="1 min"),  # type: ignore[arg-type]
        lambda: BucketAssigner.custom_bucket_assigner("x"),  # type: ignore[arg-type]
        lambda: Encoder.simple_string_encoder("no-such-charset"),
        lambda: FileSink.for_csv("x", delimiter=""),
        lambda: FileSink.for_parquet("x", schema=5),
        lambda: FileSink.for_row_format("hdfs://x/y"),
    ],
)
def test_bad_options_are_refused_at_once(make: Any) -> None:
    with pytest.raises(InvalidProgramError):
        make()
