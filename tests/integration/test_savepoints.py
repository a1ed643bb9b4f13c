"""Savepoints and retained checkpoints of real jobs: taken, read by other tools, and started from under any parallelism.

Each job appends its records to files, one per subtask; the last line of a file is the progress of the subtask. A job of
which a snapshot is taken runs slowly, until the test lets it `go` if it has to end.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from system import DEADLINE, Cluster, files_in, given, wait_until, write_job

from millstream.core.jobs.ids import JobId
from millstream.core.messages.dispatcher import JobRequest
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotRequestKind
from millstream.core.services.rpc import Stub, open_channel
from millstream.core.wire.contracts import DISPATCHER

pytestmark = pytest.mark.process

RECORDS, KEYS, DAWDLING = 8_000, 7, 0.03
RULES = {"double": 2, "triple": 3}

JOB = """
import time
from pathlib import Path
from random import Random
from millstream.common import Types
from millstream.datastream.functions.checkpointed import CheckpointedFunction
from millstream.datastream.functions import KeyedBroadcastProcessFunction, KeyedProcessFunction, MapFunction
from millstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

FOLDER = Path("{folder}")
FOLDER.mkdir(parents=True, exist_ok=True)
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())

def note(name, text):
    with open(FOLDER / name, "a") as file:
        file.write(f"{{text}}\\n")

class Tally(MapFunction, CheckpointedFunction):
    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.mine = store.get_list_state(ListStateDescriptor("mine", Types.LONG()))
        self.union = store.get_union_list_state(ListStateDescriptor("everyones", Types.LONG()))
        self.count, self.before = sum(self.mine.get()), sum(self.union.get())

    def snapshot_state(self, context):
        self.mine.update([self.count])
        self.union.update([self.count])

    def map(self, number):
        if {pause} and not (FOLDER / "go").exists():
            time.sleep({pause})
        self.count += 1
        note(f"tally-{{self.subtask}}", f"{{self.count}} {{self.before}}")
        return number

