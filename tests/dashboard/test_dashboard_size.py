"""The dashboard's size, its time to the first paint, and that a job of 500 vertices and 1,000 subtasks stays fluid.

On a loaded machine, times are bounded loosely: `benchmarks/dashboard.py` measures them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import LONG_TASKS, Watched, running_browser
from playwright.sync_api import Browser, expect
from wide_job import JOB, showing_a_wide_job

from millstream.dispatcher.dashboard.files import built_files

pytestmark = [pytest.mark.process, pytest.mark.slow]

_BUILT = built_files()


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    if not (_BUILT / "index.html").is_file():
        pytest.skip("the dashboard was not built: there was no npm when the package was installed")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


def test_it_is_small() -> None:
    compressed = sum(len(file.read_bytes()) for file in (_BUILT / "assets").iterdir() if file.name.endswith(".gz"))
    assert compressed < 400 * 1024


def test_a_wide_job_stays_fluid(browser: Browser, tmp_path: Path) -> None:
    with showing_a_wide_job(tmp_path) as address:
        watched = Watched(browser, f"http://{address}")
        page = watched.page
        page.goto(watched.url)
        page.get_by_role("heading", name="Overview").wait_for()
        paint = page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime")
        page.evaluate(LONG_TASKS)
        watched.visit(f"#/jobs/{JOB}", "wide")
        expect(page.locator(".vertex")).to_have_count(500)
        expect(page.locator(".vertex", has_text="Step 0 of chain 0")).to_be_in_viewport()
        expect(page.locator(".vertex").first).to_contain_text(re.compile(r"busy\s*\d+ %"))
        expect(page.locator(".vertex").last).not_to_contain_text("busy")  # out of sight, it costs nothing
        watched.picture("light-wide")
        page.locator(".vertex").last.scroll_into_view_if_needed()
        expect(page.locator(".vertex").last).to_contain_text(re.compile(r"busy\s*\d+ %"))
        page.locator(".vertex").first.scroll_into_view_if_needed()
        page.evaluate("() => { long.length = 0 }")
        for _ in range(20):
            page.locator(".graph-frame").hover()
            page.mouse.wheel(400, 150)
            page.wait_for_timeout(100)
        longest = page.evaluate("() => Math.max(0, ...long)")
        rows = page.get_by_role("table", name="Vertices").locator("tbody tr")
        assert rows.count() < 80
        watched.close()
    assert watched.errors == []
    assert paint < 10_000
    assert longest < 5_000
