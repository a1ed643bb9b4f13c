"""Options of programs that are submitted, and of what they bring."""

from __future__ import annotations

from millstream.core.settings.options.model import Option, OptionType

_T = OptionType
ROWS = (
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
        "Whether the REST API looks into checkpoints and savepoints: in the directories of the cluster and its jobs, "
        "and those that the dispatcher was asked for, wherever they are. Rows need the role operate.",
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
)
