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


def test_importing_the_api_loads_nothing_heavy() -> None:
    response = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=DEADLINE
    ).stdout
    assert json.loads(response) == []
