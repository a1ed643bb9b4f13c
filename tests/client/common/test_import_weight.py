from __future__ import annotations

import json
import subprocess
import sys

_PROGRAM = """
import json, sys, time
started = time.process_time()
import millstream.common
from millstream.datastream import StreamExecutionEnvironment
spent = time.process_time() - started
heavy = {"pyarrow", "numpy", "grpc", "pandas", "cloudpickle", "yaml"}
print(json.dumps({"spent": spent, "heavy": sorted(heavy & set(sys.modules))}))
"""


def test_importing_the_api_loads_nothing_heavy_and_takes_no_time() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    result = json.loads(answer)
    assert result["heavy"] == []
    assert result["spent"] < 0.3
