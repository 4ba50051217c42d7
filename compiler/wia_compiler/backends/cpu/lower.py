"""Scheduled nests to scf loops over scalars: the low level of a CPU."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.builder import Builder
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    i8,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from wia_compiler.backends.cpu.axis_order import walk_memory_last
from wia_compiler.backends.cpu.guards import guard_leaf
from wia_compiler.backends.cpu.hoist import hoist_checks
from wia_compiler.backends.cpu.lane_plan import plan_lanes
from wia_compiler.backends.cpu.parallel_loops import (
    give_scratch,
    lower_shared_loops,
    shared_loops,
)
from wia_compiler.backends.cpu.row_facts import note_row_facts
from wia_compiler.backends.cpu.slide_plan import plan_slide
from wia_compiler.backends.cpu.turn_plan import plan_turn
from wia_compiler.backends.cpu.unmet import Spelling, Unmet
from wia_compiler.backends.cpu.vector_dots import lower_dots, plan_dots
from wia_compiler.backends.cpu.vector_interleave import lower_interleave, plan_interleave
from wia_compiler.backends.cpu.vector_leaf import lower_leaf_to_vectors
from wia_compiler.backends.cpu.vector_map import lower_map_to_vectors
from wia_compiler.backends.cpu.vector_plan import plan_vectors
from wia_compiler.backends.cpu.vector_reduce import lower_reduce_to_vectors
from wia_compiler.backends.cpu.vector_slide import lower_slide
from wia_compiler.backends.cpu.vector_turn import lower_turn
from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects import tile
from wia_compiler.dialects.loop_hints import hints_of, note_hints
from wia_compiler.dialects.tile_places import PositionsOp
from wia_compiler.dialects.tile_points import holds_point_code
from wia_compiler.dialects.walk import walk
from wia_compiler.passes.emit_leaf import LeafContext
from wia_compiler.passes.expand_math import ExpandOptions, expand_math
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.llvm.types import num_elements, size_bytes
from wia_compiler.passes.lower_leaf import lower_leaf_to_loops
from wia_compiler.passes.points.vectorise import vectorise_points
from wia_compiler.passes.scf_rewrites import expand_hints
from wia_compiler.passes.status_checks import lower_checks

STACK_LIMIT_BYTES = 16 * 1024
"""Register buffers of a nest beyond this live in the workspace: stacks of threads are small."""

_ALIGNMENT = 64
_UNROLL = 4
"""Axes of so many points are written out: a fold of few points then has one loop to vectorise."""


@dataclass(frozen=True)
class LowerPass:
    """``tile.for`` and leaves become ``scf.for`` and scalar ``arith``, ``math`` and ``memref`` ops.

    What the host allocates becomes a slice of one ``%workspace`` argument, which the caller brings
    (the last argument, absent where nothing is needed); the same holds for large buffers of nests.
    ``scales_vectors``: the CPU multiplies vectors by powers of two in one instruction;
    ``adds_dots``: how many products of 8-bit integers it adds in one, 4, 2 or 0.
    """

    vector_bytes: int = 32
    scales_vectors: bool = False
    adds_dots: int = 0

    name: ClassVar[str] = "lower"
    level: ClassVar[Level] = "low"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Lower every function of the module in place."""
        functions = [op for op in module.body.block.ops if isinstance(op, func.FuncOp)]
        scratch: dict[str, list[MemRefType[Attribute]]] = {}
        for function in functions:
            if "wia.nest" in function.attributes:
                has_leaves_alone = not holds_point_code(function)
                note_row_facts(function)
                context.decisions += _lower_leaves(function, self.vector_bytes, self.adds_dots)
                if not has_leaves_alone:
                    vectorise_points(function, self.vector_bytes)
                _lower_loops(function.body.block)
                if has_leaves_alone:
                    hoist_checks(function)
                context.decisions += expand_hints(function)
        lower_checks(module)  # before what else takes workspace: the status record comes first
        for function in functions:
            if "wia.nest" in function.attributes:
                scratch[function.sym_name.data] = _move_large_buffers(function)
        for function in functions:
            if "wia.host" in function.attributes:
                _give_workspace(function, scratch)
        expand_math(module, ExpandOptions(scales_vectors=self.scales_vectors))


