"""Loops that may run for long ask Python whether they should stop (Ctrl-C, "interrupt kernel").

A kernel runs in one call, in which Python handles no signal. So a loop whose end is not known, or
whose end is far, looks at the processor's clock as it goes round, and some 20 ms after it last
asked it asks again::

    back edge:  now = rdtsc;  if now - seen > 5e7 { seen = now;  if wia.interrupted() return }

``wia.interrupted`` takes the interpreter lock and calls ``PyErr_CheckSignals``; the exception that
a signal's handler raises stays set, every function returns at once, and the caller finds it. On a
thread of the pool it looks whether the loop that is shared there was told to stop instead. A loop
is watched where one look at the clock (some 10 ns) is nothing beside one iteration, else at every
1024th iteration. Loops that end soon are not watched and cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from xdsl.dialects import arith, cf, func, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.dialects.walk import walk
from wia_compiler.passes.control_flow import edges_into, reachable_blocks

Pace: TypeAlias = "Literal['each', 'counted']"
"""How often a loop looks at the clock: in each iteration, or in every 1024th."""

HEAVY_BODY = 1 << 16
"""Scalar operations of an iteration beside which a look at the clock is nothing: some 20 µs."""
LIGHT_BODY = 1 << 12
"""Scalar operations of an iteration of which 1024 are nothing: they take a few milliseconds."""
LONG_LOOP = 1 << 27
"""Scalar operations of a loop that a person would notice: some 50 ms."""
ENDLESS = 1 << 30
"""Iterations of a loop of few operations that a person would notice."""
_GUESS = 1 << 10
"""Iterations of a loop whose bounds come with the data, where the work around it is estimated."""
_FUNCTION = """\
define internal i1 @wia.interrupted() noinline cold {
entry:
%TOLD%  %state = call i32 @PyGILState_Ensure()
  %raised = call ptr @PyErr_Occurred()
  %already = icmp ne ptr %raised, null
  br i1 %already, label %end, label %ask
ask:
  %failed = call i32 @PyErr_CheckSignals()
  %fresh = icmp ne i32 %failed, 0
  br label %end
end:
  %stop = phi i1 [ true, %START% ], [ %fresh, %ask ]
  call void @PyGILState_Release(i32 %state)
  ret i1 %stop
}"""
_TOLD = """\
  %told = call i32 @wia_told_to_stop()
  %worker = icmp sge i32 %told, 0
  br i1 %worker, label %answer, label %python
answer:
  %leave = icmp ne i32 %told, 0
  ret i1 %leave