class Rules(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.counter = runtime_context.get_state(ValueStateDescriptor("count", {count_type}))
        self.ballast = runtime_context.get_state(ValueStateDescriptor("ballast", bytes))

    def process_element(self, number, ctx):
        if self.ballast.value() is None:
            self.ballast.update(Random(ctx.get_current_key()).randbytes(10_000))
        count = (self.counter.value() or 0) + 1
        self.counter.update(count)
        note(f"key-{{ctx.get_current_key()}}", count)
        note(f"rules-{{self.subtask}}", sorted(ctx.get_broadcast_state(RULES).items()))
        yield number

    def process_broadcast_element(self, rule, ctx):
        ctx.get_broadcast_state(RULES).put(rule[0], rule[1])

rules = env.from_collection({rules}, Types.TUPLE([Types.STRING(), Types.LONG()])).uid("rule-source")
numbers = env.from_sequence(1, {records}).uid("numbers").map(Tally(), Types.LONG()).uid("tally")
numbers.key_by(lambda n: n % {keys}, Types.LONG()).connect(rules.broadcast(RULES)) \\
    .process(Rules(), Types.LONG()).uid("{uid}").filter(lambda n: False).print()
env.execute("savepoints")
"""


def make_job(folder: Path, results: Path, pause: float, **changes: Any) -> Path:
    values = {"count_type": "Types.LONG()", "rules": list(RULES.items()), "uid": "counter"} | changes
    body = JOB.format(folder=results, pause=pause, records=RECORDS, keys=KEYS, **values)
    return write_job(folder, f"job_{results.name}", body)


def options(values: dict[str, Any]) -> list[str]:
    return given(*(f"{key}={value}" for key, value in values.items()))


def starting_from(snapshot: str, **more: Any) -> list[str]:
    return options({"execution.state-recovery.path": snapshot, **more})


def call(cluster: Cluster, method: str, request: Any) -> Any:
    """Calls the dispatcher directly."""
    address = f"127.0.0.1:{cluster.ports['dispatcher.rpc.port']}"

    async def response() -> Any:
        async with open_channel(address, cluster.security) as channel:
            stub = Stub(channel, DISPATCHER)
            return await getattr(stub, method)(request, timeout=DEADLINE)

    return asyncio.run(response())


def snapshot(cluster: Cluster, job_id: str, **wanted: Any) -> Any:
    return call(cluster, "trigger_snapshot", SnapshotRequest(JobId(job_id), **wanted))


def last_lines(results: Path, prefix: str) -> dict[str, str]:
    lines = {file.name: file.read_text().splitlines() for file in results.glob(f"{prefix}-*")}
    return {name: seen[-1] for name, seen in lines.items() if seen}  # a file may just have been opened


def tally(results: Path) -> int:
    return sum(int(line.split()[0]) for line in last_lines(results, "tally").values())


def wait_for_state(results: Path) -> None:
    """Waits until records flow for all keys, and the rules have arrived everywhere."""
    everything = str(sorted(RULES.items()))

    def ready() -> bool:
        if len(last_lines(results, "key")) < KEYS or tally(results) < 100:
            return False
        return set(last_lines(results, "rules").values()) == {everything}

    wait_until(ready, "state to be there")


def counts(results: Path) -> dict[int, int]:
    return {int(name.split("-")[1]): int(line) for name, line in last_lines(results, "key").items()}


def expected() -> dict[int, int]:
    return dict(Counter(number % KEYS for number in range(1, RECORDS + 1)))


def failure_of(cluster: Cluster, job_id: str) -> str:
    cluster.wait_for(job_id, "FAILED")
    return str(cluster.exceptions(job_id)[0]["stacktrace"])


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


@pytest.fixture(scope="module")
def savepoint(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The savepoint of a job at parallelism 2 without checkpoints, with known state.

    Its max parallelism is one that later jobs do not set: they adopt it.
    """
    folder = tmp_path_factory.mktemp("savepoint")
    few = options({"pipeline.max-parallelism": 16})
    job_id = cluster.submit_running(make_job(folder, folder / "first", DAWDLING), *few, parallelism=2)
    wait_for_state(folder / "first")
    result = snapshot(cluster, job_id, target_directory=str(folder))
    assert not result.error
    cluster.cancel(job_id)
    return local(result.location)


def state_files(savepoint: Path, uid: str, state: str) -> list[Path]:
    document = json.loads((savepoint / "_metadata.json").read_text())
    (operator,) = (o for o in document["operators"] if o["uid"] == uid)
    (found,) = (s for s in operator["states"] if s["name"] == state)
    return [savepoint / file["path"] for file in found["files"]]


def counted_in(savepoint: Path) -> dict[int, int]:
    """The keyed state, as pandas reads it."""
    frame = pd.concat(pd.read_parquet(file) for file in state_files(savepoint, "counter", "count"))
    return {int(key): int(value) for key, value in zip(frame["key"], frame["value"], strict=True)}


def test_other_tools_read_the_state_of_the_job(savepoint: Path) -> None:
    counted = counted_in(savepoint)
    assert set(counted) == set(range(KEYS))
    files = [str(file) for file in state_files(savepoint, "counter", "count")]
    assert dict(duckdb.read_parquet(files).project("key, value").fetchall()) == counted
    mine = [str(file) for file in state_files(savepoint, "tally", "mine")]
    union = [str(file) for file in state_files(savepoint, "tally", "everyones")]
    assert duckdb.read_parquet(mine).sum("element").fetchall() == [(sum(counted.values()),)]
    assert duckdb.read_parquet(union).sum("element").fetchall() == [(sum(counted.values()),)]
    rules = [str(file) for file in state_files(savepoint, "counter", "rules")]
    rows = duckdb.read_parquet(rules).project("map_key, map_value").fetchall()
    assert Counter(rows) == Counter(list(RULES.items()) * 2)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_job_continues_from_it_under_any_parallelism(
    cluster: Cluster, tmp_path: Path, savepoint: Path, parallelism: int
) -> None:
    results = tmp_path / "again"
    before = sorted(savepoint.rglob("*"))
    job = make_job(tmp_path, results, 0)
    job_id = cluster.submit(job, *starting_from(str(savepoint)), parallelism=parallelism)
    cluster.wait_for(job_id, "FINISHED")
    stored = counted_in(savepoint)
    assert counts(results) == expected()
    first = {file.name: int(file.read_text().split()[0]) for file in results.glob("key-*")}
    assert first == {f"key-{key}": count + 1 for key, count in stored.items()}
    total = sum(stored.values())
    assert tally(results) == RECORDS
    seen = last_lines(results, "tally").values()
    assert {line.split()[1] for line in seen} == {str(total)}
    everything = str(sorted(RULES.items()))
    assert {line for file in results.glob("rules-*") for line in file.read_text().splitlines()} == {everything}
    assert sorted(savepoint.rglob("*")) == before
    vertices = cluster.get(f"/jobs/{job_id}")["vertices"]
    assert [v["maxParallelism"] for v in vertices if "Broadcast" in v["name"]] == [16]


def test_a_damaged_file_is_refused_by_name_before_anything_runs(
    cluster: Cluster, tmp_path: Path, savepoint: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(savepoint, copy)
    damaged = state_files(copy, "tally", "everyones")[0]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 100}
    job = make_job(tmp_path, tmp_path / "none", 0)
    job_id = cluster.submit(job, *starting_from(f"file:{copy}/_metadata.json", **restarts), parallelism=2)
    failure = failure_of(cluster, job_id)
    assert str(damaged) in failure
    assert "is damaged" in failure
    assert not list((tmp_path / "none").glob("*"))


def test_unclaimed_state_is_refused_unless_it_is_allowed(cluster: Cluster, tmp_path: Path, savepoint: Path) -> None:
    job = make_job(tmp_path, tmp_path / "renamed", 0, uid="another")
    failure = failure_of(cluster, cluster.submit(job, *starting_from(str(savepoint)), parallelism=2))
    assert "operator 'counter' has state in the snapshot, and the program has no such operator" in failure
    assert "--allowNonRestoredState" in failure
    left = starting_from(str(savepoint), **{"execution.state-recovery.ignore-unclaimed-state": "true"})
    cluster.wait_for(cluster.submit(job, *left, parallelism=2), "FINISHED")
    stored = counted_in(savepoint)
    assert counts(tmp_path / "renamed") == {key: count - stored[key] for key, count in expected().items()}


CHANGED_ROLES = """
env.from_sequence(1, 10).uid("new-source").map(lambda n: n).uid("numbers").map(lambda n: n).uid("counter").print()
env.execute("other roles")
"""


def test_state_that_its_operator_does_not_support_any_more_is_refused_unless_it_is_allowed(
    cluster: Cluster, tmp_path: Path, savepoint: Path
) -> None:
    job = write_job(tmp_path, "job_other_roles", CHANGED_ROLES)
    failure = failure_of(cluster, cluster.submit(job, *starting_from(str(savepoint)), parallelism=2))
    assert "operator 'counter', state 'count': the operator holds no value state any more" in failure
    assert "operator 'counter', state 'rules': the operator holds no broadcast state any more" in failure
    assert "operator 'numbers' is no source any more, so its split enumerator's state would be lost" in failure
    assert "--allowNonRestoredState" in failure
    left = starting_from(str(savepoint), **{"execution.state-recovery.ignore-unclaimed-state": "true"})
    cluster.wait_for(cluster.submit(job, *left, parallelism=2), "FINISHED")


def test_an_incompatible_type_fails_the_job_once_with_both_schemas(
    cluster: Cluster, tmp_path: Path, savepoint: Path
) -> None:
    job = make_job(tmp_path, tmp_path / "typed", 0, count_type="Types.STRING()")
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 100}
    claimed = {"execution.state-recovery.claim-mode": "CLAIM"}
    copy = tmp_path / "copy"
    shutil.copytree(savepoint, copy)
    job_id = cluster.submit(job, *starting_from(str(copy), **restarts, **claimed), parallelism=2)
    failure = failure_of(cluster, job_id)
    assert "state 'count': cannot be restored" in failure
    assert "stored Long, declared String" in failure
    assert len(cluster.exceptions(job_id)) == 1
    assert not list((tmp_path / "typed").glob("key-*"))
    assert sorted(p.relative_to(copy) for p in copy.rglob("*")) == sorted(
        p.relative_to(savepoint) for p in savepoint.rglob("*")
    )


