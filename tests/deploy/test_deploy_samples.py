"""The samples in deploy/: they parse, name real commands and options, and agree with each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
from deploy_files import (
    COMPOSE,
    DEPLOY,
    OVERLAYS,
    ROOT,
    UNITS,
    Command,
    compose,
    compose_commands,
    kubernetes_commands,
    kubernetes_configuration,
    kubernetes_objects,
    pods,
    unit,
    unit_commands,
)

from millstream.cli.main import millstream
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import OPTIONS

SERVICES = {"dispatcher", "jobmanager", "resourcemanager", "taskmanager"}
UNCHANGED_DEFAULTS_MARK = re.compile(r"#\s*default:|/etc/|/var/")
COMMANDS = [
    *kubernetes_commands("session").values(),
    *kubernetes_commands("application").values(),
    *compose_commands().values(),
    *unit_commands().values(),
]
CONFIGURATIONS = {
    "session": kubernetes_configuration("session"),
    "application": kubernetes_configuration("application"),
    "compose": Configuration.from_yaml(COMPOSE.parent / "config.yaml").to_dict(),
}


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


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_option_of_a_configuration_is_one(name: str) -> None:
    options = CONFIGURATIONS[name]
    assert set(options) <= set(OPTIONS)
    Configuration(options)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_and_its_options_are_real(command: Command) -> None:
    assert command.role in millstream.commands
    text = " ".join(command.words)
    for key in re.findall(r"-D \"?([^ =]+)=", text):
        assert key in OPTIONS, text
    context = click.Context(millstream.commands[command.role], info_name=command.role)
    if not command.by_shell:
        millstream.commands[command.role].make_parser(context).parse_args(list(command.words[1:]))


def test_each_way_runs_all_services() -> None:
    for commands in (kubernetes_commands("session"), compose_commands(), unit_commands()):
        assert {command.role for command in commands.values()} - {"standalone-job"} == SERVICES
    roles = {command.role for command in kubernetes_commands("application").values()}
    assert roles == {"standalone-job", "taskmanager"}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_units_end_what_they_started_and_find_their_configuration(path: Path) -> None:
    service = unit(path)["Service"]
    assert set(unit(path).sections()) == {"Unit", "Service", "Install"}
    assert service["KillMode"] == "mixed"
    assert service["Environment"].startswith("MILLSTREAM_CONF_DIR=")


def test_a_stopped_application_is_no_failed_unit_and_a_failed_job_is_not_run_again() -> None:
    service = unit(DEPLOY / "systemd" / "millstream-application@.service")["Service"]
    assert (service["SuccessExitStatus"], service["Restart"]) == ("143", "on-abnormal")
    (job,) = [found for found in kubernetes_objects("application") if found["kind"] == "Job"]
    ignored, rule = job["spec"]["podFailurePolicy"]["rules"]
    assert (ignored["action"], ignored["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
    assert (rule["action"], rule["onExitCodes"]["operator"], rule["onExitCodes"]["values"]) == (
        "FailJob", "NotIn", [137, 143],
    )  # fmt: skip
    assert rule["onExitCodes"]["containerName"] == job["spec"]["template"]["spec"]["containers"][0]["name"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_objects_of_kubernetes_find_each_other(overlay: str) -> None:
    objects = kubernetes_objects(overlay)
    by_kind: dict[str, set[str]] = {}
    for found in objects:
        by_kind.setdefault(found["kind"], set()).add(found["metadata"]["name"])
    labels = [o["spec"]["template"]["metadata"]["labels"] for o in objects if "template" in o.get("spec", {})]
    ports = [{p["name"] for c in pod["containers"] for p in c["ports"]} for _, pod in pods(objects)]
    for service in (o for o in objects if o["kind"] == "Service"):
        selected = [n for n, found in enumerate(labels) if service["spec"]["selector"].items() <= found.items()]
        assert selected, service["metadata"]["name"]
        for port in service["spec"]["ports"]:
            assert all(port["targetPort"] in ports[number] for number in selected), service["metadata"]["name"]
    for name, pod in pods(objects):
        (container,) = pod["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} <= {
            *(volume["name"] for volume in pod.get("volumes", [])), *_claimed(objects, name),
        }  # fmt: skip
        for volume in pod.get("volumes", []):
            if "configMap" in volume:
                assert volume["configMap"]["name"] in by_kind["ConfigMap"]
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in by_kind["PersistentVolumeClaim"]
        for kind in ("livenessProbe", "readinessProbe"):
            if "httpGet" in container[kind]:
                assert container[kind]["httpGet"]["port"] in {port["name"] for port in container["ports"]}
    for scaler in (o for o in objects if o["kind"] == "HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]
        assert target["name"] in by_kind[target["kind"]]
        (scaled,) = [o for o in objects if o["kind"] == target["kind"] and o["metadata"]["name"] == target["name"]]
        assert "replicas" not in scaled["spec"], "or each `kubectl apply` would undo what the autoscaler did"
        requests = scaled["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
        assert {metric["resource"]["name"] for metric in scaler["spec"]["metrics"]} <= set(requests)


def _claimed(objects: list[dict[str, Any]], name: str) -> set[str]:
    """The volumes that a stateful set makes for its pods."""
    return {
        claim["metadata"]["name"]
        for found in objects
        if found["metadata"]["name"] == name
        for claim in found.get("spec", {}).get("volumeClaimTemplates", [])
    }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_ports_and_addresses_in_kubernetes_are_those_of_the_configuration(overlay: str) -> None:
    options = Configuration(kubernetes_configuration(overlay))
    objects = kubernetes_objects(overlay)
    services = {o["metadata"]["name"] for o in objects if o["kind"] == "Service"}
    for key, value in options.to_dict().items():
        if key.endswith(".address") and not key.startswith(("rest.bind", "health.")):
            assert value in services, key
    expected = {"health": "health.port", "rest": "rest.port"}
    for name, pod in pods(objects):
        (container,) = pod["containers"]
        role = container.get("args", [""])[0]
        rpc = "resourcemanager" if role == "standalone-job" else role
        for port in container["ports"] if role in millstream.commands else []:
            key = expected.get(port["name"], f"{rpc}.rpc.port")
            assert port["containerPort"] == options.value(key), f"{name}: {port}"
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        if role in millstream.commands:
            assert "/etc/millstream" in mounts, "where the image looks for config.yaml"
            assert any(options.value("io.tmp.dirs").startswith(f"{mount}/") for mount in mounts)


def test_the_quorum_is_the_ensemble() -> None:
    (ensemble,) = [o for o in kubernetes_objects("session") if o["kind"] == "StatefulSet"]
    name, service = ensemble["metadata"]["name"], ensemble["spec"]["serviceName"]
    members = [f"{name}-{number}.{service}" for number in range(ensemble["spec"]["replicas"])]
    (container,) = ensemble["spec"]["template"]["spec"]["containers"]
    servers = {variable["name"]: variable["value"] for variable in container["env"]}["ZOO_SERVERS"]
    _check_ensemble(members, servers, *(CONFIGURATIONS[overlay] for overlay in OVERLAYS))
    assert len({CONFIGURATIONS[overlay]["high-availability.cluster-id"] for overlay in OVERLAYS}) == len(OVERLAYS)

    nodes = {n: s["environment"] for n, s in compose()["services"].items() if s["image"].startswith("zookeeper")}
    assert [node["ZOO_MY_ID"] for node in nodes.values()] == [1, 2, 3]
    for node in nodes.values():
        _check_ensemble(list(nodes), node["ZOO_SERVERS"], CONFIGURATIONS["compose"])


def test_the_ensemble_keeps_all_that_it_wrote() -> None:
    """Its image has snapshots in one folder, and what was written since in another."""
    (ensemble,) = [o for o in kubernetes_objects("session") if o["kind"] == "StatefulSet"]
    (container,) = ensemble["spec"]["template"]["spec"]["containers"]
    kept = [{mount["mountPath"] for mount in container["volumeMounts"]}]
    for service in compose()["services"].values():
        if service["image"].startswith("zookeeper"):
            kept.append({volume.partition(":")[2] for volume in service["volumes"]})
    assert kept == [{"/data", "/datalog"}] * 4


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_volumes_are_made_the_groups_once_and_what_is_private_in_them_stays_so(overlay: str) -> None:
    """Else each new pod would open the folders to the group, and services refuse folders that others may write to."""
    for name, pod in pods(kubernetes_objects(overlay)):
        assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch", name


def _check_ensemble(members: list[str], servers: str, *configurations: dict[str, Any]) -> None:
    assert len(members) == 3
    assert servers.split() == [f"server.{n}={m}:2888:3888;2181" for n, m in enumerate(members, start=1)]
    for options in configurations:
        assert options["high-availability.zookeeper.quorum"] == ",".join(f"{member}:2181" for member in members)


def test_the_autoscaler_feeds_a_reactive_job() -> None:
    options = CONFIGURATIONS["application"]
    assert (options["jobmanager.scheduler"], options["scheduler-mode"]) == ("adaptive", "reactive")
    (scaler,) = [o for o in kubernetes_objects("application") if o["kind"] == "HorizontalPodAutoscaler"]
    command = kubernetes_commands("application")[scaler["spec"]["scaleTargetRef"]["name"]]
    assert command.role == "taskmanager"


def test_there_are_two_of_each_service() -> None:
    for found in kubernetes_objects("session"):
        if found["kind"] == "Deployment":
            assert found["spec"]["replicas"] >= 2, found["metadata"]["name"]
    roles = [command.role for command in compose_commands().values()]
    assert {role: roles.count(role) for role in SERVICES - {"taskmanager"}} == dict.fromkeys(
        SERVICES - {"taskmanager"}, 2
    )


def test_the_compose_file_builds_its_image_and_names_what_it_mounts() -> None:
    found = compose()
    options = Configuration(CONFIGURATIONS["compose"])
    for service in found["services"].values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert (COMPOSE.parent / source).exists() if source.startswith(".") else source in found["volumes"]
        if service["image"] == "millstream":
            assert (COMPOSE.parent / service["build"]["context"]).resolve() == ROOT
            assert (ROOT / service["build"]["dockerfile"]).exists()
            assert f":{options.value('health.port')}/healthz" in service["healthcheck"]["test"][-1]
    for key, value in options.to_dict().items():
        if key.endswith(".address") and not key.startswith(("rest.bind", "health.")):
            assert value in found["services"], key
    published = [p for s in found["services"].values() for p in s.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published), "a client that reaches REST can run code"


@pytest.mark.parametrize("path", sorted((DEPLOY / "docker").glob("*ockerfile")), ids=lambda path: path.name)
def test_dockerfiles_have_only_known_instructions(path: Path) -> None:
    text = re.sub(r"\\\n", " ", path.read_text())
    known = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "ENTRYPOINT", "CMD"}
    instructions = [line.split()[0] for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert set(instructions) <= known
    assert instructions[0] == "FROM"
    assert instructions[-1] in ("ENTRYPOINT", "CMD")


def test_the_image_of_an_application_runs_the_wheel_that_is_in_it() -> None:
    text = (DEPLOY / "docker" / "application.Dockerfile").read_text()
    wheel = re.search(r"^COPY (\S+\.whl) (/\S+/)$", text, re.M)
    assert wheel is not None
    path = wheel.group(2) + wheel.group(1)
    assert f'CMD ["standalone-job", "{path}"]' in text
    assert kubernetes_commands("application")["wordcount"].words[-1] == path


def test_the_image_is_built_with_the_dashboard_and_the_kernels_and_without_what_is_installed_here() -> None:
    stages = (DEPLOY / "docker" / "Dockerfile").read_text().split("\nFROM ")
    build, image = stages[1:]
    assert re.search(r"apt-get install [^&]*\bnpm\b", build), "hatch_build.py leaves the dashboard out without npm"
    assert re.search(r"apt-get install [^&]*\bgcc\b [^&]*\blibc6-dev\b", build), "and the kernels without a compiler"
    assert build.index("npm") < build.index("pip wheel")
    assert not {"npm", "gcc"} & set(image.split())
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "**/node_modules", "core/millstream/core/kernels/built"} <= set(ignored)
    assert not {"dashboard", "proto", "docs", "README.md", "LICENSE"} & set(ignored), "the build needs them"
