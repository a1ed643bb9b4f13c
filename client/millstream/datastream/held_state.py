"""Which kinds of state an operator can take over from a snapshot: those that its task gives it a place for.

Known from the program alone, so it travels with the job graph: the job manager, which loads no user code, and the dry
run of a restore decide by it alike. `millstream.taskmanager.chain` gives operators just these places.
"""

from __future__ import annotations

from millstream.core import plan
from millstream.core.state_kinds import KEYED, OPERATOR, StateKind
from millstream.datastream.checkpointed import CheckpointedFunction
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink

_NOTHING: frozenset[StateKind] = frozenset()


def held_state(spec: plan.OperatorSpec) -> frozenset[StateKind]:
    """The kinds of state of an operator; records on their way, which every operator takes, are not among them."""
    match spec:
        case plan.SourceSpec():
            return frozenset({StateKind.SPLITS})
        case plan.SinkSpec(sink):
            return frozenset({StateKind.SINK_TRANSACTIONS}) if isinstance(sink, TwoPhaseCommitSink) else _NOTHING
        case plan.CollectSpec():
            return OPERATOR
        case plan.KeyedProcessSpec() | plan.ReduceSpec():
            keyed = True
        case plan.CoMapSpec() | plan.CoFlatMapSpec() | plan.CoProcessSpec() | plan.BroadcastProcessSpec():
            keyed = spec.keys is not None
        case _:
            keyed = False
    has_own = isinstance(spec, plan.BroadcastProcessSpec) or isinstance(spec.function, CheckpointedFunction)
    return (KEYED if keyed else _NOTHING) | (OPERATOR if has_own else _NOTHING)
