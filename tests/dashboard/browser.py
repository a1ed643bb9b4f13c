"""A real Chromium, driven by Playwright, and checks of the pages that it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from debian_packages import program_of

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, expect, sync_playwright

ROOT = Path(__file__).parents[2]
AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
SCREENSHOTS = Path(__file__).parent / "screenshots"
_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
_PATIENCE_MS = 90_000  # only bounds what would never come
CUT_OFF = r"""() => {
  const found = [];
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) found.push(`the page is ${wide} wide, and the window ${innerWidth}`);
  const shown = element => element.getBoundingClientRect().width > 0;
  for (const cell of document.querySelectorAll('main :is(th, td, .stack dd, .stack dt)')) {
    if (!shown(cell)) continue;
    const {left, right} = cell.getBoundingClientRect();
    const frame = (cell.closest('.table-frame, .stack') ?? cell.closest('main')).getBoundingClientRect();
    const ends = Math.min(innerWidth, frame.right) + 1;
    const clipped = cell.scrollWidth > cell.clientWidth + 1;
    if (right > ends || left < -1 || clipped) found.push(`cell '${cell.textContent.slice(0, 40)}' ends at ${right}`);
  }
  for (const link of document.querySelectorAll('main td a')) {
    const words = link.textContent;
    if (/^\w+$/.test(words) && link.getClientRects().length > 1) found.push(`'${words}' is broken into two lines`);
  }
  for (const line of document.querySelectorAll('.legend, .graph-foot, .page-head, .log-tools, .stat')) {
    if (line.scrollWidth > line.clientWidth + 1) found.push(`'${line.textContent}' overflows`);
  }
  for (const vertex of document.querySelectorAll('.vertex:not(.bare)')) {
    const {scrollWidth, clientWidth, scrollHeight, clientHeight} = vertex;
    if (scrollWidth > clientWidth + 1 || scrollHeight > clientHeight + 1) found.push(`vertex '${vertex.textContent}'`);
  }
  return found.slice(0, 5);
}"""
"""What does not fit: the page, cells of tables, words in links of tables, vertices of a graph."""
LONG_TASKS = """() => {
  window.long = [];
  const seen = list => long.push(...list.getEntries().map(entry => entry.duration));
  new PerformanceObserver(seen).observe({type: 'longtask'});
}"""
"""Records the durations of the page's long tasks."""


@contextmanager
def running_browser() -> Iterator[Browser]:
    path = program_of("chromium", "chromium")
    expect.set_options(timeout=_PATIENCE_MS)
    playwright: Playwright
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS), headless=True)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page, and its errors."""

    def __init__(
        self, browser: Browser, url: str, scheme: str = "light", width: int = 1440, **options: Any
    ) -> None:
        self.context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, **options)
        self.context.set_default_timeout(_PATIENCE_MS)
        self.page: Page = self.context.new_page()
        self.url = url
        self.errors: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(f"{self.page.url}: {error}"))
        self.page.on("request", self._asked)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{self.page.url}: {message.text} ({message.location})")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.errors.append(f"{self.page.url} requests {request.url}")

    def log_in(self, token: str) -> None:
        self.page.goto(f"{self.url}/#token={token}")
        self.page.get_by_role("heading", name="Overview").wait_for()

    def visit(self, path: str, heading: str | None = None) -> None:
        """Navigates as a link does, and waits until the page has loaded."""
        self.page.evaluate("path => { location.hash = path }", path)
        if heading is not None:
            self.page.get_by_role("heading", level=1).filter(has_text=heading).wait_for()
        self.page.wait_for_function("() => document.querySelector('main') && !document.querySelector('main .loading')")

    def faults(self) -> list[str]:
        """The serious and critical violations that axe finds."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(AXE.read_text())
        rules = {
            "resultTypes": ["violations"],
            "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
        }
        found = self.page.evaluate("rules => axe.run(document, rules)", rules)
        return [
            f"{self.page.url}: {fault['id']}: {fault['help']}: {node['html'][:300]} {node['failureSummary'][:300]}"
            for fault in found["violations"]
            if fault["impact"] in ("serious", "critical")
            for node in fault["nodes"][:3]
        ]

    def cut_off(self) -> list[str]:
        """What does not fit into the width of the page."""
        return [f"{self.page.url}: {what}" for what in self.page.evaluate(CUT_OFF)]

    def picture(self, name: str) -> None:
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")

    def close(self) -> None:
        self.context.close()
