"""Options of slots and of the parallelism of jobs."""

from __future__ import annotations

from millstream.core.settings.options.model import Rows

ADAPTIVE = "jobmanager.adaptive-scheduler"
AUTOSCALER = "job.autoscaler"
ROWS = Rows()
TASKMANAGER_NUMBER_OF_TASK_SLOTS = ROWS.integer(
    "taskmanager.numberOfTaskSlots", 1, "The number of slots of a task manager."
)
SLOT_REQUEST_TIMEOUT = ROWS.duration(
    "slot.request.timeout", 300.0, "How long a job waits for its slots before it fails."
)
RESOURCEMANAGER_PROVIDER = ROWS.choice(
    "resourcemanager.provider",
    "standalone",
    "How task managers are provided: started externally, or as processes on this host on demand.",
    ("standalone", "process"),
)
RESOURCEMANAGER_TASKMANAGER_TIMEOUT = ROWS.duration(
    "resourcemanager.taskmanager-timeout",
    30.0,
    "A task manager that the process provider started is stopped after being idle for this long.",
)
SLOTMANAGER_NUMBER_OF_SLOTS_MAX = ROWS.integer(
    "slotmanager.number-of-slots.max", 64, "The maximum number of slots that the process provider starts."
)
PARALLELISM_DEFAULT = ROWS.integer("parallelism.default", 1, "The parallelism of jobs that set none.")

# the autoscaler
AUTOSCALER_ENABLED = ROWS.boolean(
    f"{AUTOSCALER}.enabled",
    False,
    "Whether the job manager adjusts the parallelism of the job's vertices to their utilisation.",
)
AUTOSCALER_SCALING_ENABLED = ROWS.boolean(
    f"{AUTOSCALER}.scaling.enabled",
    True,
    "Whether the autoscaler rescales the job; otherwise it only records its decisions in the job's events.",
)
AUTOSCALER_METRICS_WINDOW = ROWS.duration(
    f"{AUTOSCALER}.metrics.window", 900.0, "The time over which the job is measured for one decision."
)
AUTOSCALER_STABILIZATION_INTERVAL = ROWS.duration(
    f"{AUTOSCALER}.stabilization.interval",
    300.0,
    "How long a job has to run undisturbed, after a start or a rescale, before it is measured.",
)
AUTOSCALER_UTILIZATION_TARGET = ROWS.number(
    f"{AUTOSCALER}.utilization.target", 0.7, "The target utilisation of the tasks of a vertex."
)
AUTOSCALER_UTILIZATION_MIN = ROWS.number(
    f"{AUTOSCALER}.utilization.min",
    0.5,
    "Below this utilisation a vertex is scaled down. Default: 0.2 below the target; Flink: 0.3.",
)
AUTOSCALER_UTILIZATION_MAX = ROWS.number(
    f"{AUTOSCALER}.utilization.max",
    0.9,
    "Above this utilisation a vertex is scaled up. Default: 0.2 above the target; Flink: 0.3.",
)
AUTOSCALER_SCALE_DOWN_INTERVAL = ROWS.duration(
    f"{AUTOSCALER}.scale-down.interval",
    3600.0,
    "The time after a start or a rescale in which a job is not scaled down.",
)
AUTOSCALER_SCALE_DOWN_MAX_FACTOR = ROWS.number(
    f"{AUTOSCALER}.scale-down.max-factor", 0.6, "The maximum fraction of its tasks that a vertex loses in one decision."
)
AUTOSCALER_SCALE_UP_MAX_FACTOR = ROWS.number(
    f"{AUTOSCALER}.scale-up.max-factor",
    100000.0,
    "The maximum number of additional tasks of a vertex in one decision, as a multiple of its current tasks.",
)
AUTOSCALER_CATCH_UP_DURATION = ROWS.duration(
    f"{AUTOSCALER}.catch-up.duration",
    1800.0,
    "The time in which the backlog of a source that reports one (the gauge pendingRecords) should be processed; "
    "0: backlogs are ignored.",
)
AUTOSCALER_VERTEX_MIN_PARALLELISM = ROWS.integer(
    f"{AUTOSCALER}.vertex.min-parallelism", 1, "The minimum parallelism that the autoscaler chooses."
)
AUTOSCALER_VERTEX_MAX_PARALLELISM = ROWS.integer(
    f"{AUTOSCALER}.vertex.max-parallelism", 200, "The maximum parallelism that the autoscaler chooses."
)
AUTOSCALER_VERTEX_EXCLUDE_IDS = ROWS.text(
    f"{AUTOSCALER}.vertex.exclude.ids",
    "",
    "The ids of vertices that the autoscaler does not change, separated by semicolons.",
)

