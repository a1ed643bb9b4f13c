"""Whose a key is that no option has: a typing error in a namespace of Flink's or ours, or the user's own.

The user's own keys are not looked into. They travel with a job's options, and its functions read them as job
parameters: `context.get_job_parameter("my.key")`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache

from millstream.core.settings.options import OPTIONS

JOB_PARAMETERS = "pipeline.global-job-parameters."
"""What is set below it is a job parameter under the rest of the key, whatever namespace that would be in."""

_OF_THE_BRIDGE = (
    "python.fn-execution.", "python.map-state.", "python.state.", "python.metric.", "python.profile.",
    "python.systemenv.", "python.execution-mode", "python.loopback-server.", "python.internal.", "python.job-options",
)  # fmt: skip
"""Options of PyFlink's for the exchange of records between Java and Python, which programs set and nothing here has."""

_OF_JAVAS_MESSAGES = ("akka.", "pekko.")
"""Options of the library by which Flink's Java processes send each other messages."""

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
"""All that is reserved of keys that begin with `job.`, which is a name that users take for their own."""
_NAMESPACES = _FLINKS | {key.partition(".")[0] for key in OPTIONS if not key.startswith(_AUTOSCALER)}


def why_dropped(key: str) -> str | None:
    """Why nothing comes of an option of PyFlink's that programs set; None: it is none of these."""
    if key.startswith(_OF_THE_BRIDGE):
        return "is about PyFlink's exchange with Java"
    if key.startswith(_OF_JAVAS_MESSAGES):
        return "is about messages between Java processes"
    if key == "python.client.executable":
        return "is about PyFlink's client: here a program runs where its functions do, with 'python.executable'"
    return None


@cache
def why_unknown(key: str) -> str | None:
    """What is wrong with a key that no option has; None: it is the user's own."""
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
    """The user's own keys among a job's options, with their values."""
    own = {key: value for key, value in options.items() if key not in OPTIONS}
    return {key.removeprefix(JOB_PARAMETERS): value for key, value in own.items()}
