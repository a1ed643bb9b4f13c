"""Options of the execution of a job, and of its checkpoints."""

from __future__ import annotations

from millstream.core.settings.options.model import Option, OptionType

_T = OptionType
ROWS = (
    Option(
        "execution.buffer-timeout.interval",
        _T.DURATION,
        0.010,
        "The maximum time that a record waits for its buffer to fill; 0 flushes after every batch. Flink: 100 ms.",
    ),
    Option("execution.batch.max-rows", _T.INT, 2048, "The maximum number of rows that a source emits in one batch."),
    Option(
        "execution.batch.max-column-rows",
        _T.INT,
        65536,
        "The maximum number of rows of a batch of sources of Arrow batches.",
    ),
    Option(
        "execution.local.in-process",
        _T.BOOL,
        False,
        "Local mode runs the tasks in the client's own process, for debuggers.",
    ),
    Option(
        "execution.local.log-file",
        _T.STRING,
        "",
        "The directory to which the services and workers of `python job.py` log, at `logging.level`. Empty: only errors"
        " are logged, to standard error or by the program's own logging.",
    ),
    Option("execution.attached", _T.BOOL, True, "Whether the submission waits until the job has ended."),
    Option(
        "execution.target",
        _T.ENUM,
        "local",
        "Where the jobs of a program run: embedded in its own process, or on a cluster.",
        ("local", "remote"),
    ),
    # checkpoints
    Option(
        "execution.checkpointing.interval",
        _T.DURATION,
        0.0,
        "The interval of periodic checkpoints; 0 disables them, and then a failed job does not restart by default.",
    ),
    Option(
        "execution.checkpointing.mode",
        _T.ENUM,
        "EXACTLY_ONCE",
        "The guarantee for state: each record takes effect exactly once, or at least once with barriers that never "
        "block.",
        ("EXACTLY_ONCE", "AT_LEAST_ONCE"),
    ),
    Option(
        "execution.checkpointing.timeout", _T.DURATION, 600.0, "A checkpoint that takes longer than this is aborted."
    ),
    Option(
        "execution.checkpointing.min-pause",
        _T.DURATION,
        0.0,
        "The minimum time between the end of one checkpoint and the start of the next.",
    ),
    Option(
        "execution.checkpointing.max-concurrent-checkpoints",
        _T.INT,
        1,
        "The maximum number of checkpoints in progress at the same time.",
    ),
    Option(
        "execution.checkpointing.tolerable-failed-checkpoints",
        _T.INT,
        0,
        "The number of consecutive checkpoint failures that the job tolerates before it fails.",
    ),
    Option("execution.checkpointing.num-retained", _T.INT, 1, "The number of completed checkpoints that are retained."),
    Option(
        "execution.checkpointing.externalized-checkpoint-retention",
        _T.ENUM,
        "DELETE_ON_CANCELLATION",
        "What happens to the last checkpoints of a job that fails or is cancelled: `DELETE_ON_CANCELLATION` keeps them "
        "when the job fails, `RETAIN_ON_CANCELLATION` in both cases, `NO_EXTERNALIZED_CHECKPOINTS` in neither. Those "
        "of a job that finishes are deleted.",
        ("DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"),
    ),
    Option(
        "execution.checkpointing.incremental",
        _T.BOOL,
        False,
        "Checkpoints refer to the files of earlier ones for state that has not changed.",
    ),
    Option(
        "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
        _T.BOOL,
        True,
        "Whether checkpoints continue after some tasks of the job have finished, and a bounded job ends with a final "
        "checkpoint.",
    ),
    Option(
        "execution.checkpointing.storage",
        _T.STRING,
        "",
        "Where checkpoints are kept: `jobmanager` (in its memory) or `filesystem`; empty: in files when a directory is "
        "set.",
    ),
    Option(
        "execution.checkpointing.dir",
        _T.STRING,
        "",
        "The directory or URI for checkpoints, accessible to all services: a path, `s3://...`, `hdfs://...`, `gs://...`.",
    ),
    Option(
        "execution.checkpointing.data-inline-threshold",
        _T.MEMORY,
        20 * 1024,
        "State that is smaller than this is stored in a checkpoint's metadata, not in a separate file. Savepoints have "
        "files only.",
    ),
    Option(
        "execution.checkpointing.write-buffer-size",
        _T.MEMORY,
        4 * 1024,
        "The amount of data that is buffered before it is written to a file of a checkpoint.",
    ),
    Option(
        "execution.checkpointing.jobmanager-storage.max-state-size",
        _T.MEMORY,
        5 * 1024 * 1024,
        "With checkpoints in the job manager's memory: the maximum size of each state of a subtask.",
    ),
    Option(
        "execution.checkpointing.savepoint-dir",
        _T.STRING,
        "",
        "The default directory or URI for savepoints.",
    ),
    Option(
        "execution.checkpointing.unaligned.enabled",
        _T.BOOL,
        False,
        "Barriers overtake records under backpressure: checkpoints stay short, and include the records in flight.",
    ),
    Option(
        "execution.checkpointing.aligned-checkpoint-timeout",
        _T.DURATION,
        0.0,
        "With unaligned checkpoints: each begins aligned, and becomes unaligned after this time; 0: at once.",
    ),
    Option(
        "execution.checkpointing.local-backup.enabled",
        _T.BOOL,
        False,
        "Tasks keep a copy of their last checkpoint's files on their own host.",
    ),
    Option(
        "execution.checkpointing.local-backup.dirs",
        _T.STRING,
        "",
        "The directory of those copies, or several separated by commas, set for the task manager; empty: below its "
        "working directory.",
    ),
    Option(
        "execution.state-recovery.path", _T.STRING, "", "The savepoint or retained checkpoint that a job starts from."
    ),
    Option(
        "execution.state-recovery.claim-mode",
        _T.ENUM,
        "NO_CLAIM",
        "Whether the job takes ownership of the snapshot that it starts from, and later deletes it.",
        ("NO_CLAIM", "CLAIM"),
    ),
    Option(
        "execution.state-recovery.ignore-unclaimed-state",
        _T.BOOL,
        False,
        "Whether state in that snapshot that belongs to no operator of the job is dropped; otherwise it is an error.",
    ),
    Option(
        "execution.state-recovery.from-local",
        _T.BOOL,
        False,
        "Tasks that restart on the same host read the local copies of their checkpoint, if these are intact.",
    ),
    Option("state.backend.type", _T.ENUM, "hashmap", "Where tasks keep their state: on the heap.", ("hashmap",)),
)
