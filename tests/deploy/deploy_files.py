"""What is in deploy/: its files as data, and the commands in them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
OVERLAYS = ("session", "application")
COMPOSE = DEPLOY / "docker" / "docker-compose.yaml"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
OWN_IMAGES = ("millstream", "wordcount")
INSTALLED = "/opt/millstream/bin/millstream"


class Command(Struct, frozen=True):
    """What a file has run: `words` begin behind `millstream`, or are a whole command of a shell."""

    name: str
    words: list[str]
    probes: tuple[str, ...] = ()
    by_shell: bool = False

    @property
    def role(self) -> str:
        """The subcommand."""
        words = self.words if not self.by_shell else shlex.split(self.words[-1].partition("millstream")[2])
        return words[0]


def kubernetes_objects(overlay: str) -> list[dict[str, Any]]:
    """All objects of an overlay, as `kubectl kustomize` puts them together."""
    return list(_resources(KUBERNETES / overlay))


def _resources(folder: Path) -> Iterator[dict[str, Any]]:
    for name in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
        path = (folder / name).resolve()
        if path.is_dir():
            yield from _resources(path)
        else:
            yield from yaml.safe_load_all(path.read_text())


def pods(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name and the pod's specification of each object that makes pods."""
    for found in objects:
        if "template" in found.get("spec", {}):
            yield found["metadata"]["name"], found["spec"]["template"]["spec"]


def kubernetes_commands(overlay: str) -> dict[str, Command]:
    """Those of Millstream's containers, with what is probed, for a pod at 127.0.0.1."""
    commands = {}
    for name, pod in pods(kubernetes_objects(overlay)):
        (container,) = pod["containers"]
        if container["image"] in OWN_IMAGES:
            words = [word.replace("$(POD_IP)", "127.0.0.1") for word in container["args"]]
            probes = [container[kind]["httpGet"]["path"] for kind in ("livenessProbe", "readinessProbe")]
            commands[name] = Command(name, words, tuple(probes))
    return commands


def kubernetes_configuration(overlay: str) -> dict[str, Any]:
    """The options in the ConfigMap of an overlay."""
    (found,) = [o for o in kubernetes_objects(overlay) if o["kind"] == "ConfigMap"]
    return flat(yaml.safe_load(found["data"]["config.yaml"]))


def compose() -> dict[str, Any]:
    """The compose file, with what its services have in common put in."""
    loaded = yaml.safe_load(COMPOSE.read_text())
    assert isinstance(loaded, dict)
    return loaded


def compose_commands() -> dict[str, Command]:
    """Those of Millstream's services."""
    commands = {}
    for name, service in compose()["services"].items():
        if service["image"] == "millstream":
            words = service.get("command") or [word.replace("$$", "$") for word in service["entrypoint"][2:]]
            commands[name] = Command(name, words, ("/healthz",), by_shell="command" not in service)
    return commands


def unit(path: Path) -> ConfigParser:
    """A unit of systemd."""
    parsed = ConfigParser(interpolation=None, strict=False)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]  # names are case-sensitive
    parsed.read(path)
    return parsed


def unit_commands() -> dict[str, Command]:
    """Those of the units."""
    commands = {}
    for path in UNITS:
        words = shlex.split(unit(path)["Service"]["ExecStart"])
        assert words[0] == INSTALLED
        commands[path.stem.removeprefix("millstream-")] = Command(path.stem, words[1:])
    return commands


def flat(options: Mapping[str, Any]) -> dict[str, Any]:
    """Samples write each option in one line."""
    assert all(not isinstance(value, (dict, list)) for value in options.values())
    return dict(options)
