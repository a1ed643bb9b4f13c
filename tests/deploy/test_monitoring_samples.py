"""The alert rules and the dashboard in `deploy/` use only metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from millstream.core.metrics.descriptions import TABLE
from millstream.core.metrics.reporting.prometheus import prometheus_name

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def exported() -> set[str]:
    names = set()
    for row in TABLE:
        groups = [part for part in row.group.split(".") if part and not part.startswith("<")]
        names.add(prometheus_name((*row.scope.split("."), *groups, row.name)))
    return names


def queried(*expressions: str) -> set[str]:
    return {name for expression in expressions for name in re.findall(r"\bflink_\w+", expression)}


def test_alert_rules_use_metrics_that_there_are() -> None:
    groups = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert queried(*(rule["expr"] for rule in rules)) <= exported()
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert {"summary", "description"} <= rule["annotations"].keys()


def test_the_dashboard_shows_metrics_that_there_are() -> None:
    dashboard: dict[str, Any] = json.loads((DEPLOY / "grafana" / "millstream.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    variables = [known["query"]["query"] for known in dashboard["templating"]["list"] if known["name"] == "job"]
    assert len(expressions) > 20
    assert all(queried(expression) for expression in expressions)
    assert queried(*expressions, *variables) <= exported()
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places), "no panel covers another"
