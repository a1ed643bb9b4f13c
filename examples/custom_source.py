"""A custom source: it reads the tables of SQLite databases, one split per table.

The enumerator runs once, in a process of the job, and discovers the splits; a reader runs in each subtask, requests a
split when it has none, and must not block for long. `QueueEnumerator` and `OneSplitReader` assign the splits; what
remains is to find the tables and to read one. A split contains its position, so that reading can continue from there.
"""

import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from millstream.core.records.batches import RowBatch
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.base import Boundedness, Source, SourceReaderContext, SplitEnumeratorContext
from millstream.datastream.connectors.split_queue import DiscoveringEnumerator, OneSplitReader, QueueEnumerator


@dataclass(frozen=True)
class TableSplit:
    database: str
    table: str
    position: int = 0


class TableReader(OneSplitReader[TableSplit]):
    def open_split(self, split: TableSplit) -> None:
        self._split = split
        self._connection = sqlite3.connect(split.database)

    def read(self, max_rows: int) -> RowBatch | None:
        split = self._split
        query = f'SELECT rowid, * FROM "{split.table}" WHERE rowid > ? ORDER BY rowid LIMIT ?'
        rows = self._connection.execute(query, (split.position, max_rows)).fetchall()
        if not rows:
            return None
        self._split = replace(split, position=rows[-1][0])
        return RowBatch([(split.table, *row[1:]) for row in rows])

    def current_split(self) -> TableSplit:
        return self._split

    def close_split(self) -> None:
        self._connection.close()


class SqliteSource(Source[TableSplit]):
    """All rows of all tables, as `(table, column, column, ...)`."""

    def __init__(self, database: str) -> None:
        self._database = database

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def _tables(self) -> list[TableSplit]:
        with closing(sqlite3.connect(self._database)) as connection:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        return [TableSplit(self._database, name) for (name,) in names]

    def create_enumerator(self, context: SplitEnumeratorContext[TableSplit]) -> QueueEnumerator[TableSplit]:
        return DiscoveringEnumerator(context, self._tables)

    def restore_enumerator(
        self, context: SplitEnumeratorContext[TableSplit], state: Any
    ) -> QueueEnumerator[TableSplit]:
        return self.create_enumerator(context) if state is None else QueueEnumerator(context, state)

    def create_reader(self, context: SourceReaderContext) -> TableReader:
        return TableReader(context)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder, "mills.db")
        with closing(sqlite3.connect(database)) as connection:
            for table, rows in (("water", 2000), ("wind", 3000), ("steam", 10)):
                connection.execute(f"CREATE TABLE {table} (name TEXT, power INTEGER)")
                connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(f"{table} {i}", i) for i in range(rows)])
            connection.commit()
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2)
        mills = env.from_source(SqliteSource(str(database)), None, "SQLite")
        power = mills.map(lambda row: (row[0], row[2]), output_type=tuple[str, int]).key_by(lambda pair: pair[0]).sum(1)
        print(dict(power.execute_and_collect("power by kind of mill")))


if __name__ == "__main__":
    main()
