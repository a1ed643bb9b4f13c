"""Every option that Millstream knows: key, type, default, description. The documentation is generated from this table.

Keys, meanings and value syntax are Flink's wherever Flink has the option; a default that differs says so.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace


class OptionType(StrEnum):
    """How a value is written and what it becomes."""

    STRING = "string"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    DURATION = "duration"  # seconds, as a float
    MEMORY = "memory"  # bytes, as an int
    ENUM = "enum"
    MAP = "map"  # `name:value,name:value`, as a dict


class JobMay(StrEnum):
    """What a job's own value for an option does on a cluster, where services have theirs."""

    SET = "yes"
    LOWER = "lower"  # the smaller of both counts; 0 is no limit
    NOT = "no"


class Option(Struct, frozen=True):
    """One row of the table."""

    key: str
    type: OptionType
    default: Any
    description: str
    choices: tuple[str, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    job_may: JobMay = JobMay.NOT


_T = OptionType
REPORTER = "metrics.reporter.<name>"
"""What the options of a reporter begin with, in the table: the name is the user's."""
_ADAPTIVE = "jobmanager.adaptive-scheduler"
_AUTOSCALER = "job.autoscaler"
_LEVELS = ("OFF", "CRITICAL", "ERROR", "WARN", "WARNING", "INFO", "DEBUG", "TRACE")
_ROWS = [
    # services
    Option("dispatcher.rpc.address", _T.STRING, "127.0.0.1", "Where the dispatcher's gRPC service is reached."),
    Option("dispatcher.rpc.port", _T.INT, 6122, "The dispatcher's gRPC port; 0 picks a free one."),
    Option("jobmanager.rpc.address", _T.STRING, "127.0.0.1", "Where the job manager's gRPC service is reached."),
    Option("jobmanager.rpc.port", _T.INT, 6123, "The job manager's gRPC port; 0 picks a free one."),
    Option(
        "resourcemanager.rpc.address", _T.STRING, "127.0.0.1", "Where the resource manager's gRPC service is reached."
    ),
    Option("resourcemanager.rpc.port", _T.INT, 6124, "The resource manager's gRPC port; 0 picks a free one."),
    Option(
        "taskmanager.host",
        _T.STRING,
        "127.0.0.1",
        "The address under which a task manager and its slot workers listen and are reached.",
    ),
    Option("taskmanager.rpc.port", _T.INT, 0, "The task manager's gRPC port; 0 picks a free one."),
    Option(
        "high-availability.type",
        _T.ENUM,
        "none",
        "Where it is kept who leads and what outlives a process. none: in memory, a service that is lost takes its "
        "jobs along; file: in high-availability.storageDir, for services of one host; zookeeper: in ZooKeeper.",
        choices=("none", "file", "zookeeper"),
    ),
    Option(
        "high-availability.storageDir",
        _T.STRING,
        "",
        "Where all services of the cluster keep what is large: graphs, artifacts and results of jobs, and checkpoints "
        "of jobs that have no directory for them. The path of a folder that they share, or a URI as "
        "execution.checkpointing.dir takes it (s3://, hdfs://, gs://); with high-availability.type file a folder.",
    ),
    Option("high-availability.cluster-id", _T.STRING, "default", "Tells clusters with a common store apart."),
    Option("high-availability.zookeeper.quorum", _T.STRING, "", "The ensemble, as host:port,host:port."),
    Option("high-availability.zookeeper.path.root", _T.STRING, "/millstream", "Below which all is kept in ZooKeeper."),
    Option(
        "high-availability.zookeeper.client.session-timeout",
        _T.DURATION,
        60.0,
        "How long ZooKeeper waits for a service that it does not hear from, before another one leads in its place.",
    ),
    Option(
        "high-availability.zookeeper.client.acl",
        _T.ENUM,
        "open",
        "Who may touch what the cluster keeps in ZooKeeper: everyone, or only who authenticates as its creator.",
        choices=("open", "creator"),
    ),
    Option(
        "high-availability.zookeeper.client.sasl.username", _T.STRING, "", "For SASL (DIGEST-MD5); without it, none."
    ),
    Option("high-availability.zookeeper.client.sasl.password", _T.STRING, "", "Belongs to the name."),
    Option(
        "health.port",
        _T.INT,
        0,
        "The port on which a service answers /healthz and /readyz over plain HTTP, and nothing else; 0: none. Each "
        "service of a host needs its own. The REST API has the same two paths.",
    ),
    Option("health.bind-address", _T.STRING, "127.0.0.1", "The address that health.port is on; 0.0.0.0 is all."),
    Option("rest.address", _T.STRING, "127.0.0.1", "Where clients reach the REST API."),
    Option("rest.bind-address", _T.STRING, "127.0.0.1", "The address that the REST API listens on."),
    Option("rest.port", _T.INT, 8081, "The REST API's port; 0 picks a free one."),
    Option(
        "rest.allowed-hosts",
        _T.STRING,
        "",
        "Further hosts under which the REST API is served, without ports, separated by commas; * for any. Loopback, "
        "rest.address and rest.bind-address always are.",
    ),
    Option(
        "rest.rate-limit",
        _T.INT,
        500,
        "How many requests of one client the REST API answers in a second, and twice as many at once; the others get "
        "status 429. A client is who a token or secret says it is, or an address. 0: any number.",
    ),
    Option(
        "rest.flamegraph.enabled",
        _T.BOOL,
        True,
        "Whether flame graphs are shown. Slot workers are only sampled while somebody asks for one. Flink: false.",
    ),
    Option("rest.flamegraph.num-samples", _T.INT, 100, "How many samples of its threads a flame graph is made of."),
    Option("rest.flamegraph.delay-between-samples", _T.DURATION, 0.05, "The time from one of them to the next."),
    Option(
        "rest.flamegraph.refresh-interval",
        _T.DURATION,
        60.0,
        "How old a flame graph gets before it is sampled again when somebody asks for it.",
    ),
    Option(
        "rest.flamegraph.cleanup-interval",
        _T.DURATION,
        600.0,
        "After how long a flame graph is forgotten that nobody asks for.",
    ),
    Option("rest.flamegraph.stack-depth", _T.INT, 100, "How many frames of a stack are shown, the innermost."),
    Option(
        "rest.async.store-duration",
        _T.DURATION,
        300.0,
        "How long the outcome of an operation with a trigger id, such as a savepoint, can be asked for.",
    ),
    Option(
        "heartbeat.interval",
        _T.DURATION,
        10.0,
        "How often the two ends of a session between services send a heartbeat.",
    ),
    Option(
        "jobmanager.takeover.timeout",
        _T.DURATION,
        10.0,
        "How long a job manager that comes to lead a job after another waits for task managers that still run its "
        "tasks. When it has heard of all of them, the job goes on with them; else it starts from its last checkpoint: "
        "at the end of this time, or when it has not heard of any after 30 % of it.",
    ),
    Option(
        "heartbeat.timeout",
        _T.DURATION,
        50.0,
        "Silence after which a peer counts as lost; the same for all services. A job manager without its dispatcher, "
        "and a task manager without its job manager, stops jobs after 80 % of it.",
    ),
    Option(
        "rpc.message.max-size",
        _T.MEMORY,
        512 * 1024 * 1024,
        "The largest message between programs and services, and so the largest job with all that is in it; the same "
        "for all of them. Flink: pekko.framesize, 10 mb. Records between tasks travel in buffers of their own.",
    ),
    Option(
        "registration.timeout",
        _T.DURATION,
        300.0,
        "How long a service tries to reach a peer that it needs before it gives up and exits.",
    ),
    Option(
        "security.allow-insecure",
        _T.BOOL,
        False,
        "Allows listening on addresses other than loopback without TLS. Anyone who reaches such a port can run code.",
    ),
    Option(
        "security.cluster.secret-file",
        _T.STRING,
        "",
        "File with the secret that all services, workers and clients of a cluster share, readable by its user only; "
        "empty: none. `millstream cluster start` makes one in the cluster's folder, and commands find it there.",
    ),
    Option(
        "security.cluster.secret",
        _T.STRING,
        "",
        "The secret itself, in place of a file. `python job.py` makes one for its own services.",
    ),
    Option("security.ssl.internal.enabled", _T.BOOL, False, "Mutual TLS for all gRPC traffic."),
    Option("security.ssl.internal.cert", _T.STRING, "", "PEM file with this service's certificate."),
    Option("security.ssl.internal.key", _T.STRING, "", "PEM file with this service's private key."),
    Option(
        "security.ssl.internal.ca", _T.STRING, "", "PEM file with the authority that signs all services' certificates."
    ),
    Option(
        "security.rest.auth.tokens-file",
        _T.STRING,
        "",
        "File with the tokens that the REST API takes, each with its role, readable by its user only; `millstream "
        "security token` adds one. It is read again when it changes.",
    ),
    Option(
        "security.rest.auth.token-file",
        _T.STRING,
        "",
        "File with the token that commands send to the REST API, readable by its user only; empty: they show that they "
        "have the cluster's secret.",
    ),
    Option("security.ssl.rest.enabled", _T.BOOL, False, "HTTPS for the REST API."),
    Option(
        "security.ssl.rest.authentication-enabled",
        _T.BOOL,
        False,
        "Whether the REST API asks its clients for a certificate of the authority in security.ssl.rest.ca, besides "
        "HTTPS. Commands show the one in security.ssl.rest.cert.",
    ),
    Option(
        "security.ssl.rest.ca",
        _T.STRING,
        "",
        "PEM file with the authority of the REST API's certificate, and of its clients'. Empty: commands trust the "
        "system's authorities, and what is in security.ssl.rest.cert.",
    ),
    Option("security.ssl.rest.cert", _T.STRING, "", "PEM file with the REST API's certificate."),
    Option("security.ssl.rest.key", _T.STRING, "", "PEM file with the REST API's private key."),
    Option(
        "io.tmp.dirs",
        _T.STRING,
        "",
        "Where services keep artifacts, environments and logs, writable by nobody else; empty: the user's own folder "
        "in the system's temporary directory.",
    ),
    Option("logging.level", _T.ENUM, "INFO", "What the services log.", ("DEBUG", "INFO", "WARNING", "ERROR")),
    Option(
        "python.logging.default.level",
        _T.ENUM,
        "INHERIT",
        "What all other loggers log, such as those of a job's functions and of the libraries that they use; INHERIT: "
        "as `logging.level`. TRACE lets everything through.",
        ("INHERIT", *_LEVELS),
    ),
    Option(
        "python.logging.level.overrides",
        _T.MAP,
        {},
        "What loggers with these names log, and those below them: `name:level,name:level`, or a mapping in YAML.",
        _LEVELS,
    ),
    Option(
        "logging.stderr.level",
        _T.ENUM,
        "DEBUG",
        "Messages of Millstream itself below it are not shown on standard error. `python job.py` sets it to ERROR.",
        ("DEBUG", "INFO", "WARNING", "ERROR"),
    ),
    Option("logging.format", _T.ENUM, "text", "One line of text or one JSON object an event.", ("text", "json")),
    Option(
        "env.log.dir",
        _T.STRING,
        "",
        "The folder of log files. `millstream cluster start` sets it to `log` in the cluster's folder. A service whose"
        " standard error and output are files in it keeps them within bounds, and its slot workers write files of their"
        " own there. Empty: workers write where their task manager does, and nothing is bounded.",
    ),
    Option(
        "env.log.max",
        _T.INT,
        10,
        "How many old log files are kept of each, and of how many ended jobs the workers' files are.",
    ),
    Option(
        "env.log.max-size",
        _T.MEMORY,
        10 * 1024 * 1024,
        "How large a log file gets before it is moved aside; looked at every second.",
    ),
    Option(
        "taskmanager.prints.name-task",
        _T.BOOL,
        True,
        "Whether a line that a function prints begins with its job, task and subtask. The lines of print sinks are as"
        " they are. `python job.py` sets it to false.",
    ),
    # submission
    Option(
        "web.access-control-allow-origin",
        _T.STRING,
        "",
        "Origins, separated by commas, whose web pages may use the REST API besides its own; * for any. Flink: *.",
    ),
    Option(
        "web.state-browser.enabled",
        _T.BOOL,
        True,
        "Whether the REST API looks into checkpoints and savepoints in the directories of the cluster and its jobs."
        " Rows need the role operate.",
    ),
    Option("web.state-browser.timeout", _T.DURATION, 30.0, "How long it looks for what one request asks."),
    Option(
        "web.state-browser.max-size",
        _T.MEMORY,
        256 * 1024 * 1024,
        "The largest file of a state of which it shows rows, and the largest snapshot that it compares with another.",
    ),
    Option("web.upload.dir", _T.STRING, "", "Where uploaded wheels are kept; empty: under io.tmp.dirs."),
    Option(
        "python.job-folder.max-size",
        _T.MEMORY,
        50 * 1024 * 1024,
        "How much of the folder that a program is in is sent with its jobs, without what `.millstreamignore` leaves"
        " out. A file over a fifth of it is not sent. 0 sends nothing.",
    ),
    Option("web.upload.max-size", _T.MEMORY, 512 * 1024 * 1024, "The largest wheel that is accepted."),
    Option(
        "web.upload.max-total-size",
        _T.MEMORY,
        10 * 1024**3,
        "The size of all uploaded wheels together; beyond it, those go that were unused for longest.",
    ),
    Option(
        "web.upload.retention",
        _T.DURATION,
        30 * 86400.0,
        "After how long an uploaded wheel goes that was neither run nor planned.",
    ),
    Option(
        "dispatcher.artifacts.retention",
        _T.DURATION,
        3600.0,
        "After how long the dispatcher deletes artifacts that no job needs.",
    ),
    Option(
        "dispatcher.artifacts.max-total-size",
        _T.MEMORY,
        20 * 1024**3,
        "The size of all artifacts together; beyond it, none is taken until others have gone.",
    ),
    Option(
        "web.submit.timeout",
        _T.DURATION,
        300.0,
        "How long a wheel's entry point may take to build its job when run over REST.",
    ),
    Option("jobstore.max-capacity", _T.INT, 1000, "How many ended jobs the dispatcher remembers."),
    Option(
        "python.executable",
        _T.STRING,
        "",
        "The interpreter that job environments are made from; empty: the service's own.",
    ),
    Option(
        "python.files",
        _T.STRING,
        "",
        "Files for the job's import path, separated by commas: .py, .zip or .whl, or folders; as `-pyfs`.",
    ),
    Option(
        "python.requirements",
        _T.STRING,
        "",
        "A requirements.txt to install, and behind a `#` a folder with the packages; as `-pyreq`.",
    ),
    Option(
        "python.archives",
        _T.STRING,
        "",
        "Archives to unpack where the job works, separated by commas, each with the name of its folder behind a `#`, if"
        " that is not the archive's; as `-pyarch`.",
    ),
    Option(
        "python.pythonpath",
        _T.STRING,
        "",
        "Folders on the task managers' hosts, separated by colons, that functions import from.",
    ),
    Option(
        "python.environments.max-size",
        _T.MEMORY,
        20 * 1024**3,
        "The size of a host's job environments together; beyond it, those go that were unused for longest.",
    ),
    Option(
        "python.environments.retention",
        _T.DURATION,
        30 * 86400.0,
        "After how long a job environment goes that nobody asked for; looked at when another is made.",
    ),
    Option(
        "python.unpack.max-size",
        _T.MEMORY,
        4 * 1024 * 1024 * 1024,
        "The most that a job's wheel, with the wheels that it carries, or an archive may unpack to.",
    ),
    Option("python.unpack.max-entries", _T.INT, 100_000, "The most files and folders that it may unpack to."),
    Option(
        "python.unpack.max-ratio",
        _T.INT,
        100,
        "The most that it may grow when unpacked, as a multiple of its own size; up to 32 mb are always allowed.",
    ),
    # slots and scheduling
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
        f"{_AUTOSCALER}.enabled",
        _T.BOOL,
        False,
        "Whether the job manager chooses the parallelism of the job's vertices by how busy they are.",
    ),
    Option(
        f"{_AUTOSCALER}.scaling.enabled",
        _T.BOOL,
        True,
        "Whether the autoscaler rescales the job; else it only writes what it would do into the job's events.",
    ),
    Option(
        f"{_AUTOSCALER}.metrics.window",
        _T.DURATION,
        900.0,
        "How long the job is measured for one decision.",
    ),
    Option(
        f"{_AUTOSCALER}.stabilization.interval",
        _T.DURATION,
        300.0,
        "How long a job has to run undisturbed, after a start or a rescale, before it is measured.",
    ),
    Option(
        f"{_AUTOSCALER}.utilization.target",
        _T.FLOAT,
        0.7,
        "How busy the tasks of a vertex should be.",
    ),
    Option(
        f"{_AUTOSCALER}.utilization.min",
        _T.FLOAT,
        0.5,
        "A vertex that is less busy gets fewer tasks. Unless it is set, 0.2 below the target; Flink: 0.3.",
    ),
    Option(
        f"{_AUTOSCALER}.utilization.max",
        _T.FLOAT,
        0.9,
        "A vertex that is busier gets more tasks. Unless it is set, 0.2 above the target; Flink: 0.3.",
    ),
    Option(
        f"{_AUTOSCALER}.scale-down.interval",
        _T.DURATION,
        3600.0,
        "How long after a start or a rescale a job is not scaled down.",
    ),
    Option(
        f"{_AUTOSCALER}.scale-down.max-factor",
        _T.FLOAT,
        0.6,
        "The largest part of its tasks that a vertex loses in one decision.",
    ),
    Option(
        f"{_AUTOSCALER}.scale-up.max-factor",
        _T.FLOAT,
        100000.0,
        "How many times its tasks a vertex gets in addition in one decision, at most.",
    ),
    Option(
        f"{_AUTOSCALER}.catch-up.duration",
        _T.DURATION,
        1800.0,
        "In which time the backlog of a source, where it tells one (the gauge pendingRecords), should be worked off; "
        "0: backlogs do not count.",
    ),
    Option(f"{_AUTOSCALER}.vertex.min-parallelism", _T.INT, 1, "The least that the autoscaler gives a vertex."),
    Option(f"{_AUTOSCALER}.vertex.max-parallelism", _T.INT, 200, "The most that the autoscaler gives a vertex."),
    Option(
        f"{_AUTOSCALER}.vertex.exclude.ids",
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
        f"{_ADAPTIVE}.submission.resource-wait-timeout",
        _T.DURATION,
        300.0,
        "How long an adaptive job waits for all slots that it can use, after its submission or a failure. Then it runs "
        "in those that there are, or fails if they are too few. Negative: it waits for ever, as a reactive job does "
        "unless this is set.",
    ),
    Option(
        f"{_ADAPTIVE}.submission.resource-stabilization-timeout",
        _T.DURATION,
        10.0,
        "How long an adaptive job that could start waits for more slots. 0 of a reactive job, unless this is set.",
    ),
    Option(
        f"{_ADAPTIVE}.executing.cooldown-after-rescaling",
        _T.DURATION,
        30.0,
        "How long an adaptive job is not rescaled after it was started or rescaled.",
    ),
    Option(
        f"{_ADAPTIVE}.executing.resource-stabilization-timeout",
        _T.DURATION,
        60.0,
        "How long slots have to be there before an adaptive job that runs is rescaled to them; at once, if they are "
        "all that it can use.",
    ),
    Option(
        f"{_ADAPTIVE}.rescale-trigger.max-delay",
        _T.DURATION,
        0.0,
        "How long a rescale waits for the checkpoint that it takes; then the job goes on from its last one. 0: for as "
        "long as execution.checkpointing.timeout allows.",
    ),
    Option(
        f"{_ADAPTIVE}.rescale-trigger.max-checkpoint-failures",
        _T.INT,
        2,
        "After how many failed checkpoints a rescale goes on from the last one that completed. A job that takes none "
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
    # execution
    Option(
        "execution.buffer-timeout.interval",
        _T.DURATION,
        0.010,
        "The longest time that a record waits for its buffer to fill; 0 flushes after every batch. Flink: 100 ms.",
    ),
    Option("execution.batch.max-rows", _T.INT, 2048, "The most rows that a source hands on in one batch."),
    Option("execution.batch.max-column-rows", _T.INT, 65536, "The same for sources of Arrow batches."),
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
        "Where the services and workers of `python job.py` log, at `logging.level`. Empty: only errors are shown, on"
        " standard error or where the program's own logging leads.",
    ),
    Option("execution.attached", _T.BOOL, True, "Whether submitting waits for the job to end."),
    Option(
        "execution.target",
        _T.ENUM,
        "local",
        "Where a program's jobs run: embedded in its own process, or on a cluster.",
        ("local", "remote"),
    ),
    # checkpoints
    Option(
        "execution.checkpointing.interval",
        _T.DURATION,
        0.0,
        "How often a checkpoint is taken; 0 takes none, and then a job that fails does not restart by default.",
    ),
    Option(
        "execution.checkpointing.mode",
        _T.ENUM,
        "EXACTLY_ONCE",
        "Whether state is the effect of each record exactly once, or at least once with barriers that never block.",
        ("EXACTLY_ONCE", "AT_LEAST_ONCE"),
    ),
    Option(
        "execution.checkpointing.timeout", _T.DURATION, 600.0, "A checkpoint that takes longer than this is given up."
    ),
    Option(
        "execution.checkpointing.min-pause",
        _T.DURATION,
        0.0,
        "The shortest time between the end of one checkpoint and the start of the next.",
    ),
    Option(
        "execution.checkpointing.max-concurrent-checkpoints",
        _T.INT,
        1,
        "How many checkpoints may be under way at the same time.",
    ),
    Option(
        "execution.checkpointing.tolerable-failed-checkpoints",
        _T.INT,
        0,
        "How many checkpoints in a row may fail before the job does.",
    ),
    Option("execution.checkpointing.num-retained", _T.INT, 1, "How many completed checkpoints are kept."),
    Option(
        "execution.checkpointing.externalized-checkpoint-retention",
        _T.ENUM,
        "NO_EXTERNALIZED_CHECKPOINTS",
        "What happens to the checkpoints of a job that is cancelled or fails: they are deleted when it is cancelled, "
        "kept, or deleted in both cases.",
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
        "Whether checkpoints go on when some tasks of the job have finished, and a bounded job ends with a last one.",
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
        "The directory or URI for checkpoints, which all services reach: a path, `s3://...`, `hdfs://...`, `gs://...`.",
    ),
    Option(
        "execution.checkpointing.data-inline-threshold",
        _T.MEMORY,
        20 * 1024,
        "State that is smaller than this is part of a checkpoint's metadata, not a file of its own. Savepoints have "
        "files only.",
    ),
    Option(
        "execution.checkpointing.write-buffer-size",
        _T.MEMORY,
        4 * 1024,
        "How much is gathered before it is written to a file of a checkpoint.",
    ),
    Option(
        "execution.checkpointing.jobmanager-storage.max-state-size",
        _T.MEMORY,
        5 * 1024 * 1024,
        "With checkpoints in the job manager's memory: how large each state of a subtask may be.",
    ),
    Option(
        "execution.checkpointing.savepoint-dir",
        _T.STRING,
        "",
        "The directory or URI for savepoints for which no other is given.",
    ),
    Option(
        "execution.checkpointing.unaligned.enabled",
        _T.BOOL,
        False,
        "Barriers overtake records under backpressure: checkpoints stay short, and hold the records on their way.",
    ),
    Option(
        "execution.checkpointing.aligned-checkpoint-timeout",
        _T.DURATION,
        0.0,
        "With unaligned checkpoints: each begins aligned, and turns unaligned when it is this old; 0: at once.",
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
        "Where those copies lie, one directory or several with commas between, set for the task manager; empty: below "
        "its working directory.",
    ),
    Option(
        "execution.state-recovery.path", _T.STRING, "", "The savepoint or retained checkpoint that a job starts from."
    ),
    Option(
        "execution.state-recovery.claim-mode",
        _T.ENUM,
        "NO_CLAIM",
        "Whether the job takes over, and later deletes, the snapshot that it starts from.",
        ("NO_CLAIM", "CLAIM"),
    ),
    Option(
        "execution.state-recovery.ignore-unclaimed-state",
        _T.BOOL,
        False,
        "Whether state in that snapshot which no operator of the job claims is left out; else it is an error.",
    ),
    Option(
        "execution.state-recovery.from-local",
        _T.BOOL,
        False,
        "Tasks that restart on their host read the copies of their checkpoint there, where they are still whole.",
    ),
    Option("state.backend.type", _T.ENUM, "hashmap", "Where tasks keep their state: on the heap.", ("hashmap",)),
    # restarts
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
        "0 or -1: never for that reason.",
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
    Option(
        "metrics.fetcher.update-interval",
        _T.DURATION,
        1.0,
        "How often tasks report their metrics, and how old those may be that REST shows. Flink: 10 s.",
    ),
    Option(
        "metrics.latency.interval",
        _T.DURATION,
        0.0,
        "How often each source sends a marker, by which the latency to every operator behind it is measured; 0: never.",
    ),
    Option(
        "metrics.latency.granularity",
        _T.ENUM,
        "operator",
        "What latencies are told apart by. single: only the operator that they are measured at; operator: also the "
        "source; subtask: also the subtask of the source.",
        ("single", "operator", "subtask"),
    ),
    Option("metrics.latency.history-size", _T.INT, 128, "Over how many of the last markers a latency is told."),
    Option(
        "metrics.hot-keys.enabled",
        _T.BOOL,
        True,
        "Whether operators with keys look at a sample of their records for the keys that come most often.",
    ),
    Option(
        "metrics.reporters",
        _T.STRING,
        "",
        "The names of the reporters that carry metrics out, with commas between; empty: all that have a class.",
    ),
    Option(
        f"{REPORTER}.factory.class",
        _T.STRING,
        "",
        "What the reporter of this name is: prometheus, otel, file, the name of a plug-in, or package.module:Class.",
    ),
    Option(f"{REPORTER}.interval", _T.DURATION, 10.0, "How often a reporter that pushes is given all metrics."),
    Option(
        f"{REPORTER}.filter.includes",
        _T.STRING,
        "*:*:*",
        "Which metrics are reported: scope:name,name:type,type, with semicolons between several; * is anything.",
    ),
    Option(f"{REPORTER}.filter.excludes", _T.STRING, "", "Which of these are not, in the same way."),
    Option(
        f"{REPORTER}.scope.variables.excludes", _T.STRING, "", "Variables that are left out, with semicolons between."
    ),
    Option(
        f"{REPORTER}.scope.variables.additional", _T.STRING, "", "Variables that are added, as name:value,name:value."
    ),
    Option(f"{REPORTER}.host", _T.STRING, "127.0.0.1", "Where a Prometheus endpoint listens."),
    Option(
        f"{REPORTER}.port",
        _T.STRING,
        "9249",
        "The port of a Prometheus endpoint; of a range such as 9249-9260, each process of a host takes a free one.",
    ),
    Option(
        f"{REPORTER}.filterLabelValueCharacters",
        _T.BOOL,
        True,
        "Whether all but letters, digits, colons and underscores of a label's value becomes an underscore.",
    ),
    Option(f"{REPORTER}.exporter.endpoint", _T.STRING, "http://127.0.0.1:4318/v1/metrics", "Where OTLP is sent to."),
    Option(f"{REPORTER}.exporter.timeout", _T.DURATION, 10.0, "How long sending may take."),
    Option(f"{REPORTER}.service.name", _T.STRING, "millstream", "The resource's service.name in OTLP."),
    Option(f"{REPORTER}.service.version", _T.STRING, "", "The resource's service.version in OTLP."),
    Option(
        f"{REPORTER}.directory", _T.STRING, "", "The folder in which a file reporter writes a file for each service."
    ),
    Option(
        f"{REPORTER}.max-size",
        _T.MEMORY,
        64 << 20,
        "The size at which such a file becomes the former one, which is kept until the next does.",
    ),
]

