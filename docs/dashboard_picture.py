"""Makes docs/images/dashboard.png: a job on a real cluster of this machine, in Chromium.

    .venv/bin/python docs/dashboard_picture.py [--seconds 75] [--dark]

It takes about two minutes. The cluster, the job and the browser are those of this run, and end with it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "dashboard.png"
LARGEST = 300 * 1024
JOB = """
import math
import time
from datetime import timedelta

from millstream.common import Row, Time, Types, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.aggregates import avg, count, sum as total
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.window import TumblingEventTimeWindows

PRODUCTS = ["bread", "flour", "oats", "rye", "semolina", "spelt"]
ORDER = Types.ROW_NAMED(["product", "amount", "time"], [Types.STRING(), Types.LONG(), Types.LONG()])
VISIT = Types.ROW_NAMED(["product", "time"], [Types.STRING(), Types.LONG()])


def wave(index, seconds, phase):
    \"\"\"Whether a record is kept at this time: their rate rises and falls.\"\"\"
    share = 0.68 + 0.2 * math.sin(time.time() / seconds + phase) + 0.08 * math.sin(time.time() / 2.3)
    return (index * 7919) % 1000 < 1000 * share


def product(index):
    return PRODUCTS[(index * index + index // 7) % len(PRODUCTS)]


class Waves(DataGeneratorSource):
    \"\"\"A rate that rises and falls by a third: time passes faster and slower for its limiter.\"\"\"

    def __init__(self, function, rate, kind, period):
        super().__init__(function, None, rate, kind)
        self._period = period

    def _limiter(self, context):
        limiter = super()._limiter(context)
        due, wait = limiter.due, limiter.wait
        limiter.due = lambda now: due(self._warped(now))
        limiter.wait = lambda now: wait(self._warped(now))
        return limiter

    def _warped(self, now):
        return now + 0.3 * self._period * math.sin(now / self._period) + 0.25 * math.sin(now / 1.9)


def late_by(seconds):
    return WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=seconds)).with_timestamp_field("time")


def order(index):
    return Row(product=product(index), amount=1 + index % 90, time=int(time.time() * 1000) - index * 37 % 400)


def visit(index):
    return Row(product=product(index), time=int(time.time() * 1000) - index * 53 % 300)


def scored(row):
    checks = sum(math.sqrt(number * row.amount) for number in range(150))
    return row if checks > 0 else None


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
orders = env.from_source(Waves(order, 900, ORDER, 5), late_by(1), "Orders")
visits = env.from_source(Waves(visit, 1400, VISIT, 8), late_by(1), "Visits")
orders = orders.filter(lambda row: wave(row.amount * 131 + row.time, 9, 0)).name("Parse")
visits = visits.filter(lambda row: wave(row.time, 13, 2)).name("Parse")

checked = orders.rebalance().map(scored, ORDER).name("Fraud check")
revenue = checked.key_by("product").window(TumblingEventTimeWindows.of(Time.seconds(2)))
revenue = revenue.aggregate(count(), total("amount").alias("revenue"), avg("amount")).name("Revenue per product")
popular = visits.key_by("product").window(TumblingEventTimeWindows.of(Time.seconds(2)))
popular = popular.aggregate(count().alias("visits")).name("Visits per product")
both = revenue.key_by(lambda row: row.product).connect(popular.key_by(lambda row: row.product))
lines = (lambda row: f"{row.product}: {row.revenue}", lambda row: f"{row.product}: {row.visits}")
both.map(lines, Types.STRING()).name("Latest figures").print().name("Board")
env.execute("Shop analytics")
"""


def main() -> int:
    """Returns 0 if the picture is small enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=75, help="how long the job has run when the picture is taken")
    parser.add_argument("--dark", action="store_true", help="use the dark theme")
    options = parser.parse_args()
    sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("", "dashboard", "dispatcher", "integration")]
    from browser import Watched, running_browser
    from system import given, recovering, running_cluster

    from millstream.core.services.cluster_secret import cluster_secret

    PICTURE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, running_cluster(Path(folder) / "cluster", 2, 2) as cluster:
        script = Path(folder) / "shop.py"
        script.write_text(dedent(JOB))
        checkpoints = given(*recovering(Path(folder) / "checkpoints", "5s"))
        job = cluster.submit_running(script, *checkpoints, parallelism=2)
        began = time.monotonic()
        secret = cluster_secret(cluster.security)
        assert secret is not None
        with running_browser() as browser:
            scheme = "dark" if options.dark else "light"
            watched = Watched(browser, f"http://{cluster.rest}", scheme, device_scale_factor=1.4)
            watched.page.set_viewport_size({"width": 1440, "height": 1040})  # down to the plot
            watched.log_in(secret.rest_token("submit"))
            watched.visit(f"#/jobs/{job}", "Shop analytics")
            page = watched.page
            page.locator(".vertex", has_text="lag").first.wait_for()
            page.wait_for_timeout(max(0.0, options.seconds - (time.monotonic() - began)) * 1000)
            page.mouse.move(0, 0)
            page.screenshot(path=PICTURE)
            watched.close()
    size = PICTURE.stat().st_size
    print(f"{PICTURE.relative_to(ROOT)}: {size // 1024} kB")
    return 0 if size < LARGEST else 1


if __name__ == "__main__":
    raise SystemExit(main())
