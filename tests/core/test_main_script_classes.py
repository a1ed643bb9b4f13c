"""State of an earlier submission of a script uses the script's current classes."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import DEADLINE

from millstream.core.pickling import to_bytes

SCRIPT = """
import enum, sys
from dataclasses import dataclass
from pathlib import Path
from millstream.core.pickling import to_bytes

VERSION = sys.argv[1]

@dataclass(frozen=True)
class Id:
    number: int
    def version(self):
        return VERSION

class Colour(enum.Enum):
    RED = 1
    if VERSION == "2":
        BLUE = 2

class Basket:
    def version(self):
        return VERSION

def make():
    return {"key": Id(1), "enum": Colour.RED, "plain": Basket(), "both": (Id(1), Colour.RED)}

Path(f"program{VERSION}").write_bytes(to_bytes(make))
"""

CHECKPOINT = """
import pickle
from pathlib import Path
import pyarrow as pa
from millstream.core.records import types as t
from millstream.core.snapshot.tables.columns import to_array

make = pickle.loads(Path("program1").read_bytes())
Path("state").write_bytes(pickle.dumps(to_array(list(make().values()), t.PICKLED, "value")))
"""

RESTORE = """
import pickle, sys
from pathlib import Path
from millstream.core.records import types as t
from millstream.core.snapshot.tables.columns import from_array

def state():
    return from_array(pickle.loads(Path("state").read_bytes()), t.PICKLED, "value", unpickle=True)

if sys.argv[1] == "state":
    assert state()[0].version() == "1"
make = pickle.loads(Path("program2").read_bytes())
now = make()
key, colour, basket, both = state()
assert (key, hash(key), key.version()) == (now["key"], hash(now["key"]), "2")
assert colour is now["enum"]
assert type(basket) is type(now["plain"]) and basket.version() == "2"
assert both == now["both"]
assert [member.name for member in type(colour)] == ["RED", "BLUE"]
assert make()["plain"].version() == "2"
assert pickle.loads(Path("program2").read_bytes())()["key"] == key
"""


@pytest.mark.process
@pytest.mark.parametrize("first", ["program", "state"])
def test_state_of_an_earlier_submission_uses_the_programs_classes(tmp_path: Path, first: str) -> None:
    """Whichever a worker loads first: the program, or state whose class none of its functions uses."""

    def run(code: str, argument: str) -> None:
        (tmp_path / "script.py").write_text(code)
        command = [sys.executable, "script.py", argument]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE, check=False)
        assert done.returncode == 0, done.stderr

    run(SCRIPT, "1")
    run(SCRIPT, "2")
    run(CHECKPOINT, "")
    run(RESTORE, first)


ANNOTATED = """
from __future__ import annotations
from dataclasses import dataclass
from pathlib import Path
from typing import Optional
from millstream.core.records import types as t
from millstream.core.pickling import to_bytes

@dataclass
class Item:
    price: Optional[float] = None
    names: "list[str]" = ()

@dataclass
class Order:
    items: list[Item]
    by_name: dict[str, "Item"]

Path("types").write_bytes(to_bytes((t.from_hint(Order), t.from_hint(Item))))
"""

TYPES = """
import pickle
from pathlib import Path
from millstream.core.records import types as t

order, item = pickle.loads(Path("types").read_bytes())
assert order.field_types() == [t.ListType(item), t.MapType(t.STRING, item)], order.field_types()
assert item.field_types() == [t.DOUBLE, t.ListType(t.STRING)], item.field_types()
"""


@pytest.mark.process
def test_annotations_as_text_are_resolved_outside_of_the_script(tmp_path: Path) -> None:
    """`from __future__ import annotations` converts them to text, whose names are those of the script."""
    (tmp_path / "script.py").write_text(ANNOTATED)
    for command in (["script.py"], ["-c", TYPES]):
        ended = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE
        )
        assert ended.returncode == 0, ended.stderr


def test_a_field_without_a_default_has_none_after_unpickling() -> None:
    """Libraries compare by identity: another object would be a default value."""
    assert pickle.loads(to_bytes(dataclasses.MISSING)) is dataclasses.MISSING
