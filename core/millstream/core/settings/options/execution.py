"""Options of the execution of a job, and of its checkpoints."""

from __future__ import annotations

from millstream.core.settings.options.model import Rows

ROWS = Rows()
EXECUTION_BUFFER_TIMEOUT_INTERVAL = ROWS.duration(
    "execution.buffer-timeout.interval",
    0.010,
    "The maximum time that a record waits for its buffer to fill; 0 flushes after every batch. Flink: 100 ms.",
)
EXECUTION_BATCH_MAX_ROWS = ROWS.integer(
    "execution.batch.max-rows", 2048, "The maximum number of rows that a source emits in one batch."
)
EXECUTION_BATCH_MAX_COLUMN_ROWS = ROWS.integer(
    "execution.batch.max-column-rows", 65536, "The maximum number of rows of a batch of sources of Arrow batches."
)
EXECUTION_LOCAL_IN_PROCESS = ROWS.boolean(
    "execution.local.in-process", False, "Local mode runs the tasks in the client's own process, for debuggers."
)
EXECUTION_LOCAL_LOG_FILE = ROWS.text(
    "execution.local.log-file",
    "",
    "The directory to which the services and workers of `python job.py` log, at `logging.level`. Empty: only errors"
    " are logged, to standard error or by the program's own logging.",
)
EXECUTION_ATTACHED = ROWS.boolean("execution.attached", True, "Whether the submission waits until the job has ended.")
EXECUTION_TARGET = ROWS.choice(
    "execution.target",
    "local",
    "Where the jobs of a program run: embedded in its own process, or on a cluster.",
    ("local", "remote"),
)

