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
        """Returns `size` at this scale, as a multiple of 1,000 so that expected results stay simple."""
        return max(1, round(size * self.factor / 1000)) * 1000


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on the figure, or on its ratio to the peer's."""

    limit: float
    at_least: bool
    of_ratio: bool = False

    def is_met(self, value: float) -> bool:
        """Returns whether `value` is within the bound."""
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True, slots=True)
class Peer:
    """The figure of another system for the same work, in the same unit."""

    name: str
    value: float
    same_run: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """A figure with its unit, target and peer."""

    what: str
    value: float
    unit: str
    target: Target | None = None
    peer: Peer | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Returns the ratio of the figure to that of the peer; None without a peer."""
        return self.value / self.peer.value if self.peer is not None else None

    @property
    def is_met(self) -> bool | None:
        """Returns whether the target is met; None without a target."""
        if self.target is None:
            return None
        bounded = self.ratio if self.target.of_ratio else self.value
        return bounded is not None and self.target.is_met(bounded)


def at_least(limit: float) -> Target:
    """Returns a target that the figure is at least `limit`."""
    return Target(limit, at_least=True)


def at_most(limit: float) -> Target:
    """Returns a target that the figure is at most `limit`."""
    return Target(limit, at_least=False)


def times_the_peer(limit: float) -> Target:
    """Returns a target that the figure is at least `limit` times that of the peer."""
    return Target(limit, at_least=True, of_ratio=True)


def check(condition: bool, otherwise: str) -> None:
    """Raises `BenchmarkError` with the message `otherwise` unless `condition` is true."""
    if not condition:
        raise BenchmarkError(otherwise)
