"""What the mid level may hold, as tables; checked after every pass that leaves mid-level IR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from xdsl.dialects import arith, cf, func, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from wia_compiler.dialects.tile import ComputeOp, ForOp, YieldOp
from wia_compiler.dialects.tile_places import LookupOp, PositionsOp
from wia_compiler.dialects.tile_points import AXIS, SCALAR_DIALECTS, is_point_code
from wia_compiler.dialects.types import ELEMENT_TYPES
from wia_compiler.passes.emit_leaf import fold_op, is_folded_into
from wia_compiler.passes.tile_rewrites import scope_of
from wia_compiler.passes.tile_rewrites.levels import PARALLEL_LEVELS, loop_of_later_level
from wia_compiler.passes.tile_rewrites.nest import is_folded

HOST_OPS = (
    memref.AllocOp,
    memref.ReinterpretCastOp,
    memref.LoadOp,
    func.CallOp,
    func.ReturnOp,
    cf.BranchOp,
    cf.ConditionalBranchOp,
)
NEST_OPS = (ForOp, ComputeOp, memref.AllocOp, PositionsOp, func.ReturnOp)
SCOPES = ("register", "shared", "packed")
"""Memory of a buffer in a nest; main memory is a nest's arguments alone."""
ELEMENTS = {each for name, each in ELEMENT_TYPES.items() if name != "u8"}
"""Element types: those of the high level, with u8 as ``i8``."""
_CONDITION = MemRefType(IntegerType(1), [])
FOLD_OPS = (
    arith.AddfOp,
    arith.MulfOp,
    arith.MaximumfOp,
    arith.MinimumfOp,
    arith.AddiOp,
    arith.MuliOp,
    arith.MaxSIOp,
    arith.MinSIOp,
    arith.MaxUIOp,
    arith.MinUIOp,
)
"""How a folding leaf may combine: associative and commutative, up to rounding."""


def verify_tile(module: ModuleOp) -> None:
    """Raise ``VerifyException`` where a module is not one host function and its nests."""
    functions = [op for op in module.ops if isinstance(op, func.FuncOp)]
    if len(functions) != len(list(module.ops)):
        raise VerifyException("a mid-level module holds functions only")
    hosts = [op for op in functions if "wia.host" in op.attributes]
    if len(hosts) != 1:
        raise VerifyException(f"a mid-level module has one host function, found {len(hosts)}")
    nests = {op.sym_name.data: op for op in functions if "wia.nest" in op.attributes}
    if len(nests) + 1 != len(functions):
        raise VerifyException("every function but the host is a nest, under a name of its own")
    _verify_host(hosts[0], nests)
    for nest in nests.values():
        _verify_nest(nest)


def _verify_host(host: func.FuncOp, nests: Mapping[str, func.FuncOp]) -> None:
    _verify_arrays(host)
    for op in host.body.walk():
        if not isinstance(op, HOST_OPS):
            raise VerifyException(f"a host function does not hold {op.name}")
        if isinstance(op, memref.LoadOp) and op.memref.type != _CONDITION:
            raise VerifyException("a host function loads conditions only, from memref<i1>")
        if isinstance(op, cf.BranchOp | cf.ConditionalBranchOp) and any(
            block.args for block in op.successors
        ):
            raise VerifyException("blocks of a host function take no arguments")
        if isinstance(op, memref.ReinterpretCastOp) and any(op.static_offsets.get_values()):
            raise VerifyException("a host function reinterprets memory from its first element")
        if isinstance(op, func.CallOp):
            name = op.callee.string_value()
            if name not in nests:
                raise VerifyException(f"the host calls @{name}, which is no nest")
            if tuple(op.operand_types) != nests[name].function_type.inputs.data:
                raise VerifyException(f"the host calls @{name} with memrefs of other types")


def _verify_nest(nest: func.FuncOp) -> None:
    _verify_arrays(nest)
    for op in nest.body.walk():
        if isinstance(op.parent_op(), ComputeOp):
            continue
        if not isinstance(op, NEST_OPS) and not is_point_code(op):
            raise VerifyException(f"a nest does not hold {op.name}")
        if isinstance(op, memref.AllocOp | memref.AllocaOp):
            _verify_buffer(op)
        elif isinstance(op, scf.ForOp):
            _verify_serial_loop(op)
        elif isinstance(op, ForOp):
            _verify_loop(op)
        elif isinstance(op, ComputeOp):
            _verify_leaf(op)


def _verify_serial_loop(loop: scf.ForOp) -> None:
    """A loop that runs in order walks an axis with a name, from and to indices."""
    if not isinstance(loop.attributes.get(AXIS), StringAttr):
        raise VerifyException(f"an scf.for of a nest names its axis in {AXIS}")
    if loop.lb.type != IndexType():
        raise VerifyException(f"an scf.for of a nest walks indices, found {loop.lb.type}")


