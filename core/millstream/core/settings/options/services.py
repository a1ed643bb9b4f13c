"""Options of the services: addresses, leader election, security, files and logs."""

from __future__ import annotations

from millstream.core.settings.options.model import Option, OptionType

_T = OptionType
_LEVELS = ("OFF", "CRITICAL", "ERROR", "WARN", "WARNING", "INFO", "DEBUG", "TRACE")
ROWS = (
    Option("dispatcher.rpc.address", _T.STRING, "127.0.0.1", "The address of the dispatcher's gRPC service."),
    Option("dispatcher.rpc.port", _T.INT, 6122, "The dispatcher's gRPC port; 0 selects a free one."),
    Option("jobmanager.rpc.address", _T.STRING, "127.0.0.1", "The address of the job manager's gRPC service."),
    Option("jobmanager.rpc.port", _T.INT, 6123, "The job manager's gRPC port; 0 selects a free one."),
    Option(
        "resourcemanager.rpc.address", _T.STRING, "127.0.0.1", "The address of the resource manager's gRPC service."
    ),
    Option("resourcemanager.rpc.port", _T.INT, 6124, "The resource manager's gRPC port; 0 selects a free one."),
    Option(
        "taskmanager.host",
        _T.STRING,
        "127.0.0.1",
        "The address on which a task manager and its slot workers listen, and under which others connect to them.",
    ),
    Option("taskmanager.rpc.port", _T.INT, 0, "The task manager's gRPC port; 0 selects a free one."),
    Option(
        "high-availability.type",
        _T.ENUM,
        "none",
        "The store of leaders and of recovery data. none: in memory, jobs are lost with their service; file: in "
        "high-availability.storageDir, for services of one host; zookeeper: in ZooKeeper.",
        choices=("none", "file", "zookeeper"),
    ),
    Option(
        "high-availability.storageDir",
        _T.STRING,
        "",
        "The storage for large recovery data of all services: graphs, artifacts and results of jobs, and checkpoints "
        "of jobs that set no directory. The path of a shared folder, or a URI as for execution.checkpointing.dir "
        "(s3://, hdfs://, gs://); a folder with high-availability.type file.",
    ),
    Option("high-availability.cluster-id", _T.STRING, "default", "Distinguishes clusters that share a store."),
    Option("high-availability.zookeeper.quorum", _T.STRING, "", "The ensemble, as host:port,host:port."),
    Option(
        "high-availability.zookeeper.path.root", _T.STRING, "/millstream", "The root node of all data in ZooKeeper."
    ),
    Option(
        "high-availability.zookeeper.client.session-timeout",
        _T.DURATION,
        60.0,
        "The time without heartbeats after which ZooKeeper considers a service lost, and another one becomes leader.",
    ),
    Option(
        "high-availability.zookeeper.client.acl",
        _T.ENUM,
        "open",
        "Who may access the cluster's data in ZooKeeper: everyone, or only clients that authenticate as its creator.",
        choices=("open", "creator"),
    ),
    Option(
        "high-availability.zookeeper.client.sasl.username",
        _T.STRING,
        "",
        "The user name for SASL (DIGEST-MD5); empty: no SASL.",
    ),
    Option("high-availability.zookeeper.client.sasl.password", _T.STRING, "", "The password for SASL."),
    Option(
        "health.port",
        _T.INT,
        0,
        "The port on which a service serves only /healthz and /readyz over plain HTTP; 0: none. Each service of a host "
        "needs its own. The REST API has the same two paths.",
    ),
    Option("health.bind-address", _T.STRING, "127.0.0.1", "The address on which health.port listens; 0.0.0.0 is all."),
    Option("rest.address", _T.STRING, "127.0.0.1", "The address at which clients connect to the REST API."),
    Option("rest.bind-address", _T.STRING, "127.0.0.1", "The address on which the REST API listens."),
    Option(
        "rest.unix-socket",
        _T.STRING,
        "",
        "A Unix socket on which the REST API also serves the user that runs it, without a token. Its folder must not "
        "be accessible to others; empty: none. `millstream cluster start` sets it, for `curl -K`.",
    ),
    Option("rest.port", _T.INT, 8081, "The REST API's port; 0 selects a free one."),
    Option(
        "rest.allowed-hosts",
        _T.STRING,
        "",
        "Additional host names that requests to the REST API may use, without ports, separated by commas; * for any. "
        "Loopback, rest.address and rest.bind-address are always allowed.",
    ),
    Option(
        "rest.rate-limit",
        _T.INT,
        500,
        "The maximum number of requests of one client per second, with bursts of twice as many; further requests get "
        "status 429. A client is identified by its token or secret, or by its address. 0: no limit.",
    ),
    Option(
        "rest.flamegraph.enabled",
        _T.BOOL,
        True,
        "Whether flame graphs are available. Slot workers are sampled only while one is requested. Flink: false.",
    ),
    Option("rest.flamegraph.num-samples", _T.INT, 100, "The number of samples of which a flame graph consists."),
    Option("rest.flamegraph.delay-between-samples", _T.DURATION, 0.05, "The time between two samples."),
    Option(
        "rest.flamegraph.refresh-interval",
        _T.DURATION,
        60.0,
        "The age after which a requested flame graph is sampled again.",
    ),
    Option(
        "rest.flamegraph.cleanup-interval",
        _T.DURATION,
        600.0,
        "The time after which a flame graph that is not requested is removed.",
    ),
    Option(
        "taskmanager.profiler.sampler",
        _T.ENUM,
        "auto",
        "How the stacks of slot workers are sampled for flame graphs. 'py-spy' samples from outside, also while native "
        "code holds the interpreter lock; the task manager needs millstream[profile] and the permission to trace its "
        "workers. 'worker' uses a thread of the worker. 'auto' uses py-spy where that works.",
        choices=("auto", "py-spy", "worker"),
    ),
    Option(
        "rest.profiling.enabled",
        _T.BOOL,
        True,
        "Whether processes are profiled on request of a caller with the role 'operate'. Flink: false.",
    ),
    Option("rest.profiling.duration-max", _T.DURATION, 300.0, "The maximum time for which a process is profiled."),
    Option("rest.profiling.history-size", _T.INT, 10, "The number of profiles of a process that are kept."),
    Option(
        "rest.flamegraph.stack-depth", _T.INT, 100, "The maximum number of innermost frames of a stack that are shown."
    ),
    Option(
        "rest.async.store-duration",
        _T.DURATION,
        300.0,
        "How long the result of an operation with a trigger id, such as a savepoint, is available.",
    ),
    Option(
        "heartbeat.interval",
        _T.DURATION,
        10.0,
        "The interval of heartbeats between services, and of a task manager's probes of its slot workers.",
    ),
    Option(
        "jobmanager.takeover.timeout",
        _T.DURATION,
        10.0,
        "How long a job manager that becomes the leader of a job after another waits for task managers that still run "
        "its tasks. If all tasks are reported, the job continues with them; otherwise it restarts from its last "
        "checkpoint: at the end of this time, or when no task has been reported after 30 % of it.",
    ),
    Option(
        "heartbeat.timeout",
        _T.DURATION,
        50.0,
        "The time without heartbeats after which a peer is considered lost, and a slot worker killed; the same for all "
        "services. A job manager "
        "without its dispatcher, and a task manager without its job manager, stops jobs after 80 % of it.",
    ),
    Option(
        "rpc.message.max-size",
        _T.MEMORY,
        512 * 1024 * 1024,
        "The maximum size of a message between programs and services, and so of a job with its data; the same for all "
        "of them. Flink: pekko.framesize, 10 mb. Records between tasks are sent in separate buffers.",
    ),
    Option(
        "registration.timeout",
        _T.DURATION,
        300.0,
        "How long a service tries to connect to a peer that it needs before it exits.",
    ),
    Option(
        "security.allow-insecure",
        _T.BOOL,
        False,
        "Allows listening on addresses other than loopback without TLS. Anyone who can reach such a port can run code.",
    ),
    Option(
        "security.cluster.secret-file",
        _T.STRING,
        "",
        "File with the secret that all services, workers and clients of a cluster share, readable only by its user; "
        "empty: none. `millstream cluster start` creates one in the cluster's folder, where commands find it.",
    ),
    Option(
        "security.cluster.secret",
        _T.STRING,
        "",
        "The secret itself, instead of a file. `python job.py` creates one for its own services.",
    ),
    Option(
        "security.cluster.secret-certificates",
        _T.STRING,
        "",
        "The authority, certificate and key derived from the secret, as PEM; set by services for their workers.",
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
        "File with the tokens that the REST API accepts, each with its role, readable only by its user; `millstream "
        "security token` adds one. It is reloaded when it changes.",
    ),
    Option(
        "security.rest.auth.token-file",
        _T.STRING,
        "",
        "File with the token that commands send to the REST API, readable only by its user; empty: they authenticate "
        "with the cluster's secret.",
    ),
    Option("security.ssl.rest.enabled", _T.BOOL, False, "HTTPS for the REST API."),
    Option(
        "security.ssl.rest.authentication-enabled",
        _T.BOOL,
        False,
        "Whether the REST API requires a client certificate of the authority in security.ssl.rest.ca, in addition to "
        "HTTPS. Commands present the one in security.ssl.rest.cert.",
    ),
    Option(
        "security.ssl.rest.ca",
        _T.STRING,
        "",
        "PEM file with the authority of the REST API's certificate, and of its clients'. Empty: commands trust the "
        "system's authorities and the certificates in security.ssl.rest.cert.",
    ),
    Option("security.ssl.rest.cert", _T.STRING, "", "PEM file with the REST API's certificate."),
    Option("security.ssl.rest.key", _T.STRING, "", "PEM file with the REST API's private key."),
    Option(
        "io.tmp.dirs",
        _T.STRING,
        "",
        "The folder for artifacts, environments and logs of services, which other users must not be able to write to; "
        "empty: a folder of the user in the system's temporary directory.",
    ),
    Option("logging.level", _T.ENUM, "INFO", "The log level of the services.", ("DEBUG", "INFO", "WARNING", "ERROR")),
    Option(
        "python.logging.default.level",
        _T.ENUM,
        "INHERIT",
        "The level of all other loggers, such as those of a job's functions and of the libraries that they use; "
        "INHERIT: that of `logging.level`. TRACE logs everything.",
        ("INHERIT", *_LEVELS),
    ),
    Option(
        "python.logging.level.overrides",
        _T.MAP,
        {},
        "The levels of loggers with these names and their descendants: `name:level,name:level`, or a mapping in YAML.",
        _LEVELS,
    ),
    Option(
        "logging.stderr.level",
        _T.ENUM,
        "DEBUG",
        "Messages of Millstream below this level are not written to standard error. `python job.py` sets it to ERROR.",
        ("DEBUG", "INFO", "WARNING", "ERROR"),
    ),
    Option("logging.format", _T.ENUM, "text", "One line of text or one JSON object per event.", ("text", "json")),
    Option(
        "env.log.dir",
        _T.STRING,
        "",
        "The folder of log files. `millstream cluster start` sets it to `log` in the cluster's folder. A service whose"
        " standard error and output are files in it limits their size, and its slot workers write separate files"
        " there. Empty: workers write to the output of their task manager, without limits.",
    ),
    Option(
        "env.log.max",
        _T.INT,
        10,
        "The number of rotated log files that are kept of each, and of ended jobs whose workers' files are kept.",
    ),
    Option(
        "env.log.max-size",
        _T.MEMORY,
        10 * 1024 * 1024,
        "The size at which a log file is rotated; checked every second.",
    ),
    Option(
        "taskmanager.prints.name-task",
        _T.BOOL,
        True,
        "Whether lines that functions print are prefixed with the job, task and subtask. Lines of print sinks are not"
        " changed. `python job.py` sets it to false.",
    ),
)
