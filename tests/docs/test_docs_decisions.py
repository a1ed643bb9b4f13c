"""Decisions have a page each, of one form, and the index has them all."""

from __future__ import annotations

import re

from doc_blocks import DOCS

PAGES = sorted((DOCS / "decisions").glob("[0-9]*.md"))
SECTIONS = ["Context", "Decision", "Measurement", "Consequences"]


def test_a_page_has_a_title_and_its_sections_in_order() -> None:
    assert len(PAGES) > 40
    for page in PAGES:
        titles = re.findall(r"^# (.+)$", page.read_text(), re.M)
        sections = re.findall(r"^##+ (.+)$", page.read_text(), re.M)
        assert len(titles) == 1, page.name
        assert "Decision" in sections, page.name
        assert sections == [section for section in SECTIONS if section in sections], page.name


def test_the_index_has_every_page_once_with_its_number_and_title() -> None:
    listed = re.findall(r"^\| (\d{3}) \| \[(.+)\]\((.+)\) \|$", (DOCS / "decisions" / "index.md").read_text(), re.M)
    titles = [(page.name[:3], page.read_text().splitlines()[0].removeprefix("# "), page.name) for page in PAGES]
    assert sorted(listed) == titles
    assert len({number for number, *_ in titles}) == len(titles)
