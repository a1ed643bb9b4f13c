"""`info`: the plan of a program, with no cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest
from wheels import write_wheel

pytestmark = pytest.mark.process

JOB = """
from millstream.datastream import StreamExecutionEnvironment

def main():
    print("chatter")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1, 2, 3]).key_by(lambda x: x % 2).map(lambda x: x + 1).name('<script>').print()
    env.execute("plus one")

if __name__ == "__main__":
    main()
"""


def test_prints_the_plan_of_a_file(cli: Any) -> None:
    (cli.home / "job.py").write_text(JOB)
    done = cli("info", "-p", "2", "job.py")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["name"] == "plus one"
    assert {node["parallelism"] for node in plan["nodes"]} == {1, 2}
    assert plan["nodes"][-1]["description"] == "<script> -> Sink: Print to Std. Out"  # not for a page
    assert "chatter" in done.stderr


def test_prints_the_plan_of_a_wheel(cli: Any) -> None:
    wheel = write_wheel(cli.home, {"tinyjob.py": JOB})
    done = cli("info", "-D", f"io.tmp.dirs={cli.home / 'tmp'}", "-c", "tinyjob:main", wheel.name)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["name"] == "plus one"


def test_a_program_without_a_job(cli: Any) -> None:
    (cli.home / "job.py").write_text("")
    assert "built no job" in cli.fails("info", "job.py")
