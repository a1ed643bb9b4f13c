"""Options of submitted programs, their artifacts and environments."""

from __future__ import annotations

from millstream.core.settings.options.model import Option, OptionType

_T = OptionType
ROWS = (
    Option(
        "web.access-control-allow-origin",
        _T.STRING,
        "",
        "Other origins, separated by commas, whose web pages may use the REST API; * for any. Flink: *.",
    ),
    Option(
        "web.state-browser.enabled",
        _T.BOOL,
        True,
        "Whether the REST API reads the content of checkpoints and savepoints: in the directories of the cluster and "
        "its jobs, and those requested through the dispatcher, at any location. Rows require the role operate.",
    ),
    Option("web.state-browser.timeout", _T.DURATION, 30.0, "The time limit of one such request."),
    Option(
        "web.state-browser.max-size",
        _T.MEMORY,
        256 * 1024 * 1024,
        "The maximum size of a state file of which it shows rows, and of a snapshot that it compares with another.",
    ),
    Option("web.upload.dir", _T.STRING, "", "The folder of uploaded wheels; empty: under io.tmp.dirs."),
    Option(
        "python.job-folder.max-size",
        _T.MEMORY,
        50 * 1024 * 1024,
        "The maximum size of the program's folder that is sent with its jobs, without files that `.millstreamignore`"
        " excludes. A file larger than a fifth of it is not sent. 0 sends nothing.",
    ),
    Option("web.upload.max-size", _T.MEMORY, 512 * 1024 * 1024, "The maximum size of an uploaded wheel."),
    Option(
        "web.upload.max-total-size",
        _T.MEMORY,
        10 * 1024**3,
        "The maximum total size of uploaded wheels; beyond it, the least recently used are deleted.",
    ),
    Option(
        "web.upload.retention",
        _T.DURATION,
        30 * 86400.0,
        "The time after which an uploaded wheel that was neither run nor planned is deleted.",
    ),
    Option(
        "dispatcher.artifacts.retention",
        _T.DURATION,
        3600.0,
        "The time after which the dispatcher deletes artifacts that no job needs.",
    ),
    Option(
        "dispatcher.artifacts.max-total-size",
        _T.MEMORY,
        20 * 1024**3,
        "The maximum total size of artifacts; beyond it, new ones are rejected until others are deleted.",
    ),
    Option(
        "web.submit.timeout",
        _T.DURATION,
        300.0,
        "The time limit for a wheel's entry point to build its job when it is run through the REST API.",
    ),
    Option("jobstore.max-capacity", _T.INT, 1000, "The number of ended jobs that the dispatcher remembers."),
    Option(
        "python.executable",
        _T.STRING,
        "",
        "The interpreter from which job environments are created; empty: the service's own.",
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
        "A requirements.txt to install, optionally followed by `#` and a folder with the packages; as `-pyreq`.",
    ),
    Option(
        "python.archives",
        _T.STRING,
        "",
        "Archives to unpack in the job's working directory, separated by commas, each optionally followed by `#` and"
        " the name of its folder; as `-pyarch`.",
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
        "The maximum total size of a host's job environments; beyond it, the least recently used are deleted.",
    ),
    Option(
        "python.environments.retention",
        _T.DURATION,
        30 * 86400.0,
        "The time after which an unused job environment is deleted; checked when another one is created.",
    ),
    Option(
        "python.unpack.max-size",
        _T.MEMORY,
        4 * 1024 * 1024 * 1024,
        "The maximum unpacked size of a job's wheel, including bundled wheels, or of an archive.",
    ),
    Option("python.unpack.max-entries", _T.INT, 100_000, "The maximum number of its files and folders."),
    Option(
        "python.unpack.max-ratio",
        _T.INT,
        100,
        "The maximum ratio of its unpacked to its packed size; up to 32 mb are always allowed.",
    ),
)
