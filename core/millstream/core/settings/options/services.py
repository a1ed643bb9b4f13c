"""Options of the services: addresses, leader election, security, files and logs."""

from __future__ import annotations

from millstream.core.settings.options.model import Rows

_LEVELS = ("OFF", "CRITICAL", "ERROR", "WARN", "WARNING", "INFO", "DEBUG", "TRACE")
ROWS = Rows()
DISPATCHER_RPC_ADDRESS = ROWS.text(
    "dispatcher.rpc.address", "127.0.0.1", "The address of the dispatcher's gRPC service."
)
DISPATCHER_RPC_PORT = ROWS.integer("dispatcher.rpc.port", 6122, "The dispatcher's gRPC port; 0 selects a free one.")
JOBMANAGER_RPC_ADDRESS = ROWS.text(
    "jobmanager.rpc.address", "127.0.0.1", "The address of the job manager's gRPC service."
)
JOBMANAGER_RPC_PORT = ROWS.integer("jobmanager.rpc.port", 6123, "The job manager's gRPC port; 0 selects a free one.")
RESOURCEMANAGER_RPC_ADDRESS = ROWS.text(
    "resourcemanager.rpc.address", "127.0.0.1", "The address of the resource manager's gRPC service."
)
RESOURCEMANAGER_RPC_PORT = ROWS.integer(
    "resourcemanager.rpc.port", 6124, "The resource manager's gRPC port; 0 selects a free one."
)
TASKMANAGER_HOST = ROWS.text(
    "taskmanager.host",
    "127.0.0.1",
    "The address on which a task manager and its slot workers listen, and under which others connect to them.",
)
TASKMANAGER_RPC_PORT = ROWS.integer("taskmanager.rpc.port", 0, "The task manager's gRPC port; 0 selects a free one.")
HA_TYPE = ROWS.choice(
    "high-availability.type",
    "none",
    "The store of leaders and of recovery data. none: in memory, jobs are lost with their service; file: in "
    "high-availability.storageDir, for services of one host; zookeeper: in ZooKeeper.",
    ("none", "file", "zookeeper"),
)
HA_STORAGE_DIR = ROWS.text(
    "high-availability.storageDir",
    "",
    "The storage for large recovery data of all services: graphs, artifacts and results of jobs, and checkpoints "
    "of jobs that set no directory. The path of a shared folder, or a URI as for execution.checkpointing.dir "
    "(s3://, hdfs://, gs://); a folder with high-availability.type file.",
)
HA_CLUSTER_ID = ROWS.text("high-availability.cluster-id", "default", "Distinguishes clusters that share a store.")
ZOOKEEPER_QUORUM = ROWS.text("high-availability.zookeeper.quorum", "", "The ensemble, as host:port,host:port.")
ZOOKEEPER_PATH_ROOT = ROWS.text(
    "high-availability.zookeeper.path.root", "/millstream", "The root node of all data in ZooKeeper."
)
ZOOKEEPER_CLIENT_SESSION_TIMEOUT = ROWS.duration(
    "high-availability.zookeeper.client.session-timeout",
    60.0,
    "The time without heartbeats after which ZooKeeper considers a service lost, and another one becomes leader.",
)
ZOOKEEPER_CLIENT_ACL = ROWS.choice(
    "high-availability.zookeeper.client.acl",
    "open",
    "Who may access the cluster's data in ZooKeeper: everyone, or only clients that authenticate as its creator.",
    ("open", "creator"),
)
ZOOKEEPER_CLIENT_SASL_USERNAME = ROWS.text(
    "high-availability.zookeeper.client.sasl.username", "", "The user name for SASL (DIGEST-MD5); empty: no SASL."
)
ZOOKEEPER_CLIENT_SASL_PASSWORD = ROWS.text(
    "high-availability.zookeeper.client.sasl.password", "", "The password for SASL."
)
HEALTH_PORT = ROWS.integer(
    "health.port",
    0,
    "The port on which a service serves only /healthz and /readyz over plain HTTP; 0: none. Each service of a host "
    "needs its own. The REST API has the same two paths.",
)
HEALTH_BIND_ADDRESS = ROWS.text(
    "health.bind-address", "127.0.0.1", "The address on which health.port listens; 0.0.0.0 is all."
)
REST_ADDRESS = ROWS.text("rest.address", "127.0.0.1", "The address at which clients connect to the REST API.")
REST_BIND_ADDRESS = ROWS.text("rest.bind-address", "127.0.0.1", "The address on which the REST API listens.")
REST_UNIX_SOCKET = ROWS.text(
    "rest.unix-socket",
    "",
    "A Unix socket on which the REST API also serves the user that runs it, without a token. Its folder must not "
    "be accessible to others; empty: none. `millstream cluster start` sets it, for `curl -K`.",
)
REST_PORT = ROWS.integer("rest.port", 8081, "The REST API's port; 0 selects a free one.")
REST_ALLOWED_HOSTS = ROWS.text(
    "rest.allowed-hosts",
    "",
    "Additional host names that requests to the REST API may use, without ports, separated by commas; * for any. "
    "Loopback, rest.address and rest.bind-address are always allowed.",
)
REST_RATE_LIMIT = ROWS.integer(
    "rest.rate-limit",
    500,
    "The maximum number of requests of one client per second, with bursts of twice as many; further requests get "
    "status 429. A client is identified by its token or secret, or by its address. 0: no limit.",
)
REST_FLAMEGRAPH_ENABLED = ROWS.boolean(
    "rest.flamegraph.enabled",
    True,
    "Whether flame graphs are available. Slot workers are sampled only while one is requested. Flink: false.",
)
REST_FLAMEGRAPH_NUM_SAMPLES = ROWS.integer(
    "rest.flamegraph.num-samples", 100, "The number of samples of which a flame graph consists."
)
REST_FLAMEGRAPH_DELAY_BETWEEN_SAMPLES = ROWS.duration(
    "rest.flamegraph.delay-between-samples", 0.05, "The time between two samples."
)
REST_FLAMEGRAPH_REFRESH_INTERVAL = ROWS.duration(
    "rest.flamegraph.refresh-interval", 60.0, "The age after which a requested flame graph is sampled again."
)
REST_FLAMEGRAPH_CLEANUP_INTERVAL = ROWS.duration(
    "rest.flamegraph.cleanup-interval", 600.0, "The time after which a flame graph that is not requested is removed."
)
TASKMANAGER_PROFILER_SAMPLER = ROWS.choice(
    "taskmanager.profiler.sampler",
    "auto",
    "How the stacks of slot workers are sampled for flame graphs. 'py-spy' samples from outside, also while native "
    "code holds the interpreter lock; the task manager needs millstream[profile] and the permission to trace its "
    "workers. 'worker' uses a thread of the worker. 'auto' uses py-spy where that works.",
    ("auto", "py-spy", "worker"),
)
REST_PROFILING_ENABLED = ROWS.boolean(
    "rest.profiling.enabled",
    True,
    "Whether processes are profiled on request of a caller with the role 'operate'. Flink: false.",
)
REST_PROFILING_DURATION_MAX = ROWS.duration(
    "rest.profiling.duration-max", 300.0, "The maximum time for which a process is profiled."
)
REST_PROFILING_HISTORY_SIZE = ROWS.integer(
    "rest.profiling.history-size", 10, "The number of profiles of a process that are kept."
)
REST_FLAMEGRAPH_STACK_DEPTH = ROWS.integer(
    "rest.flamegraph.stack-depth", 100, "The maximum number of innermost frames of a stack that are shown."
)
REST_ASYNC_STORE_DURATION = ROWS.duration(
    "rest.async.store-duration",
    300.0,
    "How long the result of an operation with a trigger id, such as a savepoint, is available.",
)
HEARTBEAT_INTERVAL = ROWS.duration(
    "heartbeat.interval",
    10.0,
    "The interval of heartbeats between services, and of a task manager's probes of its slot workers.",
)
JOBMANAGER_TAKEOVER_TIMEOUT = ROWS.duration(
    "jobmanager.takeover.timeout",
    10.0,
    "How long a job manager that becomes the leader of a job after another waits for task managers that still run "
    "its tasks. If all tasks are reported, the job continues with them; otherwise it restarts from its last "
    "checkpoint: at the end of this time, or when no task has been reported after 30 % of it.",
)
HEARTBEAT_TIMEOUT = ROWS.duration(
    "heartbeat.timeout",
    50.0,
    "The time without heartbeats after which a peer is considered lost, and a slot worker killed; the same for all "
    "services. A job manager "
    "without its dispatcher, and a task manager without its job manager, stops jobs after 80 % of it.",
)
RPC_MESSAGE_MAX_SIZE = ROWS.memory(
    "rpc.message.max-size",
    512 * 1024 * 1024,
    "The maximum size of a message between programs and services, and so of a job with its data; the same for all "
    "of them. Flink: pekko.framesize, 10 mb. Records between tasks are sent in separate buffers.",
)
REGISTRATION_TIMEOUT = ROWS.duration(
    "registration.timeout", 300.0, "How long a service tries to connect to a peer that it needs before it exits."
)
SECURITY_ALLOW_INSECURE = ROWS.boolean(
    "security.allow-insecure",
    False,
    "Allows listening on addresses other than loopback without TLS. Anyone who can reach such a port can run code.",
)
CLUSTER_SECRET_FILE = ROWS.text(
    "security.cluster.secret-file",
    "",
    "File with the secret that all services, workers and clients of a cluster share, readable only by its user; "
    "empty: none. `millstream cluster start` creates one in the cluster's folder, where commands find it.",
)
CLUSTER_SECRET = ROWS.text(
    "security.cluster.secret",
    "",
    "The secret itself, instead of a file. `python job.py` creates one for its own services.",
)
CLUSTER_SECRET_CERTIFICATES = ROWS.text(
    "security.cluster.secret-certificates",
    "",
    "The authority, certificate and key derived from the secret, as PEM; set by services for their workers.",
)
SSL_INTERNAL_ENABLED = ROWS.boolean("security.ssl.internal.enabled", False, "Mutual TLS for all gRPC traffic.")
SSL_INTERNAL_CERT = ROWS.text("security.ssl.internal.cert", "", "PEM file with this service's certificate.")
SSL_INTERNAL_KEY = ROWS.text("security.ssl.internal.key", "", "PEM file with this service's private key.")
SSL_INTERNAL_CA = ROWS.text(
    "security.ssl.internal.ca", "", "PEM file with the authority that signs all services' certificates."
)
REST_AUTH_TOKENS_FILE = ROWS.text(
    "security.rest.auth.tokens-file",
    "",
    "File with the tokens that the REST API accepts, each with its role, readable only by its user; `millstream "
    "security token` adds one. It is reloaded when it changes.",
)
REST_AUTH_TOKEN_FILE = ROWS.text(
    "security.rest.auth.token-file",
    "",
    "File with the token that commands send to the REST API, readable only by its user; empty: they authenticate "
    "with the cluster's secret.",
)
SSL_REST_ENABLED = ROWS.boolean("security.ssl.rest.enabled", False, "HTTPS for the REST API.")
SSL_REST_AUTHENTICATION_ENABLED = ROWS.boolean(
    "security.ssl.rest.authentication-enabled",
    False,
    "Whether the REST API requires a client certificate of the authority in security.ssl.rest.ca, in addition to "
    "HTTPS. Commands present the one in security.ssl.rest.cert.",
)
SSL_REST_CA = ROWS.text(
    "security.ssl.rest.ca",
    "",
    "PEM file with the authority of the REST API's certificate, and of its clients'. Empty: commands trust the "
    "system's authorities and the certificates in security.ssl.rest.cert.",
)
SSL_REST_CERT = ROWS.text("security.ssl.rest.cert", "", "PEM file with the REST API's certificate.")
SSL_REST_KEY = ROWS.text("security.ssl.rest.key", "", "PEM file with the REST API's private key.")
IO_TMP_DIRS = ROWS.text(
    "io.tmp.dirs",
    "",
    "The folder for artifacts, environments and logs of services, which other users must not be able to write to; "
    "empty: a folder of the user in the system's temporary directory.",
)
LOGGING_LEVEL = ROWS.choice(
    "logging.level", "INFO", "The log level of the services.", ("DEBUG", "INFO", "WARNING", "ERROR")
)
PYTHON_LOGGING_DEFAULT_LEVEL = ROWS.choice(
    "python.logging.default.level",
    "INHERIT",
    "The level of all other loggers, such as those of a job's functions and of the libraries that they use; "
    "INHERIT: that of `logging.level`. TRACE logs everything.",
    ("INHERIT", *_LEVELS),
)
PYTHON_LOGGING_LEVEL_OVERRIDES = ROWS.mapping(
    "python.logging.level.overrides",
    {},
    "The levels of loggers with these names and their descendants: `name:level,name:level`, or a mapping in YAML.",
    _LEVELS,
)
LOGGING_STDERR_LEVEL = ROWS.choice(
    "logging.stderr.level",
    "DEBUG",
    "Messages of Millstream below this level are not written to standard error. `python job.py` sets it to ERROR.",
    ("DEBUG", "INFO", "WARNING", "ERROR"),
)
LOGGING_FORMAT = ROWS.choice(
    "logging.format", "text", "One line of text or one JSON object per event.", ("text", "json")
)
ENV_LOG_DIR = ROWS.text(
    "env.log.dir",
    "",
    "The folder of log files. `millstream cluster start` sets it to `log` in the cluster's folder. A service whose"
    " standard error and output are files in it limits their size, and its slot workers write separate files"
    " there. Empty: workers write to the output of their task manager, without limits.",
)
ENV_LOG_MAX = ROWS.integer(
    "env.log.max",
    10,
    "The number of rotated log files that are kept of each, and of ended jobs whose workers' files are kept.",
)
ENV_LOG_MAX_SIZE = ROWS.memory(
    "env.log.max-size", 10 * 1024 * 1024, "The size at which a log file is rotated; checked every second."
)
TASKMANAGER_PRINTS_NAME_TASK = ROWS.boolean(
    "taskmanager.prints.name-task",
    True,
    "Whether lines that functions print are prefixed with the job, task and subtask. Lines of print sinks are not"
    " changed. `python job.py` sets it to false.",
)
