"""The table of all options: their rows, the bounds of their values, and which of them jobs may set."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from millstream.core.settings.options import execution, metrics, scheduling, services, submission, tasks
from millstream.core.settings.options.metrics import REPORTER
from millstream.core.settings.options.model import JobMay, Option, OptionType
from millstream.core.settings.options.scheduling import ADAPTIVE, AUTOSCALER

_ROOMS = (services.ROWS, submission.ROWS, scheduling.ROWS, execution.ROWS, tasks.ROWS, metrics.ROWS)

_BOUNDS: dict[str, tuple[float, float | None]] = {
    "env.log.max": (0, None),
    "env.log.max-size": (1024, None),
    "heartbeat.interval": (0.01, None),
    "heartbeat.timeout": (0.01, None),
    "rpc.message.max-size": (1 << 20, (1 << 31) - 1),
    "metrics.fetcher.update-interval": (0.01, None),
    "metrics.latency.history-size": (1, None),
    f"{REPORTER}.interval": (0.01, None),
    f"{REPORTER}.exporter.timeout": (0.01, None),
    f"{REPORTER}.max-size": (1024, None),
    "task.cancellation.interval": (0.01, None),
    "taskmanager.numberOfTaskSlots": (1, None),
    "parallelism.default": (1, None),
    "execution.checkpointing.data-inline-threshold": (0, 1024 * 1024),
    "execution.checkpointing.write-buffer-size": (1, None),
    "execution.checkpointing.jobmanager-storage.max-state-size": (1, None),
    "execution.batch.max-rows": (1, None),
    "execution.batch.max-column-rows": (1, None),
    "taskmanager.memory.segment-size": (1024, 64 * 1024 * 1024),
    "taskmanager.network.memory.buffers-per-channel": (1, None),
    "taskmanager.network.memory.floating-buffers-per-gate": (0, None),
    "taskmanager.network.memory.output-buffers": (1, None),
    "taskmanager.network.memory.buffer-debloat.target": (0.001, None),
    "taskmanager.network.memory.buffer-debloat.period": (0.001, None),
    "taskmanager.network.memory.buffer-debloat.samples": (1, None),
    "taskmanager.network.memory.buffer-debloat.threshold-percentages": (0, None),
    **{f"{service}.rpc.port": (0, 65535) for service in ("dispatcher", "jobmanager", "resourcemanager", "taskmanager")},
    f"{AUTOSCALER}.metrics.window": (0.001, None),
    f"{AUTOSCALER}.stabilization.interval": (0, None),
    f"{AUTOSCALER}.scale-down.interval": (0, None),
    f"{AUTOSCALER}.catch-up.duration": (0, None),
    f"{AUTOSCALER}.utilization.target": (0.01, None),
    f"{AUTOSCALER}.utilization.min": (0, None),
    f"{AUTOSCALER}.utilization.max": (0.01, None),
    f"{AUTOSCALER}.scale-up.max-factor": (0, None),
    f"{AUTOSCALER}.scale-down.max-factor": (0, 1),
    f"{AUTOSCALER}.vertex.min-parallelism": (1, None),
    f"{AUTOSCALER}.vertex.max-parallelism": (1, None),
    f"{ADAPTIVE}.submission.resource-wait-timeout": (float("-inf"), None),
    f"{ADAPTIVE}.submission.resource-stabilization-timeout": (0, None),
    f"{ADAPTIVE}.executing.cooldown-after-rescaling": (0, None),
    f"{ADAPTIVE}.executing.resource-stabilization-timeout": (0, None),
    f"{ADAPTIVE}.rescale-trigger.max-delay": (0, None),
    f"{ADAPTIVE}.rescale-trigger.max-checkpoint-failures": (1, None),
    "python.unpack.max-entries": (1, None),
    "python.unpack.max-ratio": (1, None),
    "health.port": (0, 65535),
    "rest.port": (0, 65535),
    "rest.rate-limit": (0, None),
    "rest.flamegraph.num-samples": (1, 10_000),
    "rest.flamegraph.delay-between-samples": (0.001, 1),
    "rest.flamegraph.refresh-interval": (0, None),
    "rest.flamegraph.stack-depth": (1, 150),
    "rest.profiling.duration-max": (1, 3600),
    "rest.profiling.history-size": (1, 100),
    "web.exception-history-size": (1, None),
    "jobmanager.execution.attempts-history-size": (0, 1000),
}

# All other options are set for the services: addresses, files, security and limits.
_JOB_SETS = (
    "execution.", f"{AUTOSCALER}.", f"{ADAPTIVE}.", "jobmanager.scheduler", "logging.level", "metrics.hot-keys.",
    "metrics.latency.", "parallelism.",
    "pipeline.", "python.archives", "python.executable", "python.files", "python.job-folder.", "python.logging.",
    "python.pythonpath", "python.requirements", "restart-strategy.",
    "scheduler-mode", "slot.request.timeout", "state.", "task.cancellation.",
    "taskmanager.memory.segment-size", "taskmanager.network.", "taskmanager.prints.", "worker.start.timeout",
)  # fmt: skip
_JOB_LOWERS = ("taskmanager.memory.task.heap.size",)
_OF_HOSTS = ("execution.local.", "execution.checkpointing.local-backup.dirs")


def _job_may(key: str) -> JobMay:
    if key in _JOB_LOWERS:
        return JobMay.LOWER
    return JobMay.SET if key.startswith(_JOB_SETS) and not key.startswith(_OF_HOSTS) else JobMay.NOT


def _completed(row: Option) -> Option:
    at_least, at_most = _BOUNDS.get(row.key, (None, None))
    return replace(row, at_least=at_least, at_most=at_most, job_may=_job_may(row.key))


class OptionTable(dict[str, Option]):
    """All options by their keys. Those of a reporter are found under its user-defined name.

    A plug-in has its own settings, which are text: any key of a reporter is an option.
    """

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and _of_reporter(key) is not None)

    def __missing__(self, key: str) -> Option:
        setting = _of_reporter(key)
        if setting is None:
            raise KeyError(key)
        row = super().get(f"{REPORTER}.{setting}")
        return row if row is not None else Option(key, OptionType.STRING, "", "A setting of a plug-in.")

    def get(self, key: str, default: Any = None) -> Any:
        """The option of a key."""
        return self[key] if key in self else default  # noqa: SIM401  # this is what that means


def _of_reporter(key: str) -> str | None:
    """Returns the setting of a reporter that a key refers to, or None."""
    begin = REPORTER.partition("<")[0]
    name, _, setting = key.removeprefix(begin).partition(".")
    is_one = key.startswith(begin) and name and setting and all(setting.split(".")) and "<" not in name
    return setting if is_one else None


OPTIONS: dict[str, Option] = OptionTable({row.key: _completed(row) for rows in _ROOMS for row in rows})
