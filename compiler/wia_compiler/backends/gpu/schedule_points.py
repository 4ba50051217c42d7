"""Nests of point code: one thread for each point of the loops that may run in any order."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, LocationAttr, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import is_side_effect_free

from wia_compiler.backends.gpu.architecture import WARP_SIZE
from wia_compiler.backends.gpu.choice import BLOCK_THREADS, Choice
from wia_compiler.dialects.tile import ForOp
from wia_compiler.dialects.tile_points import holds_point_code

ALONE = "one thread: its loops must run in the order in which they are written"


def split_phases(module: ModuleOp) -> None:
    """Make a nest of each of several loops that stand side by side in a nest of point code.

    Threads of one launch do not wait for one another, launches do: the loops still run in order.

    ::

        func @n(%a, %b) { tile.for … writes %a   tile.for … reads %a }
          →  func @n(%a, %b) { tile.for … }   func @n_1(%a, %b) { tile.for … }
    """
    nests = [op for op in module.ops if isinstance(op, FuncOp) and "wia.nest" in op.attributes]
    taken = {nest.sym_name.data for nest in nests}
    for nest in nests:
        loops = [op for op in nest.body.block.ops if isinstance(op, ForOp)]
        if len(loops) < 2 or not holds_point_code(nest) or not _only_loops(nest.body.block):
            continue
        parts = [nest, *(_fresh(nest, taken) for _ in loops[1:])]
        for number, part in enumerate(parts):
            loops = [op for op in part.body.block.ops if isinstance(op, ForOp)]
            for loop in [*loops[:number], *loops[number + 1 :]]:
                loop.detach()
                loop.erase()
        module.body.block.insert_ops_after(parts[1:], nest)
        _call_in_turn(module, parts)


def _fresh(nest: FuncOp, taken: set[str]) -> FuncOp:
    """A copy under a name of its own."""
    number = 1
    while (name := f"{nest.sym_name.data}_{number}") in taken:
        number += 1
    taken.add(name)
    copy = nest.clone()
    copy.properties["sym_name"] = type(nest.sym_name)(name)
    return copy


def _call_in_turn(module: ModuleOp, parts: Sequence[FuncOp]) -> None:
    name = parts[0].sym_name.data
    for call in [op for op in module.walk() if isinstance(op, CallOp)]:
        if call.callee.string_value() != name:
            continue
        after: Operation = call
        for part in parts[1:]:
            also = call.clone()
            also.properties["callee"] = SymbolRefAttr(part.sym_name.data)
            assert call.parent is not None
            call.parent.insert_op_after(also, after)
            after = also


def schedule_points(nest: FuncOp) -> Choice:
    """Deal the outer loops of a nest out over threads, where nothing stands beside them.

    ::

        tile.for %i in 1000 @serial              tile.for %p0 in 50000 step 256 @grid
          tile.for %j in 50 @serial       →        tile.for %p1 in 256 @thread
            point code on %i, %j                     scf.if %p0 + %p1 < 50000 { … }

    Loops inside of point code, and loops that carry a value, run in each thread.
    """
    loops = _chain(nest.body.block)
    points = prod(loop.trip_count for loop in loops)
    if not loops:
        return Choice(1, ALONE)
    threads = min(BLOCK_THREADS, -(-points // WARP_SIZE) * WARP_SIZE)
    _collapse(loops, points, threads)
    names = " × ".join(loop.axis.data for loop in loops)
    return Choice(threads, f"a thread for each point of {names}", {"points": points})


def _chain(body: Block) -> list[ForOp]:
    """Loops each of which is all that its body holds, from the outermost in."""
    found: list[ForOp] = []
    while _only_loops(body):
        loops = [op for op in body.ops if isinstance(op, ForOp)]
        if len(loops) != 1:
            break
        found += loops
        body = loops[0].body.block
    return found


def _only_loops(body: Block) -> bool:
    """Whether a block changes nothing but in its loops; every thread may then run the rest."""
    return all(
        isinstance(op, ForOp | ReturnOp) or (not op.regions and is_side_effect_free(op))
        for op in body.ops
    )


def _collapse(loops: Sequence[ForOp], points: int, threads: int) -> None:
    """Make one loop of a chain: its points in order, a block's share of them at a time."""
    outermost = loops[0]
    location = outermost.location
    grid = ForOp("p.0", points, threads, "grid")
    thread = ForOp("p.1", threads, 1, "thread")
    grid.location = thread.location = location
    grid.body.block.add_op(thread)
    emit = _Emitter(thread.body.block, location)
    place = emit.add(arith.AddiOp(grid.induction_variable, thread.induction_variable))
    if points % threads:
        inside = emit.add(arith.CmpiOp(place, emit.number(points), "ult"))
        block = Block()
        guard = scf.IfOp(inside, [], Region(block))
        guard.location = location
        thread.body.block.add_op(guard)
        emit = _Emitter(block, location)
    for loop in reversed(loops):
        count, step = loop.trip_count, loop.step.value.data
        turn = place
        if loop is not outermost:
            turn = emit.add(arith.RemUIOp(place, emit.number(count)))
            place = emit.add(arith.DivUIOp(place, emit.number(count)))
        index = turn if step == 1 else emit.add(arith.MuliOp(turn, emit.number(step)))
        index.name_hint = loop.induction_variable.name_hint
        loop.induction_variable.replace_all_uses_with(index)
    for loop in loops:
        for op in list(loop.body.block.ops):
            if op not in loops:
                op.detach()
                emit.block.add_op(op)
    if points % threads:
        end = scf.YieldOp()
        end.location = location
        emit.block.add_op(end)
    parent = outermost.parent
    assert parent is not None
    parent.insert_op_before(grid, outermost)
    outermost.detach()
    outermost.erase()


class _Emitter:
    """Appends index arithmetic to a block."""

    def __init__(self, block: Block, location: LocationAttr):
        self.block = block
        self.location = location

    def add(self, op: arith.AddiOp | arith.CmpiOp | arith.RemUIOp | arith.DivUIOp | arith.MuliOp):
        """The result of an op."""
        op.location = self.location
        self.block.add_op(op)
        return op.result

    def number(self, value: int) -> SSAValue:
        """An index constant."""
        op = arith.ConstantOp(IntegerAttr(value, IndexType()))
        op.location = self.location
        self.block.add_op(op)
        return op.result
