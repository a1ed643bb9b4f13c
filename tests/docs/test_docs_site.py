"""What the web site of the documentation has beside the pages in docs/. `make docs-site` checks that it builds."""

from __future__ import annotations

import json
import re
import sys

import click
import pytest
import yaml
from doc_blocks import DOCS, ROOT

sys.path.insert(0, str(DOCS / "site"))

import api_pages
import cli_page
import hooks
import rest_page

from millstream.cli.main import millstream


def test_the_reference_has_every_command_and_every_option() -> None:
    page = cli_page.page()

    def check(group: click.Group, path: str) -> None:
        for name, command in group.commands.items():
            if isinstance(command, click.Group):
                check(command, f"{path} {name}")
            else:
                assert f"## {path} {name}\n" in page
                for option in (p for p in command.params if isinstance(p, click.Option)):
                    assert option.opts[-1] in page, option

    check(millstream, "millstream")


def test_the_reference_has_every_endpoint() -> None:
    page, paths = rest_page.page(), rest_page.document()["paths"]
    endpoints = [(m.upper(), p) for p, methods in paths.items() if not p.startswith("/wheels") for m in methods]
    assert len(endpoints) > 40
    for method, path in endpoints:
        assert f"## {method} {path.replace('{', ':').replace('}', '')}\n" in page
    assert "    vertex: string or null\n" in page


def test_every_public_name_is_described_once() -> None:
    described = [line for page in api_pages.pages().values() for line in page.splitlines() if line.startswith("::: ")]
    assert len(described) == len(set(described)) > 200
    assert "::: millstream.datastream.KeyedStream" in described
    assert "::: millstream.datastream.functions.MapFunction" in described
    assert "::: millstream.datastream.MapFunction" not in described
    page = api_pages.pages()["reference/api/datastream.md"]
    assert "inherited_members: [" in page[page.index("::: millstream.datastream.WindowedStream") :][:200]


@pytest.mark.parametrize(
    ("source", "uri", "text", "expected"),
    [
        ("docs/a.md", "a.md", "[x](b.md#c)", "[x](b.md#c)"),
        ("docs/a.md", "a.md", "[x](../README.md)", "[x](index.md)"),
        ("docs/a.md", "a.md", "[x](../examples/demo.py)", "[x](repository/examples/demo.py.md)"),
        ("docs/a.md", "a.md", "[x](https://e.org/../y)", "[x](https://e.org/../y)"),
        ("README.md", "index.md", "[x](docs/state.md#b)", "[x](state.md#b)"),
        ("README.md", "index.md", "[y](deploy/config.yaml)", "[y](repository/deploy/config.yaml.md)"),
        ("docs/a.md", "a.md", "handlers[0](event)", "handlers[0](event)"),
    ],
)
def test_links_out_of_the_folder(source: str, uri: str, text: str, expected: str) -> None:
    assert hooks.linked(text, source, uri) == expected


def test_what_loads_from_elsewhere() -> None:
    fine = '<a href="https://e.org"></a><link rel="canonical" href="https://e.org"><img src="a.png"><script src="b.js">'
    assert hooks.loads_from_elsewhere(fine) == []
    for tag in ('<script src="https://e.org/a.js">', "<img src=//e.org/a>", '<link rel="stylesheet" href="http://e.org">'):
        assert hooks.loads_from_elsewhere(f"<p>{tag}</p>") == [tag]


def test_pages_that_the_search_would_not_find() -> None:
    entries = [("a.html", "words"), ("b.html#part", "words"), ("c.html", " "), ("d.html", "")]
    index = json.dumps({"docs": [{"location": location, "title": "x", "text": text} for location, text in entries]})
    pages = [f"{name}.html" for name in "abcde"]
    assert hooks.unsearchable(index, pages) == pages[2:]


def test_the_search_finds_parts_of_options_and_names() -> None:
    (search,) = (p["search"] for p in yaml.safe_load((ROOT / "mkdocs.yml").read_text())["plugins"] if "search" in p)
    for text, part in (("rest.flamegraph.enabled", "flamegraph"), ("KeyedStream", "Stream"), ("0.1.0", "0.1.0")):
        assert part in re.split(search["separator"], text)


def test_the_navigation_names_pages_that_are_there() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    pages = [page for part in nav for entries in part.values() for page in entries]
    assert len(pages) == len(set(pages))
    for page in pages:
        assert page == "index.md" or page.startswith("reference/") or (DOCS / page).exists(), page
