"""Options of slots and of the parallelism of jobs."""

from __future__ import annotations

from millstream.core.settings.options.model import Option, OptionType

_T = OptionType
ADAPTIVE = "jobmanager.adaptive-scheduler"
AUTOSCALER = "job.autoscaler"
ROWS = (
    Option("taskmanager.numberOfTaskSlots", _T.INT, 1, "The number of slots of a task manager."),
    Option("slot.request.timeout", _T.DURATION, 300.0, "How long a job waits for its slots before it fails."),
    Option(
        "resourcemanager.provider",
        _T.ENUM,
        "standalone",
        "How task managers are provided: started externally, or as processes on this host on demand.",
        ("standalone", "process"),
    ),
    Option(
        "resourcemanager.taskmanager-timeout",
        _T.DURATION,
        30.0,
        "A task manager that the process provider started is stopped after being idle for this long.",
    ),
    Option(
        "slotmanager.number-of-slots.max", _T.INT, 64, "The maximum number of slots that the process provider starts."
    ),
    Option("parallelism.default", _T.INT, 1, "The parallelism of jobs that set none."),
    # the autoscaler
    Option(
        f"{AUTOSCALER}.enabled",
        _T.BOOL,
        False,
        "Whether the job manager adjusts the parallelism of the job's vertices to their utilisation.",
    ),
    Option(
        f"{AUTOSCALER}.scaling.enabled",
        _T.BOOL,
        True,
        "Whether the autoscaler rescales the job; otherwise it only records its decisions in the job's events.",
    ),
    Option(
        f"{AUTOSCALER}.metrics.window",
        _T.DURATION,
        900.0,
        "The time over which the job is measured for one decision.",
    ),
    Option(
        f"{AUTOSCALER}.stabilization.interval",
        _T.DURATION,
        300.0,
        "How long a job has to run undisturbed, after a start or a rescale, before it is measured.",
    ),
    Option(
        f"{AUTOSCALER}.utilization.target",
        _T.FLOAT,
        0.7,
        "The target utilisation of the tasks of a vertex.",
    ),
    Option(
        f"{AUTOSCALER}.utilization.min",
        _T.FLOAT,
        0.5,
        "Below this utilisation a vertex is scaled down. Default: 0.2 below the target; Flink: 0.3.",
    ),
    Option(
        f"{AUTOSCALER}.utilization.max",
        _T.FLOAT,
        0.9,
        "Above this utilisation a vertex is scaled up. Default: 0.2 above the target; Flink: 0.3.",
    ),
    Option(
        f"{AUTOSCALER}.scale-down.interval",
        _T.DURATION,
        3600.0,
        "The time after a start or a rescale in which a job is not scaled down.",
    ),
    Option(
        f"{AUTOSCALER}.scale-down.max-factor",
        _T.FLOAT,
        0.6,
        "The maximum fraction of its tasks that a vertex loses in one decision.",
    ),
    Option(
        f"{AUTOSCALER}.scale-up.max-factor",
        _T.FLOAT,
        100000.0,
        "The maximum number of additional tasks of a vertex in one decision, as a multiple of its current tasks.",
    ),
    Option(
        f"{AUTOSCALER}.catch-up.duration",
        _T.DURATION,
        1800.0,
        "The time in which the backlog of a source that reports one (the gauge pendingRecords) should be processed; "
        "0: backlogs are ignored.",
    ),
    Option(f"{AUTOSCALER}.vertex.min-parallelism", _T.INT, 1, "The minimum parallelism that the autoscaler chooses."),
    Option(f"{AUTOSCALER}.vertex.max-parallelism", _T.INT, 200, "The maximum parallelism that the autoscaler chooses."),
    Option(
        f"{AUTOSCALER}.vertex.exclude.ids",
        _T.STRING,
        "",
        "The ids of vertices that the autoscaler does not change, separated by semicolons.",
    ),
    # rescaling
    Option(
        "jobmanager.scheduler",
        _T.ENUM,
        "default",
        "The scheduler: a job waits for all its slots, or, with adaptive, runs in the available ones and is rescaled "
        "when that changes.",
        ("default", "adaptive"),
    ),
    Option(
        "scheduler-mode",
        _T.ENUM,
        "none",
        "reactive: a job uses all available slots, up to its max parallelism. Requires jobmanager.scheduler: adaptive.",
        ("none", "reactive"),
    ),
    Option(
        f"{ADAPTIVE}.submission.resource-wait-timeout",
        _T.DURATION,
        300.0,
        "How long an adaptive job waits for all slots that it can use, after its submission or a failure. Then it runs "
        "in the available ones, or fails if they are too few. Negative: it waits without a limit, which is the default "
        "of a reactive job.",
    ),
    Option(
        f"{ADAPTIVE}.submission.resource-stabilization-timeout",
        _T.DURATION,
        10.0,
        "How long an adaptive job that could start waits for more slots. The default of a reactive job is 0.",
    ),
    Option(
        f"{ADAPTIVE}.executing.cooldown-after-rescaling",
        _T.DURATION,
        30.0,
        "The time after a start or a rescale in which an adaptive job is not rescaled.",
    ),
    Option(
        f"{ADAPTIVE}.executing.resource-stabilization-timeout",
        _T.DURATION,
        60.0,
        "How long slots have to be available before a running adaptive job is rescaled to them; it is rescaled at once "
        "if they are all that it can use.",
    ),
    Option(
        f"{ADAPTIVE}.rescale-trigger.max-delay",
        _T.DURATION,
        0.0,
        "How long a rescale waits for the checkpoint that it triggers; then the job uses its last completed one. 0: as "
        "long as execution.checkpointing.timeout allows.",
    ),
    Option(
        f"{ADAPTIVE}.rescale-trigger.max-checkpoint-failures",
        _T.INT,
        2,
        "The number of failed checkpoints after which a rescale continues from the last completed one. A job without "
        "periodic checkpoints is not rescaled then.",
    ),
    Option(
        "pipeline.max-parallelism",
        _T.INT,
        -1,
        "The number of key groups; -1: derived from the parallelism, as in Flink.",
    ),
    Option(
        "execution.runtime-mode",
        _T.ENUM,
        "STREAMING",
        "How a job runs. BATCH: a bounded input is read completely before results are emitted, key by key and without "
        "checkpoints. AUTOMATIC: BATCH if all sources are bounded.",
        choices=("STREAMING", "BATCH", "AUTOMATIC"),
    ),
    Option(
        "execution.cache.dir",
        _T.STRING,
        "",
        "The folder for the records of cached streams between the jobs of a program, accessible to the program and all "
        "task managers. Empty: a temporary one, in local mode only.",
    ),
    Option(
        "pipeline.auto-watermark-interval",
        _T.DURATION,
        0.2,
        "The interval at which periodic watermark generators are called; 0: never.",
    ),
    Option(
        "pipeline.watermark-alignment.allow-unaligned-source-splits",
        _T.BOOL,
        False,
        "Whether a source of an alignment group may have splits that its reader cannot pause individually; otherwise "
        "the job fails when one is too far ahead.",
    ),
    Option(
        "pipeline.auto-generate-uids",
        _T.BOOL,
        True,
        "Whether operators may have no uid. Otherwise a job with such an operator is rejected, since a changed program "
        "may not be able to restore its state.",
    ),
    Option("pipeline.name", _T.STRING, "", "The job's name if the program sets none."),
    Option(
        "pipeline.object-reuse",
        _T.BOOL,
        False,
        "Whether records are passed on without copying. Otherwise mutable ones are copied where they have several "
        "consumers or their producer may keep them.",
    ),
    Option(
        "pipeline.operator-chaining.enabled",
        _T.BOOL,
        True,
        "Whether operators are chained into one task where possible.",
    ),
    Option(
        "task.cancellation.interval",
        _T.DURATION,
        1.0,
        "How often a user function that does not return from a cancelled task is interrupted. Flink: 30 s.",
    ),
    Option(
        "task.cancellation.timeout",
        _T.DURATION,
        30.0,
        "The time after which a slot worker whose task is still not cancelled is killed. Flink: 180 s, and the whole "
        "task manager.",
    ),
    Option(
        "worker.start.timeout", _T.DURATION, 60.0, "The maximum time from the start of a slot worker until it is ready."
    ),
)
