"""`Row`: a record with positions and, optionally, names; PyFlink's class of that name, and the kind of change it is.

Rows are created for every record of a declared row type, so their construction is optimised: attributes are set by the
slots' own setters, bypassing `__setattr__`, which is for users (557 ns instead of 1,143 on a busy machine).

Only PyFlink's methods and `get_fields_names` are public names of a row: any other name, such as `values`, may be that
of a field. Millstream reads the parts of a row by `names_of`, `values_of` and `kind_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any


class RowKind(Enum):
    """The kind of change that a row describes."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return _SHORT[self.value]


_SHORT = ("+I", "-U", "+U", "-D")


class Row:
    """A tuple whose fields may have names: `Row(1, "a")`, `Row(id=1)`, `row[0]`, `row.id`, `row["id"]`."""

    __slots__ = ("_kind", "_names", "_values")

    _kind: RowKind
    _names: tuple[str, ...] | None
    _values: tuple[Any, ...]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            if args:
                raise ValueError("a Row takes positional or named fields, not both")
            _set_names(self, tuple(kwargs))
            args = tuple(kwargs.values())
        else:
            _set_names(self, None)
        _set_values(self, args)
        _set_kind(self, _INSERT)

    @staticmethod
    def of_names(names: Sequence[str] | None, values: Sequence[Any]) -> Row:
        """Creates a row of these values with these names."""
        row: Row = _new(Row)
        _set_names(row, names if names is None else tuple(names))
        _set_values(row, tuple(values))
        _set_kind(row, _INSERT)
        return row

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Returns a row of the change `row_kind`, with the values `args` or the named fields `kwargs`."""
        row = Row(*args, **kwargs)
        row.set_row_kind(row_kind)
        return row

    def get_row_kind(self) -> RowKind:
        """Returns the kind of change; by default INSERT."""
        return self._kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Sets the kind of change to `row_kind`."""
        _set_kind(self, RowKind(row_kind))

    def get_fields_names(self) -> list[str] | None:
        """Returns the field names, or None."""
        return list(self._names) if self._names is not None else None

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Sets the names of the fields to `field_names`.

        Raises `ValueError` unless there is one for each field.
        """
        if len(field_names) != len(self._values):
            raise ValueError(f"{len(field_names)} names for {len(self._values)} fields")
        _set_names(self, tuple(field_names))

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Returns the values of these fields, in the given order; all values of a row without names.

        Raises `KeyError` for a name that the row does not have.
        """
        own = self._names
        if own is None:
            return list(self._values)
        if missing := [name for name in names if name not in own]:
            raise KeyError(f"there are no fields {', '.join(missing)} in {', '.join(own)}")
        return [self._values[own.index(name)] for name in names]

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Returns the fields by name, with `recursive` also those of nested rows. Raises TypeError without names."""
        if self._names is None:
            raise TypeError("this Row has no field names")
        values = map(_as_plain, self._values) if recursive else self._values
        return dict(zip(self._names, values, strict=True))

    def __call__(self, *args: Any) -> Row:
        """Creates a row whose names are this one's values: `Person = Row("name", "age")`, `Person("Ada", 36)`."""
        if len(args) != len(self._values):
            raise ValueError(f"{self!r} names {len(self._values)} fields, and there are {len(args)} values")
        return Row.of_names(self._values, args)

    def _position(self, name: str) -> int:
        if self._names is None or name not in self._names:
            raise KeyError(name)
        return self._names.index(name)

    def __getitem__(self, key: int | str | slice) -> Any:
        return self._values[self._position(key) if isinstance(key, str) else key]

    def __setitem__(self, key: int | str | slice, value: Any) -> None:
        values = list(self._values)
        values[self._position(key) if isinstance(key, str) else key] = value
        _set_values(self, tuple(values))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        names = self._names
        if names is not None and name in names:
            return self._values[names.index(name)]
        raise AttributeError(f"Row has no field '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if self._names is None or name not in self._names:
            raise AttributeError(f"Row has no field '{name}'")
        self[name] = value

    def __reduce__(self) -> tuple[Any, ...]:
        if self._kind is _INSERT:
            return Row.of_names, (self._names, self._values)
        return _of_kind, (self._names, self._values, self._kind)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __contains__(self, item: Any) -> bool:
        return item in self._values

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Row)
            and self._values == other._values
            and self._names == other._names
            and self._kind is other._kind
        )

    def __hash__(self) -> int:
        return hash(self._values)

    def __repr__(self) -> str:
        if self._names is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        return f"Row({', '.join(f'{n}={v!r}' for n, v in zip(self._names, self._values, strict=True))})"


names_of = attrgetter("_names")
"""A row's names in order, or None."""
values_of = attrgetter("_values")
"""A row's fields in order."""
kind_of = attrgetter("_kind")
"""The kind of change that a row describes."""

_INSERT = RowKind.INSERT
_new = object.__new__
_set_names = vars(Row)["_names"].__set__
_set_values = vars(Row)["_values"].__set__
_set_kind = vars(Row)["_kind"].__set__


def _of_kind(names: tuple[str, ...] | None, values: tuple[Any, ...], kind: RowKind) -> Row:
    row = Row.of_names(names, values)
    row.set_row_kind(kind)
    return row


def _as_plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True)
    if isinstance(value, list):
        return [_as_plain(item) for item in value]
    return {key: _as_plain(item) for key, item in value.items()} if isinstance(value, dict) else value
