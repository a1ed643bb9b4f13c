"""Makes visits to read: `python examples/bootstrap/make_visits.py FOLDER FIRST_DAY LAST_DAY`, a Parquet file a day."""

import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

USERS = [f"user {n}" for n in range(40)]
PAGES = ["flour", "rye", "bran", "oats"]


def visits_of(day: int, count: int = 500) -> pa.Table:
    """The visits of a day: the same ones whenever they are made."""
    chance = random.Random(day)
    return pa.table(
        {
            "user": [chance.choice(USERS) for _ in range(count)],
            "page": [chance.choice(PAGES) for _ in range(count)],
            "cents": pa.array([chance.randrange(100, 2000) for _ in range(count)], pa.int64()),
        }
    )


def main(folder: str, first: str, last: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for day in range(int(first), int(last) + 1):
        hidden, path = Path(folder, f".day-{day:02}"), Path(folder, f"day-{day:02}.parquet")
        pq.write_table(visits_of(day), hidden)
        hidden.rename(path)  # readers see it whole


if __name__ == "__main__":
    main(*sys.argv[1:])