def workspace_bytes(module: ModuleOp) -> int:
    """The size of the host function's ``%workspace`` argument in a lowered module."""
    for op in module.body.block.ops:
        if isinstance(op, func.FuncOp) and "wia.workspace" in op.attributes:
            return cast("IntegerAttr", op.attributes["wia.workspace"]).value.data
    return 0


def _lower_loops(block: Block) -> None:
    """Lower the tile loops of a block; those inside of point code too, which stays as it is."""
    for op in list(block.ops):
        if isinstance(op, tile.ForOp):
            _lower_loop(op)
            continue
        for region in op.regions:
            for inner in region.blocks:
                _lower_loops(inner)


def _lower_loop(op: tile.ForOp) -> None:
    """A tile loop runs in order, unless threads share it; grids and blocks there are none."""
    shared = shared_loops(op)
    if shared:
        _lower_loops(lower_shared_loops(shared).body.block)
        return
    start, stop, step = (
        arith.ConstantOp(IntegerAttr(value, IndexType()))
        for value in (0, op.extent.value.data, op.step.value.data)
    )
    _lower_loops(op.body.block)  # while it is in its place: loops in it see what is shared around
    body = op.body.detach_block(0)
    body.add_op(scf.YieldOp())
    loop = scf.ForOp(start, stop, step, [], Region(body))
    note_hints(loop, hints_of(op))
    for each in (start, stop, step, loop, body.last_op):
        assert each is not None
        each.location = op.location
    parent = op.parent
    assert parent is not None
    parent.insert_ops_before([start, stop, step, loop], op)
    op.detach()
    op.erase()


def _lower_leaves(nest: func.FuncOp, vector_bytes: int, adds_dots: int) -> list[Decision]:
    """Lower all leaves of a nest; gives a decision for what a schedule asked for in vain."""
    unmet = Unmet()
    for op in list(walk(nest)):
        if isinstance(op, tile.ComputeOp):
            _lower_leaf(op, vector_bytes, adds_dots, unmet)
    for op in list(nest.body.block.ops):
        if isinstance(op, PositionsOp):
            op.detach()
            op.erase()
    return unmet.decisions(nest.sym_name.data)


def _lower_leaf(leaf: tile.ComputeOp, vector_bytes: int, adds_dots: int, unmet: Unmet) -> None:
    """Vector code where the leaf is a register tile or lies along lanes, else scalar loops."""
    leaf = walk_memory_last(guard_leaf(leaf))
    context, builder = LeafContext(leaf), Builder(InsertPoint.before(leaf))
    spelling: Spelling = "tile"
    slide = plan_slide(context, vector_bytes)
    plan = plan_vectors(context, vector_bytes) if slide is None else None
    dots = plan_dots(context, vector_bytes, adds_dots) if adds_dots else None
    if slide is not None:
        lower_slide(slide, builder)
    elif dots is not None:
        lower_dots(dots, builder)
    elif adds_dots and (rows := plan_interleave(context, vector_bytes)) is not None:
        lower_interleave(rows, builder)
    elif plan is not None:
        lower_leaf_to_vectors(plan, builder)
    elif (lanes := plan_lanes(context, vector_bytes)) is not None:
        (lower_reduce_to_vectors if leaf.folds else lower_map_to_vectors)(lanes, builder)
        spelling = "lanes"
    elif (turn := plan_turn(context, vector_bytes)) is not None:
        lower_turn(turn, builder)
    else:
        lower_leaf_to_loops(context, builder, unroll=_UNROLL)
        spelling = "scalars"
    unmet.note(leaf, spelling)
    leaf.detach()
    leaf.erase()


