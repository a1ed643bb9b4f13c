"""The generated modules match the versions that the package requires."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from millstream.proto import graph_pb2

ROOT = Path(__file__).resolve().parents[2]


def test_the_required_protobuf_is_the_one_that_the_modules_were_generated_for() -> None:
    """An older one refuses them, and the next major version warns of them."""
    (generated,) = re.findall(r"^# Protobuf Python Version: (\S+)$", Path(graph_pb2.__file__).read_text(), re.M)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    major = int(generated.partition(".")[0])
    assert f"protobuf>={generated},<{major + 1}" in project["dependencies"]
