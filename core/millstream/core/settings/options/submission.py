"""Options of submitted programs, their artifacts and environments."""

from __future__ import annotations

from millstream.core.settings.options.model import Rows

ROWS = Rows()
WEB_ACCESS_CONTROL_ALLOW_ORIGIN = ROWS.text(
    "web.access-control-allow-origin",
    "",
    "Other origins, separated by commas, whose web pages may use the REST API; * for any. Flink: *.",
)
WEB_STATE_BROWSER_ENABLED = ROWS.boolean(
    "web.state-browser.enabled",
    True,
    "Whether the REST API reads the content of checkpoints and savepoints: in the directories of the cluster and "
    "its jobs, and those requested through the dispatcher, at any location. Rows require the role operate.",
)
WEB_STATE_BROWSER_TIMEOUT = ROWS.duration("web.state-browser.timeout", 30.0, "The time limit of one such request.")
WEB_STATE_BROWSER_MAX_SIZE = ROWS.memory(
    "web.state-browser.max-size",
    256 * 1024 * 1024,
    "The maximum size of a state file of which it shows rows, and of a snapshot that it compares with another.",
)
WEB_UPLOAD_DIR = ROWS.text("web.upload.dir", "", "The folder of uploaded wheels; empty: under io.tmp.dirs.")
PYTHON_JOB_FOLDER_MAX_SIZE = ROWS.memory(
    "python.job-folder.max-size",
    50 * 1024 * 1024,
    "The maximum size of the program's folder that is sent with its jobs, without files that `.millstreamignore`"
    " excludes. A file larger than a fifth of it is not sent. 0 sends nothing.",
)
WEB_UPLOAD_MAX_SIZE = ROWS.memory("web.upload.max-size", 512 * 1024 * 1024, "The maximum size of an uploaded wheel.")
WEB_UPLOAD_MAX_TOTAL_SIZE = ROWS.memory(
    "web.upload.max-total-size",
    10 * 1024**3,
    "The maximum total size of uploaded wheels; beyond it, the least recently used are deleted.",
)
WEB_UPLOAD_RETENTION = ROWS.duration(
    "web.upload.retention",
    30 * 86400.0,
    "The time after which an uploaded wheel that was neither run nor planned is deleted.",
)
DISPATCHER_ARTIFACTS_RETENTION = ROWS.duration(
    "dispatcher.artifacts.retention", 3600.0, "The time after which the dispatcher deletes artifacts that no job needs."
)
DISPATCHER_ARTIFACTS_MAX_TOTAL_SIZE = ROWS.memory(
    "dispatcher.artifacts.max-total-size",
    20 * 1024**3,
    "The maximum total size of artifacts; beyond it, new ones are rejected until others are deleted.",
)
WEB_SUBMIT_TIMEOUT = ROWS.duration(
    "web.submit.timeout",
    300.0,
    "The time limit for a wheel's entry point to build its job when it is run through the REST API.",
)
JOBSTORE_MAX_CAPACITY = ROWS.integer(
    "jobstore.max-capacity", 1000, "The number of ended jobs that the dispatcher remembers."
)
PYTHON_EXECUTABLE = ROWS.text(
    "python.executable", "", "The interpreter from which job environments are created; empty: the service's own."
)
PYTHON_FILES = ROWS.text(
    "python.files",
    "",
    "Files for the job's import path, separated by commas: .py, .zip or .whl, or folders; as `-pyfs`.",
)
PYTHON_REQUIREMENTS = ROWS.text(
    "python.requirements",
    "",
    "A requirements.txt to install, optionally followed by `#` and a folder with the packages; as `-pyreq`.",
)
PYTHON_ARCHIVES = ROWS.text(
    "python.archives",
    "",
    "Archives to unpack in the job's working directory, separated by commas, each optionally followed by `#` and"
    " the name of its folder; as `-pyarch`.",
)
PYTHON_PYTHONPATH = ROWS.text(
    "python.pythonpath", "", "Folders on the task managers' hosts, separated by colons, that functions import from."
)
PYTHON_ENVIRONMENTS_MAX_SIZE = ROWS.memory(
    "python.environments.max-size",
    20 * 1024**3,
    "The maximum total size of a host's job environments; beyond it, the least recently used are deleted.",
)
PYTHON_ENVIRONMENTS_RETENTION = ROWS.duration(
    "python.environments.retention",
    30 * 86400.0,
    "The time after which an unused job environment is deleted; checked when another one is created.",
)
PYTHON_UNPACK_MAX_SIZE = ROWS.memory(
    "python.unpack.max-size",
    4 * 1024 * 1024 * 1024,
    "The maximum unpacked size of a job's wheel, including bundled wheels, or of an archive.",
)
PYTHON_UNPACK_MAX_ENTRIES = ROWS.integer(
    "python.unpack.max-entries", 100_000, "The maximum number of its files and folders."
)
PYTHON_UNPACK_MAX_RATIO = ROWS.integer(
    "python.unpack.max-ratio",
    100,
    "The maximum ratio of its unpacked to its packed size; up to 32 mb are always allowed.",
)
