"""How much memory a slot worker of a trivial job uses, and that it imports nothing that no function uses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from system import DEADLINE, write_job

pytestmark = pytest.mark.process

_MOST = 130  # MB of RSS; 113 were measured with state and checkpoints, and 149 when pandas was imported
_JOB = """
import json
import re
import sys
from pathlib import Path
from millstream.datastream import KeyedProcessFunction
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.functions import MapFunction


class Visits(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state("count", int)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield self.count.value()


class Measures(MapFunction):
    def open(self, runtime_context):
        self.seen = 0

    def map(self, value):
        self.seen += 1
        if self.seen % 100 == 0:
            rss = next(line for line in Path("/proc/self/smaps_rollup").read_text().splitlines() if line[:4] == "Rss:")
            print("MEASURED", json.dumps({"rss": int(rss.split()[1]) // 1024, "modules": sorted(sys.modules)}))
        return value

env.set_parallelism(1)
env.enable_checkpointing(50)
users = DataGeneratorSource(lambda i: f"user {i % 5}", count=400, rate_per_second=200, type_info=str)
env.from_source(users, None, "users").key_by(lambda user: user, key_type=str).process(Visits()).map(Measures()).print()
env.execute("trivial")
"""


def test_a_worker_of_a_trivial_job_stays_small(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="what is not installed is not imported either")
    script = write_job(tmp_path, "trivial", _JOB)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    measured = [json.loads(line.partition(" ")[2]) for line in done.stdout.splitlines() if line.startswith("MEASURED")]
    last = measured[-1]
    assert "pyarrow" in last["modules"], "checkpoints were taken"
    assert not {"pandas", "cryptography", "starlette", "click", "rich", "yaml"} & set(last["modules"])
    assert last["rss"] < _MOST


_PANDAS = """
import sys
from millstream.core.records import pandas_imports
pandas_imports.only_when_used()
{first}
import pyarrow as pa
pa.array([1, 2], pa.int64())
assert ("pandas" in sys.modules) is {imported}
import pandas as pd
assert pa.array(pd.Series([1.0, float("nan")])).null_count == 1
assert pa.array([pd.NaT, None, pd.NA], from_pandas=True).null_count == 3
assert pa.table({{"a": [1]}}).to_pandas().a.tolist() == [1]
assert pa.Table.from_pandas(pd.DataFrame({{"a": [pd.NA, "x"]}})).column(0).null_count == 1
"""


@pytest.mark.parametrize(("first", "imported"), [("", False), ("import pandas", True)])
def test_pandas_works_with_pyarrow_whenever_it_is_imported(first: str, imported: bool) -> None:
    pytest.importorskip("pandas")
    program = _PANDAS.format(first=first, imported=imported)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr


def test_ps_shows_the_job_and_the_tasks_of_a_worker(tmp_path: Path) -> None:
    body = """
    import os
    import subprocess

    def of_this_process(_):
        return subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(os.getpid())], capture_output=True).stdout

    env.set_parallelism(1)
    env.from_collection([1]).map(of_this_process).name("shows itself").print()
    env.execute("titled")
    """
    command = [sys.executable, write_job(tmp_path, "titled", body)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    title = re.search(r"millstream: worker titled \([0-9a-f]{8}\): (.*) \(python -m (\S+)\)", done.stdout)
    assert title is not None, done.stdout
    assert "shows itself" in title[1]
    assert title[2] == "millstream.taskmanager.worker.main"
