"""Nests cut into phases: launches that follow one another where blocks would have to wait.

Threads of one launch wait for those of their block alone. A fold that all blocks of a GPU share is
therefore two launches: each block folds its part into a result of its own, the next launch folds
these, always in the same order, so that every run gives the same bits. What a phase leaves for a
later one lies in main memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, StringAttr, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from wia_compiler.backends.gpu.builder import element_type, shape_of
from wia_compiler.backends.gpu.tiling import kept_loops
from wia_compiler.dialects.tile import ComputeOp, ForOp, YieldOp
from wia_compiler.dialects.tile_places import PositionsOp
from wia_compiler.passes.tile_rewrites import (
    axis_of,
    interchange,
    is_folded,
    leaves_of,
    replace_leaf,
    scope_of,
    tile_leaf,
)
from wia_compiler.passes.tile_rewrites.fold_parts import check_parts, fold_parts

WIDE = 1024
"""Points from which a map is dealt out over blocks of its own."""


def check_grid_fold(nest: FuncOp, axis: str) -> None:
    """``IllegalRewrite`` where the folds over an axis cannot be cut into parts (``cut_folds``)."""
    for leaf in folds_over(nest, axis):
        check_parts(leaf, axis)


def folds_over(nest: FuncOp, axis: str) -> list[ComputeOp]:
    """The leaves that fold an axis."""
    return [
        leaf
        for leaf in leaves_of(nest)
        if leaf.folds and axis in {name.data for name in leaf.reduce_axes}
    ]


def cut_folds(nest: FuncOp, axis: str, size: int) -> list[FuncOp]:
    """Fold each ``size`` points of an axis in a launch, then their results in another.

    ::

        func @n(%x, %y)                        func @n(%x, %parts)
          map %s[] = 0                           for %p0 in 264 axis "i_part.0"
          reduce [i = 4194304] %s[] += x[i]        map %a = 0; reduce [i = 15888] %a += x[…]
          map %y[] = %s[]                  →       map %parts[%p0] = %a
                                               func @n_1(%parts, %y)
                                                 map %s[] = 0
                                                 reduce [i_part = 264] %s[] += %parts[i_part]
                                                 map %y[] = %s[]

    All folds over the axis are cut so; a map over many points that stands beside them has a launch
    of its own, too. Gives the functions, in the order in which they are called.
    """
    for leaf in folds_over(nest, axis):
        part = fold_parts(leaf, axis, size, scope="")
        fold_in_registers(part)
    return split_at_wide(nest)


def split_at_wide(nest: FuncOp) -> list[FuncOp]:
    """Make a function of each loop and each wide leaf inside the kept loops of a nest.

    What stands between them, leaves of few points, becomes a function with the loop or leaf
    behind it, or one of its own. Gives the functions, in the order in which they are called.
    """
    body = _innermost(nest)
    _sink_fills(body)
    if len(_segments(body)) < 2:
        return [nest]
    _lift_crossing(nest, body)
    parts = _parts_of(nest, _segments(body))
    _call_in_turn(nest, parts)
    for part in parts:
        for leaf in leaves_of(part):
            _loop_over_wide(leaf)
        _grid_outermost(part)
    return parts


def _innermost(nest: FuncOp) -> Block:
    loops = _kept_around(nest)
    return loops[-1].body.block if loops else nest.body.block


def _kept_around(nest: FuncOp) -> list[ForOp]:
    """The kept loops, of which each holds the next and nothing else, from the outermost in."""
    found: list[ForOp] = []
    body = nest.body.block
    while True:
        inside = [op for op in body.ops if not isinstance(op, PositionsOp | ReturnOp)]
        if len(inside) != 1 or not isinstance(inside[0], ForOp) or is_folded(inside[0]):
            return found
        if axis_of(inside[0]).endswith("_part"):
            return found
        found.append(inside[0])
        body = inside[0].body.block


def fold_in_registers(part: ForOp) -> None:
    """Let a part's fold add in a register, and write its result when it is done."""
    axis = axis_of(part)
    (fold,) = [leaf for leaf in leaves_of(part) if leaf.folds]
    for parts in fold.outputs:
        held = memref.AllocOp(
            [],
            [],
            MemRefType(
                element_type(parts), [1, *shape_of(parts)[1:]], memory_space=StringAttr("register")
            ),
        )
        held.memref.name_hint = f"{parts.name_hint or 'acc'}_own"
        held.location = fold.location
        first = part.body.block.first_op
        assert first is not None
        part.body.block.insert_op_before(held, first)
        for leaf in [each for each in leaves_of(part) if parts in each.outputs]:
            number = len(leaf.inputs) + list(leaf.outputs).index(parts)
            maps = [each.data for each in leaf.maps]
            own, rank = maps[number], (maps[number].num_dims, maps[number].num_symbols)
            first_place = AffineExpr.dimension(leaf.axis_names.index(axis))
            maps[number] = AffineMap(*rank, (first_place, *own.results[1:]))
            outputs = [held.memref if each is parts else each for each in leaf.outputs]
            replaced = replace_leaf(leaf, outputs=outputs, maps=maps)
            if leaf is fold:
                fold = replaced
                part.body.block.add_op(_write_back(fold, own, maps[number], parts, held.memref))


