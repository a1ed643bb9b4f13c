"""Options of tasks: restarts, memory and the exchange of records."""

from __future__ import annotations

from millstream.core.settings.options.model import Option, OptionType

_T = OptionType
ROWS = (
    Option(
        "restart-strategy.type",
        _T.STRING,
        "",
        "The restart strategy of failed jobs: `none`, `fixed-delay`, `failure-rate` or `exponential-delay`; empty: "
        "exponential-delay with periodic checkpoints, otherwise none.",
    ),
    Option(
        "restart-strategy.same-error-limit",
        _T.INT,
        3,
        "The job fails when the same error (class, place in code, operator) has occurred this many times in a row at "
        "the same record, or a worker that processed records has exited this many times without progress, regardless "
        "of the strategy; 0 or -1: no limit. Outages do not count: errors without a record, errors of sinks, and all "
        "errors of disks and connections.",
    ),
    Option("restart-strategy.fixed-delay.attempts", _T.INT, 1, "The number of restarts before the job fails."),
    Option("restart-strategy.fixed-delay.delay", _T.DURATION, 1.0, "The time between a failure and the restart."),
    Option(
        "restart-strategy.failure-rate.max-failures-per-interval",
        _T.INT,
        1,
        "The number of failures within an interval that the job tolerates before it fails.",
    ),
    Option(
        "restart-strategy.failure-rate.failure-rate-interval",
        _T.DURATION,
        60.0,
        "The interval in which failures are counted.",
    ),
    Option("restart-strategy.failure-rate.delay", _T.DURATION, 1.0, "The time between a failure and the restart."),
    Option(
        "restart-strategy.exponential-delay.initial-backoff", _T.DURATION, 1.0, "The delay before the first restart."
    ),
    Option("restart-strategy.exponential-delay.max-backoff", _T.DURATION, 60.0, "The maximum delay before a restart."),
    Option(
        "restart-strategy.exponential-delay.backoff-multiplier",
        _T.FLOAT,
        1.5,
        "The factor by which the delay is multiplied at each restart.",
    ),
    Option(
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        _T.DURATION,
        3600.0,
        "After running this long without a failure, the delay is reset to the initial one.",
    ),
    Option(
        "restart-strategy.exponential-delay.jitter-factor",
        _T.FLOAT,
        0.1,
        "The fraction by which the delay is varied randomly, so that many jobs do not restart at the same time.",
    ),
    Option(
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        _T.INT,
        2**31 - 1,
        "The number of restarts without running for the reset threshold in between, before the job fails.",
    ),
    Option(
        "jobmanager.execution.attempts-history-size",
        _T.INT,
        16,
        "The number of earlier attempts of a subtask that are remembered, with their states, times and hosts.",
    ),
    Option("web.exception-history-size", _T.INT, 16, "The number of failures of a job that are remembered."),
    Option(
        "taskmanager.memory.task.heap.size",
        _T.MEMORY,
        0,
        "The maximum memory of the tasks of a slot, in addition to the slot worker itself; 0: no limit. A function "
        "that allocates more gets a MemoryError. Each process that it starts has a separate limit of the same size. "
        "Only on Linux, and not in-process. Flink: derived from the memory of the process.",
    ),
    # data plane
    Option("taskmanager.memory.segment-size", _T.MEMORY, 256 * 1024, "The size of a network buffer. Flink: 32 kb."),
    Option("taskmanager.network.memory.buffers-per-channel", _T.INT, 2, "Exclusive credit of each remote channel."),
    Option(
        "taskmanager.network.memory.floating-buffers-per-gate",
        _T.INT,
        8,
        "Credit that an input distributes among its channels by their backlog.",
    ),
    Option(
        "taskmanager.network.memory.output-buffers",
        _T.INT,
        8,
        "The number of full buffers of a task's output, besides two per channel, at which the task is backpressured.",
    ),
    Option(
        "taskmanager.network.memory.buffer-debloat.enabled",
        _T.BOOL,
        True,
        "Whether tasks limit their input in flight to what they can process in the target time. Flink: false.",
    ),
    Option(
        "taskmanager.network.memory.buffer-debloat.target",
        _T.DURATION,
        1.0,
        "The time in which a task should be able to process its input in flight.",
    ),
    Option(
        "taskmanager.network.memory.buffer-debloat.period",
        _T.DURATION,
        0.2,
        "The processing time between two measurements of a task's throughput.",
    ),
    Option(
        "taskmanager.network.memory.buffer-debloat.samples",
        _T.INT,
        5,
        "The number of measurements that are averaged. Flink: 20.",
    ),
    Option(
        "taskmanager.network.memory.buffer-debloat.threshold-percentages",
        _T.INT,
        25,
        "The change of the limit, in percent, at which senders are notified.",
    ),
    Option(
        "taskmanager.network.compression.codec",
        _T.ENUM,
        "NONE",
        "Compression of buffers between slot workers.",
        ("NONE", "LZ4"),
    ),
    Option(
        "taskmanager.network.connect.timeout", _T.DURATION, 30.0, "How long a slot worker tries to connect to a peer."
    ),
)
