"""Operator ids: the same in every build of the same program, so that state finds its operator again.

An operator with a uid has the id of that uid and of nothing else, unless the id itself was given. Any other has an id
that follows from what it does, the ids of what feeds it, and how many like it came before: not from names, parallelism
or anything downstream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.ids import OperatorId, stable_id
from millstream.datastream.graph.transformations import OperatorTransformation, PhysicalInput


def assign_operator_ids(
    operators: Sequence[OperatorTransformation], inputs: Mapping[int, Sequence[PhysicalInput]]
) -> dict[int, OperatorId]:
    """The id of each operator by its number. Operators come with inputs before consumers."""
    ids: dict[int, OperatorId] = {}
    names_by_uid: dict[str, str] = {}
    siblings: dict[tuple[str, ...], int] = {}
    for operator in operators:
        if operator.uid_hash is not None:
            ids[operator.number] = _given(operator, ids, operators)
            continue
        if operator.uid is not None:
            if operator.uid in names_by_uid:
                raise InvalidProgramError(
                    f"the uid '{operator.uid}' is used twice, by '{names_by_uid[operator.uid]}' and "
                    f"'{operator.full_name}'; each operator needs its own"
                )
            names_by_uid[operator.uid] = operator.full_name
            ids[operator.number] = OperatorId(stable_id("uid", operator.uid))
            continue
        signature = [operator.spec.kind]
        for found in inputs[operator.number]:
            tag = "" if found.tag is None else f"tag:{found.tag.tag_id}"
            signature += (ids[found.operator.number], tag)
            if found.input:
                signature.append(f"input:{found.input}")
        position = siblings.get(tuple(signature), 0)
        siblings[tuple(signature)] = position + 1
        ids[operator.number] = OperatorId(stable_id("derived", *signature, str(position)))
    return ids


def _given(
    operator: OperatorTransformation, ids: Mapping[int, OperatorId], operators: Sequence[OperatorTransformation]
) -> OperatorId:
    assert operator.uid_hash is not None
    for other in operators:
        if ids.get(other.number) == operator.uid_hash:
            raise InvalidProgramError(
                f"the id {operator.uid_hash} is used twice, by '{other.full_name}' and '{operator.full_name}'; each "
                "operator needs its own"
            )
    return OperatorId(operator.uid_hash)