EVOLVING = """
import time
from dataclasses import dataclass
from pathlib import Path
from millstream.datastream.functions import KeyedProcessFunction
from millstream.datastream.state import ValueStateDescriptor

FOLDER = Path("{folder}")
FOLDER.mkdir(parents=True, exist_ok=True)

@dataclass
class Account:
    {fields}

class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.account = runtime_context.get_state(ValueStateDescriptor("account", Account))

    def process_element(self, number, ctx):
        time.sleep({pause})
        account = self.account.value() or {new}
        account.count += 1
        self.account.update(account)
        with open(FOLDER / f"key-{{ctx.get_current_key()}}", "a") as file:
            file.write(f"{{account.count}}\\n")
        with open(FOLDER / f"account-{{ctx.get_current_key()}}", "a") as file:
            file.write(f"{{account}}\\n")
        yield number

env.from_sequence(1, {records}).uid("numbers").key_by(lambda n: n % {keys}, Types.LONG()) \\
    .process(Count(), Types.LONG()).uid("accounts").filter(lambda n: False).print()
env.execute("evolving")
""".replace("from pathlib", "from millstream.common import Types\nfrom pathlib")


def evolving_job(folder: Path, results: Path, pause: float, fields: str, new: str) -> Path:
    values = {"folder": results, "pause": pause, "fields": fields, "new": new, "records": RECORDS, "keys": KEYS}
    return write_job(folder, f"job_{results.name}", EVOLVING.format(**values))