def _move_large_buffers(function: func.FuncOp) -> list[MemRefType[Attribute]]:
    """Turn register buffers that do not fit the stack into arguments; the types of these."""
    moved: list[MemRefType[Attribute]] = []
    of_threads: set[Operation] = set()
    for op in walk(function):
        if isinstance(op, scf.ParallelOp):
            of_threads |= give_scratch(op, STACK_LIMIT_BYTES)
    used = 0
    for op in list(walk(function)):
        if not isinstance(op, memref.AllocOp | memref.AllocaOp) or op in of_threads:
            continue
        type_ = op.memref.type
        size = num_elements(type_) * size_bytes(type_.element_type)
        used += size
        if used <= STACK_LIMIT_BYTES:
            continue
        used -= size
        plain = MemRefType(type_.element_type, type_.get_shape(), type_.layout, NoneAttr())
        block = function.body.block
        argument = block.insert_arg(plain, len(block.args))
        argument.name_hint = op.memref.name_hint
        op.memref.replace_all_uses_with(argument)
        op.detach()
        op.erase()
        _see_in_main_memory(argument)
        moved.append(plain)
    if moved:
        _update_type(function)
    return moved


def _see_in_main_memory(buffer: SSAValue) -> None:
    """Let casts of a buffer, which see it under other sizes, see it where it lies now."""
    for use in list(buffer.uses):
        cast_ = use.operation
        if isinstance(cast_, memref.ReinterpretCastOp):
            type_ = cast_.result.type
            plain = MemRefType(type_.element_type, type_.get_shape(), type_.layout, NoneAttr())
            Rewriter.replace_value_with_new_type(cast_.result, plain)


def _give_workspace(function: func.FuncOp, scratch: dict[str, list[MemRefType[Attribute]]]) -> None:
    """Replace what a host function allocates, and what its nests ask for, by workspace slices."""
    block = function.body.blocks[0]
    wanted: list[tuple[Operation, MemRefType[Attribute]]] = []
    for op in walk(function.body):
        match op:
            case memref.AllocOp():
                wanted.append((op, op.memref.type))
            case func.CallOp():
                wanted += [(op, each) for each in scratch.get(op.callee.string_value(), ())]
            case _:
                pass
    if not wanted:
        return
    offsets: list[int] = []
    total = 0
    for _, type_ in wanted:
        offsets.append(total)
        size = num_elements(type_) * size_bytes(type_.element_type)
        total += math.ceil(size / _ALIGNMENT) * _ALIGNMENT
    workspace = block.insert_arg(MemRefType(i8, [total]), len(block.args))
    workspace.name_hint = "workspace"
    extra: dict[Operation, list[SSAValue]] = {}
    for (op, type_), offset in zip(wanted, offsets, strict=True):
        view = _slice(op, workspace, offset, type_)
        if isinstance(op, memref.AllocOp):
            view.name_hint = op.memref.name_hint
            op.memref.replace_all_uses_with(view)
            op.detach()
            op.erase()
        else:
            extra.setdefault(op, []).append(view)
    for op, views in extra.items():
        op.operands = [*op.operands, *views]
    function.attributes["wia.workspace"] = IntegerAttr(total, 64)
    _update_type(function)


def _slice(
    before: Operation, workspace: SSAValue, offset: int, type_: MemRefType[Attribute]
) -> SSAValue:
    shift = arith.ConstantOp(IntegerAttr(offset, IndexType()))
    view = memref.ViewOp.build(operands=[workspace, shift.result, []], result_types=[type_])
    shift.location = view.location = before.location
    parent = before.parent
    assert parent is not None
    parent.insert_ops_before([shift, view], before)
    return view.result


def _update_type(function: func.FuncOp) -> None:
    inputs = [argument.type for argument in function.body.blocks[0].args]
    outputs = list(function.function_type.outputs)
    function.function_type = FunctionType.from_lists(inputs, outputs)
