from __future__ import annotations

import datetime
import hashlib
import json
import pathlib
import sys
from typing import Any

import pytest
from api_fakes import FakeExecutor

from millstream.client import program
from millstream.common import Configuration, ConfigurationError, InvalidProgramError, JobExecutionError, Row, Types
from millstream.core.jobs.graph import Artifact, ArtifactKind
from millstream.core.records.types import LONG, PICKLED, STRING
from millstream.core.wire.contracts import JOB_GRAPH
from millstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from millstream.datastream.execution import detached
from millstream.datastream.graph.planning import ProgramPlanned


def new_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def test_options_come_from_files_the_runner_the_program_and_setters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "config.yaml").write_text("parallelism.default: 2\nrest.port: 1\npipeline.name: file\n")
    monkeypatch.setenv("MILLSTREAM_CONF_DIR", str(tmp_path))
    assert new_environment().get_parallelism() == 2
    monkeypatch.setenv("MILLSTREAM_PROGRAM_CONFIGURATION", '{"parallelism.default": "3", "pipeline.name": "runner"}')
    assert new_environment().get_parallelism() == 3
    env = new_environment(Configuration().set_integer("parallelism.default", 4))
    assert env.get_parallelism() == 4
    env.set_parallelism(5).configure(Configuration().set_integer("parallelism.default", 6))
    assert env.get_parallelism() == 5
    env.from_collection([1]).map(str).set_parallelism(7)
    graph = env.generate_job().graph
    assert [vertex.parallelism for vertex in graph.vertices] == [1, 7]
    assert graph.name == "runner"
    assert graph.configuration == {"parallelism.default": "5", "pipeline.name": "runner", "rest.port": "1"}


def test_setters_and_getters(env: StreamExecutionEnvironment) -> None:
    assert env.get_parallelism() == 1
    assert env.get_max_parallelism() == -1
    assert env.set_max_parallelism(64).get_max_parallelism() == 64
    assert env.is_chaining_enabled()
    assert not env.disable_operator_chaining().is_chaining_enabled()
    assert env.get_buffer_timeout() == 10
    assert env.set_buffer_timeout(-1).get_buffer_timeout() == -1
    assert env.set_buffer_timeout(datetime.timedelta(milliseconds=3)).get_buffer_timeout() == 3
    assert env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC) is env
    assert env.get_configuration().get_string("execution.runtime-mode") == "AUTOMATIC"
    assert env.set_runtime_mode(RuntimeExecutionMode.STREAMING) is env
    env.set_python_executable(pathlib.Path("/usr/bin/python3"))
    assert env.get_configuration().get_string("python.executable") == "/usr/bin/python3"
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    assert env.get_configuration().get_string("execution.runtime-mode") == "BATCH"
    with pytest.raises(InvalidProgramError, match="expected a RuntimeExecutionMode, got 'BATCH'"):
        env.set_runtime_mode("BATCH")  # type: ignore[arg-type]  # what is tried
    with pytest.raises(InvalidProgramError, match="set_parallelism: a parallelism is a whole number"):
        env.set_parallelism(0)
    with pytest.raises(InvalidProgramError, match="more than the highest, 32768"):
        env.set_max_parallelism(32769)


def test_a_parallelism_that_makes_no_sense_in_the_configuration_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"parallelism\.default"):
        new_environment(Configuration({"parallelism.default": 0}))


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("MILLSTREAM_PROGRAM_CONFIGURATION", "{", "not JSON"),
        ("MILLSTREAM_PROGRAM_CONFIGURATION", "[]", "expected a JSON object"),
        ("MILLSTREAM_PROGRAM_CONFIGURATION", '{"rest.no": "1"}', "unknown option"),
        ("MILLSTREAM_PROGRAM_ARTIFACTS", "[{}]", "expected a JSON list"),
        ("MILLSTREAM_PROGRAM_ARTIFACTS", '[{"sha256": "a", "name": "b", "kind": "EGG"}]', "EGG"),
    ],
)
def test_bad_settings_from_outside_are_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, message: str
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(ConfigurationError, match=message):
        new_environment()


