"""Options of metrics and of metric reporters."""

from __future__ import annotations

from millstream.core.settings.options.model import Rows

REPORTER = "metrics.reporter.<name>"
"""The prefix of the options of a reporter, in the table; users choose the name."""
ROWS = Rows()
METRICS_FETCHER_UPDATE_INTERVAL = ROWS.duration(
    "metrics.fetcher.update-interval",
    1.0,
    "How often tasks report their metrics, and the maximum age of metrics in the REST API. Flink: 10 s.",
)
METRICS_LATENCY_INTERVAL = ROWS.duration(
    "metrics.latency.interval",
    0.0,
    "How often each source emits a marker, by which the latency to each downstream operator is measured; 0: never.",
)
METRICS_LATENCY_GRANULARITY = ROWS.choice(
    "metrics.latency.granularity",
    "operator",
    "The granularity of latencies. single: only the operator that measures them; operator: also the "
    "source; subtask: also the subtask of the source.",
    ("single", "operator", "subtask"),
)
METRICS_LATENCY_HISTORY_SIZE = ROWS.integer(
    "metrics.latency.history-size", 128, "The number of the latest markers from which a latency is computed."
)
METRICS_HOT_KEYS_ENABLED = ROWS.boolean(
    "metrics.hot-keys.enabled",
    True,
    "Whether keyed operators determine their most frequent keys from a sample of their records.",
)
METRICS_REPORTERS = ROWS.text(
    "metrics.reporters", "", "The names of the enabled reporters, separated by commas; empty: all that have a class."
)
REPORTER_FACTORY_CLASS = ROWS.text(
    f"{REPORTER}.factory.class",
    "",
    "The class of this reporter: prometheus, otel, file, the name of a plug-in, or package.module:Class.",
)
REPORTER_INTERVAL = ROWS.duration(f"{REPORTER}.interval", 10.0, "How often a push reporter reports all metrics.")
REPORTER_FILTER_INCLUDES = ROWS.text(
    f"{REPORTER}.filter.includes",
    "*:*:*",
    "The metrics that are reported: scope:name,name:type,type, separated by semicolons; * matches anything.",
)
REPORTER_FILTER_EXCLUDES = ROWS.text(
    f"{REPORTER}.filter.excludes", "", "The metrics that are excluded from these, in the same syntax."
)
REPORTER_SCOPE_VARIABLES_EXCLUDES = ROWS.text(
    f"{REPORTER}.scope.variables.excludes", "", "Variables that are excluded, separated by semicolons."
)
REPORTER_SCOPE_VARIABLES_ADDITIONAL = ROWS.text(
    f"{REPORTER}.scope.variables.additional", "", "Variables that are added, as name:value,name:value."
)
REPORTER_HOST = ROWS.text(f"{REPORTER}.host", "127.0.0.1", "The address on which a Prometheus endpoint listens.")
REPORTER_PORT = ROWS.text(
    f"{REPORTER}.port",
    "9249",
    "The port of a Prometheus endpoint; from a range such as 9249-9260, each process of a host uses a free one.",
)
REPORTER_FILTER_LABEL_VALUE_CHARACTERS = ROWS.boolean(
    f"{REPORTER}.filterLabelValueCharacters",
    True,
    "Whether characters other than letters, digits, colons and underscores in label values are replaced by "
    "underscores.",
)
REPORTER_EXPORTER_ENDPOINT = ROWS.text(
    f"{REPORTER}.exporter.endpoint", "http://127.0.0.1:4318/v1/metrics", "The endpoint to which OTLP is sent."
)
REPORTER_EXPORTER_TIMEOUT = ROWS.duration(f"{REPORTER}.exporter.timeout", 10.0, "The timeout of an export.")
REPORTER_SERVICE_NAME = ROWS.text(f"{REPORTER}.service.name", "millstream", "The resource's service.name in OTLP.")
REPORTER_SERVICE_VERSION = ROWS.text(f"{REPORTER}.service.version", "", "The resource's service.version in OTLP.")
REPORTER_DIRECTORY = ROWS.text(
    f"{REPORTER}.directory", "", "The folder in which a file reporter writes a file for each service."
)
REPORTER_MAX_SIZE = ROWS.memory(
    f"{REPORTER}.max-size", 64 << 20, "The size at which such a file is rotated; one rotated file is kept."
)
