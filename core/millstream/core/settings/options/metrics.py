"""Options of metrics and of metric reporters."""

from __future__ import annotations

from millstream.core.settings.options.model import Option, OptionType

_T = OptionType
REPORTER = "metrics.reporter.<name>"
"""The prefix of the options of a reporter, in the table; users choose the name."""
ROWS = (
    Option(
        "metrics.fetcher.update-interval",
        _T.DURATION,
        1.0,
        "How often tasks report their metrics, and the maximum age of metrics in the REST API. Flink: 10 s.",
    ),
    Option(
        "metrics.latency.interval",
        _T.DURATION,
        0.0,
        "How often each source emits a marker, by which the latency to each downstream operator is measured; 0: never.",
    ),
    Option(
        "metrics.latency.granularity",
        _T.ENUM,
        "operator",
        "The granularity of latencies. single: only the operator that measures them; operator: also the "
        "source; subtask: also the subtask of the source.",
        ("single", "operator", "subtask"),
    ),
    Option(
        "metrics.latency.history-size",
        _T.INT,
        128,
        "The number of the latest markers from which a latency is computed.",
    ),
    Option(
        "metrics.hot-keys.enabled",
        _T.BOOL,
        True,
        "Whether keyed operators determine their most frequent keys from a sample of their records.",
    ),
    Option(
        "metrics.reporters",
        _T.STRING,
        "",
        "The names of the enabled reporters, separated by commas; empty: all that have a class.",
    ),
    Option(
        f"{REPORTER}.factory.class",
        _T.STRING,
        "",
        "The class of this reporter: prometheus, otel, file, the name of a plug-in, or package.module:Class.",
    ),
    Option(f"{REPORTER}.interval", _T.DURATION, 10.0, "How often a push reporter reports all metrics."),
    Option(
        f"{REPORTER}.filter.includes",
        _T.STRING,
        "*:*:*",
        "The metrics that are reported: scope:name,name:type,type, separated by semicolons; * matches anything.",
    ),
    Option(
        f"{REPORTER}.filter.excludes", _T.STRING, "", "The metrics that are excluded from these, in the same syntax."
    ),
    Option(
        f"{REPORTER}.scope.variables.excludes", _T.STRING, "", "Variables that are excluded, separated by semicolons."
    ),
    Option(
        f"{REPORTER}.scope.variables.additional", _T.STRING, "", "Variables that are added, as name:value,name:value."
    ),
    Option(f"{REPORTER}.host", _T.STRING, "127.0.0.1", "The address on which a Prometheus endpoint listens."),
    Option(
        f"{REPORTER}.port",
        _T.STRING,
        "9249",
        "The port of a Prometheus endpoint; from a range such as 9249-9260, each process of a host uses a free one.",
    ),
    Option(
        f"{REPORTER}.filterLabelValueCharacters",
        _T.BOOL,
        True,
        "Whether characters other than letters, digits, colons and underscores in label values are replaced by "
        "underscores.",
    ),
    Option(
        f"{REPORTER}.exporter.endpoint",
        _T.STRING,
        "http://127.0.0.1:4318/v1/metrics",
        "The endpoint to which OTLP is sent.",
    ),
    Option(f"{REPORTER}.exporter.timeout", _T.DURATION, 10.0, "The timeout of an export."),
    Option(f"{REPORTER}.service.name", _T.STRING, "millstream", "The resource's service.name in OTLP."),
    Option(f"{REPORTER}.service.version", _T.STRING, "", "The resource's service.version in OTLP."),
    Option(
        f"{REPORTER}.directory", _T.STRING, "", "The folder in which a file reporter writes a file for each service."
    ),
    Option(
        f"{REPORTER}.max-size",
        _T.MEMORY,
        64 << 20,
        "The size at which such a file is rotated; one rotated file is kept.",
    ),
)
