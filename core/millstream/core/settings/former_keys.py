"""Deprecated keys of older Flink versions, with the current key of each option."""

from __future__ import annotations

_CHECKPOINTING = "execution.checkpointing"
_RECOVERY = "execution.state-recovery"
_ADAPTIVE = "jobmanager.adaptive-scheduler"

FORMER_KEYS = {
    "state.backend": "state.backend.type",
    "state.backend.incremental": f"{_CHECKPOINTING}.incremental",
    "state.backend.local-recovery": f"{_RECOVERY}.from-local",
    "state.checkpoint-storage": f"{_CHECKPOINTING}.storage",
    "state.checkpoints.dir": f"{_CHECKPOINTING}.dir",
    "state.checkpoints.num-retained": f"{_CHECKPOINTING}.num-retained",
    "state.savepoints.dir": f"{_CHECKPOINTING}.savepoint-dir",
    "execution.checkpointing.alignment-timeout": f"{_CHECKPOINTING}.aligned-checkpoint-timeout",
    "execution.checkpointing.unaligned": f"{_CHECKPOINTING}.unaligned.enabled",
    "execution.buffer-timeout": "execution.buffer-timeout.interval",
    "execution.savepoint.path": f"{_RECOVERY}.path",
    "execution.savepoint.ignore-unclaimed-state": f"{_RECOVERY}.ignore-unclaimed-state",
    "execution.savepoint-restore-mode": f"{_RECOVERY}.claim-mode",
    "jobmanager.adaptive-scheduler.resource-wait-timeout": f"{_ADAPTIVE}.submission.resource-wait-timeout",
    "jobmanager.adaptive-scheduler.resource-stabilization-timeout": (
        f"{_ADAPTIVE}.submission.resource-stabilization-timeout"
    ),
    "jobmanager.adaptive-scheduler.scaling-interval.min": f"{_ADAPTIVE}.executing.cooldown-after-rescaling",
    "jobmanager.adaptive-scheduler.max-delay-for-scale-trigger": f"{_ADAPTIVE}.rescale-trigger.max-delay",
    "jobmanager.adaptive-scheduler.scale-on-failed-checkpoints-count": (
        f"{_ADAPTIVE}.rescale-trigger.max-checkpoint-failures"
    ),
    "job.autoscaler.target.utilization": "job.autoscaler.utilization.target",
    "jobmanager.web.address": "rest.address",
    "jobmanager.web.port": "rest.port",
    "jobmanager.web.upload.dir": "web.upload.dir",
    "pipeline.operator-chaining": "pipeline.operator-chaining.enabled",
    "python.operator-chaining.enabled": "pipeline.operator-chaining.enabled",
    "restart-strategy": "restart-strategy.type",
    "slotmanager.taskmanager-timeout": "resourcemanager.taskmanager-timeout",
    "taskmanager.tmp.dirs": "io.tmp.dirs",
    "taskmanager.state.local.root-dirs": f"{_CHECKPOINTING}.local-backup.dirs",
    "web.address": "rest.address",
    "web.port": "rest.port",
}
