"""The file sink: part files of any format, below one directory. Exactly-once.

A part is written under a hidden name. When it is finished it waits, still hidden, for the checkpoint that holds it, and
gets its visible name when that is complete: what a visible name shows is complete and comes once. Text, JSON lines and
CSV continue with an open part over checkpoints, so a restored writer begins with a copy of what the checkpoint holds of
it; Parquet, and all that bulk writers write, ends its parts with every checkpoint.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from typing import Any

from millstream.common.serialization import BulkWriterFactory, Encoder
from millstream.common.time import Interval
from millstream.core.clock import Clock, SystemClock
from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.batches import Batch
from millstream.core.records.types import PICKLED, TypeInformation, from_hint
from millstream.datastream.connectors.base import StreamTransformer, SupportsPreprocessing
from millstream.datastream.connectors.file_system.csv.part import CsvPartFormat
from millstream.datastream.connectors.file_system.lines.json_part import JsonLinesPartFormat, NonFinite
from millstream.datastream.connectors.file_system.parquet.part import ParquetPartFormat
from millstream.datastream.connectors.file_system.paths import PathLike, absolute
from millstream.datastream.connectors.file_system.row_columns import declared_columns
from millstream.datastream.connectors.file_system.sink.buckets import BucketAssigner
from millstream.datastream.connectors.file_system.sink.bulk_writers import part_format_of
from millstream.datastream.connectors.file_system.sink.compaction import Compaction, FileCompactor, FileCompactStrategy
from millstream.datastream.connectors.file_system.sink.file_writer import FileWriter
from millstream.datastream.connectors.file_system.sink.part_formats import PartFormat, TextFormat
from millstream.datastream.connectors.file_system.sink.rolling import OutputFileConfig, RollingPolicy, interval_seconds
from millstream.datastream.connectors.file_system.transactions import (
    FileTransaction,
    GatheredPart,
    PartState,
    discard,
    publish,
)
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink
from millstream.datastream.functions import RuntimeContext


class FileSink(TwoPhaseCommitSink[FileTransaction], SupportsPreprocessing):
    """Writes part files into a directory, which is made when it does not exist.

    The factory methods return a sink that is ready to use; `with_...` return a changed copy; `build()` is there for
    PyFlink's builder style and returns the sink itself.
    """

    def __init__(self, path: PathLike, part_format: PartFormat, config: OutputFileConfig) -> None:
        self._directory = absolute(path)
        self._format = part_format
        self._config = config
        self._policy = RollingPolicy.default_rolling_policy()
        self._assigner = BucketAssigner.base_path_bucket_assigner()
        self._clock: Clock = SystemClock()
        self._opened: FileWriter | None = None
        self._compaction: Compaction | None = None
        self.check_interval = 60.0

    @staticmethod
    def for_row_format(base_path: PathLike, encoder: Encoder | None = None) -> FileSink:
        """Returns a sink of text files in the directory `base_path`, with a line for each record.

        `encoder` turns a record into text; without it, as `Encoder.simple_string_encoder()`.

            sink = FileSink.for_row_format("out", Encoder.simple_string_encoder())
        """
        return FileSink(base_path, TextFormat(encoder or Encoder.simple_string_encoder()), OutputFileConfig())

    @staticmethod
    def for_bulk_format(base_path: PathLike, writer_factory: BulkWriterFactory) -> FileSink:
        """Returns a sink of files that a bulk writer writes, such as those of `millstream.datastream.formats`.

        `base_path` is the directory, and `writer_factory` creates a writer for each file. Files end with every
        checkpoint, and only then unless another rolling policy is set. Raises `InvalidProgramError` unless the factory
        is a BulkWriterFactory.

            FileSink.for_bulk_format("out", ParquetBulkWriters.for_row_type(row_type))
        """
        if not isinstance(writer_factory, BulkWriterFactory):
            raise InvalidProgramError(f"for_bulk_format: expected a BulkWriterFactory, got {writer_factory!r:.200}")
        part_format, suffix = part_format_of(writer_factory)
        sink = FileSink(base_path, part_format, OutputFileConfig(part_suffix=suffix))
        return sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())

    @staticmethod
    def for_csv(
        path: PathLike,
        type_info: Any = PICKLED,
        *,
        header: bool = True,
        delimiter: str = ",",
        null_literal: str = "",
    ) -> FileSink:
        """Returns a sink of CSV files in the directory `path`.

        The columns are the fields of `type_info`, without it those of the stream's type or of the first records.
        `header` writes the names of the columns first; `delimiter` separates columns. `null_literal` is written for
        None, without quotes; text always has quotes.

            sink = FileSink.for_csv("out", type_info=Order, header=True)
        """
        part_format = CsvPartFormat(from_hint(type_info), header, delimiter, null_literal)
        return FileSink(path, part_format, OutputFileConfig(part_suffix=".csv"))

    @staticmethod
    def for_json_lines(path: PathLike, *, non_finite: NonFinite | str = NonFinite.FAIL) -> FileSink:
        """Returns a sink of files in the directory `path` with a JSON value on a line for each record.

        NaN and infinity fail the sink, or are written as null: `non_finite` is `fail` or `null`.

            events.sink_to(FileSink.for_json_lines("out")).uid("events")
        """
        part_format = JsonLinesPartFormat(NonFinite.of(non_finite))
        return FileSink(path, part_format, OutputFileConfig(part_suffix=".jsonl"))

    @staticmethod
    def for_parquet(path: PathLike, schema: Any = None, *, compression: str = "snappy") -> FileSink:
        """Returns a sink of Parquet files in the directory `path`.

        `schema` is a pyarrow schema or a type (`Types....`, a dataclass); without it, the schema of the first records.
        `compression` is a codec of Parquet's, such as `zstd`.

            sink = FileSink.for_parquet("s3://bucket/orders", Order)
        """
        arrow, type_info = (None, PICKLED) if schema is None else declared_columns(schema, "a Parquet schema")
        part_format = ParquetPartFormat(arrow, type_info, compression)
        return FileSink(path, part_format, OutputFileConfig(part_suffix=".parquet"))

    def with_output_file_config(
        self, output_file_config: OutputFileConfig | str, suffix: str | None = None
    ) -> FileSink:
        """Returns a sink with other names of part files.

        `output_file_config` is an OutputFileConfig, or a prefix with a `suffix`.

            names = OutputFileConfig.builder().with_part_prefix("orders").with_part_suffix(".txt").build()
            sink.with_output_file_config(names)
        """
        config = output_file_config
        if isinstance(config, str):
            config = OutputFileConfig(config, self._config.part_suffix if suffix is None else suffix)
        return self._with(_config=config)

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> FileSink:
        """Returns a sink that ends part files by `rolling_policy`.

        For example:

            sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        """
        return self._with(_policy=rolling_policy)

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> FileSink:
        """Returns a sink that writes into folders below its path: `bucket_assigner` selects the folder of a record.

        For example:

            sink.with_bucket_assigner(BucketAssigner.date_time_bucket_assigner())
        """
        return self._with(_assigner=bucket_assigner)

    def with_bucket_check_interval(self, interval: Interval) -> FileSink:
        """Returns a sink that checks its open parts every `interval` while there are no records.

        For example:

            sink.with_bucket_check_interval(60_000)
        """
        return self._with(check_interval=interval_seconds(interval))

    def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> FileSink:
        """Returns a sink that joins small parts before they become visible.

        `strategy` decides when parts are joined, and `compactor` how. Raises `InvalidProgramError` for a format whose
        files cannot be concatenated.

            strategy = FileCompactStrategy.builder().set_size_threshold(64 << 20).build()
            sink = FileSink.for_json_lines("out").enable_compact(strategy, FileCompactor.concat_file_compactor())
        """
        if compactor.joins and not self._format.joinable:
            raise InvalidProgramError(
                "enable_compact: files of this format cannot be joined by writing one behind the other; let parts grow "
                "with another rolling policy, or use FileCompactor.identical_file_compactor()"
            )
        return self._with(_compaction=Compaction(strategy, compactor))

    def disable_compact(self) -> FileSink:
        """Returns a sink that does not join parts: the default.

        For example:

            sink = FileSink.for_row_format("out").disable_compact()
        """
        return self._with(_compaction=None)

    def with_clock(self, clock: Clock) -> FileSink:
        """Returns a sink whose rolling policy and buckets by time use `clock`."""
        return self._with(_clock=clock)

    def _with(self, **changed: Any) -> FileSink:
        other = copy.copy(self)
        vars(other).update(changed)
        return other

    @override
    def for_type(self, record_type: TypeInformation) -> FileSink:
        return self._with(_format=self._format.for_type(record_type))

    def build(self) -> FileSink:
        """Returns the sink itself.

        For example:

            sink = FileSink.for_row_format("out", Encoder.simple_string_encoder()).build()
        """
        return self

    def get_transformer(self) -> StreamTransformer | None:
        """None: it takes records as they are."""
        return None

    @override
    def open(self, context: RuntimeContext) -> None:
        self._opened = FileWriter(
            self._directory, self._format, self._config, self._policy, self._assigner, self._clock, context,
            self._compaction,
        )  # fmt: skip

    @property
    def _writer(self) -> FileWriter:
        assert self._opened is not None, "the sink is opened before it is used"
        return self._opened

    def begin_transaction(self) -> FileTransaction:
        """The parts that are finished from now on."""
        return self._writer.begin()

    @override
    def write(self, transaction: FileTransaction, batch: Batch) -> None:
        self._writer.write(transaction, batch)

    @override
    def check(self, transaction: FileTransaction) -> None:
        self._writer.roll_by_time(transaction)

    @override
    def pre_commit(self, transaction: FileTransaction) -> None:
        self._writer.pre_commit(transaction)

    @override
    def pre_commit_for_savepoint(self, transaction: FileTransaction, checkpoint_id: int) -> None:
        self._writer.pre_commit_for_savepoint(transaction, checkpoint_id)

    @override
    def snapshot_writer_state(self, checkpoint_id: int) -> list[PartState | GatheredPart]:
        return self._writer.hold()

    @override
    def commit(self, transaction: FileTransaction) -> None:
        publish(transaction)

    @override
    def recover_and_commit(self, transaction: FileTransaction) -> None:
        publish(transaction, recovered=True)

    @override
    def abort(self, transaction: FileTransaction) -> None:
        discard(transaction)

    @override
    def restore_writer_state(self, states: Sequence[PartState | GatheredPart]) -> None:
        self._writer.restore(states)

    @override
    def abort_leftovers(
        self,
        known: Sequence[FileTransaction],
        known_states: Sequence[PartState | GatheredPart],
        failed_savepoints: Collection[int],
    ) -> None:
        self._writer.remove_leftovers(known, known_states, failed_savepoints)

    @override
    def finish(self, transaction: FileTransaction) -> None:
        self._writer.finish(transaction)

    @override
    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


StreamingFileSink = FileSink
"""PyFlink's former name for it."""