def _verify_arrays(function: func.FuncOp) -> None:
    """Parameters are memrefs in main memory with static sizes and strides."""
    for argument in function.body.blocks[0].args:
        if argument.type.name != MemRefType.name:
            raise VerifyException(f"a parameter of @{function.sym_name.data} is no memref")
        _verify_memref(cast("MemRefType[Attribute]", argument.type))
        if scope_of(argument):
            raise VerifyException("parameters are in main memory")


def _verify_memref(type: MemRefType[Attribute]) -> None:
    if type.element_type not in ELEMENTS:
        raise VerifyException(f"{type} holds no element type of the mid level")
    if any(size < 0 for size in type.get_shape()):
        raise VerifyException(f"{type} has a size that is not static")


def _verify_buffer(op: memref.AllocOp | memref.AllocaOp) -> None:
    type = op.memref.type
    _verify_memref(type)
    if not isinstance(type.memory_space, StringAttr) or type.memory_space.data not in SCOPES:
        raise VerifyException(f"a nest's buffer is in one of {', '.join(SCOPES)}, found {type}")


def _verify_loop(loop: ForOp) -> None:
    """Levels nest in order, and what is folded is not run in parallel."""
    level = loop.level.data
    parent = loop.parent_op()
    if isinstance(parent, ForOp) and loop_of_later_level(loop, level) is not None:
        raise VerifyException(f"loop {loop.axis.data} @{level} stands in one of a later level")
    if level in PARALLEL_LEVELS and not isinstance(parent, ForOp | func.FuncOp):
        raise VerifyException(f"loop {loop.axis.data} @{level} stands in a {_name_of(parent)}")
    if level in PARALLEL_LEVELS and is_folded(loop):
        raise VerifyException(f"loop {loop.axis.data} @{level} walks an axis that a leaf folds")


def _name_of(op: Operation | None) -> str:
    return op.name if op is not None else "module"


def _verify_leaf(leaf: ComputeOp) -> None:
    if not set(leaf.ivs) <= _variables_around(leaf):
        raise VerifyException("a leaf reads the variable of a loop that is not around it")
    if len(set(leaf.axis_names)) != len(leaf.axis_names):
        raise VerifyException(f"a leaf names an axis twice: {', '.join(leaf.axis_names)}")
    for op in leaf.body.block.ops:
        known = isinstance(op, YieldOp | LookupOp)
        if op.name.partition(".")[0] not in SCALAR_DIALECTS and not known:
            raise VerifyException(f"a leaf's body does not hold {op.name}")
        for value in op.operands:
            if not _is_inside(value, leaf) and not _is_table(value, op):
                raise VerifyException("a leaf's body reads a value from outside it")
    if leaf.folds:
        _verify_fold(leaf)
    elif leaf.reduce_axes.data:
        raise VerifyException(f"a {leaf.kind.data} leaf folds nothing, but names reduce axes")


def _variables_around(leaf: ComputeOp) -> set[SSAValue]:
    found: set[SSAValue] = set()
    parent = leaf.parent_op()
    while parent is not None:
        if isinstance(parent, ForOp | scf.ForOp):
            found.add(parent.body.block.args[0])
        parent = parent.parent_op()
    return found


def _is_inside(value: SSAValue, leaf: ComputeOp) -> bool:
    owner = value.owner
    block = owner.parent if isinstance(owner, Operation) else owner
    return block is leaf.body.block


def _verify_written(leaf: ComputeOp, output: int) -> None:
    used = {dim for each in leaf.output_maps[output].results for dim in each.used_dims()}
    wide = {axis for axis, size in enumerate(leaf.sizes) if size > 1}
    if not wide <= used:
        raise VerifyException(
            f"output {output} of a {leaf.kind.data} leaf is neither folded nor written everywhere"
        )


def _is_table(value: SSAValue, op: Operation) -> bool:
    """Whether a value is the array of a lookup: one that the nest is given."""
    block = value.owner
    table = isinstance(op, LookupOp) and value is op.memref and isinstance(block, Block)
    return table and isinstance(block.parent_op(), func.FuncOp)


def _verify_fold(leaf: ComputeOp) -> None:
    """Each output is yielded by one op that combines what it held with an element.

    One whose held value the body does not read is written, an element at each point.
    """
    held = leaf.body.block.args[len(leaf.inputs) :]
    for output, old in enumerate(held):
        if not is_folded_into(leaf, output):
            _verify_written(leaf, output)
            continue
        op = fold_op(leaf, output)
        if not isinstance(op, FOLD_OPS) or old not in op.operands or len(list(old.uses)) != 1:
            raise VerifyException(
                f"output {output} of a {leaf.kind.data} leaf is not what it held combined with an "
                "element"
            )
