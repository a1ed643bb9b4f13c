"""Options of tasks: when they start again, what they may take, and how they exchange records."""

from __future__ import annotations

from millstream.core.settings.options.model import Option, OptionType

_T = OptionType
ROWS = (
    Option(
        "restart-strategy.type",
        _T.STRING,
        "",
        "What happens when a job fails: `none`, `fixed-delay`, `failure-rate` or `exponential-delay`; empty: "
        "exponential-delay when checkpoints are taken, else none.",
    ),
    Option(
        "restart-strategy.same-error-limit",
        _T.INT,
        3,
        "The job fails when the same error (class, place in code, operator) has come this many times in a row at the "
        "same record, or a worker has ended by itself this many times without progress, whatever the strategy; "
        "0 or -1: never for that reason. Outages do not count: errors at no record, errors of sinks, and errors of "
        "disks and connections wherever they are raised.",
    ),
    Option("restart-strategy.fixed-delay.attempts", _T.INT, 1, "How often the job is restarted before it fails."),
    Option("restart-strategy.fixed-delay.delay", _T.DURATION, 1.0, "The time between a failure and the restart."),
    Option(
        "restart-strategy.failure-rate.max-failures-per-interval",
        _T.INT,
        1,
        "How many failures an interval may hold before the job fails.",
    ),
    Option(
        "restart-strategy.failure-rate.failure-rate-interval", _T.DURATION, 60.0, "The interval that failures count in."
    ),
    Option("restart-strategy.failure-rate.delay", _T.DURATION, 1.0, "The time between a failure and the restart."),
    Option(
        "restart-strategy.exponential-delay.initial-backoff", _T.DURATION, 1.0, "The delay before the first restart."
    ),
    Option("restart-strategy.exponential-delay.max-backoff", _T.DURATION, 60.0, "The longest delay before a restart."),
    Option(
        "restart-strategy.exponential-delay.backoff-multiplier",
        _T.FLOAT,
        1.5,
        "What the delay is multiplied with at each restart.",
    ),
    Option(
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        _T.DURATION,
        3600.0,
        "After running this long without a failure, the delay is the initial one again.",
    ),
    Option(
        "restart-strategy.exponential-delay.jitter-factor",
        _T.FLOAT,
        0.1,
        "The part of the delay by which it varies at random, so that many jobs do not restart at once.",
    ),
    Option(
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        _T.INT,
        2**31 - 1,
        "How often the job is restarted without running for the reset threshold in between, before it fails.",
    ),
    Option(
        "jobmanager.execution.attempts-history-size",
        _T.INT,
        16,
        "How many earlier attempts of a subtask are remembered: when each came to which state, and where it ran.",
    ),
    Option(
        "web.exception-history-size", _T.INT, 16, "How many failures that made a job restart or fail are remembered."
    ),
    Option(
        "taskmanager.memory.task.heap.size",
        _T.MEMORY,
        0,
        "The memory that the tasks of a slot may take, beside the slot worker itself; 0: no limit. A function that "
        "wants more gets a MemoryError. Each process that it starts has the same limit for itself. On Linux, and not "
        "in-process. Flink: derived from the memory of the process.",
    ),
    # data plane
    Option("taskmanager.memory.segment-size", _T.MEMORY, 256 * 1024, "The size of a network buffer. Flink: 32 kb."),
    Option("taskmanager.network.memory.buffers-per-channel", _T.INT, 2, "Exclusive credit of each remote channel."),
    Option(
        "taskmanager.network.memory.floating-buffers-per-gate",
        _T.INT,
        8,
        "Credit that an input shares among its channels by their backlog.",
    ),
    Option(
        "taskmanager.network.memory.output-buffers",
        _T.INT,
        8,
        "How many full buffers a task's output holds, beside two a channel, before the task waits.",
    ),
    Option(
        "taskmanager.network.memory.buffer-debloat.enabled",
        _T.BOOL,
        True,
        "Whether tasks limit the records on their way to them to what they process in the target time. Flink: false.",
    ),
    Option(
        "taskmanager.network.memory.buffer-debloat.target",
        _T.DURATION,
        1.0,
        "How long a task should need for the records that wait in front of it.",
    ),
    Option(
        "taskmanager.network.memory.buffer-debloat.period",
        _T.DURATION,
        0.2,
        "How long a task works from one measurement of its speed to the next.",
    ),
    Option(
        "taskmanager.network.memory.buffer-debloat.samples",
        _T.INT,
        5,
        "How many measurements the speed is the average of. Flink: 20.",
    ),
    Option(
        "taskmanager.network.memory.buffer-debloat.threshold-percentages",
        _T.INT,
        25,
        "By how much the limit has to change before senders are told.",
    ),
    Option(
        "taskmanager.network.compression.codec",
        _T.ENUM,
        "NONE",
        "Compression of buffers between slot workers.",
        ("NONE", "LZ4"),
    ),
    Option("taskmanager.network.connect.timeout", _T.DURATION, 30.0, "How long a slot worker tries to reach a peer."),
)
