from __future__ import annotations

import json
import subprocess
import sys

import pytest
from waiting import DEADLINE

pytestmark = pytest.mark.process

_PROGRAM = """
import json, sys
import millstream.common
from millstream.datastream import StreamExecutionEnvironment
heavy = {"pyarrow", "numpy", "grpc", "pandas", "cloudpickle", "yaml"}
print(json.dumps(sorted(heavy & set(sys.modules))))
"""


_WORKER = """
import json, sys
import millstream.taskmanager.worker.main
import millstream.taskmanager.worker.slot_worker
import millstream.taskmanager.worker.process
print(json.dumps(sorted({"pyarrow", "numpy", "pandas"} & set(sys.modules))))
"""


@pytest.mark.parametrize("program", [_PROGRAM, _WORKER], ids=["the API", "a slot worker"])
def test_importing_it_loads_nothing_heavy(program: str) -> None:
    response = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=DEADLINE
    ).stdout
    assert json.loads(response) == []
