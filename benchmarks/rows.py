"""What a benchmark returns: one `Row` for each figure, with its target and its peer when it has them."""

from __future__ import annotations

from dataclasses import dataclass


class BenchmarkError(Exception):
    """A benchmark could not be run, or its job returned a wrong result: its figures are void."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work to do: `factor` times the short form. `pyflink` is an interpreter that has PyFlink."""

    factor: float
    pyflink: str | None

    def of(self, size: int) -> int:
        """The size at this scale, kept a multiple of 1,000 so that expected results stay simple."""
        return max(1, round(size * self.factor / 1000)) * 1000


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on the figure, or on its ratio to the peer's."""

    limit: float
    at_least: bool
    of_ratio: bool = False

    def is_met(self, value: float) -> bool:
        """Whether the value keeps to the bound."""
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True, slots=True)
class Peer:
    """The same work done by something else, in the same unit."""

    name: str
    value: float
    same_run: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """One figure."""

    what: str
    value: float
    unit: str
    target: Target | None = None
    peer: Peer | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times the peer's figure."""
        return self.value / self.peer.value if self.peer is not None else None

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        bounded = self.ratio if self.target.of_ratio else self.value
        return bounded is not None and self.target.is_met(bounded)


def at_least(limit: float) -> Target:
    """The figure has to reach the limit."""
    return Target(limit, at_least=True)


def at_most(limit: float) -> Target:
    """The figure has to stay within the limit."""
    return Target(limit, at_least=False)


def times_the_peer(limit: float) -> Target:
    """The figure has to be this many times the peer's."""
    return Target(limit, at_least=True, of_ratio=True)


def check(condition: bool, otherwise: str) -> None:
    """A wrong result ends the benchmark."""
    if not condition:
        raise BenchmarkError(otherwise)
