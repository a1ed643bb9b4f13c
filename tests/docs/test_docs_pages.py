"""Pages are correct: their Python runs, their links have targets, their tables match the program."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import click
import pytest
from doc_blocks import DOCS, ROOT, blocks_of, pages
from doc_shell import DEADLINE, Shell

from millstream.cli.main import millstream
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import OPTIONS
from millstream.dispatcher.service import DispatcherService

_PACKAGES = [
    "core",
    "common",
    "datastream",
    "client",
    "cli",
    *(f"{name}manager" for name in ("resource", "job", "task")),
    "dispatcher",
]
PROGRAMS = [
    page
    for page in pages()
    if any(block.language == "python" and block.file is None and block.tested for block in blocks_of(page))
]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.name)
def test_the_python_of_a_page_runs_as_one_program(page: Path, shell: Shell) -> None:
    blocks = [b for b in blocks_of(page) if b.language == "python" and b.file is None and b.tested]
    (shell.folder / "page.py").write_text("\n".join(block.text for block in blocks))
    shell.run("python page.py")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), f"{page.name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", path.read_text(), re.M)
            assert anchor in {re.sub(r"[^\w\- ]", "", h).lower().replace(" ", "-") for h in headings}, target


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_files_and_options_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    packages = [path / "millstream" for path in ROOT.iterdir() if (path / "millstream").is_dir()]
    folders = "|".join(["examples", "deploy", "docs", "benchmarks", "tests", "proto", *_PACKAGES])
    for name in re.findall(rf"`((?:{folders})/[\w./-]*\w\.\w+)`", text):
        if name != "benchmarks/RESULTS.md":
            assert any((folder / name).exists() for folder in (ROOT, *packages)), f"{page.name}: {name}"
    for key in re.findall(r"-D ?([\w.-]+)=", text):
        assert key in OPTIONS or key in ("key", "my.key"), f"{page.name}: {key}"
    families = {key.partition(".")[0] for key in OPTIONS} - {"python"}
    for key in re.findall(r"`([a-z]+\.[\w.*-]+)(?:[:=][^`]*)?`", text):
        if key.partition(".")[0] in families and not key.endswith((".py", ".yaml")):
            family = key.endswith("*") and any(option.startswith(key.removesuffix("*")) for option in OPTIONS)
            assert family or key in OPTIONS, f"{page.name}: {key}"


@pytest.mark.process
def test_the_configuration_page_is_current() -> None:
    check = [sys.executable, str(DOCS / "generate.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr


def _commands(group: click.Group, prefix: str = "") -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found += _commands(command, f"{prefix}{name} ")
        else:
            found.append((f"{prefix}{name}", command))
    return found


def test_the_command_line_page_has_every_command_and_option() -> None:
    text = (DOCS / "command-line.md").read_text()
    for name, command in _commands(millstream):
        assert f"`millstream {name}" in text, name
        options = {o for p in command.params if isinstance(p, click.Option) for o in p.opts}
        for option in options:
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text), f"{name} {option}"


def test_the_rest_page_has_exactly_the_endpoints_of_the_api(tmp_path: Path) -> None:
    text = (DOCS / "rest-api.md").read_text().partition("## What is left out")[0]
    documented = set(re.findall(r"^\| `([A-Z]+) (/\S*)` \|", text, re.M))
    served = asyncio.run(_endpoints(tmp_path))
    assert documented == {(method, re.sub(r"\{(\w+)\}", r":\1", path)) for method, path in served}


async def _endpoints(folder: Path) -> set[tuple[str, str]]:
    """All but the aliases, from the dispatcher's own description."""
    options = {"dispatcher.rpc.port": 0, "rest.port": 0, "io.tmp.dirs": str(folder)}
    dispatcher = DispatcherService(Configuration(options))
    await dispatcher.start()
    try:
        url = f"http://{dispatcher.rest_address}/openapi.json"
        document = json.loads(await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=DEADLINE).read()))
    finally:
        await dispatcher.stop()
    return {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
        if not path.startswith("/wheels")
    }