# checkpoints
CHECKPOINTING_INTERVAL = ROWS.duration(
    "execution.checkpointing.interval",
    0.0,
    "The interval of periodic checkpoints; 0 disables them, and then a failed job does not restart by default.",
)
CHECKPOINTING_MODE = ROWS.choice(
    "execution.checkpointing.mode",
    "EXACTLY_ONCE",
    "The guarantee for state: each record takes effect exactly once, or at least once with barriers that never block.",
    ("EXACTLY_ONCE", "AT_LEAST_ONCE"),
)
CHECKPOINTING_TIMEOUT = ROWS.duration(
    "execution.checkpointing.timeout", 600.0, "A checkpoint that takes longer than this is aborted."
)
CHECKPOINTING_MIN_PAUSE = ROWS.duration(
    "execution.checkpointing.min-pause",
    0.0,
    "The minimum time between the end of one checkpoint and the start of the next.",
)
CHECKPOINTING_MAX_CONCURRENT_CHECKPOINTS = ROWS.integer(
    "execution.checkpointing.max-concurrent-checkpoints",
    1,
    "The maximum number of checkpoints in progress at the same time.",
)
CHECKPOINTING_TOLERABLE_FAILED_CHECKPOINTS = ROWS.integer(
    "execution.checkpointing.tolerable-failed-checkpoints",
    0,
    "The number of consecutive checkpoint failures that the job tolerates before it fails.",
)
CHECKPOINTING_NUM_RETAINED = ROWS.integer(
    "execution.checkpointing.num-retained", 1, "The number of completed checkpoints that are retained."
)
CHECKPOINTING_EXTERNALIZED_CHECKPOINT_RETENTION = ROWS.choice(
    "execution.checkpointing.externalized-checkpoint-retention",
    "DELETE_ON_CANCELLATION",
    "What happens to the last checkpoints of a job that fails or is cancelled: `DELETE_ON_CANCELLATION` keeps them "
    "when the job fails, `RETAIN_ON_CANCELLATION` in both cases, `NO_EXTERNALIZED_CHECKPOINTS` in neither. Those "
    "of a job that finishes are deleted.",
    ("DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"),
)
CHECKPOINTING_INCREMENTAL = ROWS.boolean(
    "execution.checkpointing.incremental",
    False,
    "Checkpoints refer to the files of earlier ones for state that has not changed.",
)
CHECKPOINTING_CHECKPOINTS_AFTER_TASKS_FINISH_ENABLED = ROWS.boolean(
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
    True,
    "Whether checkpoints continue after some tasks of the job have finished, and a bounded job ends with a final "
    "checkpoint.",
)
CHECKPOINTING_STORAGE = ROWS.text(
    "execution.checkpointing.storage",
    "",
    "Where checkpoints are kept: `jobmanager` (in its memory) or `filesystem`; empty: in files when a directory is "
    "set.",
)
CHECKPOINTING_DIR = ROWS.text(
    "execution.checkpointing.dir",
    "",
    "The directory or URI for checkpoints, accessible to all services: a path, `s3://...`, `hdfs://...`, `gs://...`.",
)
CHECKPOINTING_DATA_INLINE_THRESHOLD = ROWS.memory(
    "execution.checkpointing.data-inline-threshold",
    20 * 1024,
    "State that is smaller than this is stored in a checkpoint's metadata, not in a separate file. Savepoints have "
    "files only.",
)
CHECKPOINTING_WRITE_BUFFER_SIZE = ROWS.memory(
    "execution.checkpointing.write-buffer-size",
    4 * 1024,
    "The amount of data that is buffered before it is written to a file of a checkpoint.",
)
CHECKPOINTING_JOBMANAGER_STORAGE_MAX_STATE_SIZE = ROWS.memory(
    "execution.checkpointing.jobmanager-storage.max-state-size",
    5 * 1024 * 1024,
    "With checkpoints in the job manager's memory: the maximum size of each state of a subtask.",
)
CHECKPOINTING_SAVEPOINT_DIR = ROWS.text(
    "execution.checkpointing.savepoint-dir", "", "The default directory or URI for savepoints."
)
CHECKPOINTING_UNALIGNED_ENABLED = ROWS.boolean(
    "execution.checkpointing.unaligned.enabled",
    False,
    "Barriers overtake records under backpressure: checkpoints stay short, and include the records in flight.",
)
CHECKPOINTING_ALIGNED_CHECKPOINT_TIMEOUT = ROWS.duration(
    "execution.checkpointing.aligned-checkpoint-timeout",
    0.0,
    "With unaligned checkpoints: each begins aligned, and becomes unaligned after this time; 0: at once.",
)
CHECKPOINTING_LOCAL_BACKUP_ENABLED = ROWS.boolean(
    "execution.checkpointing.local-backup.enabled",
    False,
    "Tasks keep a copy of their last checkpoint's files on their own host.",
)
CHECKPOINTING_LOCAL_BACKUP_DIRS = ROWS.text(
    "execution.checkpointing.local-backup.dirs",
    "",
    "The directory of those copies, or several separated by commas, set for the task manager; empty: below its "
    "working directory.",
)
STATE_RECOVERY_PATH = ROWS.text(
    "execution.state-recovery.path", "", "The savepoint or retained checkpoint that a job starts from."
)
STATE_RECOVERY_CLAIM_MODE = ROWS.choice(
    "execution.state-recovery.claim-mode",
    "NO_CLAIM",
    "Whether the job takes ownership of the snapshot that it starts from, and later deletes it.",
    ("NO_CLAIM", "CLAIM"),
)
STATE_RECOVERY_IGNORE_UNCLAIMED_STATE = ROWS.boolean(
    "execution.state-recovery.ignore-unclaimed-state",
    False,
    "Whether state in that snapshot that belongs to no operator of the job is dropped; otherwise it is an error.",
)
STATE_RECOVERY_FROM_LOCAL = ROWS.boolean(
    "execution.state-recovery.from-local",
    False,
    "Tasks that restart on the same host read the local copies of their checkpoint, if these are intact.",
)
STATE_BACKEND_TYPE = ROWS.choice(
    "state.backend.type", "hashmap", "Where tasks keep their state: on the heap.", ("hashmap",)
)