# rescaling
JOBMANAGER_SCHEDULER = ROWS.choice(
    "jobmanager.scheduler",
    "default",
    "The scheduler: a job waits for all its slots, or, with adaptive, runs in the available ones and is rescaled "
    "when that changes.",
    ("default", "adaptive"),
)
SCHEDULER_MODE = ROWS.choice(
    "scheduler-mode",
    "none",
    "reactive: a job uses all available slots, up to its max parallelism. Requires jobmanager.scheduler: adaptive.",
    ("none", "reactive"),
)
ADAPTIVE_SUBMISSION_RESOURCE_WAIT_TIMEOUT = ROWS.duration(
    f"{ADAPTIVE}.submission.resource-wait-timeout",
    300.0,
    "How long an adaptive job waits for all slots that it can use, after its submission or a failure. Then it runs "
    "in the available ones, or fails if they are too few. Negative: it waits without a limit, which is the default "
    "of a reactive job.",
)
ADAPTIVE_SUBMISSION_RESOURCE_STABILIZATION_TIMEOUT = ROWS.duration(
    f"{ADAPTIVE}.submission.resource-stabilization-timeout",
    10.0,
    "How long an adaptive job that could start waits for more slots. The default of a reactive job is 0.",
)
ADAPTIVE_EXECUTING_COOLDOWN_AFTER_RESCALING = ROWS.duration(
    f"{ADAPTIVE}.executing.cooldown-after-rescaling",
    30.0,
    "The time after a start or a rescale in which an adaptive job is not rescaled.",
)
ADAPTIVE_EXECUTING_RESOURCE_STABILIZATION_TIMEOUT = ROWS.duration(
    f"{ADAPTIVE}.executing.resource-stabilization-timeout",
    60.0,
    "How long slots have to be available before a running adaptive job is rescaled to them; it is rescaled at once "
    "if they are all that it can use.",
)
ADAPTIVE_RESCALE_TRIGGER_MAX_DELAY = ROWS.duration(
    f"{ADAPTIVE}.rescale-trigger.max-delay",
    0.0,
    "How long a rescale waits for the checkpoint that it triggers; then the job uses its last completed one. 0: as "
    "long as execution.checkpointing.timeout allows.",
)
ADAPTIVE_RESCALE_TRIGGER_MAX_CHECKPOINT_FAILURES = ROWS.integer(
    f"{ADAPTIVE}.rescale-trigger.max-checkpoint-failures",
    2,
    "The number of failed checkpoints after which a rescale continues from the last completed one. A job without "
    "periodic checkpoints is not rescaled then.",
)
PIPELINE_MAX_PARALLELISM = ROWS.integer(
    "pipeline.max-parallelism", -1, "The number of key groups; -1: derived from the parallelism, as in Flink."
)
EXECUTION_RUNTIME_MODE = ROWS.choice(
    "execution.runtime-mode",
    "STREAMING",
    "How a job runs. BATCH: a bounded input is read completely before results are emitted, key by key and without "
    "checkpoints. AUTOMATIC: BATCH if all sources are bounded.",
    ("STREAMING", "BATCH", "AUTOMATIC"),
)
EXECUTION_CACHE_DIR = ROWS.text(
    "execution.cache.dir",
    "",
    "The folder for the records of cached streams between the jobs of a program, accessible to the program and all "
    "task managers. Empty: a temporary one, in local mode only.",
)
PIPELINE_AUTO_WATERMARK_INTERVAL = ROWS.duration(
    "pipeline.auto-watermark-interval", 0.2, "The interval at which periodic watermark generators are called; 0: never."
)
PIPELINE_WATERMARK_ALIGNMENT_ALLOW_UNALIGNED_SOURCE_SPLITS = ROWS.boolean(
    "pipeline.watermark-alignment.allow-unaligned-source-splits",
    False,
    "Whether a source of an alignment group may have splits that its reader cannot pause individually; otherwise "
    "the job fails when one is too far ahead.",
)
PIPELINE_AUTO_GENERATE_UIDS = ROWS.boolean(
    "pipeline.auto-generate-uids",
    True,
    "Whether operators may have no uid. Otherwise a job with such an operator is rejected, since a changed program "
    "may not be able to restore its state.",
)
PIPELINE_NAME = ROWS.text("pipeline.name", "", "The job's name if the program sets none.")
PIPELINE_OBJECT_REUSE = ROWS.boolean(
    "pipeline.object-reuse",
    False,
    "Whether records are passed on without copying. Otherwise mutable ones are copied where they have several "
    "consumers or their producer may keep them.",
)
PIPELINE_OPERATOR_CHAINING_ENABLED = ROWS.boolean(
    "pipeline.operator-chaining.enabled", True, "Whether operators are chained into one task where possible."
)
TASK_CANCELLATION_INTERVAL = ROWS.duration(
    "task.cancellation.interval",
    1.0,
    "How often a user function that does not return from a cancelled task is interrupted. Flink: 30 s.",
)
TASK_CANCELLATION_TIMEOUT = ROWS.duration(
    "task.cancellation.timeout",
    30.0,
    "The time after which a slot worker whose task is still not cancelled is killed. Flink: 180 s, and the whole "
    "task manager.",
)
WORKER_START_TIMEOUT = ROWS.duration(
    "worker.start.timeout", 60.0, "The maximum time from the start of a slot worker until it is ready."
)
