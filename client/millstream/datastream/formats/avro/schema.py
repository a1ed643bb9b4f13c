"""Schemas of Avro's, and the type of records that have one: dicts, as fastavro reads and writes them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.types import TypeInformation


def fastavro() -> Any:
    """Returns the library; raises `InvalidProgramError` if it is not installed."""
    try:
        import fastavro
    except ImportError as error:
        raise InvalidProgramError(
            "Avro needs the package fastavro, which is not installed here: pip install 'millstream[avro]', and list "
            "fastavro among the requirements of jobs that are run elsewhere"
        ) from error
    return fastavro


def refusals() -> tuple[type[Exception], ...]:
    """Returns the exceptions of a value that does not fit a schema."""
    return (ValueError, TypeError, KeyError, AttributeError, OverflowError, fastavro().validation.ValidationError)


def one_line(error: Exception) -> str:
    """Returns the message of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


class AvroSchema:
    """A schema. Equal schemas are written alike; picklable, and parsed where it is first used."""

    def __init__(self, json_schema: str) -> None:
        self._json = json_schema

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Returns the schema of the JSON text `json_schema`; raises `InvalidProgramError` if it is no schema."""
        try:
            schema = AvroSchema(json.dumps(json.loads(json_schema)))
            _ = schema.parsed
        except InvalidProgramError:
            raise
        except Exception as error:  # fastavro has no common base for what it raises
            raise InvalidProgramError(f"no Avro schema: {error}: {json_schema!r:.200}") from error
        return schema

    @staticmethod
    def parse_file(file_path: str | os.PathLike[str]) -> AvroSchema:
        """Returns the schema in the JSON file `file_path`.

        Raises `InvalidProgramError` if it cannot be read or is no schema.
        """
        try:
            with open(file_path, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            raise InvalidProgramError(f"the Avro schema {file_path} cannot be read: {error.strerror}") from error
        return AvroSchema.parse_string(text)

    @cached_property
    def parsed(self) -> Any:
        """The schema as fastavro parses it."""
        return fastavro().parse_schema(json.loads(self._json))

    @property
    def plain(self) -> Any:
        """As JSON has it: named types stand where they are defined, and are names afterwards."""
        return json.loads(self._json)

    def __str__(self) -> str:
        return self._json

    def __repr__(self) -> str:
        return f"AvroSchema({self._json})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and self._json == other._json

    def __hash__(self) -> int:
        return hash(self._json)

    def __getstate__(self) -> str:
        return self._json

    def __setstate__(self, state: str) -> None:
        self._json = state


@dataclass(frozen=True, repr=False)
class GenericRecordAvroTypeInfo(TypeInformation):
    """Records of a schema: dicts in functions, pickled between tasks."""

    schema: AvroSchema

    @override
    def describe(self) -> str:
        return f"GenericRecord({self.schema})"

    def get_java_type_info(self) -> NoReturn:
        """There is none.

        Raises `InvalidProgramError`.
        """
        raise InvalidProgramError("get_java_type_info: there is no JVM here, and no type information of Java's")
