"""The samples in deploy/: they parse, name real commands and options, and agree with each other."""

from __future__ import annotations

import re
import shlex
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml
from doc_blocks import ROOT

from millstream.cli.main import millstream
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import OPTIONS

DEPLOY = ROOT / "deploy"
SERVICES = {"dispatcher", "jobmanager", "resourcemanager", "taskmanager"}
UNCHANGED_DEFAULTS_MARK = re.compile(r"#\s*default:|/etc/|/var/")


def test_the_sample_configuration_with_everything_taken_in(tmp_path: Path) -> None:
    sample = DEPLOY / "config.yaml"
    assert Configuration.from_yaml(sample).to_dict() == {}
    (tmp_path / "config.yaml").write_text(re.sub(r"^#(?=[a-z])", "", sample.read_text(), flags=re.M))
    everything = Configuration.load(tmp_path)
    assert len(everything.to_dict()) > 25
    for line in sample.read_text().splitlines():
        if re.match(r"#[a-z]", line) and not UNCHANGED_DEFAULTS_MARK.search(line):
            key = line[1:].partition(":")[0]
            assert everything.get(key) == OPTIONS[key].default, line


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_units_start_a_real_command(service: str) -> None:
    unit = ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # names are case-sensitive
    unit.read(DEPLOY / "systemd" / f"millstream-{service}.service")
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    command = shlex.split(unit["Service"]["ExecStart"])
    assert command[0] == "/opt/millstream/bin/millstream"
    assert command[1] == service
    assert service in millstream.commands
    assert set(command[2::2]) == {"-D"}
    Configuration.load(overrides=command[3::2])
    assert unit["Service"]["KillMode"] == "mixed"
    assert unit["Service"]["Environment"].startswith("MILLSTREAM_CONF_DIR=")


def test_there_is_a_unit_for_each_service() -> None:
    assert {path.stem.removeprefix("millstream-") for path in (DEPLOY / "systemd").iterdir()} == SERVICES


def test_the_compose_file_runs_the_four_services() -> None:
    compose = yaml.safe_load((DEPLOY / "docker" / "docker-compose.yaml").read_text())
    assert set(compose["services"]) == SERVICES
    for name, service in compose["services"].items():
        words = " ".join([*service.get("entrypoint", ["millstream"]), *service.get("command", [])])
        assert f"millstream {name}" in words.replace("exec ", "")
        assert (DEPLOY / "docker" / service["build"]["context"]).resolve() == ROOT
        assert (ROOT / service["build"]["dockerfile"]).exists()
    configuration = Configuration.from_yaml(DEPLOY / "docker" / "config.yaml")
    for service_name in SERVICES - {"taskmanager"}:
        assert configuration.string(f"{service_name}.rpc.address") == service_name
    assert compose["services"]["dispatcher"]["ports"] == ["127.0.0.1:8081:8081"]


def test_the_dockerfile_has_only_known_instructions() -> None:
    text = re.sub(r"\\\n", " ", (DEPLOY / "docker" / "Dockerfile").read_text())
    known = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "ENTRYPOINT"}
    instructions = [line.split()[0] for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert set(instructions) <= known
    assert instructions[0] == "FROM"
    assert instructions[-1] == "ENTRYPOINT"
