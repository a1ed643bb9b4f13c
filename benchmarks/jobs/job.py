"""What the Millstream jobs of the benchmarks have in common: two slots, and a proof that records cross between them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from marks import report

from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment

SLOTS = 2


def environment(options: Mapping[str, object] | None = None) -> StreamExecutionEnvironment:
    """An environment with parallelism 2 and default settings except for these options."""
    configuration = Configuration()
    for name, value in (options or {}).items():
        configuration.set(name, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(SLOTS)


def execute(env: StreamExecutionEnvironment, name: str) -> None:
    """Reports how records are exchanged between slots, then runs it."""
    nodes = json.loads(env.get_execution_plan())["nodes"]
    strategies = [edge["ship_strategy"] for node in nodes for edge in node.get("predecessors", [])]
    report("plan", strategies=[strategy for strategy in strategies if strategy != "FORWARD"])
    env.execute(name)
