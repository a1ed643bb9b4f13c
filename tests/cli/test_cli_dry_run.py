"""`run --dry-run`: how a snapshot fits a program, with no cluster."""

from __future__ import annotations

import json
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import pytest
from snapshot_maker import Maker
from wheels import write_wheel

from millstream.core.records import types as t
from millstream.core.snapshot import StateTypes

pytestmark = pytest.mark.process

JOB = """
import sys
from dataclasses import dataclass
from pathlib import Path
from millstream.common import Types
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment

@dataclass
class Seen:
    n: int
    label: str = "none"

class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        if "fails" in sys.argv:
            raise OSError("no database")
        self.count = runtime_context.get_state("count", int)
        self.seen = runtime_context.get_state("seen", Seen)

    def process_element(self, value, ctx):
        Path("processed").touch()
        yield value

def main():
    print("chatter")
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection(["a"], Types.STRING()).uid("source").key_by(lambda x: x, key_type=Types.STRING())
    stream.process(Count()).uid("counter").print()
    env.set_max_parallelism(128)
    env.execute("counts")

if __name__ == "__main__":
    main()
"""


def snapshot_of(folder: Path, count: t.TypeInformation = t.LONG, uid: str = "counter", most: int = 128) -> str:
    maker = Maker(folder / "snapshots", max_parallelism=most)
    maker.operator(uid, maker.values("count", {"a": 1}, StateTypes(t.STRING, count)), parallelism=2)
    return maker.finish().location


@pytest.fixture
def job(cli: Any) -> str:
    (cli.home / "job.py").write_text(JOB)
    return "job.py"


def test_a_snapshot_that_fits(cli: Any, job: str) -> None:
    done = cli("run", "--dry-run", "-s", snapshot_of(cli.home), "-p", "3", job)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["counter", "matched", "parallelism", "2", "to", "3"] in lines
    assert ["counter", "count", "(value)", "same"] in lines
    assert ["counter", "seen", "(value)", "new:", "starts", "empty"] in lines
    assert done.stdout.endswith("A restore works.\n")
    assert done.stderr == "chatter\n"
    assert not (cli.home / "processed").exists()


def test_a_field_that_looks_renamed_and_a_number_that_no_float_holds(cli: Any, job: str) -> None:
    seen = make_dataclass("Seen", [("n", int), ("note", str)])
    maker = Maker(cli.home / "snapshots")
    maker.operator(
        "counter",
        maker.values("count", {"a": 2**53 + 1}, StateTypes(t.STRING, t.LONG)),
        maker.values("seen", {"a": seen(1, "x")}, StateTypes(t.STRING, t.DataclassType(seen))),
    )
    location = maker.finish().location
    done = cli("run", "--dry-run", "-s", location, job)
    assert done.returncode == 0, done.stderr
    warning = "operator 'counter', state 'seen': the field note is gone, and label of the same type (String) is new"
    assert f"Warning: {warning}" in done.stdout
    (cli.home / "wider.py").write_text(JOB.replace('"count", int', '"count", float'))
    done = cli("run", "--dry-run", "--json", "-s", location, "wider.py")
    response = json.loads(done.stdout)
    assert (done.returncode, response["restorable"]) == (1, False)
    assert response["warnings"][0].startswith(warning)
    assert response["problems"][0].endswith("column value: holds 9007199254740993, which Double cannot hold exactly")


def test_a_wheel_in_its_own_environment(cli: Any) -> None:
    wheel = write_wheel(cli.home, {"tinyjob.py": JOB}, entry="tinyjob:main")
    options = ("-D", f"io.tmp.dirs={cli.home / 'tmp'}")
    done = cli("run", "--dry-run", "--json", "-s", f"{snapshot_of(cli.home)}/_metadata.json", *options, wheel.name)
    assert done.returncode == 0, done.stderr
    response = json.loads(done.stdout)
    assert response["restorable"] is True
    assert response["snapshot"]["checkpoint_id"] == 3
    matches = {(o["uid"], s["name"]): s["match"] for o in response["operators"] for s in o["states"]}
    assert matches == {("counter", "count"): "same", ("counter", "seen"): "new"}


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        ({"count": t.DOUBLE}, "operator 'counter', state 'count': changed from Double to Long"),
        ({"uid": "old"}, "operator 'old' has state in the snapshot, and the program has no such operator"),
        ({"most": 64}, "was stored with max parallelism 64, and the program sets 128"),
    ],
)
def test_snapshots_that_do_not_fit(cli: Any, job: str, made: dict[str, Any], problem: str) -> None:
    location = snapshot_of(cli.home, **made)
    done = cli("run", "--dry-run", "-s", location, job)
    assert done.returncode == 1, done.stderr
    refusal = done.stdout.split("A restore does not work:\n")[1]
    assert problem in refusal
    allowed = cli("run", "--dry-run", "-n", "--json", "-s", location, job)
    response = json.loads(allowed.stdout)
    assert response["restorable"] == (allowed.returncode == 0) == ("uid" in made)


def test_a_damaged_snapshot_is_no_yes(cli: Any, job: str) -> None:
    location = snapshot_of(cli.home)
    (file,) = Path(location.removeprefix("file://")).rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    done = cli("run", "--dry-run", "-s", location, job)
    assert done.returncode == 1, done.stderr
    assert f"{file}: is damaged" in done.stdout.split("A restore does not work:\n")[1]
    file.unlink()
    response = json.loads(cli("run", "--dry-run", "--json", "-s", location, job).stdout)
    assert not response["restorable"]
    assert response["problems"] == [f"file://{file}: does not exist"]


def test_a_function_that_does_not_open_is_no_yes(cli: Any, job: str) -> None:
    location = snapshot_of(cli.home)
    done = cli("run", "--dry-run", "-s", location, job, "fails")
    assert done.returncode == 1
    assert "Whether a restore works is not known:" in done.stdout
    assert "operator 'counter', states unknown: OSError: no database" in done.stdout
    assert "Traceback" not in done.stderr
    verbose = cli("run", "--dry-run", "-v", "-s", location, job, "fails")
    assert 'raise OSError("no database")' in verbose.stderr
    assert "millstream" not in verbose.stderr.split("Traceback")[1]


def test_what_cannot_be_compared(cli: Any, job: str) -> None:
    assert "name it with -s" in cli.fails("run", "--dry-run", job, status=2)
    assert "--json belongs to --dry-run" in cli.fails("run", "--json", job, status=2)
    assert "is no snapshot" in cli.fails("run", "--dry-run", "-s", "nowhere", job)
    (cli.home / "empty.py").write_text("")
    assert "built no job" in cli.fails("run", "--dry-run", "-s", snapshot_of(cli.home), "empty.py")
    (cli.home / "leaves.py").write_text(JOB.replace('raise OSError("no database")', "sys.exit(0)"))
    line = cli("run", "--dry-run", "-s", snapshot_of(cli.home), "leaves.py", "fails")
    assert line.returncode == 1
    assert "states unknown: SystemExit: 0" in line.stdout