def test_added_fields_get_their_default_and_removed_ones_are_dropped(cluster: Cluster, tmp_path: Path) -> None:
    first = tmp_path / "first"
    job = evolving_job(tmp_path, first, DAWDLING, "count: int; note: str", "Account(0, 'x')")
    job_id = cluster.submit_running(job, parallelism=2)
    wait_until(lambda: len(last_lines(first, "key")) == KEYS, "state to be there")
    result = snapshot(cluster, job_id, target_directory=str(tmp_path), format="NATIVE")
    assert not result.error
    assert {file.suffix for file in local(result.location).rglob("*") if file.is_file()} == {".arrow", ".json"}
    cluster.cli("cancel", "-m", cluster.rest, job_id)
    second = tmp_path / "second"
    job = evolving_job(tmp_path, second, 0, "count: int; level: int = 5", "Account(0)")
    cluster.wait_for(cluster.submit(job, *starting_from(result.location), parallelism=3), "FINISHED")
    assert counts(second) == expected()
    assert last_lines(second, "account")["account-0"] == f"Account(count={expected()[0]}, level=5)"
    third = tmp_path / "third"
    job = evolving_job(tmp_path, third, 0, "count: int; level: int", "Account(0, 5)")
    failure = failure_of(cluster, cluster.submit(job, *starting_from(result.location), parallelism=2))
    assert "the field level was added without a default" in failure
    assert not list(third.glob("key-*"))


def test_a_retained_checkpoint_is_claimed_and_deleted_when_it_is_no_longer_needed(
    cluster: Cluster, tmp_path: Path
) -> None:
    first, second, checkpoints = tmp_path / "first", tmp_path / "second", tmp_path / "checkpoints"
    settings = {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": checkpoints,
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    old = cluster.submit_running(make_job(tmp_path, first, DAWDLING), *options(settings), parallelism=2)
    wait_for_state(first)
    result = snapshot(cluster, old, kind=SnapshotRequestKind.CHECKPOINT)
    assert not result.error
    cluster.cancel(old)

    def kept() -> list[Path]:
        return [file.parent for file in files_in(checkpoints, "_metadata.json")]

    wait_until(lambda: len(kept()) == 1, "the other checkpoints to be gone")
    (retained,) = kept()
    assert int(retained.name.removeprefix("chk-")) >= result.checkpoint_id
    referred = json.loads((retained / "_metadata.json").read_text())
    shared = {
        local(file["path"]) for o in referred["operators"] for s in o["states"] for file in s["files"]
        if file["path"].startswith("file://") and not file.get("inline")
    }  # fmt: skip
    assert shared
    wait_until(lambda: set(files_in(checkpoints / old / "shared")) == shared, "unreferenced files to be deleted")
    claimed = starting_from(str(retained), **{"execution.state-recovery.claim-mode": "CLAIM"})
    new = cluster.submit_running(make_job(tmp_path, second, DAWDLING), *options(settings), *claimed, parallelism=1)
    wait_until(lambda: not retained.exists(), "the checkpoint that was taken over to be gone")
    cluster.lose_a_worker(new)
    (second / "go").touch()
    cluster.wait_for(new, "FINISHED")
    assert counts(second) == expected()
    wait_until(lambda: not files_in(checkpoints), "all checkpoints to be gone")


def test_a_failure_before_the_first_checkpoint_starts_from_the_savepoint_again(
    cluster: Cluster, tmp_path: Path, savepoint: Path
) -> None:
    results = tmp_path / "again"
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 5}
    delay = {"restart-strategy.fixed-delay.delay": "100 ms"}
    job_id = cluster.submit(
        make_job(tmp_path, results, DAWDLING), *starting_from(str(savepoint), **restarts, **delay), parallelism=2
    )
    cluster.wait_for(job_id, "RUNNING")
    wait_until(lambda: len(last_lines(results, "key")) == KEYS, "records to flow")
    cluster.lose_a_worker(job_id)
    (results / "go").touch()
    cluster.wait_for(job_id, "FINISHED")
    assert counts(results) == expected()
    stored = counted_in(savepoint)
    for key, count in stored.items():
        assert (results / f"key-{key}").read_text().split().count(str(count + 1)) == 2
    query = call(cluster, "get_job", JobRequest(JobId(job_id)))
    checkpoints = json.loads(query.checkpoints)
    assert checkpoints["overview"]["counts"]["restored"] == 2
    restored = checkpoints["overview"]["latest"]["restored"]
    assert restored["is_savepoint"]
    assert local(restored["external_path"]) == savepoint