def _write_back(
    fold: ComputeOp, to: AffineMap, place: AffineMap, parts: SSAValue, held: SSAValue
) -> ComputeOp:
    """The map that takes what a fold left in a register to main memory."""
    kept = [
        (name, size)
        for name, size, folded in zip(fold.axis_names, fold.sizes, fold.reductions, strict=True)
        if not folded
    ]
    numbers = {name: AffineExpr.dimension(number) for number, (name, _) in enumerate(kept)}
    dims = [numbers.get(name, AffineExpr.constant(0)) for name in fold.axis_names]
    symbols = [AffineExpr.symbol(number) for number in range(len(fold.ivs))]
    block = Block(arg_types=[element_type(parts)])
    block.add_op(YieldOp(list(block.args)))
    maps = [
        AffineMap(
            len(kept),
            len(symbols),
            tuple(e.replace_dims_and_symbols(dims, symbols) for e in each.results),
        )
        for each in (place, to)
    ]
    made = ComputeOp(
        "map",
        axes=kept,
        ivs=list(fold.ivs),
        inputs=[held],
        outputs=[parts],
        maps=maps,
        body=Region(block),
    )
    made.location = fold.location
    return made


def _sink_fills(body: Block) -> None:
    """Move leaves that only fill a buffer to where it is first touched, out of phases between."""
    for leaf in [op for op in body.ops if isinstance(op, ComputeOp) and not op.inputs]:
        if any(scope_of(value) == "" for value in leaf.outputs):
            continue
        following = leaf.next_op
        while following is not None and not _touches(following, leaf.outputs):
            following = following.next_op
        if following is not None and following is not leaf.next_op:
            leaf.detach()
            body.insert_op_before(leaf, following)


def _touches(op: Operation, values: Sequence[SSAValue]) -> bool:
    return any(operand in values for each in op.walk() for operand in each.operands)


def _segments(body: Block) -> list[list[Operation]]:
    """Ops of each phase: a wide op alone, others with those beside them."""
    found: list[list[Operation]] = []
    is_open = False
    for op in body.ops:
        if isinstance(op, memref.AllocOp | PositionsOp | ReturnOp):
            continue
        if _is_wide(op):
            found.append([op])
            is_open = False
        elif is_open:
            found[-1].append(op)
        else:
            found.append([op])
            is_open = True
    return found


def _is_wide(op: Operation) -> bool:
    if isinstance(op, ForOp):
        return not is_folded(op)
    return isinstance(op, ComputeOp) and not op.folds and prod(op.sizes) >= WIDE


def _lift_crossing(nest: FuncOp, body: Block) -> None:
    """Buffers that several phases touch become arguments, with an element for each row."""
    loops = _kept_around(nest)
    for buffer in [op for op in body.ops if isinstance(op, memref.AllocOp)]:
        users = [use.operation for use in buffer.memref.uses]
        touching = [
            number
            for number, segment in enumerate(_segments(body))
            if any(_within(user, op) for user in users for op in segment)
        ]
        if len(touching) < 2:
            continue
        _lift(nest, buffer, loops)


def _within(op: Operation, outer: Operation) -> bool:
    current: Operation | None = op
    while current is not None:
        if current is outer:
            return True
        current = current.parent_op()
    return False


def _lift(nest: FuncOp, buffer: memref.AllocOp, loops: Sequence[ForOp]) -> None:
    """A buffer made in each turn of loops as one array of all turns, an argument of the nest.

    A dimension that an axis of a loop indexes grows to all of the axis; loops whose axis indexes
    none have a dimension of their own.
    """
    value = buffer.memref
    shape = list(shape_of(value))
    touching = [leaf for leaf in leaves_of(nest) if value in (*leaf.inputs, *leaf.outputs)]
    places = {loop: _dimension_of(loop, value, touching) for loop in loops}
    own = [loop for loop, place in places.items() if place is None]
    grown = {place: loop for loop, place in places.items() if place is not None}
    for place, loop in grown.items():
        shape[place] = loop.extent.value.data
    extents = [loop.extent.value.data for loop in own]
    block = nest.body.block
    lifted = block.insert_arg(MemRefType(element_type(value), [*extents, *shape]), len(block.args))
    lifted.name_hint = value.name_hint
    for leaf in touching:
        maps = [each.data for each in leaf.maps]
        operands = [*leaf.inputs, *leaf.outputs]
        ivs = list(leaf.ivs)
        ivs += [loop.induction_variable for loop in loops if loop.induction_variable not in ivs]
        symbols = {loop: AffineExpr.symbol(ivs.index(loop.induction_variable)) for loop in loops}
        for number, each in enumerate(operands):
            results = list(maps[number].results)
            if each is value:
                for place, loop in grown.items():
                    results[place] = symbols[loop] + results[place]
                results = [*(symbols[loop] for loop in own), *results]
            maps[number] = AffineMap(len(leaf.axis_names), len(ivs), tuple(results))
        count = len(leaf.inputs)
        operands = [lifted if each is value else each for each in operands]
        replace_leaf(leaf, ivs=ivs, inputs=operands[:count], outputs=operands[count:], maps=maps)
    buffer.detach()
    buffer.erase()
    nest.update_function_type()


