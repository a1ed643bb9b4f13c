"""Options of metrics and of the reporters that carry them on."""

from __future__ import annotations

from millstream.core.settings.options.model import Option, OptionType

_T = OptionType
REPORTER = "metrics.reporter.<name>"
"""What the options of a reporter begin with, in the table: the name is the user's."""
ROWS = (
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
)
