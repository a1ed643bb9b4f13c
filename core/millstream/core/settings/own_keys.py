"""Decides whether an unknown key is a typing error in a namespace of Flink or Millstream, or user-defined.

User-defined keys are not validated. They are sent with a job's options, and its functions read them as job parameters:
`context.get_job_parameter("my.key")`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache

from millstream.core.settings.options import OPTIONS

JOB_PARAMETERS = "pipeline.global-job-parameters."
"""Keys with this prefix are job parameters under the rest of the key, in any namespace."""

_OF_THE_BRIDGE = (
    "python.fn-execution.", "python.map-state.", "python.state.", "python.metric.", "python.profile.",
    "python.systemenv.", "python.execution-mode", "python.loopback-server.", "python.internal.", "python.job-options",
)  # fmt: skip
"""Options of PyFlink for the exchange of records between Java and Python, which have no meaning here."""

_OF_JAVAS_MESSAGES = ("akka.", "pekko.")
"""Options of the messaging library of Flink's Java processes."""

_SAME_BUT_FOR_A_LETTER = 0.9
_FLINKS = frozenset({
    "$internal", "akka", "blob", "classloader", "client", "cluster", "compiler", "containerized", "env", "events",
    "execution", "external-resource", "external-resources", "fs", "heartbeat", "high-availability", "historyserver",
    "io", "job-event", "job-result-store", "jobmanager", "jobstore", "kubernetes", "mesos", "metrics", "parallelism",
    "pekko", "pipeline", "plugin", "process", "python", "queryable-state", "resourcemanager", "rest",
    "restart-strategy", "s3", "scheduler", "security", "slot", "slotmanager", "sql-client", "sql-gateway", "state",
    "table", "task", "taskmanager", "traces", "web", "workflow-scheduler", "yarn", "zookeeper",
})  # fmt: skip
_AUTOSCALER = "job.autoscaler."
"""The reserved keys that begin with `job.`; all others with that prefix are user-defined."""
_NAMESPACES = _FLINKS | {key.partition(".")[0] for key in OPTIONS if not key.startswith(_AUTOSCALER)}


def why_dropped(key: str) -> str | None:
    """Returns why an option of PyFlink is ignored, or None if it is not one of these."""
    if key.startswith(_OF_THE_BRIDGE):
        return "is about PyFlink's exchange with Java"
    if key.startswith(_OF_JAVAS_MESSAGES):
        return "is about messages between Java processes"
    if key == "python.client.executable":
        return "is about PyFlink's client: here a program runs where its functions do, with 'python.executable'"
    return None


@cache
def why_unknown(key: str) -> str | None:
    """Returns what is wrong with an unknown key, or None if it is user-defined."""
    if not key:
        return "unknown option ''"
    if key.startswith(JOB_PARAMETERS) and key != JOB_PARAMETERS:
        return None
    namespace, dot, _ = key.partition(".")
    is_reserved = bool(dot) and (namespace in _NAMESPACES or key.startswith(_AUTOSCALER))
    near = difflib.get_close_matches(key, OPTIONS, n=1, cutoff=0.4 if is_reserved else _SAME_BUT_FOR_A_LETTER)
    if not is_reserved and not near:
        return None
    return f"unknown option '{key}'{f'; did you mean {near[0]!r}?' if near else ''}"


def job_parameters(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the user-defined keys among a job's options, with their values."""
    own = {key: value for key, value in options.items() if key not in OPTIONS}
    return {key.removeprefix(JOB_PARAMETERS): value for key, value in own.items()}