_BOUNDS: dict[str, tuple[float, float | None]] = {
    "env.log.max": (0, None),
    "env.log.max-size": (1024, None),
    "heartbeat.interval": (0.01, None),
    "heartbeat.timeout": (0.01, None),
    "rpc.message.max-size": (1 << 20, (1 << 31) - 1),
    "metrics.fetcher.update-interval": (0.01, None),
    "metrics.latency.history-size": (1, None),
    f"{REPORTER}.interval": (0.01, None),
    f"{REPORTER}.exporter.timeout": (0.01, None),
    f"{REPORTER}.max-size": (1024, None),
    "task.cancellation.interval": (0.01, None),
    "taskmanager.numberOfTaskSlots": (1, None),
    "parallelism.default": (1, None),
    "execution.checkpointing.data-inline-threshold": (0, 1024 * 1024),
    "execution.checkpointing.write-buffer-size": (1, None),
    "execution.checkpointing.jobmanager-storage.max-state-size": (1, None),
    "execution.batch.max-rows": (1, None),
    "execution.batch.max-column-rows": (1, None),
    "taskmanager.memory.segment-size": (1024, 64 * 1024 * 1024),
    "taskmanager.network.memory.buffers-per-channel": (1, None),
    "taskmanager.network.memory.floating-buffers-per-gate": (0, None),
    "taskmanager.network.memory.output-buffers": (1, None),
    "taskmanager.network.memory.buffer-debloat.target": (0.001, None),
    "taskmanager.network.memory.buffer-debloat.period": (0.001, None),
    "taskmanager.network.memory.buffer-debloat.samples": (1, None),
    "taskmanager.network.memory.buffer-debloat.threshold-percentages": (0, None),
    **{f"{service}.rpc.port": (0, 65535) for service in ("dispatcher", "jobmanager", "resourcemanager", "taskmanager")},
    f"{_AUTOSCALER}.metrics.window": (0.001, None),
    f"{_AUTOSCALER}.stabilization.interval": (0, None),
    f"{_AUTOSCALER}.scale-down.interval": (0, None),
    f"{_AUTOSCALER}.catch-up.duration": (0, None),
    f"{_AUTOSCALER}.utilization.target": (0.01, None),
    f"{_AUTOSCALER}.utilization.min": (0, None),
    f"{_AUTOSCALER}.utilization.max": (0.01, None),
    f"{_AUTOSCALER}.scale-up.max-factor": (0, None),
    f"{_AUTOSCALER}.scale-down.max-factor": (0, 1),
    f"{_AUTOSCALER}.vertex.min-parallelism": (1, None),
    f"{_AUTOSCALER}.vertex.max-parallelism": (1, None),
    f"{_ADAPTIVE}.submission.resource-wait-timeout": (float("-inf"), None),
    f"{_ADAPTIVE}.submission.resource-stabilization-timeout": (0, None),
    f"{_ADAPTIVE}.executing.cooldown-after-rescaling": (0, None),
    f"{_ADAPTIVE}.executing.resource-stabilization-timeout": (0, None),
    f"{_ADAPTIVE}.rescale-trigger.max-delay": (0, None),
    f"{_ADAPTIVE}.rescale-trigger.max-checkpoint-failures": (1, None),
    "python.unpack.max-entries": (1, None),
    "python.unpack.max-ratio": (1, None),
    "health.port": (0, 65535),
    "rest.port": (0, 65535),
    "rest.rate-limit": (0, None),
    "rest.flamegraph.num-samples": (1, 10_000),
    "rest.flamegraph.delay-between-samples": (0.001, 1),
    "rest.flamegraph.refresh-interval": (0, None),
    "rest.flamegraph.stack-depth": (1, 150),
    "web.exception-history-size": (1, None),
}

