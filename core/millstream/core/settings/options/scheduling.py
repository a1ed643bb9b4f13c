"""Options of slots and of the parallelism of jobs."""

from __future__ import annotations

from millstream.core.settings.options.model import Option, OptionType

_T = OptionType
ADAPTIVE = "jobmanager.adaptive-scheduler"
AUTOSCALER = "job.autoscaler"
ROWS = (
    Option("taskmanager.numberOfTaskSlots", _T.INT, 1, "How many slots a task manager offers."),
    Option("slot.request.timeout", _T.DURATION, 300.0, "How long a job waits for its slots before it fails."),
    Option(
        "resourcemanager.provider",
        _T.ENUM,
        "standalone",
        "Where task managers come from: they are started by someone else, or as processes on this host on demand.",
        ("standalone", "process"),
    ),
    Option(
        "resourcemanager.taskmanager-timeout",
        _T.DURATION,
        30.0,
        "A task manager that the process provider started is stopped after being idle for this long.",
    ),
    Option("slotmanager.number-of-slots.max", _T.INT, 64, "The most slots that the process provider makes available."),
    Option("parallelism.default", _T.INT, 1, "The parallelism of jobs that set none."),
    # the autoscaler
    Option(
        f"{AUTOSCALER}.enabled",
        _T.BOOL,
        False,
        "Whether the job manager chooses the parallelism of the job's vertices by how busy they are.",
    ),
    Option(
        f"{AUTOSCALER}.scaling.enabled",
        _T.BOOL,
        True,
        "Whether the autoscaler rescales the job; else it only writes what it would do into the job's events.",
    ),
    Option(
        f"{AUTOSCALER}.metrics.window",
        _T.DURATION,
        900.0,
        "How long the job is measured for one decision.",
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
        "How busy the tasks of a vertex should be.",
    ),
    Option(
        f"{AUTOSCALER}.utilization.min",
        _T.FLOAT,
        0.5,
        "A vertex that is less busy gets fewer tasks. Unless it is set, 0.2 below the target; Flink: 0.3.",
    ),
    Option(
        f"{AUTOSCALER}.utilization.max",
        _T.FLOAT,
        0.9,
        "A vertex that is busier gets more tasks. Unless it is set, 0.2 above the target; Flink: 0.3.",
    ),
    Option(
        f"{AUTOSCALER}.scale-down.interval",
        _T.DURATION,
        3600.0,
        "How long after a start or a rescale a job is not scaled down.",
    ),
    Option(
        f"{AUTOSCALER}.scale-down.max-factor",
        _T.FLOAT,
        0.6,
        "The largest part of its tasks that a vertex loses in one decision.",
    ),
    Option(
        f"{AUTOSCALER}.scale-up.max-factor",
        _T.FLOAT,
        100000.0,
        "How many times its tasks a vertex gets in addition in one decision, at most.",
    ),
    Option(
        f"{AUTOSCALER}.catch-up.duration",
        _T.DURATION,
        1800.0,
        "In which time the backlog of a source, where it tells one (the gauge pendingRecords), should be worked off; "
        "0: backlogs do not count.",
    ),
    Option(f"{AUTOSCALER}.vertex.min-parallelism", _T.INT, 1, "The least that the autoscaler gives a vertex."),
    Option(f"{AUTOSCALER}.vertex.max-parallelism", _T.INT, 200, "The most that the autoscaler gives a vertex."),
    Option(
        f"{AUTOSCALER}.vertex.exclude.ids",
        _T.STRING,
        "",
        "The ids of vertices that the autoscaler leaves as they are, separated by semicolons.",
    ),
    # rescaling
    Option(
        "jobmanager.scheduler",
        _T.ENUM,
        "default",
        "How a job comes to its slots: it waits for all of them, or, adaptive, runs in those that there are and is "
        "rescaled when others come or go.",
        ("default", "adaptive"),
    ),
    Option(
        "scheduler-mode",
        _T.ENUM,
        "none",
        "reactive: a job uses all slots that there are, up to its max parallelism. Needs jobmanager.scheduler: "
        "adaptive.",
        ("none", "reactive"),
    ),
    Option(
        f"{ADAPTIVE}.submission.resource-wait-timeout",
        _T.DURATION,
        300.0,
        "How long an adaptive job waits for all slots that it can use, after its submission or a failure. Then it runs "
        "in those that there are, or fails if they are too few. Negative: it waits forever, as a reactive job does "
        "unless this is set.",
    ),
    Option(
        f"{ADAPTIVE}.submission.resource-stabilization-timeout",
        _T.DURATION,
        10.0,
        "How long an adaptive job that could start waits for more slots. 0 of a reactive job, unless this is set.",
    ),
    Option(
        f"{ADAPTIVE}.executing.cooldown-after-rescaling",
        _T.DURATION,
        30.0,
        "How long an adaptive job is not rescaled after it was started or rescaled.",
    ),
    Option(
        f"{ADAPTIVE}.executing.resource-stabilization-timeout",
        _T.DURATION,
        60.0,
        "How long slots have to be there before an adaptive job that runs is rescaled to them; at once, if they are "
        "all that it can use.",
    ),
    Option(
        f"{ADAPTIVE}.rescale-trigger.max-delay",
        _T.DURATION,
        0.0,
        "How long a rescale waits for the checkpoint that it takes; then the job uses its last one. 0: for as "
        "long as execution.checkpointing.timeout allows.",
    ),
    Option(
        f"{ADAPTIVE}.rescale-trigger.max-checkpoint-failures",
        _T.INT,
        2,
        "After how many failed checkpoints a rescale continues from the last one that completed. A job that takes none "
        "by itself is then not rescaled.",
    ),
    Option(
        "pipeline.max-parallelism",
        _T.INT,
        -1,
        "The number of key groups; -1: derived from the parallelism as Flink does.",
    ),
    Option(
        "execution.runtime-mode",
        _T.ENUM,
        "STREAMING",
        "How a job runs. BATCH: all of a bounded input is read before there are results, key by key and without "
        "checkpoints. AUTOMATIC: BATCH if all sources are bounded.",
        choices=("STREAMING", "BATCH", "AUTOMATIC"),
    ),
    Option(
        "execution.cache.dir",
        _T.STRING,
        "",
        "Where the records of cached streams are kept between the jobs of a program: a folder that the program and all "
        "task managers reach. Empty: a temporary one, in local mode only.",
    ),
    Option(
        "pipeline.auto-watermark-interval",
        _T.DURATION,
        0.2,
        "How often watermark generators are asked how far event time has come; 0 never.",
    ),
    Option(
        "pipeline.watermark-alignment.allow-unaligned-source-splits",
        _T.BOOL,
        False,
        "Whether a source of an alignment group may have splits that its reader cannot pause one by one; else the job "
        "fails when one is too far ahead.",
    ),
    Option(
        "pipeline.auto-generate-uids",
        _T.BOOL,
        True,
        "Whether operators may do without a uid. Else a job with such an operator is refused, since a changed program "
        "may not find its state again.",
    ),
    Option("pipeline.name", _T.STRING, "", "The job's name when the program gives none."),
    Option(
        "pipeline.object-reuse",
        _T.BOOL,
        False,
        "Whether records are handed on as they are. Else those that can be changed are copied where they have several "
        "consumers or their producer may keep them.",
    ),
    Option(
        "pipeline.operator-chaining.enabled",
        _T.BOOL,
        True,
        "Whether operators are fused into one task where they can be.",
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
        "After this long a slot worker whose task does not cancel is killed. Flink: 180 s, and the whole task manager.",
    ),
    Option(
        "worker.start.timeout", _T.DURATION, 60.0, "How long a slot worker may take from its start until it is ready."
    ),
)
