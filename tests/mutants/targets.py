"""Which tests stand beside which pure machine: the first that fails kills a mutant, so the quickest come first."""

from __future__ import annotations

_CHECKPOINTS = "jobmanager/millstream/jobmanager/checkpoints"
_COORDINATOR = (
    "tests/jobmanager/checkpoints/test_checkpoint_coordinator.py",
    "tests/jobmanager/checkpoints/test_checkpoint_policies.py",
    "tests/jobmanager/checkpoints/test_checkpoint_statistics.py",
    "tests/jobmanager/checkpoints/test_checkpoint_coordinator_stateful.py",
)
_FAILOVER = "jobmanager/millstream/jobmanager/failover"
_ADAPTIVE = "jobmanager/millstream/jobmanager/adaptive"
_WORKER = "taskmanager/millstream/taskmanager/worker"
_ALIGNMENT = (
    "tests/taskmanager/checkpointing/test_alignment.py",
    "tests/taskmanager/checkpointing/test_unaligned_alignment.py",
)

TARGETS: dict[str, tuple[str, ...]] = {
    **{
        f"{_CHECKPOINTS}/{name}.py": _COORDINATOR
        for name in (
            "aborting",
            "completing",
            "coordinator",
            "pending",
            "tasks",
            "under_way",
            "policies/commits",
            "policies/requests",
            "policies/retention",
        )
    },
    f"{_CHECKPOINTS}/stopping.py": ("tests/jobmanager/checkpoints/test_stopping.py", *_COORDINATOR),
    "core/millstream/core/backoff.py": ("tests/core/test_backoff.py",),
    f"{_FAILOVER}/restart_strategy.py": ("tests/jobmanager/failover/test_restart_strategy.py",),
    f"{_FAILOVER}/regions.py": ("tests/jobmanager/failover/test_pipelined_regions.py",),
    f"{_FAILOVER}/deployment_plan.py": ("tests/jobmanager/failover/test_deployment_plan.py",),
    f"{_ADAPTIVE}/fitting.py": ("tests/jobmanager/test_adaptive_scheduling.py",),
    "jobmanager/millstream/jobmanager/sources/alignment.py": ("tests/jobmanager/test_source_alignment.py",),
    f"{_WORKER}/checkpointing/alignment.py": _ALIGNMENT,
    f"{_WORKER}/operators/sinks/transactions.py": (
        "tests/taskmanager/operators/test_transactions.py",
        "tests/taskmanager/operators/test_committing_sink.py",
    ),
    f"{_WORKER}/tasks/task_life.py": ("tests/taskmanager/test_task_life.py",),
    f"{_WORKER}/tasks/watermark_valve.py": ("tests/taskmanager/test_watermark_valve.py",),
    f"{_WORKER}/network/credit.py": ("tests/taskmanager/network/test_credit.py",),
    "taskmanager/millstream/taskmanager/supervisor/slot_table.py": ("tests/taskmanager/test_slot_table.py",),
    "resourcemanager/millstream/resourcemanager/slot_manager.py": (
        "tests/resourcemanager/test_slot_manager.py",
        "tests/resourcemanager/test_slot_manager_stateful.py",
    ),
    "client/millstream/datastream/connectors/split_queue.py": ("tests/client/connectors/test_split_queue.py",),
    "core/millstream/core/snapshot/tables/redistribution.py": ("tests/core/snapshot/test_redistribution.py",),
    "core/millstream/core/services/liveness.py": ("tests/core/test_liveness.py",),
    "core/millstream/core/services/lease.py": ("tests/core/test_lease.py",),
}