# All else is up to who runs the services: where they listen and write, what they trust, and their limits.
_JOB_SETS = (
    "execution.", f"{_AUTOSCALER}.", f"{_ADAPTIVE}.", "jobmanager.scheduler", "logging.level", "metrics.hot-keys.",
    "metrics.latency.", "parallelism.",
    "pipeline.", "python.archives", "python.executable", "python.files", "python.job-folder.", "python.logging.",
    "python.pythonpath", "python.requirements", "restart-strategy.",
    "scheduler-mode", "slot.request.timeout", "state.", "task.cancellation.",
    "taskmanager.memory.segment-size", "taskmanager.network.", "taskmanager.prints.", "worker.start.timeout",
)  # fmt: skip
_JOB_LOWERS = ("taskmanager.memory.task.heap.size",)
_OF_HOSTS = ("execution.local.", "execution.checkpointing.local-backup.dirs")


def _job_may(key: str) -> JobMay:
    if key in _JOB_LOWERS:
        return JobMay.LOWER
    return JobMay.SET if key.startswith(_JOB_SETS) and not key.startswith(_OF_HOSTS) else JobMay.NOT


def _completed(row: Option) -> Option:
    at_least, at_most = _BOUNDS.get(row.key, (None, None))
    return replace(row, at_least=at_least, at_most=at_most, job_may=_job_may(row.key))


class OptionTable(dict[str, Option]):
    """All options by their keys. Those of a reporter are found under the name that the user gave it.

    A plug-in has settings of its own, which are text: any key of a reporter is an option.
    """

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and _of_reporter(key) is not None)

    def __missing__(self, key: str) -> Option:
        setting = _of_reporter(key)
        if setting is None:
            raise KeyError(key)
        row = super().get(f"{REPORTER}.{setting}")
        return row if row is not None else Option(key, _T.STRING, "", "A setting of a plug-in's.")

    def get(self, key: str, default: Any = None) -> Any:
        """The option of a key."""
        return self[key] if key in self else default  # noqa: SIM401  # this is what that means


def _of_reporter(key: str) -> str | None:
    """What of a reporter's a key sets; None: it is no such key."""
    begin = REPORTER.partition("<")[0]
    name, _, setting = key.removeprefix(begin).partition(".")
    is_one = key.startswith(begin) and name and setting and all(setting.split(".")) and "<" not in name
    return setting if is_one else None


OPTIONS: dict[str, Option] = OptionTable({row.key: _completed(row) for row in _ROWS})
