"""Small mutations of a source file: each changes one place in the syntax tree.

A comparison is turned, a condition negated, `and` becomes `or`, a statement is dropped, a small number or a truth value
is changed. What never runs or only people read is left alone: `assert_never`, messages of errors, log lines,
annotations, docstrings.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_SMALL = 10  # larger numbers are sizes and bounds, which nothing depends on to the last digit
_FOR_PEOPLE = ("log", "logger", "warnings")
_UNTOUCHED = ("__repr__", "__str__")


@dataclass(frozen=True)
class Mutation:
    """The `number`th of its file. `before` and `after` are the statement, or as much of it as fits a line."""

    path: str
    number: int
    line: int
    function: str
    before: str
    after: str

    @property
    def name(self) -> str:
        """The same as long as the statement is the same, wherever it stands."""
        return f"{self.path} {self.function}: {self.before} -> {self.after}"

    def __str__(self) -> str:
        return f"{self.path}:{self.line} in {self.function}: `{self.before}` becomes `{self.after}`"


def mutations_of(path: str, source: str) -> list[Mutation]:
    """All of a file's, in its order."""
    found: list[Mutation] = []
    for number in range(len(list(_changes(ast.parse(source))))):
        tree = ast.parse(source)
        statement, function, change = list(_changes(tree))[number]
        before = _shown(statement)
        line = statement.lineno
        change()
        found.append(Mutation(path, number, line, function, before, _shown(statement)))
    return found


def mutated(source: str, mutation: Mutation) -> ast.Module:
    """The tree of the file with this change."""
    tree = ast.parse(source)
    list(_changes(tree))[mutation.number][2]()
    return ast.fix_missing_locations(tree)


Change = tuple[ast.stmt, str, Callable[[], None]]


def _changes(tree: ast.Module) -> Iterator[Change]:
    for function, body in _functions(tree, ""):
        for statement in body:
            yield from _of_statement(statement, function)


def _functions(node: ast.AST, outer: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Functions and methods, with their bodies; those within functions belong to these."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{outer}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name not in _UNTOUCHED:
            yield outer + child.name, child.body


def _of_statement(statement: ast.stmt, function: str) -> Iterator[Change]:
    if isinstance(statement, ast.Assert | ast.Raise | ast.Import | ast.ImportFrom) or _is_without_effect(statement):
        return
    if _may_be_dropped(statement):
        yield statement, function, lambda: _drop(statement)
    for child in _expressions(statement):
        yield from ((statement, function, change) for change in _of_expression(child))
    if isinstance(statement, ast.If | ast.While):
        yield statement, function, lambda: _negate(statement)
    for inner in _inner_statements(statement):
        yield from _of_statement(inner, function)


def _inner_statements(statement: ast.stmt) -> Iterator[ast.stmt]:
    for name in ("body", "orelse", "finalbody"):
        yield from getattr(statement, name, ())
    for handler in getattr(statement, "handlers", ()):
        yield from handler.body
    for case in getattr(statement, "cases", ()):
        yield from case.body


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Those of the statement itself, without those of statements within it, and without annotations."""
    for name, value in ast.iter_fields(statement):
        if name in ("annotation", "returns", "decorator_list", "args", "type_params"):
            continue
        for found in value if isinstance(value, list) else [value]:
            if isinstance(found, ast.expr):
                yield found
            elif isinstance(found, ast.match_case) and found.guard is not None:
                yield found.guard


def _of_expression(node: ast.AST) -> Iterator[Callable[[], None]]:
    if isinstance(node, ast.JoinedStr):
        return
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        turned = _TURNED[type(node.ops[0])]()
        yield lambda: setattr(node, "ops", [turned])
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield lambda: setattr(node, "op", other)
    elif isinstance(node, ast.IfExp):
        yield lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield lambda: setattr(node, "ifs", [ast.UnaryOp(ast.Not(), node.ifs[0]), *node.ifs[1:]])
    elif isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bool):
            yield lambda: setattr(node, "value", not value)
        elif isinstance(value, int) and abs(value) < _SMALL:
            yield lambda: setattr(node, "value", value + 1)
    for child in ast.iter_child_nodes(node):
        yield from _of_expression(child)


def _is_without_effect(statement: ast.stmt) -> bool:
    """A docstring, a line of the log, or `assert_never`."""
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    if isinstance(value, ast.Constant):
        return True
    function = value.func if isinstance(value, ast.Call) else None
    owner = function.value if isinstance(function, ast.Attribute) else None
    if isinstance(function, ast.Name):
        return function.id == "assert_never"
    return isinstance(owner, ast.Name) and owner.id in _FOR_PEOPLE


def _may_be_dropped(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in statement.targets)
    return isinstance(statement, ast.Expr | ast.AugAssign | ast.Delete | ast.Continue | ast.Break)


def _drop(statement: ast.stmt) -> None:
    """In its place, with all that points to it: it becomes the statement `pass`."""
    statement.__class__ = ast.Pass
    for name in list(vars(statement)):
        if name not in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            delattr(statement, name)


def _negate(statement: ast.If | ast.While) -> None:
    statement.test = ast.UnaryOp(ast.Not(), statement.test)


def _shown(statement: ast.stmt) -> str:
    return ast.unparse(ast.fix_missing_locations(statement)).splitlines()[0]
