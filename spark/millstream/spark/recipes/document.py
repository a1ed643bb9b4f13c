"""A YAML document read strictly: every value knows its line, and a key that is not known is an error. Pure.

Scalars are taken as they are written where a text is wanted, so a column may be called `on` or `1`.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from typing import Any

import yaml
from msgspec import Struct

from millstream.core.errors import MillstreamError
from millstream.core.logs.printable import printable

_YAML = "tag:yaml.org,2002:"


class RecipeError(MillstreamError):
    """A recipe that cannot be followed: where it is wrong, and what would be right."""


class RecipeNode(Struct, frozen=True):
    """A value in the document `file`, called `name` in errors."""

    node: Any
    file: str
    name: str = "the recipe"

    @staticmethod
    def parse(text: str, file: str) -> RecipeNode:
        """The document's one value."""
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = "" if mark is None else f":{mark.line + 1}"
            raise RecipeError(f"{file}{line}: is not YAML: {printable(error.problem or str(error))}") from error
        except (yaml.YAMLError, RecursionError) as error:
            raise RecipeError(f"{file}: is not YAML: {printable(str(error))}") from error
        if node is None:
            raise RecipeError(f"{file}: is empty")
        return RecipeNode(node, file)

    def error(self, reason: str) -> RecipeError:
        """An error about this value."""
        return RecipeError(f"{self._place()}: {printable(f'{self.name} {reason}')}")

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """What goes wrong inside, for the user or for Spark, is about this value."""
        from millstream.spark.spark_failures import spark_errors

        try:
            with spark_errors():
                yield
        except RecipeError:
            raise
        except MillstreamError as error:
            raise RecipeError(f"{self._place()}: {self.name}: {error}") from error

    def _place(self) -> str:
        return f"{self.file}:{self.node.start_mark.line + 1}"

    def fields(self, *required: str, optional: Iterable[str] = ()) -> dict[str, RecipeNode]:
        """The entries of a mapping that has these keys and no others."""
        known = (*required, *optional)
        found = {}
        for name, value, key in self._pairs():
            if name not in known:
                raise key.error(f"is not a key of {self.name}{did_you_mean(name, known)}")
            found[name] = value
        for name in required:
            if name not in found:
                raise self.error(f"needs '{name}'")
        return found

    def entries(self) -> dict[str, RecipeNode]:
        """The entries of a mapping whose keys are the user's."""
        return {name: value for name, value, _ in self._pairs()}

    def _pairs(self) -> Iterator[tuple[str, RecipeNode, RecipeNode]]:
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"must be keys with values, not {self._described()}")
        seen = set[str]()
        for key, value in self.node.value:
            name = RecipeNode(key, self.file, f"a key of {self.name}").text()
            named = RecipeNode(key, self.file, f"'{name}'")
            if name in seen:
                raise named.error("is there twice")
            seen.add(name)
            yield name, RecipeNode(value, self.file, f"'{name}'"), named

    def items(self) -> list[RecipeNode]:
        """The items of a list."""
        if not self.is_list:
            raise self.error(f"must be a list, not {self._described()}")
        return [RecipeNode(item, self.file, f"item {n} of {self.name}") for n, item in enumerate(self.node.value, 1)]

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return isinstance(self.node, yaml.SequenceNode)

    def text(self) -> str:
        """A text, as it is written."""
        if not isinstance(self.node, yaml.ScalarNode) or self.node.tag == f"{_YAML}null":
            raise self.error(f"must be a text, not {self._described()}")
        if not self.node.value.strip():
            raise self.error("is empty")
        return str(self.node.value)

    def texts(self) -> list[str]:
        """A text, or a list of texts."""
        if isinstance(self.node, yaml.ScalarNode):
            return [self.text()]
        return [item.text() for item in self.items()]

    def integer(self, least: int) -> int:
        """A whole number."""
        try:
            number = int(self.text())
        except ValueError:
            raise self.error(f"must be a whole number, not {self._described()}") from None
        if number < least:
            raise self.error(f"must be at least {least}, not {number}")
        return number

    def flag(self) -> bool:
        """True or false."""
        if self.node.tag != f"{_YAML}bool":
            raise self.error(f"must be true or false, not {self._described()}")
        return bool(yaml.SafeLoader.bool_values[self.node.value.lower()])

    def choice(self, *known: str) -> str:
        """One of some words."""
        text = self.text()
        if text not in known:
            raise self.error(f"is '{text}'{did_you_mean(text, known)}")
        return text

    def _described(self) -> str:
        match self.node:
            case yaml.MappingNode():
                return "keys with values"
            case yaml.SequenceNode():
                return "a list"
            case _ if self.node.tag == f"{_YAML}null":
                return "nothing"
        return f"'{self.node.value:.100}'"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that is not known."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f": did you mean '{near[0]}'?" if near else f": it can be {', '.join(names)}"