def _dimension_of(loop: ForOp, value: SSAValue, touching: Sequence[ComputeOp]) -> int | None:
    """The one dimension of a buffer that every leaf indexes by the loop's axis alone."""
    found: set[int | None] = set()
    for leaf in touching:
        if axis_of(loop) not in leaf.axis_names:
            return None
        wanted = AffineExpr.dimension(leaf.axis_names.index(axis_of(loop)))
        for operand, each in zip((*leaf.inputs, *leaf.outputs), leaf.maps, strict=True):
            if operand is value:
                places = [n for n, result in enumerate(each.data.results) if result == wanted]
                found.add(places[0] if len(places) == 1 else None)
    return found.pop() if len(found) == 1 else None


def _parts_of(nest: FuncOp, segments: Sequence[Sequence[Operation]]) -> list[FuncOp]:
    """The nest as the first phase, and a function behind it for each of the others."""
    module = nest.parent_op()
    assert module is not None
    taken = {op.sym_name.data for op in module.walk() if isinstance(op, FuncOp)}
    numbers = {op: number for number, segment in enumerate(segments) for op in segment}
    order = [numbers.get(op) for op in _innermost(nest).ops]
    parts = [nest]
    for _ in segments[1:]:
        copy = nest.clone()
        copy.properties["sym_name"] = StringAttr(_unique(nest.sym_name.data, taken))
        parts.append(copy)
    block = nest.parent_block()
    assert block is not None
    block.insert_ops_after(parts[1:], nest)
    bodies = [_innermost(part) for part in parts]
    for number, body in enumerate(bodies):
        for op, segment in zip(list(body.ops), order, strict=True):
            if segment is not None and segment != number:
                op.detach()
                op.erase()
    for part in parts:
        _drop_unused_buffers(part)
    return parts


def _unique(name: str, taken: set[str]) -> str:
    number = 1
    while (made := f"{name}_{number}") in taken:
        number += 1
    taken.add(made)
    return made


def _drop_unused_buffers(nest: FuncOp) -> None:
    for op in list(nest.walk()):
        if isinstance(op, memref.AllocOp | PositionsOp) and op.results[0].first_use is None:
            op.detach()
            op.erase()


def _call_in_turn(nest: FuncOp, parts: Sequence[FuncOp]) -> None:
    """Call the phases one after the other where the nest was called, with memory between them."""
    module = nest.parent_op()
    assert module is not None
    name = nest.sym_name.data
    for call in [op for op in module.walk() if isinstance(op, CallOp)]:
        if call.callee.string_value() != name:
            continue
        host = call.parent_block()
        assert host is not None
        given = len(call.arguments)
        types = [argument.type for argument in nest.body.block.args[given:]]
        made = [memref.AllocOp([], [], cast("MemRefType[Attribute]", each)) for each in types]
        for buffer, argument in zip(made, nest.body.block.args[given:], strict=True):
            buffer.location = call.location
            buffer.memref.name_hint = argument.name_hint
        values = [*call.arguments, *(buffer.memref for buffer in made)]
        calls = [_call(part, values, call) for part in parts]
        host.insert_ops_before([*made, *calls], call)
        call.detach()
        call.erase()
    for part in parts:
        _drop_arguments(part)


def _call(part: FuncOp, values: Sequence[SSAValue], like: CallOp) -> CallOp:
    used = [
        value
        for value, argument in zip(values, part.body.block.args, strict=True)
        if argument.first_use is not None
    ]
    call = CallOp(SymbolRefAttr(part.sym_name.data), used, [])
    call.location = like.location
    return call


def _drop_arguments(part: FuncOp) -> None:
    unused: list[BlockArgument] = [
        argument for argument in part.body.block.args if argument.first_use is None
    ]
    for argument in unused:
        part.body.block.erase_arg(argument)
    part.update_function_type()


def _loop_over_wide(leaf: ComputeOp) -> None:
    """A wide map that a phase holds alone: a loop over each of its axes, as other maps have."""
    if leaf.folds or prod(leaf.sizes) < WIDE:
        return
    for axis, size in zip(leaf.axis_names, leaf.sizes, strict=True):
        if size > 1:
            _, leaf = tile_leaf(leaf, axis, 1)


def _grid_outermost(part: FuncOp) -> None:
    """The loop over parts outside of those over rows, whose neighbours may lie side by side."""
    loops = kept_loops(part)
    if not loops or not axis_of(loops[-1]).endswith("_part"):
        return
    for outer in reversed(loops[:-1]):
        interchange(outer, loops[-1])
