"""Options of the services: where they listen, who leads, what they trust, and where they write."""

from __future__ import annotations

from millstream.core.settings.options.model import Option, OptionType

_T = OptionType
_LEVELS = ("OFF", "CRITICAL", "ERROR", "WARN", "WARNING", "INFO", "DEBUG", "TRACE")
ROWS = (
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
    Option(
        "rest.unix-socket",
        _T.STRING,
        "",
        "A Unix socket on which the REST API also serves the user that runs it, who needs no token there. Its folder "
        "has to be that user's alone; empty: none. `millstream cluster start` sets it, for `curl -K`.",
    ),
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
    Option(
        "taskmanager.profiler.sampler",
        _T.ENUM,
        "auto",
        "What looks at the stacks of slot workers for flame graphs. 'py-spy' does it from outside, also while native "
        "code keeps the interpreter to itself; the task manager needs millstream[profile] and the right to trace its "
        "workers. 'worker' is a thread of the worker. 'auto' is py-spy where that works.",
        choices=("auto", "py-spy", "worker"),
    ),
    Option(
        "rest.profiling.enabled",
        _T.BOOL,
        True,
        "Whether processes are profiled on request of a caller with the role 'operate'. Flink: false.",
    ),
    Option("rest.profiling.duration-max", _T.DURATION, 300.0, "The longest time for which a process is profiled."),
    Option("rest.profiling.history-size", _T.INT, 10, "How many profiles of a process are kept."),
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
        "How often the two ends of a session between services send a heartbeat, and a task manager a probe to each of "
        "its slot workers.",
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
        "Silence after which a peer counts as lost, and a frozen slot worker is killed; the same for all services. A "
        "job manager without its dispatcher, and a task manager without its job manager, stops jobs after 80 % of it.",
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
    Option(
        "security.cluster.secret-certificates",
        _T.STRING,
        "",
        "The authority, certificate and key that were made from the secret, as PEM: services set it for their workers.",
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
)
