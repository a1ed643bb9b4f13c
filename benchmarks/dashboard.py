"""The dashboard in Chromium: its size, how soon it paints, and a job of 500 vertices and 1,000 subtasks.

The longest task is that of the page's only thread while figures of all vertices change every second and the graph is
scrolled: for that long, the page does not respond. The layout is computed once, before.
"""

from __future__ import annotations

import logging
import statistics
import sys
import tempfile
from pathlib import Path

from rows import BenchmarkError, Row, Scale, at_most

TESTS = Path(__file__).parents[1] / "tests"
TIMES = 5


def measure(scale: Scale) -> list[Row]:
    del scale  # it has no size
    sys.path[:0] = [str(TESTS), str(TESTS / "dashboard"), str(TESTS / "dispatcher")]
    from browser import running_browser
    from wide_job import showing_a_wide_job

    from millstream.dispatcher.dashboard.files import built_files

    if not (built_files() / "index.html").is_file():
        raise BenchmarkError("the dashboard is not built: install Node, then the package again")
    # the dispatcher logs services that do not run here as missing
    logging.getLogger("millstream").setLevel(logging.ERROR)
    sizes = [len(f.read_bytes()) for f in (built_files() / "assets").iterdir() if f.name.endswith(".gz")]
    with (
        tempfile.TemporaryDirectory() as folder,
        showing_a_wide_job(Path(folder)) as address,
        running_browser() as browser,
    ):
        paints = [_first_paint(browser, address) for _ in range(TIMES)]
        first, longest = _wide(browser, address)
    return [
        Row("compressed size", sum(sizes) / 1024, "KiB", at_most(400)),
        Row("first paint, median of five", statistics.median(paints) / 1000, "s", at_most(1)),
        Row("500 vertices drawn, from the click on", first / 1000, "s", at_most(3)),
        Row("500 vertices, longest task while live and scrolled", longest, "ms", at_most(100)),
    ]


def _first_paint(browser: object, address: str) -> float:
    from browser import Watched

    watched = Watched(browser, f"http://{address}")  # type: ignore[arg-type]
    watched.page.goto(watched.url)
    watched.page.get_by_role("heading", name="Overview").wait_for()
    paint: float = watched.page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime")
    watched.close()
    return paint


def _wide(browser: object, address: str) -> tuple[float, float]:
    from browser import LONG_TASKS, Watched
    from wide_job import JOB

    watched = Watched(browser, f"http://{address}")  # type: ignore[arg-type]
    page = watched.page
    page.goto(watched.url)
    page.get_by_role("heading", name="Overview").wait_for()
    page.evaluate(LONG_TASKS)
    first: float = page.evaluate(
        """async path => {
          const began = performance.now();
          location.hash = path;
          while (document.querySelectorAll('.vertex').length < 500) await new Promise(requestAnimationFrame);
          return performance.now() - began;
        }""",
        f"#/jobs/{JOB}",
    )
    page.wait_for_timeout(3000)
    page.evaluate("() => { long.length = 0 }")
    page.locator(".graph-frame").hover()
    for _ in range(50):
        page.mouse.wheel(300, 120)
        page.wait_for_timeout(100)
    longest: float = page.evaluate("() => Math.max(0, ...long)")
    watched.close()
    return first, longest
