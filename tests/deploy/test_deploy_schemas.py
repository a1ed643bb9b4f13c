"""The samples in deploy/ against the schemas of those who are to read them, and their own checkers where there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from deploy_files import DEPLOY, INSTALLED, KUBERNETES, OVERLAYS, UNITS, compose, kubernetes_objects
from waiting import DEADLINE

OLDEST_KUBERNETES = "1.31.0"


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_objects_of_kubernetes_are_valid(overlay: str, version: str) -> None:
    for found in kubernetes_objects(overlay):
        kubernetes_validate.validate(found, version, strict=True)


def test_an_object_with_a_field_that_there_is_not_is_noticed() -> None:
    wrong = kubernetes_objects("session")[-1]
    wrong["spec"]["template"]["spec"]["containers"][0]["livenessProbes"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, OLDEST_KUBERNETES, strict=True)


@pytest.mark.process
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_puts_together_what_the_folder_holds(overlay: str) -> None:
    command = ["kubectl", "kustomize", str(KUBERNETES / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE)
    built = list(yaml.safe_load_all(done.stdout))
    assert {_identity(found) for found in built} == {_identity(found) for found in kubernetes_objects(overlay)}
    assert {found["metadata"].get("namespace", "millstream") for found in built} == {"millstream"}


def _identity(found: dict[str, Any]) -> tuple[str, str]:
    return found["kind"], found["metadata"]["name"]


def compose_schema() -> Any:
    return json.loads(
        resources.files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_text()
    )


def test_the_compose_file_is_valid() -> None:
    jsonschema.validate(compose(), compose_schema())


def test_a_compose_file_with_a_field_that_there_is_not_is_noticed() -> None:
    wrong = compose()
    wrong["services"]["taskmanager"]["commands"] = ["taskmanager"]
    with pytest.raises(jsonschema.ValidationError, match="'commands' was unexpected"):
        jsonschema.validate(wrong, compose_schema())


@pytest.mark.process
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for path in UNITS:
        text = path.read_text().replace(INSTALLED, "/bin/true")
        (tmp_path / path.name.replace("@.", "@wordcount.")).write_text(text)
    assert _verified(tmp_path) == ""
    (tmp_path / "wrong.service").write_text("[Service]\nExecStart=/bin/true\nTimeOutStopSec=1\n")
    assert re.search("Unknown key.*TimeOutStopSec", _verified(tmp_path))


def _verified(folder: Path) -> str:
    command = ["systemd-analyze", "verify", "--man=no", *map(str, sorted(folder.glob("*.service")))]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE).stderr


def test_there_is_a_page_for_everything() -> None:
    text = (DEPLOY / "README.md").read_text()
    for path in DEPLOY.iterdir():
        if path.name != "README.md":
            assert f"`{path.name}{'/' if path.is_dir() else ''}`" in text