def test_sources(env: StreamExecutionEnvironment, tmp_path: pathlib.Path) -> None:
    (tmp_path / "lines.txt").write_text("a\n")
    env.set_parallelism(4)
    collection = env.from_collection([1])
    assert (collection.get_name(), collection.get_type()) == ("Collection Source", PICKLED)
    assert env.from_collection((i for i in range(3)), int).get_type() == LONG
    sequence = env.from_sequence(1, 10)
    assert (sequence.get_name(), sequence.get_type()) == ("Sequence Source", LONG)
    lines = env.read_text_file(tmp_path / "lines.txt")
    assert (lines.get_name(), lines.get_type()) == ("File Source", STRING)
    sockets = env.socket_text_stream("127.0.0.1", 9)
    assert (sockets.get_name(), sockets.get_type()) == ("Socket Stream", STRING)
    with pytest.raises(InvalidProgramError, match="cannot run in parallel"):
        sockets.set_parallelism(2)
    graph = env.generate_job().graph
    assert [vertex.parallelism for vertex in graph.vertices] == [1, 1, 4, 4, 1]


def test_from_collection_checks_its_elements(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="element 1"):
        env.from_collection([1, "x"], Types.INT())
    with pytest.raises(InvalidProgramError, match="expected a list of records, got a str"):
        env.from_collection("abc")
    with pytest.raises(InvalidProgramError, match="expected a list of records, got a int"):
        env.from_collection(3)  # type: ignore[arg-type]
    assert env.from_collection([(1,)], Types.ROW([int])).get_type() == Types.ROW([int])
    assert Row(1) == Row(1)


def test_from_source_takes_sources_and_strategies(env: StreamExecutionEnvironment) -> None:
    source: Any = env.from_sequence(1, 2).transformation.spec.source  # type: ignore[union-attr]
    stream = env.from_source(source, None, "mine", type_info=Types.STRING())
    assert (stream.get_name(), stream.get_type()) == ("mine", STRING)
    assert env.from_source(source).get_name() == "NumberSequenceSource"
    with pytest.raises(InvalidProgramError, match="expected a WatermarkStrategy or None"):
        env.from_source(source, "watermarks", "mine")
    with pytest.raises(InvalidProgramError, match="expected a Source, got list"):
        env.from_source([])  # type: ignore[arg-type]