python:
"""
TELLS_WORKERS: Mapping[str, str] = {"wia_told_to_stop": "declare i32 @wia_told_to_stop()"}
DECLARATIONS: Mapping[str, str] = {
    "PyGILState_Ensure": "declare i32 @PyGILState_Ensure()",
    "PyGILState_Release": "declare void @PyGILState_Release(i32)",
    "PyErr_Occurred": "declare ptr @PyErr_Occurred()",
    "PyErr_CheckSignals": "declare i32 @PyErr_CheckSignals()",
    "llvm.readcyclecounter": "declare i64 @llvm.readcyclecounter()",
}


@dataclass(frozen=True)
class Watched:
    """The loops of a module that ask, by the op that closes each, and the functions they are in.

    ``stoppable`` are the functions that may return early, themselves or through what they call.
    """

    loops: Mapping[Operation, Pace]
    stoppable: frozenset[str]


NOTHING = Watched({}, frozenset())


def interrupted_text(*, tells_workers: bool) -> str:
    """The function that asks; on a worker of the pool it asks the pool and leaves Python alone."""
    start, told = ("python", _TOLD) if tells_workers else ("entry", "")
    return _FUNCTION.replace("%TOLD%", told).replace("%START%", f"%{start}")


def watched_loops(module: ModuleOp) -> Watched:
    """Find the loops of a module that may run for long."""
    loops: dict[Operation, Pace] = {}
    functions = [op for op in module.body.block.ops if isinstance(op, func.FuncOp)]
    work = {function.sym_name.data: _work_inside(function) for function in functions}
    stoppable: set[str] = set()
    for function in functions:
        before = len(loops)
        for block in function.body.blocks:
            _watch_block(block, loops)
        loops.update(_closing_branches(function, work))
        if len(loops) > before or any(isinstance(op, scf.ParallelOp) for op in walk(function)):
            stoppable.add(function.sym_name.data)
    calls = {
        function.sym_name.data: {
            op.callee.string_value() for op in walk(function) if isinstance(op, func.CallOp)
        }
        for function in functions
    }
    grew = True
    while grew:
        callers = {name for name, called in calls.items() if called & stoppable} - stoppable
        stoppable |= callers
        grew = bool(callers)
    return Watched(loops, frozenset(stoppable))


def _closing_branches(function: func.FuncOp, work: Mapping[str, int]) -> dict[Operation, Pace]:
    """Branches that lead back; ``work`` is what a call of each function does."""
    place = {block: number for number, block in enumerate(reachable_blocks(function.body))}
    calls = (op.callee.string_value() for op in walk(function) if isinstance(op, func.CallOp))
    pace: Pace = "each" if sum(work.get(name, 1) for name in calls) > LIGHT_BODY else "counted"
    return {
        edge.branch: pace
        for block, edges in edges_into(function.body).items()
        for edge in edges
        if isinstance(edge.branch, cf.BranchOp | cf.ConditionalBranchOp)
        and place[edge.source] >= place[block]
    }


def _watch_block(block: Block, loops: dict[Operation, Pace]) -> None:
    for op in block.ops:
        for region in op.regions:
            for inner in region.blocks:
                _watch_block(inner, loops)
        if isinstance(op, scf.WhileOp):
            loops[op] = "each" if _work_inside(op) >= HEAVY_BODY else "counted"
        elif isinstance(op, scf.ForOp | scf.ParallelOp):
            pace = _pace_of(op)
            if pace is not None:
                loops[op] = pace


def _pace_of(loop: scf.ForOp | scf.ParallelOp) -> Pace | None:
    body, trips = _work_inside(loop), _trip_count(loop)
    if body >= HEAVY_BODY:
        return "each" if trips is None or body * trips >= LONG_LOOP else None
    if trips is None:
        # Straight code of unknown length walks an array: asking would keep it from vectors.
        return "counted" if _has_branches(loop) else None
    return "counted" if trips >= ENDLESS else None


def _has_branches(loop: scf.ForOp | scf.ParallelOp) -> bool:
    return any(inner.regions for inner in loop.body.block.ops)


def _work_inside(op: Operation) -> int:
    blocks = (block for region in op.regions for block in region.blocks)
    return sum(_work(inner) for block in blocks for inner in block.ops)


def _work(op: Operation) -> int:
    """Scalar operations of one execution, roughly; a loop of unknown length is taken as short."""
    if not op.regions:
        return 1
    inside = _work_inside(op)
    if isinstance(op, scf.ForOp | scf.ParallelOp):
        trips = _trip_count(op)
        return inside * (_GUESS if trips is None else trips)
    return inside * (_GUESS if isinstance(op, scf.WhileOp) else 1)


def _trip_count(loop: scf.ForOp | scf.ParallelOp) -> int | None:
    if isinstance(loop, scf.ForOp):
        return _turns(loop.lb, loop.ub, loop.step)
    total = 1
    for bounds in zip(loop.lowerBound, loop.upperBound, loop.step, strict=True):
        turns = _turns(*bounds)
        if turns is None:
            return None
        total *= turns
    return total


def _turns(*bounds: SSAValue) -> int | None:
    lower, upper, step = (_constant(value) for value in bounds)
    if lower is None or upper is None or not step:
        return None
    return max(0, -(-(upper - lower) // step))


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None
