"""Options of tasks: restarts, memory and the exchange of records."""

from __future__ import annotations

from millstream.core.settings.options.model import Rows

ROWS = Rows()
RESTART_TYPE = ROWS.text(
    "restart-strategy.type",
    "",
    "The restart strategy of failed jobs: `none`, `fixed-delay`, `failure-rate` or `exponential-delay`; empty: "
    "exponential-delay with periodic checkpoints, otherwise none.",
)
RESTART_SAME_ERROR_LIMIT = ROWS.integer(
    "restart-strategy.same-error-limit",
    3,
    "The job fails when the same error (class, place in code, operator) has occurred this many times in a row at "
    "the same record, or a worker that processed records has exited this many times without progress, regardless "
    "of the strategy; 0 or -1: no limit. Outages do not count: errors without a record, errors of sinks, and all "
    "errors of disks and connections.",
)
RESTART_FIXED_DELAY_ATTEMPTS = ROWS.integer(
    "restart-strategy.fixed-delay.attempts", 1, "The number of restarts before the job fails."
)
RESTART_FIXED_DELAY_DELAY = ROWS.duration(
    "restart-strategy.fixed-delay.delay", 1.0, "The time between a failure and the restart."
)
RESTART_FAILURE_RATE_MAX_FAILURES_PER_INTERVAL = ROWS.integer(
    "restart-strategy.failure-rate.max-failures-per-interval",
    1,
    "The number of failures within an interval that the job tolerates before it fails.",
)
RESTART_FAILURE_RATE_FAILURE_RATE_INTERVAL = ROWS.duration(
    "restart-strategy.failure-rate.failure-rate-interval", 60.0, "The interval in which failures are counted."
)
RESTART_FAILURE_RATE_DELAY = ROWS.duration(
    "restart-strategy.failure-rate.delay", 1.0, "The time between a failure and the restart."
)
RESTART_EXPONENTIAL_DELAY_INITIAL_BACKOFF = ROWS.duration(
    "restart-strategy.exponential-delay.initial-backoff", 1.0, "The delay before the first restart."
)
RESTART_EXPONENTIAL_DELAY_MAX_BACKOFF = ROWS.duration(
    "restart-strategy.exponential-delay.max-backoff", 60.0, "The maximum delay before a restart."
)
RESTART_EXPONENTIAL_DELAY_BACKOFF_MULTIPLIER = ROWS.number(
    "restart-strategy.exponential-delay.backoff-multiplier",
    1.5,
    "The factor by which the delay is multiplied at each restart.",
)
RESTART_EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD = ROWS.duration(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    3600.0,
    "After running this long without a failure, the delay is reset to the initial one.",
)
RESTART_EXPONENTIAL_DELAY_JITTER_FACTOR = ROWS.number(
    "restart-strategy.exponential-delay.jitter-factor",
    0.1,
    "The fraction by which the delay is varied randomly, so that many jobs do not restart at the same time.",
)
RESTART_EXPONENTIAL_DELAY_ATTEMPTS_BEFORE_RESET_BACKOFF = ROWS.integer(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    2**31 - 1,
    "The number of restarts without running for the reset threshold in between, before the job fails.",
)
JOBMANAGER_EXECUTION_ATTEMPTS_HISTORY_SIZE = ROWS.integer(
    "jobmanager.execution.attempts-history-size",
    16,
    "The number of earlier attempts of a subtask that are remembered, with their states, times and hosts.",
)
WEB_EXCEPTION_HISTORY_SIZE = ROWS.integer(
    "web.exception-history-size", 16, "The number of failures of a job that are remembered."
)
TASK_HEAP_SIZE = ROWS.memory(
    "taskmanager.memory.task.heap.size",
    0,
    "The maximum memory of the tasks of a slot, in addition to the slot worker itself; 0: no limit. A function "
    "that allocates more gets a MemoryError. Each process that it starts has a separate limit of the same size. "
    "Only on Linux, and not in-process. Flink: derived from the memory of the process.",
)

# data plane
TASKMANAGER_MEMORY_SEGMENT_SIZE = ROWS.memory(
    "taskmanager.memory.segment-size", 256 * 1024, "The size of a network buffer. Flink: 32 kb."
)
NETWORK_BUFFERS_PER_CHANNEL = ROWS.integer(
    "taskmanager.network.memory.buffers-per-channel", 2, "Exclusive credit of each remote channel."
)
NETWORK_FLOATING_BUFFERS_PER_GATE = ROWS.integer(
    "taskmanager.network.memory.floating-buffers-per-gate",
    8,
    "Credit that an input distributes among its channels by their backlog.",
)
NETWORK_OUTPUT_BUFFERS = ROWS.integer(
    "taskmanager.network.memory.output-buffers",
    8,
    "The number of full buffers of a task's output, besides two per channel, at which the task is backpressured.",
)
BUFFER_DEBLOAT_ENABLED = ROWS.boolean(
    "taskmanager.network.memory.buffer-debloat.enabled",
    True,
    "Whether tasks limit their input in flight to what they can process in the target time. Flink: false.",
)
BUFFER_DEBLOAT_TARGET = ROWS.duration(
    "taskmanager.network.memory.buffer-debloat.target",
    1.0,
    "The time in which a task should be able to process its input in flight.",
)
BUFFER_DEBLOAT_PERIOD = ROWS.duration(
    "taskmanager.network.memory.buffer-debloat.period",
    0.2,
    "The processing time between two measurements of a task's throughput.",
)
BUFFER_DEBLOAT_SAMPLES = ROWS.integer(
    "taskmanager.network.memory.buffer-debloat.samples", 5, "The number of measurements that are averaged. Flink: 20."
)
BUFFER_DEBLOAT_THRESHOLD_PERCENTAGES = ROWS.integer(
    "taskmanager.network.memory.buffer-debloat.threshold-percentages",
    25,
    "The change of the limit, in percent, at which senders are notified.",
)
NETWORK_COMPRESSION_CODEC = ROWS.choice(
    "taskmanager.network.compression.codec", "NONE", "Compression of buffers between slot workers.", ("NONE", "LZ4")
)
NETWORK_CONNECT_TIMEOUT = ROWS.duration(
    "taskmanager.network.connect.timeout", 30.0, "How long a slot worker tries to connect to a peer."
)