def test_an_interrupt_while_a_job_is_submitted_names_it(
    env: StreamExecutionEnvironment, executor: FakeExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(executor, "submit", interrupted)
    env.from_collection([1]).print()
    with pytest.raises(KeyboardInterrupt, match=r"interrupted while job .* was being submitted"):
        env.execute()


def test_execute_waits_and_closes_and_starts_afresh(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    stream = env.from_collection([1])
    stream.print()
    result = env.execute("first")
    [client] = executor.clients
    assert result.get_job_id() == client.graph.job_id
    assert (client.graph.name, client.closed) == ("first", 1)
    with pytest.raises(InvalidProgramError, match="No operators defined"):
        env.execute()
    stream.map(str).print()
    env.execute()
    assert executor.clients[1].graph.name == "Millstream Streaming Job"
    assert executor.clients[1].graph.vertices[0].name == "Source: Collection Source -> Map -> Sink: Print to Std. Out"
    assert executor.clients[1].graph.job_id != client.graph.job_id


def test_a_failure_reaches_the_program_and_the_client_is_closed(
    env: StreamExecutionEnvironment, executor: FakeExecutor
) -> None:
    executor.failure = JobExecutionError("boom")
    env.from_collection([1]).print()
    with pytest.raises(JobExecutionError, match="boom"):
        env.execute()
    assert executor.clients[0].closed == 1


def test_detached_jobs_are_not_waited_for(executor: FakeExecutor) -> None:
    options = {"execution.attached": "false", "execution.target": "remote"}
    env = new_environment(Configuration(options))
    env.from_collection([1]).print()
    result = env.execute()
    [client] = executor.clients
    assert (result.get_job_id(), client.closed, client.status.value) == (client.graph.job_id, 1, "RUNNING")
    for ask in (
        result.get_net_runtime,
        result.get_all_accumulator_results,
        lambda: result.get_accumulator_result("n"),
    ):
        with pytest.raises(InvalidProgramError, match="detached"):
            ask()
    assert repr(result) == f"DetachedJobExecutionResult({client.graph.job_id})"


def test_a_detached_client_does_not_wait_and_results_are_not_collected(executor: FakeExecutor) -> None:
    env = new_environment(Configuration({"execution.attached": "false", "execution.target": "remote"}))
    env.from_collection([1]).print()
    client = env.execute_async()
    [below] = executor.clients
    assert (client.get_job_id(), client.get_job_status().result()) == (below.graph.job_id, below.status)
    for ask in (client.get_job_execution_result, lambda: client.collect("x")):
        with pytest.raises(InvalidProgramError, match=r"submitted detached.*continues"):
            ask()
    client.close()
    assert below.closed == 1
    with pytest.raises(InvalidProgramError, match=r"execute_and_collect: .*was not submitted"):
        env.from_collection([1]).execute_and_collect()
    assert executor.clients == [below]


PROGRAM = """
import sys
from millstream.datastream import StreamExecutionEnvironment
def submit():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()
    return env.execute()
def reads(): submit().get_accumulator_result("n")
def leaves():
    submit()
    sys.exit("no luck")
def buggy():
    submit()
    raise ValueError("a bug")
def before(): raise ValueError("a bug before")
def well(): submit()
"""


@pytest.mark.parametrize(
    ("entry", "error", "attached", "status"),
    [
        ("reads", "was submitted detached", "false", 0),
        ("leaves", "no luck", "false", 0),
        ("buggy", "ValueError: a bug", "false", 0),
        ("before", "ValueError: a bug before", "false", 1),
        ("well", "", "false", 0),
        ("buggy", "ValueError: a bug", "true", 1),
    ],
)
def test_a_program_that_fails_after_submitting_has_succeeded(
    executor: FakeExecutor, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    entry: str, error: str, attached: str, status: int,
) -> None:  # fmt: skip
    (tmp_path / "submitting.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "submitting", raising=False)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(detached, "_submitted", [])
    options = {"execution.attached": attached, "execution.target": "remote"}
    monkeypatch.setenv("MILLSTREAM_PROGRAM_CONFIGURATION", json.dumps(options))
    assert program.main(["--entry", f"submitting:{entry}"]) == status
    shown = capsys.readouterr().err
    assert error in shown
    warned = "running it again would submit it again" in shown
    assert warned == (status == 0 and entry != "well")
    assert not warned or executor.clients[0].graph.job_id in shown
    monkeypatch.setenv("MILLSTREAM_SUBMITTED_FILE", str(tmp_path / "submitted"))
    assert program.main(["--entry", f"submitting:{entry}"]) == (0 if entry == "well" else 1)


def test_a_local_job_is_waited_for_even_when_detached(executor: FakeExecutor) -> None:
    env = new_environment(Configuration({"execution.attached": "false"}))
    env.from_collection([1]).print()
    assert env.execute().get_all_accumulator_results() == {"n": 1}


def test_execute_async_answers_the_client(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    env.from_collection([1]).print()
    client = env.execute_async("later")
    assert client is executor.clients[0]
    assert executor.clients[0].closed == 0
    assert executor.configurations == [env.get_configuration()]


def test_files_are_shipped_by_content(
    env: StreamExecutionEnvironment, executor: FakeExecutor, tmp_path: pathlib.Path
) -> None:
    helper, old, requirements, archive = (tmp_path / name for name in ("h.py", "old.txt", "r.txt", "data.zip"))
    for path in (helper, old, requirements, archive):
        path.write_text(path.name)
    env.add_python_file(helper)
    env.add_python_file(str(helper))
    env.set_python_requirements(old)
    env.set_python_requirements(requirements)
    env.add_python_archive(archive)
    env.from_collection([1])
    env.execute()

    def sha(path: pathlib.Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    assert executor.clients[0].graph.artifacts == (
        Artifact(sha(helper), "h.py", ArtifactKind.PYTHON_FILE),
        Artifact(sha(requirements), "r.txt", ArtifactKind.REQUIREMENTS),
        Artifact(sha(archive), "data.zip", ArtifactKind.ARCHIVE),
    )
    assert executor.artifact_paths == [{sha(path): str(path) for path in (helper, requirements, archive)}]


def test_files_are_shipped_with_their_names_in_the_working_directory(
    env: StreamExecutionEnvironment, executor: FakeExecutor, tmp_path: pathlib.Path
) -> None:
    requirements, archive, words, tool = (tmp_path / name for name in ("r.txt", "data.zip", "words.txt", "tool.sh"))
    for path in (requirements, archive, words, tool):
        path.write_text(path.name)
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in ("b.whl", "a.tar.gz", ".hidden"):
        (packages / name).write_text(name)
    env.set_python_requirements(requirements, str(packages))
    env.set_python_requirements(requirements, str(packages))
    env.add_python_archive(archive, "model/v1")
    env.register_cached_file(f"file://{words}", "words")
    env.register_cached_file(tool, "tool", True)
    env.from_collection([1])
    env.execute()
    assert [(artifact.name, artifact.kind) for artifact in executor.clients[0].graph.artifacts] == [
        ("r.txt", ArtifactKind.REQUIREMENTS),
        ("a.tar.gz", ArtifactKind.PACKAGE),
        ("b.whl", ArtifactKind.PACKAGE),
        ("data.zip#model/v1", ArtifactKind.ARCHIVE),
        ("words.txt#words", ArtifactKind.FILE),
        ("tool.sh#tool", ArtifactKind.EXECUTABLE),
    ]


def shipped(executor: FakeExecutor) -> list[tuple[str, ArtifactKind]]:
    return [(artifact.name, artifact.kind) for artifact in executor.clients[-1].graph.artifacts]


def test_options_name_files_as_the_setters_do(executor: FakeExecutor, tmp_path: pathlib.Path) -> None:
    for name in ("a.py", "r.txt", "own.txt", "data.zip", "more.zip", "lib/b.py", "packages/p.whl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    options = {
        "python.files": f"{tmp_path}/a.py, {tmp_path}/lib",
        "python.requirements": f"{tmp_path}/r.txt#{tmp_path}/packages",
        "python.archives": f"{tmp_path}/data.zip#data,{tmp_path}/more.zip",
        "python.pythonpath": "/opt/one:/opt/two",
    }
    env = new_environment(Configuration(options))
    env.from_collection([1])
    env.execute()
    files = [("a.py", ArtifactKind.PYTHON_FILE), ("lib.zip", ArtifactKind.PYTHON_FILE)]
    archives = [("data.zip#data", ArtifactKind.ARCHIVE), ("more.zip", ArtifactKind.ARCHIVE)]
    requirements = [("r.txt", ArtifactKind.REQUIREMENTS), ("p.whl", ArtifactKind.PACKAGE)]
    assert shipped(executor) == [*files, *requirements, *archives]
    assert executor.clients[-1].graph.python_path == ("/opt/one", "/opt/two")
    env.set_python_requirements(tmp_path / "own.txt")
    env.add_python_file(tmp_path / "a.py")
    env.from_collection([1])
    env.execute()
    assert shipped(executor) == [*files, *archives, ("own.txt", ArtifactKind.REQUIREMENTS)]


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("python.files", "nope.py", r"python\.files \(-pyfs\): there is no file .*nope\.py"),
        ("python.requirements", "nope.txt", r"python\.requirements \(-pyreq\): there is no file"),
        ("python.archives", "nope.zip#a", r"python\.archives \(-pyarch\): there is no file"),
    ],
)
def test_files_of_options_that_are_not_there_are_named(key: str, value: str, error: str) -> None:
    env = new_environment(Configuration({key: value}))
    env.from_collection([1])
    with pytest.raises(InvalidProgramError, match=error):
        env.execute()


def test_uploaded_artifacts_come_first_and_are_not_uploaded_again(
    monkeypatch: pytest.MonkeyPatch, executor: FakeExecutor, tmp_path: pathlib.Path
) -> None:
    wheel = tmp_path / "job.whl"
    wheel.write_bytes(b"wheel")
    sha = hashlib.sha256(b"wheel").hexdigest()
    entry = {"sha256": sha, "name": "job.whl", "kind": "WHEEL"}
    monkeypatch.setenv("MILLSTREAM_PROGRAM_ARTIFACTS", json.dumps([entry]))
    env = new_environment()
    env.add_python_file(wheel)
    env.from_collection([1])
    env.execute()
    kinds = [artifact.kind for artifact in executor.clients[0].graph.artifacts]
    assert kinds == [ArtifactKind.WHEEL, ArtifactKind.PYTHON_FILE]
    assert executor.artifact_paths == [{}]


def test_files_that_cannot_be_shipped_are_named(env: StreamExecutionEnvironment, tmp_path: pathlib.Path) -> None:
    with pytest.raises(InvalidProgramError, match=r"add_python_file: there is no file .*missing\.py"):
        env.add_python_file(tmp_path / "missing.py")
    with pytest.raises(InvalidProgramError, match="is a folder; pack it"):
        env.add_python_archive(tmp_path)
    (tmp_path / "words.txt").write_text("")
    with pytest.raises(InvalidProgramError, match=r"words\.txt: expected a \.py, \.zip or \.whl file, or a folder"):
        env.add_python_file(tmp_path / "words.txt")
    gone = tmp_path / "gone.zip"
    gone.write_text("")
    for target in ("/d", "../d", "a#b", ""):
        with pytest.raises(InvalidProgramError, match="is no name inside of the tasks' working directory"):
            env.add_python_archive(gone, target)
    with pytest.raises(InvalidProgramError, match=r"set_python_requirements: there is no folder .*/d$"):
        env.set_python_requirements(gone, str(tmp_path / "d"))
    (tmp_path / "d").mkdir()
    with pytest.raises(InvalidProgramError, match=r"set_python_requirements: the folder .*/d holds no packages"):
        env.set_python_requirements(gone, str(tmp_path / "d"))
    env.add_python_archive(gone)
    gone.unlink()
    env.from_collection([1])
    with pytest.raises(InvalidProgramError, match=r"cannot ship .*gone\.zip: No such file"):
        env.generate_job()


@pytest.mark.parametrize("way", ["execute", "execute_async", "execute_and_collect"])
def test_only_the_plan_may_be_wanted(
    monkeypatch: pytest.MonkeyPatch, executor: FakeExecutor, tmp_path: pathlib.Path, way: str
) -> None:
    target = tmp_path / "plan"
    monkeypatch.setenv("MILLSTREAM_PLAN_FILE", str(target))
    env = new_environment()
    stream = env.from_collection([1])
    stream.print()
    with pytest.raises(ProgramPlanned):
        stream.execute_and_collect("planned") if way == "execute_and_collect" else getattr(env, way)("planned")
    graph = JOB_GRAPH.from_bytes(target.read_bytes())
    assert graph.name == "planned"
    assert executor.clients == []
    assert not issubclass(ProgramPlanned, Exception)
