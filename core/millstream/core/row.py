"""`Row`: a record with positions and, optionally, names; PyFlink's class of that name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


class Row:
    """A tuple whose fields may have names: `Row(1, "a")`, `Row(id=1)`, `row[0]`, `row.id`, `row["id"]`."""

    __slots__ = ("_names", "_values")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("a Row takes positional or named fields, not both")
        self._names: tuple[str, ...] | None = tuple(kwargs) if kwargs else None
        self._values: tuple[Any, ...] = tuple(kwargs.values()) if kwargs else args

    @staticmethod
    def of_names(names: Sequence[str] | None, values: Sequence[Any]) -> Row:
        """A row of these values under these names."""
        row = Row(*values)
        row._names = tuple(names) if names is not None else None  # its own class
        return row

    @property
    def values(self) -> tuple[Any, ...]:
        """The fields in order."""
        return self._values

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names in order, or None."""
        return self._names

    def get_fields_names(self) -> list[str] | None:
        """The names, or None (PyFlink's spelling of this method)."""
        return list(self._names) if self._names is not None else None

    def set_field_names(self, names: Sequence[str]) -> None:
        """Names the fields."""
        if len(names) != len(self._values):
            raise ValueError(f"{len(names)} names for {len(self._values)} fields")
        self._names = tuple(names)

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """The fields by name; a row without names has none."""
        if self._names is None:
            raise TypeError("this Row has no field names")
        values = (v.as_dict(True) if recursive and isinstance(v, Row) else v for v in self._values)
        return dict(zip(self._names, values, strict=True))

    def _position(self, key: int | str) -> int:
        if isinstance(key, str):
            if self._names is None or key not in self._names:
                raise KeyError(key)
            return self._names.index(key)
        return key

    def __getitem__(self, key: int | str) -> Any:
        return self._values[self._position(key)]

    def __setitem__(self, key: int | str, value: Any) -> None:
        values = list(self._values)
        values[self._position(key)] = value
        self._values = tuple(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._names is not None and name in self._names:
            return self._values[self._names.index(name)]
        raise AttributeError(f"Row has no field '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in Row.__slots__:
            object.__setattr__(self, name, value)
        elif self._names is not None and name in self._names:
            self[name] = value
        else:
            raise AttributeError(f"Row has no field '{name}'")

    def __getstate__(self) -> Any:
        return (self._names, self._values)

    def __setstate__(self, state: Any) -> None:
        self._names, self._values = state

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __contains__(self, item: Any) -> bool:
        return item in self._values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and self._names == other._names and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    def __repr__(self) -> str:
        if self._names is None:
            return f"Row({', '.join(map(repr, self._values))})"
        return f"Row({', '.join(f'{n}={v!r}' for n, v in zip(self._names, self._values, strict=True))})"

    def __str__(self) -> str:
        return f"+I[{', '.join(map(str, self._values))}]"
