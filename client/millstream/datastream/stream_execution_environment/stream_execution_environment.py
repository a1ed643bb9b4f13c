"""`StreamExecutionEnvironment`: where a program starts, and what turns it into a job.

Options come from, each over the one before: `config.yaml`, the program runner, the program's `Configuration`, and the
environment's own setters. What an operator sets for itself wins over all of them.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, overload

from msgspec import Struct
from msgspec.structs import replace

from millstream.common.configuration import Configuration
from millstream.common.execution_config import ExecutionConfig
from millstream.common.io import InputFormat
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.names import why_unwritable
from millstream.core.jobs.plan.function_ends_plan import SourceFunctionSpec
from millstream.core.jobs.plan.plan import OperatorSpec, SourceSpec
from millstream.core.records.types import PICKLED, AnyType, TypeInformation
from millstream.core.settings import configuration as core
from millstream.core.settings.options.execution import (
    CHECKPOINTING_INTERVAL,
    EXECUTION_BUFFER_TIMEOUT_INTERVAL,
    EXECUTION_TARGET,
)
from millstream.core.settings.options.scheduling import (
    EXECUTION_RUNTIME_MODE,
    PARALLELISM_DEFAULT,
    PIPELINE_AUTO_GENERATE_UIDS,
    PIPELINE_MAX_PARALLELISM,
    PIPELINE_NAME,
    PIPELINE_OPERATOR_CHAINING_ENABLED,
)
from millstream.datastream.adapters.fields import checked_field
from millstream.datastream.adapters.function_ends import source_function_of
from millstream.datastream.adapters.signatures import declared_type
from millstream.datastream.connectors.base import Source
from millstream.datastream.connectors.malformed import OnError
from millstream.datastream.data_stream import DataStream
from millstream.datastream.data_stream.operator_settings import (
    checked_buffer_timeout,
    checked_max_parallelism,
    checked_parallelism,
)
from millstream.datastream.execution.collecting import CloseableIterator
from millstream.datastream.execution.executions import EXECUTIONS
from millstream.datastream.execution.executor import JobClient, JobExecutionResult, load_executor
from millstream.datastream.execution.fixed_job_id import fixed_job_id
from millstream.datastream.execution.program_settings import initial_configuration, options_of_job, uploaded_artifacts
from millstream.datastream.execution_mode import RuntimeExecutionMode
from millstream.datastream.functions import OutputTag, ParallelSourceFunction, SourceContext, SourceFunction
from millstream.datastream.graph.artifacts import LocalFile, resolve_artifacts
from millstream.datastream.graph.collection_elements import conformed
from millstream.datastream.graph.configured_files import configured_python_path, with_configured_files
from millstream.datastream.graph.job_graph_generator import build_job_graph
from millstream.datastream.graph.planning import stop_if_only_planned
from millstream.datastream.graph.program_warnings import report
from millstream.datastream.graph.shipped_data import ShippedData
from millstream.datastream.graph.slot_needs import slot_needs
from millstream.datastream.graph.stream_graph import GraphDefaults, StreamGraph, build_stream_graph
from millstream.datastream.graph.stream_plan import stream_plan
from millstream.datastream.graph.transformations import OperatorTransformation, Transformation
from millstream.datastream.slot_sharing_group import SlotSharingGroup
from millstream.datastream.stream_execution_environment.dependency_settings import DependencySettings
from millstream.datastream.stream_execution_environment.fault_tolerance_settings import FaultToleranceSettings
from millstream.datastream.stream_execution_environment.job_listener import JobListener, JobListeners

if TYPE_CHECKING:
    from millstream.datastream.execution.stream_caches import StreamCaches

T = TypeVar("T")

RUNTIME_MODE = EXECUTION_RUNTIME_MODE
CHECKPOINT_INTERVAL = CHECKPOINTING_INTERVAL
DEFAULT_JOB_NAME = "Millstream Streaming Job"


class LocalDefaults(Struct):
    """The defaults of the program for all environments of this process."""

    parallelism: int | None = None


LOCAL_DEFAULTS = LocalDefaults()


class GeneratedJob(Struct, frozen=True):
    """A job, the stream graph behind it, and the local files that it needs, by their sha256."""

    graph: JobGraph
    stream_graph: StreamGraph
    artifact_paths: dict[str, str]
    data: ShippedData


class StreamExecutionEnvironment(FaultToleranceSettings, DependencySettings):
    """The start of every program: creates sources, holds the operators and options, and executes the job.

    Example:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2)
        env.from_collection(["a", "b"]).map(str.upper).print()
        env.execute("upper case")
    """

    def __init__(self, configuration: core.Configuration | None = None) -> None:
        self._configuration = initial_configuration()
        if LOCAL_DEFAULTS.parallelism is not None and self._configuration.get(EXECUTION_TARGET) == "local":
            self._configuration.set(PARALLELISM_DEFAULT, LOCAL_DEFAULTS.parallelism)
        if configuration is not None:
            self._configuration.add_all(configuration)
        self._explicit = Configuration()
        self._buffer_timeout: float | None = None
        self._uploaded = uploaded_artifacts()
        self._local_files: list[LocalFile] = []
        self._operators: list[OperatorTransformation] = []
        self._listeners = JobListeners()
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}
        self.numbers = itertools.count()
        """Of operators, in the order of their creation; for streams."""

    @staticmethod
    def get_execution_environment(configuration: core.Configuration | None = None) -> StreamExecutionEnvironment:
        """Returns a new environment: local when the program runs by itself, else that of the program runner.

        `configuration` has options for this environment; they take precedence over those of the runner.

            env = StreamExecutionEnvironment.get_execution_environment()
        """
        return StreamExecutionEnvironment(configuration)

    def configure(self, configuration: core.Configuration) -> StreamExecutionEnvironment:
        """Adds the options of `configuration`.

        Options that the setters of this environment have set keep their values.

            env.configure(Configuration().set_string("parallelism.default", "4"))
        """
        self._configuration.add_all(configuration)
        return self

    def get_configuration(self) -> Configuration:
        """Returns a copy of all effective options."""
        return Configuration(self._configuration.merged(self._explicit))

    def get_config(self) -> ExecutionConfig:
        """Returns the settings under PyFlink's names."""
        return ExecutionConfig(self._explicit, self.get_configuration)

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Sets the parallelism of the operators that do not set their own.

        Raises `InvalidProgramError` unless it is a whole number of at least 1.

            env.set_parallelism(4)
        """
        self._explicit.set(PARALLELISM_DEFAULT, checked_parallelism("set_parallelism", parallelism))
        return self

    def get_parallelism(self) -> int:
        """Returns the parallelism of the operators that do not set their own."""
        return checked_parallelism(PARALLELISM_DEFAULT, self.get_configuration().get(PARALLELISM_DEFAULT))

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Sets `max_parallelism`, the number of key groups, of the operators that do not set their own.

        For example:

            env.set_max_parallelism(720)
        """
        self._explicit.set(PIPELINE_MAX_PARALLELISM, checked_max_parallelism("set_max_parallelism", max_parallelism))
        return self

    def get_max_parallelism(self) -> int:
        """Returns the maximum parallelism; -1: it is derived from the parallelism of each operator."""
        return self.get_configuration().get(PIPELINE_MAX_PARALLELISM)

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> StreamExecutionEnvironment:
        """Registers the resources of `slot_sharing_group` for operators that only name it; replaces earlier ones.

        Raises `InvalidProgramError` unless it is a SlotSharingGroup.

        For example:

            group = SlotSharingGroup.builder("slow").set_cpu_cores(1).set_task_heap_memory_mb(500).build()
            env.register_slot_sharing_group(group)
        """
        if not isinstance(slot_sharing_group, SlotSharingGroup):
            raise InvalidProgramError(
                f"register_slot_sharing_group: expected a SlotSharingGroup, got {slot_sharing_group!r}"
            )
        self._slot_sharing_groups[slot_sharing_group.get_name()] = slot_sharing_group
        return self

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Runs every operator in a task of its own.

        For example:

            env.disable_operator_chaining()
        """
        self._explicit.set(PIPELINE_OPERATOR_CHAINING_ENABLED, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Returns whether operators share tasks where possible."""
        return self.get_configuration().get(PIPELINE_OPERATOR_CHAINING_ENABLED)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Returns True: operators share a task also with different maximum parallelisms."""
        return True

    def set_buffer_timeout(self, timeout_millis: Any) -> StreamExecutionEnvironment:
        """Sets how long records wait in a buffer before it is sent: `timeout_millis`, milliseconds or a timedelta.

        0 sends every batch at once; -1 sends only full buffers. Raises `InvalidProgramError` for anything else.

            env.set_buffer_timeout(100)
        """
        self._buffer_timeout = checked_buffer_timeout("set_buffer_timeout", timeout_millis)
        return self

    def get_buffer_timeout(self) -> int:
        """Returns the buffer timeout in milliseconds; -1: only full buffers are sent."""
        seconds = self._buffer_timeout
        if seconds is None:
            seconds = self.get_configuration().get(EXECUTION_BUFFER_TIMEOUT_INTERVAL)
        return -1 if seconds < 0 else round(seconds * 1000)

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Sets `execution_mode`: STREAMING, BATCH, or AUTOMATIC, which is BATCH when all sources are bounded.

        Raises `InvalidProgramError` for anything else.

        For example:

            env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        """
        if not isinstance(execution_mode, RuntimeExecutionMode):
            raise InvalidProgramError(f"set_runtime_mode: expected a RuntimeExecutionMode, got {execution_mode!r}")
        self._explicit.set(RUNTIME_MODE, execution_mode.value)
        return self

    @overload
    def from_collection(self, collection: Iterable[T], type_info: None = None) -> DataStream[T]: ...

    @overload
    def from_collection(
        self, collection: Iterable[object], type_info: TypeInformation[T] | type[T]
    ) -> DataStream[T]: ...

    @overload
    def from_collection(
        self, collection: Iterable[object], type_info: AnyType
    ) -> DataStream[object]: ...

    @overload
    def from_collection(self, collection: Iterable[object], type_info: object) -> DataStream[Any]: ...

    def from_collection(self, collection: Iterable[Any], type_info: Any = None) -> DataStream[Any]:
        """Returns a bounded stream of the elements of a collection, in their order.

        `type_info` is the type of the records: `Types.…`, a type hint or a dataclass. With a ROW type, tuples and dicts
        become rows. Raises `InvalidProgramError` for a string, for what cannot be iterated, and for elements that do
        not fit the type.

            env.from_collection([("a", 1), ("b", 2)], Types.TUPLE([Types.STRING(), Types.INT()]))
        """
        from millstream.datastream.connectors.collection import CollectionSource

        if isinstance(collection, str | bytes) or not isinstance(collection, Iterable):
            raise InvalidProgramError(f"from_collection: expected a list of records, got a {type(collection).__name__}")
        kind = PICKLED if type_info is None else declared_type(type_info)
        source = CollectionSource(conformed(list(collection), kind))
        return self.from_source(source, None, "Collection Source", kind).set_parallelism(1)

    @overload
    def from_source(
        self,
        source: Source[Any, T],
        watermark_strategy: WatermarkStrategy[Any] | None = None,
        source_name: str | None = None,
        type_info: None = None,
    ) -> DataStream[T]: ...

    @overload
    def from_source(
        self,
        source: Source[Any, Any],
        watermark_strategy: WatermarkStrategy[Any] | None = None,
        source_name: str | None = None,
        *,
        type_info: TypeInformation[T] | type[T],
    ) -> DataStream[T]: ...

    @overload
    def from_source(
        self,
        source: Source[Any, Any],
        watermark_strategy: WatermarkStrategy[Any] | None,
        source_name: str | None,
        type_info: TypeInformation[T] | type[T],
    ) -> DataStream[T]: ...

    @overload
    def from_source(
        self,
        source: Source[Any, Any],
        watermark_strategy: WatermarkStrategy[Any] | None = None,
        source_name: str | None = None,
        *,
        type_info: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def from_source(
        self,
        source: Source[Any, Any],
        watermark_strategy: WatermarkStrategy[Any] | None,
        source_name: str | None,
        type_info: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def from_source(
        self,
        source: Source[Any, Any],
        watermark_strategy: WatermarkStrategy[Any] | None = None,
        source_name: str | None = None,
        type_info: object = None,
    ) -> DataStream[Any]: ...

    def from_source(
        self,
        source: Source[Any, Any],
        watermark_strategy: WatermarkStrategy[Any] | None = None,
        source_name: str | None = None,
        type_info: Any = None,
    ) -> DataStream[Any]:
        """Returns a stream of the records that `source` reads.

        With a `watermark_strategy` the stream has event time, separately for each split of the source. `source_name` is
        the name of the operator. `type_info` is the type of the records; without it, the type that the source declares.
        Raises `InvalidProgramError` for arguments of other types, and for a timestamp field that the type does not
        have.

            env.from_source(FileSource.for_json_lines("in", type_info=Event), strategy, "events")
        """
        if not isinstance(source, Source):
            raise InvalidProgramError(f"from_source: expected a Source, got {type(source).__qualname__}")
        if watermark_strategy is not None and not isinstance(watermark_strategy, WatermarkStrategy):
            raise InvalidProgramError(f"from_source: expected a WatermarkStrategy or None, got {watermark_strategy!r}")
        kind = source.get_produced_type() if type_info is None else declared_type(type_info)
        if watermark_strategy is not None and watermark_strategy.timestamp_field is not None:
            checked_field("with_timestamp_field", watermark_strategy.timestamp_field, kind)
        name = source_name or type(source).__name__
        operator = self.add_operator(name, None, SourceSpec(source, watermark_strategy), kind)
        return DataStream(self, operator, kind)

    def create_input(self, input_format: InputFormat, type_info: Any = None) -> DataStream[Any]:
        """Returns a stream of the records that `input_format`, such as an AvroInputFormat, reads from its own path.

        `type_info` is the type of the records. Raises `InvalidProgramError` for a format without a path of its own,
        which belongs into a FileSource.

            env.create_input(AvroInputFormat("orders.avro", schema))
        """
        from millstream.datastream.connectors.file_system import BulkFormat, FileFormat, FileSource

        if isinstance(input_format, FileFormat) and isinstance(input_format, InputFormat):
            return self.from_source(FileSource(input_format, input_format.path), None, "Custom File Source", type_info)
        if isinstance(input_format, BulkFormat):
            problem = "it has no path of its own: use from_source(FileSource.for_bulk_file_format(format, path))"
            raise InvalidProgramError(f"create_input: {type(input_format).__qualname__}: {problem}")
        raise InvalidProgramError(f"create_input: expected an InputFormat, got {type(input_format).__qualname__}")

    @overload
    def add_source(
        self,
        source_func: SourceFunction[T] | Callable[[SourceContext[T]], None],
        source_name: str = "Custom Source",
        type_info: None = None,
    ) -> DataStream[T]: ...

    @overload
    def add_source(
        self,
        source_func: SourceFunction[Any] | Callable[[SourceContext[Any]], None],
        source_name: str = "Custom Source",
        *,
        type_info: TypeInformation[T] | type[T],
    ) -> DataStream[T]: ...

    @overload
    def add_source(
        self,
        source_func: SourceFunction[Any] | Callable[[SourceContext[Any]], None],
        source_name: str = "Custom Source",
        *,
        type_info: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def add_source(
        self,
        source_func: SourceFunction[Any] | Callable[[SourceContext[Any]], None],
        source_name: str = "Custom Source",
        type_info: object = None,
    ) -> DataStream[Any]: ...

    def add_source(
        self, source_func: Any, source_name: str = "Custom Source", type_info: Any = None
    ) -> DataStream[Any]:
        """Returns a stream of the records that `source_func` collects: a SourceFunction, or a callable `(ctx)`.

        It runs in one subtask unless it is a ParallelSourceFunction. `source_name` is the name of the operator, and
        `type_info` the type of the records. Raises `InvalidProgramError` for a Source, which belongs into
        `from_source`, and for an async function.

            env.add_source(Ticks(), "ticks", int)
        """
        function = source_function_of(source_func)
        kind = PICKLED if type_info is None else declared_type(type_info)
        stream = DataStream(self, self.add_operator(source_name, None, SourceFunctionSpec(function), kind), kind)
        return stream if isinstance(function, ParallelSourceFunction) else stream.force_non_parallel()

    def from_sequence(self, start: int, end: int) -> DataStream[int]:
        """Returns a bounded stream of the whole numbers from start to end, both included.

        They are in order only with parallelism 1. Raises `InvalidProgramError` when the end is before the start.

            env.from_sequence(1, 100).map(lambda number: number * number)
        """
        from millstream.datastream.connectors.number_sequence import NumberSequenceSource

        return self.from_source(NumberSequenceSource(start, end), None, "Sequence Source")

    def read_text_file(
        self,
        file_path: str | os.PathLike[str],
        charset_name: str = "UTF-8",
        *,
        on_error: OnError | OutputTag[Any] | str = "fail",
    ) -> DataStream[str]:
        """Returns a bounded stream of the lines of the text file `file_path`, or of the files in a directory.

        `charset_name` is the character set. `on_error` decides what happens to a line that cannot be decoded: `fail`,
        `skip`, `dead-letter` or the OutputTag of a side output. A missing file fails the job.

            env.read_text_file("lines.txt").map(len)
        """
        from millstream.datastream.connectors.file_system import FileSource, StreamFormat

        default = charset_name.upper() == "UTF-8"
        format_ = StreamFormat.text_line_format() if default else StreamFormat.text_line_format(charset_name)
        source = FileSource.for_record_stream_format(format_, os.fspath(file_path), on_error=on_error).build()
        return self.from_source(source, None, "File Source")

    def socket_text_stream(self, host: str, port: int) -> DataStream[str]:
        """Returns a stream of the lines that a TCP server at `host` and `port` sends, until it disconnects.

        For example:

            env.socket_text_stream("localhost", 9999).print()
        """
        from millstream.datastream.connectors.socket import SocketTextSource

        return self.from_source(SocketTextSource(host, port), None, "Socket Stream").force_non_parallel()

    @staticmethod
    def set_default_local_parallelism(parallelism: int) -> None:
        """Sets the parallelism of programs that run by themselves, for environments that are created afterwards.

        For example:

            env.set_default_local_parallelism(2)
        """
        LOCAL_DEFAULTS.parallelism = checked_parallelism("set_default_local_parallelism", parallelism)

    @staticmethod
    def get_default_local_parallelism() -> int:
        """Returns the parallelism of programs that run by themselves and do not set one."""
        return LOCAL_DEFAULTS.parallelism or initial_configuration().get(PARALLELISM_DEFAULT)

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Runs the job and waits for its end; returns its result, with the accumulators.

        `job_name` is the name of the job. Raises `InvalidProgramError` when there is nothing to run,
        `ConfigurationError` for an invalid option, and `JobExecutionError` when the job fails or is cancelled.

            result = env.execute("word count")
            print(result.get_net_runtime())
        """
        try:
            result = self._execute(job_name)
        except Exception as error:
            self._listeners.executed(None, error)
            raise
        self._listeners.executed(result, None)
        return result

    def _execute(self, job_name: str | None) -> JobExecutionResult:
        from millstream.datastream.execution.detached import DetachedJobExecutionResult, is_detached

        client = self.execute_async(job_name)
        try:
            if is_detached(self.get_configuration()):
                return DetachedJobExecutionResult(client.get_job_id())
            return client.get_job_execution_result().result()
        finally:
            client.close()

    def register_job_listener(self, job_listener: JobListener) -> None:
        """Registers `job_listener`, which is notified of the jobs of this environment.

        Raises `InvalidProgramError` unless it is a JobListener.

        For example:

            env.register_job_listener(Announcements())
        """
        if not isinstance(job_listener, JobListener):
            raise InvalidProgramError(f"register_job_listener: expected a JobListener, got {job_listener!r}")
        self._listeners.listeners.append(job_listener)

    def get_job_listeners(self) -> list[JobListener]:
        """Returns the registered listeners."""
        return list(self._listeners.listeners)

    def clear_job_listeners(self) -> None:
        """Removes all listeners.

        For example:

            env.clear_job_listeners()
        """
        self._listeners.listeners.clear()

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Submits the job and returns a client for it as soon as it is accepted.

        `job_name` is the name of the job. When the program runs detached, the client does not wait for the result of
        the job. Raises as `execute` does until the job is accepted.

            client = env.execute_async("orders")
            client.stop_with_savepoint(False, "savepoints").result()
        """
        return self._submit(self._take_job(job_name))

    def collect_from(self, operator: OperatorTransformation, job_name: str | None) -> CloseableIterator[Any]:
        """Runs the job `job_name` and returns the records of `operator`, one of its collect operators.

        Raises `InvalidProgramError` when the program runs detached.
        """
        from millstream.datastream.execution.detached import is_detached

        try:
            job = self._take_job(job_name)
        except BaseException:  # in a later job no client would take its results, and the job would never end
            self._operators = [other for other in self._operators if other is not operator]
            raise
        if is_detached(self.get_configuration()):
            raise InvalidProgramError(
                "execute_and_collect: the program runs detached, and a job whose results no client reads would never "
                "end. The job was not submitted; run the program attached, or give it a sink and call execute()"
            )
        return CloseableIterator(self._submit(job), job.stream_graph.node_of(operator).id)

    def get_execution_plan(self) -> str:
        """Returns the program as JSON in Flink's format: every operator and its inputs.

        For example:

            print(env.get_execution_plan())
        """
        EXECUTIONS.planned()
        return json.dumps(stream_plan(self._stream_graph()))

    @cached_property
    def caches(self) -> StreamCaches:
        """The streams of the program that are kept between its jobs; for streams."""
        from millstream.datastream.execution.stream_caches import StreamCaches

        return StreamCaches(self.get_configuration)

    @property
    def _has_caches(self) -> bool:
        return "caches" in vars(self)

    def close(self) -> None:
        """Deletes the records of cached streams. Running jobs are not affected."""
        if self._has_caches:
            self.caches.close()

    def generate_job(self, job_name: str | None = None) -> GeneratedJob:
        """Returns the job `job_name` of all operators that were added since the last execution.

        Raises `InvalidProgramError` for a name that cannot be shown.
        """
        configuration = self.get_configuration()
        stream_graph = self._stream_graph()
        files = with_configured_files(configuration, self._local_files)
        artifacts, paths = resolve_artifacts(self._uploaded, files)
        name = job_name or configuration.get(PIPELINE_NAME) or DEFAULT_JOB_NAME
        if why := why_unwritable(name):
            raise InvalidProgramError(f"the job's name {why}")
        needs = slot_needs(stream_graph, self._slot_sharing_groups.values())
        data = ShippedData()
        try:
            options = options_of_job(configuration)
            if stream_graph.is_batch:
                options[CHECKPOINT_INTERVAL] = "0"  # whatever the cluster is configured with
            if RUNTIME_MODE in options:
                options[RUNTIME_MODE] = "BATCH" if stream_graph.is_batch else "STREAMING"  # never AUTOMATIC
            graph = build_job_graph(stream_graph, name, options, artifacts, needs, data.take)
        except BaseException:
            data.remove()
            raise
        python_path = configured_python_path(configuration)
        graph = replace(graph, artifacts=(*artifacts, *data.artifacts()), python_path=python_path)
        return GeneratedJob(graph, stream_graph, {**paths, **data.paths()}, data)

    def _stream_graph(self) -> StreamGraph:
        configuration = self.get_configuration()
        max_parallelism = configuration.get(PIPELINE_MAX_PARALLELISM)
        defaults = GraphDefaults(
            parallelism=self.get_parallelism(),
            max_parallelism=None if max_parallelism == -1 else max_parallelism,
            chaining=self.is_chaining_enabled(),
            buffer_timeout=self._buffer_timeout,
            needs_uids=not configuration.get(PIPELINE_AUTO_GENERATE_UIDS),
            mode=RuntimeExecutionMode(configuration.get(RUNTIME_MODE)),
        )
        if not self._has_caches:
            return build_stream_graph(self._operators, defaults)
        graph = build_stream_graph([*self._operators, *self.caches.writers(self._operators)], defaults)
        self.caches.check(graph)
        return graph

    def add_operator(
        self,
        name: str,
        input_: Transformation | None,
        spec: OperatorSpec,
        output_type: TypeInformation,
        more_inputs: tuple[Transformation, ...] = (),
    ) -> OperatorTransformation:
        """Adds an operator to the program; called by streams.

        The operator has a `name`, one input (`input_`), as many in `more_inputs` as its `spec` has, and results
        of `output_type`.
        """
        number = next(self.numbers)
        operator = OperatorTransformation(number, name, input_, spec, output_type, more_inputs=more_inputs)
        self._operators.append(operator)
        EXECUTIONS.built()
        return operator

    def _take_job(self, job_name: str | None) -> GeneratedJob:
        job_id = fixed_job_id()
        job = self.generate_job(job_name)
        if job_id is not None:
            job = replace(job, graph=replace(job.graph, job_id=job_id))
        self._operators.clear()
        try:
            stop_if_only_planned(job.graph)
        except BaseException:
            job.data.remove()
            raise
        EXECUTIONS.executed()
        return job

    def _submit(self, job: GeneratedJob) -> JobClient:
        from millstream.datastream.execution.detached import DetachedJobClient, is_detached

        configuration = self.get_configuration()
        report(job.stream_graph, submitted=configuration.get(EXECUTION_TARGET) != "local")
        try:
            client = load_executor(configuration).submit(job.graph, artifact_paths=job.artifact_paths)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted while job {job.graph.job_id} was being submitted") from None
        except Exception as error:
            self._listeners.submitted(None, error)
            raise
        known = DetachedJobClient(client) if is_detached(configuration) else client
        if self._has_caches:
            known = self.caches.followed(known, job.stream_graph)
        self._listeners.submitted(known, None)
        return known

    def __reduce__(self) -> Any:
        raise TypeError("a StreamExecutionEnvironment exists only while the program is being built")
