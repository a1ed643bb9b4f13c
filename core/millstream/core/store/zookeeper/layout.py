"""Which znode is what.

    <root>                                     written by a client that waits for all earlier writes
    <root>/<kind>/<name>                       an entry
    <root>/contests/<contest>/<token>-<number> a candidate: ephemeral, its data is its address

The number is ZooKeeper's and gives the order of the line. The token is the candidate's own, so that it finds its znode
when it did not hear what came of creating it. No path of a candidate ever comes again: the numbers begin again in a
contest that was empty and removed, the tokens do not.
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
        """What has to be there before anything is stored, each behind the one that it lies in."""
        parts = self.root.split("/")
        above = ["/".join(parts[: end + 1]) for end in range(1, len(parts))]
        return [*above, *(self.entries(kind) for kind in Kind), f"{self.root}/contests"]

    def entries(self, kind: Kind) -> str:
        """Where all entries of a kind lie."""
        return f"{self.root}/{kind}"

    def entry(self, key: Key) -> str:
        """Where one lies."""
        return f"{self.root}/{key.kind}/{key.name}"

    def line(self, contest: Contest) -> str:
        """Where all candidates of a contest lie."""
        name = f"{contest.role}-{quote(contest.job_id, safe='')}" if contest.job_id else contest.role
        return f"{self.root}/contests/{name}"


def in_order(names: list[str]) -> list[str]:
    """The candidates of a line, the first one first."""
    return sorted(names, key=lambda name: int(name[-_NUMBER:]))
