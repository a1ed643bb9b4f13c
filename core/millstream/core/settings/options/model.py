"""The definition of an option."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct


class OptionType(StrEnum):
    """The type of a value: how it is written and parsed."""

    STRING = "string"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    DURATION = "duration"  # seconds, as a float
    MEMORY = "memory"  # bytes, as an int
    ENUM = "enum"
    MAP = "map"  # `name:value,name:value`, as a dict


class JobMay(StrEnum):
    """The effect of a job's value for an option on a cluster, where services have values of their own."""

    SET = "yes"
    LOWER = "lower"  # the smaller of both counts; 0 is no limit
    NOT = "no"


class Option(Struct, frozen=True):
    """One row of the table."""

    key: str
    type: OptionType
    default: Any
    description: str
    choices: tuple[str, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    job_may: JobMay = JobMay.NOT
