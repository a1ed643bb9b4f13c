"""Keys of older Flink versions, by the key that each option has now: for the error about an unknown one."""

from __future__ import annotations

_CHECKPOINTING = "execution.checkpointing"
_RECOVERY = "execution.state-recovery"

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
    "execution.savepoint.path": f"{_RECOVERY}.path",
    "execution.savepoint.ignore-unclaimed-state": f"{_RECOVERY}.ignore-unclaimed-state",
    "execution.savepoint-restore-mode": f"{_RECOVERY}.claim-mode",
    "restart-strategy": "restart-strategy.type",
    "taskmanager.state.local.root-dirs": f"{_CHECKPOINTING}.local-backup.dirs",
}
