"""The layout of znodes.

    <root>                                     written by a client that waits for all earlier writes
    <root>/<kind>/<name>                       an entry
    <root>/contests/<contest>/<token>-<number> a candidate: ephemeral, its data is its address

The number is assigned by ZooKeeper and gives the order of the line. The token is chosen by the candidate, so that it
finds its znode if the response to its creation was lost. Paths of candidates are never reused: numbers restart in a
contest that was empty and removed, but tokens are unique.
"""

from __future__ import annotations

from urllib.parse import quote

from millstream.core.store.store import Contest, Key, Kind

_NUMBER = 10  # digits


class Layout:
    """The paths below one root."""

    def __init__(self, root: str) -> None:
        self.root = root

    def lasting(self) -> list[str]:
        """The paths that have to exist before entries are stored, parents first."""
        parts = self.root.split("/")
        above = ["/".join(parts[: end + 1]) for end in range(1, len(parts))]
        return [*above, *(self.entries(kind) for kind in Kind), f"{self.root}/contests"]

    def entries(self, kind: Kind) -> str:
        """Returns the path of all entries of a kind."""
        return f"{self.root}/{kind}"

    def entry(self, key: Key) -> str:
        """Returns the path of an entry."""
        return f"{self.root}/{key.kind}/{key.name}"

    def line(self, contest: Contest) -> str:
        """Returns the path of all candidates of a contest."""
        name = f"{contest.role}-{quote(contest.job_id, safe='')}" if contest.job_id else contest.role
        return f"{self.root}/contests/{name}"


def in_order(names: list[str]) -> list[str]:
    """Sorts the candidates of a line by their numbers."""
    return sorted(names, key=lambda name: int(name[-_NUMBER:]))
