"""For job scripts: a source whose splits are files of timestamps, one a line, which a test appends to while it runs."""

TAILED_SOURCE = '''
from dataclasses import dataclass, replace

from millstream.common import Duration, Time, WatermarkStrategy
from millstream.core.records.batches import RowBatch
from millstream.datastream.connectors.base import Boundedness, PollStatus, Source, SourceReader, SplitEnumerator
from millstream.datastream.window import TumblingEventTimeWindows


@dataclass(frozen=True)
class Tail:
    split_id: str
    position: int = 0


class Tails(SplitEnumerator):
    """Every reader gets its share, once."""

    def __init__(self, context, pending):
        self.context, self.pending = context, list(pending)

    def add_reader(self, subtask):
        mine = [split for split in self.pending if self.owner(split) == subtask]
        self.pending = [split for split in self.pending if split not in mine]
        self.context.assign_splits(mine, subtask)

    def owner(self, split):
        return sum(split.split_id.encode()) % self.context.current_parallelism()

    def handle_split_request(self, subtask, host):
        pass

    def add_splits_back(self, splits, subtask):
        self.pending += splits

    def snapshot_state(self, checkpoint_id):
        return self.pending


class TailReader(SourceReader):
    """Reads a line of each file by turns, some hundred a second."""

    def __init__(self, folder, context):
        self.folder, self.context = folder, context
        self.splits, self.current, self.rests = {}, None, False

    def poll_next(self, max_rows):
        self.rests = not self.rests
        for name in list(self.splits) if self.rests else ():
            split = self.splits.pop(name)
            self.splits[name] = split  # to the end of the line
            with open(f"{self.folder}/{name}") as file:
                file.seek(split.position)
                line = file.readline()
                if line.endswith("\\n"):
                    self.splits[name] = replace(split, position=file.tell())
                    self.current = name
                    return RowBatch([(name, int(line))])
        self.context.poll_again_in(0.005)
        return PollStatus.NOTHING_AVAILABLE

    def current_split_id(self):
        return self.current

    def add_splits(self, splits):
        self.splits.update((split.split_id, split) for split in splits)

    def notify_no_more_splits(self):
        pass

    def snapshot_state(self, checkpoint_id):
        return list(self.splits.values())


class TailedSource(Source):
    def __init__(self, folder, *names):
        self.folder, self.names = folder, names

    def get_boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context):
        return Tails(context, map(Tail, self.names))

    def restore_enumerator(self, context, state):
        return Tails(context, state)

    def create_reader(self, context):
        return TailReader(self.folder, context)


STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
'''
"""A source of pairs: the name of the file, and the timestamp."""
