"""Which part of a loop's body may run ahead of the rest: its loads, and what fills its buffers."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from wia_compiler.dialects.loop_hints import hints_of
from wia_compiler.dialects.memref_prefetch import PrefetchOp
from wia_compiler.passes.scf_rewrites.loops import (
    LOADS,
    STORES,
    CannotExpand,
    array_of,
    is_buffer,
    is_pure,
    memory_of,
    written_arrays,
)


@dataclass(frozen=True)
class Stages:
    """A body in two parts, each in its order: ``load`` runs ahead, ``compute`` does the rest.

    Ops that only compute indices stand in both. ``values`` are what the first part hands to the
    second, ``buffers`` the ones it fills.
    """

    load: tuple[Operation, ...]
    compute: tuple[Operation, ...]
    values: tuple[SSAValue, ...]
    buffers: tuple[Operation, ...]


def split_stages(loop: scf.ForOp) -> Stages:
    """Divide the body of a loop; ``CannotExpand`` where nothing can run ahead."""
    ops = list(loop.body.block.ops)
    buffers = {op.results[0]: op for op in ops if is_buffer(op) and _is_accessed_alone(op)}
    while True:
        early = _early(loop, ops, set(buffers))
        writers = {value: _writers(value, ops) for value in buffers}
        kept = {b: op for b, op in buffers.items() if writers[b] and writers[b] <= early}
        if len(kept) == len(buffers):
            break
        buffers = kept
    if not early:
        raise CannotExpand(_reason(loop, ops))
    load = _with_operands(ops, early, set())
    local = set(buffers.values())
    rest = {op for op in ops if op not in early | local and not is_pure(op)}
    compute = _with_operands(ops, rest, early)
    used = {value for op in compute for value in _reads(op)}
    made = [value for op in ops if op in early for value in op.results]
    return Stages(
        tuple(op for op in ops if op in load),
        tuple(op for op in ops if op in compute and not isinstance(op, scf.YieldOp)),
        tuple(value for value in made if value in used),
        tuple(buffers.values()),
    )


def _early(loop: scf.ForOp, ops: list[Operation], buffers: set[SSAValue]) -> set[Operation]:
    """The loads and fills of ``buffers`` that read nothing which the rest makes or writes."""
    independent = hints_of(loop).independent
    local = {op.results[0] for op in ops if is_buffer(op)}
    written = written_arrays(loop) | local
    before: set[SSAValue] = set(local)
    late: set[SSAValue] = set(loop.body.block.args[1:])
    found: set[Operation] = set()
    for op in ops:
        blocked = before if independent else written
        if any(value in late for value in _reads(op)):
            late |= set(op.results)
        elif (_reads_only(op) and not read_arrays(op) & blocked) or _fills(op, buffers, blocked):
            found.add(op)
        elif not is_pure(op) and not is_buffer(op):
            late |= set(op.results)
        before |= written_arrays(op)
    return found


def _reads_only(op: Operation) -> bool:
    """Whether an op is a load, a prefetch, or loads under a condition."""
    if isinstance(op, scf.IfOp):
        return all(
            _reads_only(each) or is_pure(each) or isinstance(each, scf.YieldOp)
            for region in op.regions
            for block in region.blocks
            for each in block.ops
        )
    return isinstance(op, (*LOADS, PrefetchOp))


def _fills(op: Operation, buffers: set[SSAValue], blocked: set[SSAValue]) -> bool:
    """Whether an op does nothing but fill buffers, from arrays that may be read ahead."""
    targets = written_arrays(op)
    sources = read_arrays(op)
    known = all(
        each.regions
        or is_pure(each)
        or isinstance(each, (*LOADS, *STORES, PrefetchOp, scf.YieldOp))
        for each in op.walk()
    )
    fills = bool(targets) and targets <= buffers and not sources & targets
    return known and fills and not op.results and not sources & (blocked - buffers)


def read_arrays(op: Operation) -> set[SSAValue]:
    """The arrays that an op, or one inside it, loads from."""
    reading = (each for each in op.walk() if isinstance(each, (*LOADS, PrefetchOp)))
    return {memory_of(array) for each in reading if (array := array_of(each)) is not None}


def _is_accessed_alone(buffer: Operation) -> bool:
    """Whether a buffer is used by loads and stores alone, which can go to one of its copies."""
    (value,) = buffer.results
    return all(array_of(use.operation) is value for use in value.uses)


def _writers(buffer: SSAValue, ops: list[Operation]) -> set[Operation]:
    return {op for op in ops if buffer in written_arrays(op)}


def _with_operands(
    ops: list[Operation], wanted: set[Operation], without: set[Operation]
) -> set[Operation]:
    """Ops of a body and those that compute their operands, but not ``without``."""
    found = set(wanted)
    needed = {value for op in wanted for value in _reads(op)}
    for op in reversed(ops):
        if op not in without and is_pure(op) and needed & set(op.results):
            found.add(op)
            needed |= _reads(op)
    return found


def _reads(op: Operation) -> set[SSAValue]:
    """The values from outside an op that it, or one inside it, takes."""
    return {value for each in op.walk() for value in each.operands}


def _reason(loop: scf.ForOp, ops: list[Operation]) -> str:
    """Why nothing of a loop can run ahead."""
    loads = [op for op in ops if isinstance(op, LOADS)]
    if not loads:
        return "its body loads nothing by itself: name the loop around the loads"
    names = sorted({_name(array_of(op)) for op in loads})
    return (
        f"it writes to what it loads ({', '.join(names)}): the next iteration may load what this "
        "one is still to write"
    )


def _name(array: SSAValue | None) -> str:
    return (array.name_hint if array is not None else None) or "an array"
