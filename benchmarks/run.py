"""Runs the benchmarks: `python benchmarks/run.py [NAME ...] [--long]`.

A run of all of them writes RESULTS.md, a long one RESULTS-long.md; a run of some only prints. The exit status is 1 when
a benchmark failed, which includes a wrong result; a target that is not met is reported and does not fail the run.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import machine  # noqa: E402  # the folder is put on the path above
import pyflink_peer  # noqa: E402
import report  # noqa: E402
from rows import BenchmarkError, Row, Scale  # noqa: E402

BENCHMARKS = (
    "python_pipeline",
    "collected_pipeline",
    "arrow_shuffle",
    "kernels",
    "expressions",
    "column_windows",
    "streaming_grep",
    "shuffle_latency",
    "start_up",
    "bounded_memory",
    "checkpoint_cost",
    "savepoint_memory",
    "checkpointed_pipeline",
    "keyed_state_sizes",
    "open_windows",
    "row_windows",
    "timers",
    "interval_join",
    "rescale",
    "failover",
    "control_plane",
    "metrics_cost",
    "rest_load",
    "dashboard",
    "spark_state",
)


def main() -> int:
    """Runs the benchmarks selected on the command line; returns the exit status."""
    arguments = _parse()
    signal.signal(signal.SIGTERM, _terminated)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs end by it; those of a background job would not
    about = machine.describe()
    scale = Scale(
        factor=arguments.factor or (5.0 if arguments.long else 1.0),
        pyflink=arguments.pyflink or pyflink_peer.installed(),
    )
    begin = time.monotonic()
    results = [_run(name, scale) for name in arguments.names or BENCHMARKS]
    form = "long" if arguments.long else "short"
    text = report.markdown(about, results, form, time.monotonic() - begin)
    output: Path | None = arguments.output
    if output is None and not arguments.names and arguments.factor is None:
        output = HERE / ("RESULTS-long.md" if arguments.long else "RESULTS.md")
    if output is not None:
        output.write_text(text)
        print(f"written to {output}")
    return 1 if any(isinstance(result, str) for _, _, result in results) else 0


def _run(name: str, scale: Scale) -> tuple[str, str, list[Row] | str]:
    module = importlib.import_module(name)
    description = str(module.__doc__).strip()
    print(f"{name} ...", flush=True)
    try:
        rows: list[Row] = module.measure(scale)
    except BenchmarkError as error:
        print(f"  FAILED: {error}", flush=True)
        return name, description, str(error)
    for row in rows:
        print(f"  {report.plain(row)}", flush=True)
    return name, description, rows


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs the benchmarks, all of them or those named.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}")
    parser.add_argument("--long", action="store_true", help="bigger sizes")
    parser.add_argument("--factor", type=float, help="multiplies the sizes of the short form; only prints")
    parser.add_argument("--output", type=Path, help="where to write the report")
    parser.add_argument(
        "--pyflink", metavar="PYTHON", help="an interpreter that has PyFlink, in place of that of make bench-peers"
    )
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in BENCHMARKS:
            parser.error(f"there is no benchmark '{name}'; there are {', '.join(BENCHMARKS)}")
    return arguments


def _terminated(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(143)


if __name__ == "__main__":
    sys.exit(main())
