"""`state ls`, `state show` and `state diff`."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from snapshot_maker import Maker

from millstream.cli.main import main
from millstream.core.records import types as t
from millstream.core.snapshot import StateKind, StateTypes

COUNTS = StateTypes(t.STRING, t.TupleType((t.LONG, t.STRING)))
PAIRS = StateTypes(t.TupleType((t.LONG, t.STRING)), t.LONG, map_key=t.STRING)


class Unpickled:
    """Cannot be loaded by a process that does not know this module."""


def make(folder: Path, **counts: tuple[int, str]) -> str:
    maker = Maker(folder)
    maker.operator(
        "counter",
        maker.expiring("counts", counts or {"a": (1, "x"), "b": (2, "y")}, COUNTS, [5_000] * (len(counts) or 2)),
        maker.maps("pairs", {(1, "a"): {"m": 1, "n": 2}}, PAIRS),
        maker.values("objects", {"k": Unpickled(), "plain": [1]}, StateTypes(t.STRING, t.PICKLED)),
        maker.lists("events", {"a": ["e1", "e2"]}, StateTypes(t.STRING, t.STRING)),
        maker.timers("timers", [("a", 7, "event")], StateTypes(t.STRING)),
    )
    splits = maker.elements("splits", [[{"at": 3}], [{"at": 4}]], StateTypes(value=t.PICKLED), StateKind.SPLITS)
    rules = maker.broadcast("rules", {"r": 1}, StateTypes(value=t.LONG, map_key=t.STRING), copies=2)
    maker.operator(None, splits, rules, name="Source: numbers", parallelism=2)
    return maker.finish().location


class Here:
    """Runs commands in this process, which is quicker."""

    def __init__(self, home: Path, captured: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._captured = captured

    def __call__(self, *arguments: str) -> CompletedProcess[str]:
        status = main(list(arguments))
        output = self._captured.readouterr()
        return CompletedProcess(arguments, status, output.out, output.err)

    def fails(self, *arguments: str, status: int = 1) -> str:
        done = self(*arguments)
        assert done.returncode == status, done
        (line,) = done.stderr.splitlines()
        return line


@pytest.fixture
def here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(tmp_path, capsys)


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    return make(tmp_path / "snapshots")


def ran(done: Any, status: int = 0) -> str:
    assert done.returncode == status, done.stderr
    return str(done.stdout)


def test_ls(here: Here, snapshot: str) -> None:
    folder = snapshot.removeprefix("file://")
    output = ran(here("state", "ls", folder))
    assert output == ran(here("state", "ls", f"{snapshot}/_metadata.json"))
    header, job, size = output.splitlines()[:3]
    assert header == f"savepoint {snapshot}"
    assert job.startswith("job abcdef0123 (counts), checkpoint 3, taken 19")
    assert size.endswith("in 9 files")
    lines = [line.split() for line in output.splitlines()]
    assert ["counter", "id-counter", "Counter", "1", "128", "no"] in lines
    assert ["counter", "pairs", "map", "Tuple2<Long,", "String>", "-", "String", "->", "Long", "-", "2", "1"] in [
        line[:12] for line in lines
    ]
    assert any(
        line[:9] == ["counter", "counts", "value", "String", "-", "Tuple2<Long,", "String>", "1", "h"] for line in lines
    )


def test_ls_as_json(here: Here, snapshot: str) -> None:
    response = json.loads(ran(here("state", "ls", "--json", snapshot)))
    assert {k: response[k] for k in ("kind", "job_name", "checkpoint_id", "created_ms", "files")} == {
        "kind": "savepoint", "job_name": "counts", "checkpoint_id": 3, "created_ms": 1000, "files": 9
    }  # fmt: skip
    counter, source = response["operators"]
    assert (source["uid"], source["parallelism"], source["finished"]) == (None, 2, False)
    counts = counter["states"][0]
    assert (counts["key_type"], counts["value_type"], counts["rows"]) == ("String", "Tuple2<Long, String>", 2)
    assert counts["ttl_ms"] == 3_600_000
    assert response["bytes"] == sum(state["bytes"] for one in response["operators"] for state in one["states"])


def test_show(here: Here, snapshot: str) -> None:
    lines = ran(here("state", "show", snapshot, "counter", "counts")).splitlines()
    assert lines[0].split() == ["KEY", "VALUE", "EXPIRES", "AT"]
    assert sorted(" ".join(line.split()[:3]) for line in lines[1:]) == ["a (1, 'x')", "b (2, 'y')"]
    limited = here("state", "show", snapshot, "Counter", "counts", "--limit", "1")
    assert len(ran(limited).splitlines()) == 2
    assert limited.stderr == "1 of 2 rows; --limit shows more.\n"


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        (("counter", "counts", "--key", "b"), [{"key": "b", "value": [2, "y"], "expires_at": 5000}]),
        (
            ("counter", "pairs", "--key", '[1, "a"]'),
            [
                {"key": [1, "a"], "map_key": "m", "map_value": 1},
                {"key": [1, "a"], "map_key": "n", "map_value": 2},
            ],
        ),
        (
            ("counter", "pairs", "--key", '[1, "a"]', "--limit", "1"),
            [{"key": [1, "a"], "map_key": "m", "map_value": 1}],
        ),
        (("counter", "pairs", "--key", '[2, "a"]'), []),
        (
            ("counter", "events", "--key", "a"),
            [{"key": "a", "position": 0, "element": "e1"}, {"key": "a", "position": 1, "element": "e2"}],
        ),
        (("counter", "timers"), [{"key": "a", "domain": "event", "timestamp": 7}]),
        (
            ("Source: numbers", "rules"),
            [{"subtask": 0, "map_key": "r", "map_value": 1}, {"subtask": 1, "map_key": "r", "map_value": 1}],
        ),
        (
            ("Source: numbers", "splits", "--unpickle"),
            [{"subtask": 0, "position": 0, "element": {"at": 3}}, {"subtask": 1, "position": 0, "element": {"at": 4}}],
        ),
    ],
)
def test_show_as_json(here: Here, snapshot: str, arguments: tuple[str, ...], rows: list[Any]) -> None:
    assert json.loads(ran(here("state", "show", "--json", snapshot, *arguments))) == rows


@pytest.mark.process
def test_pickled_values_are_loaded_only_on_request(here: Here, cli: Any, snapshot: str) -> None:
    done = here("state", "show", snapshot, "counter", "objects")
    assert "<pickled, " in ran(done)
    assert "executes code" in done.stderr
    assert "[1]" in ran(here("state", "show", snapshot, "counter", "objects", "--key", "plain", "--unpickle"))
    line = cli.fails("state", "show", snapshot, "counter", "objects", "--unpickle")
    assert "holds a value that is no PickledByteArray" in line
    assert "executes code from the snapshot" in " ".join(ran(here("state", "show", "--help")).split())


def test_show_reports_errors(here: Here, snapshot: str) -> None:
    assert "has no operator 'x': it has counter (Counter)" in here.fails("state", "show", snapshot, "x", "counts")
    assert "has no state 'x': it has counts, pairs" in here.fails("state", "show", snapshot, "counter", "x")
    assert "write one as JSON" in here.fails("state", "show", snapshot, "counter", "pairs", "--key", "a")
    assert "it has no keys" in here.fails("state", "show", snapshot, "Source: numbers", "splits", "--key", "1")
    done = here("state", "show", snapshot, "counter", "counts", "--key", "zz")
    assert (ran(done), done.stderr) == ("", "No rows for the key zz.\n")
    assert "is no snapshot: there is no _metadata.json in it" in here.fails("state", "ls", "nowhere")


def test_a_damaged_file_is_refused_by_name(here: Here, snapshot: str) -> None:
    file = Path(snapshot.removeprefix("file://"), "operator-0", "counts", "part-0-0.parquet")
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    line = here.fails("state", "show", snapshot, "counter", "counts")
    where = f"{snapshot}/operator-0/counts/part-0-0.parquet"
    assert line == f"millstream state show: {where}: is damaged: its content does not match its checksum"
    assert "part-0-0.parquet: is damaged" in here.fails("state", "diff", snapshot, make(Path(here.home)), status=2)


def test_diff(here: Here, snapshot: str) -> None:
    assert ran(here("state", "diff", snapshot, snapshot)) == "Both hold the same state.\n"
    other = make(Path(here.home), a=(1, "x"), b=(9, "y"), c=(3, "z"))
    output = ran(here("state", "diff", "--keys", snapshot, other), 1)
    assert output.splitlines() == [
        "~ operator counter (Counter)",
        "  ~ state counts: 1 added, 0 removed, 1 changed",
        *sorted(["    + c", "    ~ b"], key=output.index),
    ]
    few = ran(here("state", "diff", "--keys", "--limit", "1", other, snapshot), 1)
    assert few.splitlines()[-1] == "    … and 1 more"
    response = json.loads(ran(here("state", "diff", "--json", snapshot, other), 1))
    counts = response["operators"][0]["states"][0]
    assert (response["equal"], counts["added"], counts["removed"], counts["changed"]) == (False, 1, 0, 1)
    assert {"sign": "+", "path": ["c"], "new": [3, "z"]} in counts["entries"]
    assert {"sign": "~", "path": ["b"], "old": [2, "y"], "new": [9, "y"]} in counts["entries"]
    values = ran(here("state", "diff", snapshot, other), 1).splitlines()
    assert sorted(values[2:]) == ["    + c: (3, 'z')", "    ~ b: (2, 'y') -> (9, 'y')"]
    assert ran(here("state", "diff", "--summary", snapshot, other), 1).splitlines() == values[:2]


def test_diff_of_pickled_and_of_long_values(here: Here) -> None:
    sides = []
    for last, plain in ((1, [1]), (2, [2])):
        maker = Maker(here.home / str(last))
        lists = maker.lists("events", {"a": [*range(1000), last]}, StateTypes(t.STRING, t.LONG))
        maker.operator("a", lists, maker.values("any", {"k": plain}, StateTypes(t.STRING, t.PICKLED)))
        sides.append(maker.finish().location)
    output = ran(here("state", "diff", *sides), 1).splitlines()
    assert output[2].endswith("998, 999, 1] -> " + output[2].split(" -> ")[0].split(": ")[1][:-2] + "2]")
    assert len(output[2]) < 300
    assert output[4] == "    ~ k: <pickled, 17 bytes> -> <pickled, 17 bytes>"
    assert ran(here("state", "diff", "--unpickle", *sides), 1).splitlines()[4] == "    ~ k: [1] -> [2]"
    response = json.loads(ran(here("state", "diff", "--unpickle", "--json", *sides), 1))
    assert response["operators"][0]["states"][1]["entries"] == [{"sign": "~", "path": ["k"], "old": [1], "new": [2]}]


def test_pickled_keys_and_times_that_no_calendar_has(here: Here) -> None:
    maker = Maker(here.home)
    types = StateTypes(t.PICKLED, t.LONG)
    maker.operator("a", maker.expiring("x", {5: 1}, types, [1 << 62]), parallelism=2)
    location = maker.finish().location
    assert f"{1 << 62} ms" in ran(here("state", "show", location, "a", "x", "--key", "5"))
    missing = here("state", "show", location, "a", "x", "--key", "6")
    assert missing.stderr == (
        "No rows for the key 6: pickled keys were compared as bytes, --unpickle compares values.\n"
    )
    other = Maker(here.home / "other")
    other.operator("a", other.expiring("x", {5: 2}, types, [1]), parallelism=3)
    output = ran(here("state", "diff", location, other.finish().location), 1)
    assert output.splitlines()[0] == "~ operator a (Counter), parallelism 2 to 3"


def test_diff_fails_with_a_status_of_its_own(here: Here, snapshot: str) -> None:
    assert "is no snapshot" in here.fails("state", "diff", snapshot, "nowhere", status=2)
    assert "exit status is 0 when they hold the same state, 1 when they differ, and 2" in " ".join(
        ran(here("state", "diff", "--help")).split()
    )
