"""Values that several leaves of a nest compute, computed once and kept in a buffer."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Literal

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.tile import ComputeOp, YieldOp
from wia_compiler.dialects.tile_text import expression_text
from wia_compiler.passes.tile_rewrites.nest import bounds_of, leaves_of, replace_leaf, scope_of

EXPENSIVE = ("exp", "log", "sin", "cos", "tanh", "erf", "powf", "sqrt", "rsqrt")
"""Functions of the math dialect that cost more than a load and a store."""


def share_values(
    nest: Operation, scope: str, most_elements: int, *, reads: Reads = "none"
) -> list[memref.AllocOp]:
    """Compute expensive values that several leaves need once, in a leaf of their own.

    ::

        reduce s[i] += exp(x[i, j] - m[i])              reduce s[i] += exp(x[i, j] - m[i])
        map y[i, j] = exp(x[i, j] - m[i]) / s[i]    →          e[i, j] = exp(x[i, j] - m[i])
                                                        map y[i, j] = e[i, j] / s[i]

    The first of the leaves writes the value beside its own outputs where it folds; before a map
    the value has a leaf of its own.

    Values that hold an op of ``EXPENSIVE`` are shared by leaves that stand side by side and walk
    the same points, where all their elements are at most ``most_elements``. Gives the buffers, of
    ``scope``; nothing is shared where nothing is computed twice. With ``reads="all"``, what
    several leaves read of main memory along an axis of theirs is such a value too, so that each
    element is read once; with ``"converted"`` only where they compute something of it alike.
    """
    made: list[memref.AllocOp] = []
    while (places := _next_shared(nest, most_elements, reads)) is not None:
        made.append(_share(places, scope))
    return made


def shares_values(nest: Operation, most_elements: int, *, reads: Reads = "none") -> bool:
    """Whether ``share_values`` would keep anything."""
    return _next_shared(nest, most_elements, reads) is not None


Reads = Literal["none", "converted", "all"]
Places = dict[ComputeOp, SSAValue]
"""One value as several leaves compute it, in the order in which they run."""


@dataclass
class _Numbering:
    """A number for each distinct value of a nest's leaves: equal numbers are equal at a point."""

    numbers: dict[tuple[object, ...], int] = field(default_factory=dict[tuple[object, ...], int])
    operands: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    expensive: list[bool] = field(default_factory=list[bool])
    fetched: list[bool] = field(default_factory=list[bool])
    places: list[Places] = field(default_factory=list[Places])

    def number(self, key: tuple[object, ...], operands: tuple[int, ...], cost: bool) -> int:
        """The number of a key, new where the key is."""
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.operands.append(operands)
            self.expensive.append(cost or any(self.expensive[each] for each in operands))
            self.fetched.append(any(self.fetched[each] for each in operands))
            self.places.append({})
        return self.numbers[key]

    def add(self, leaf: ComputeOp) -> None:
        """Number every value of a leaf's body."""
        names = leaf.axis_names
        ivs = [f"{id(iv):x}" for iv in leaf.ivs]
        known: dict[SSAValue, int] = {}
        for index, argument in enumerate(leaf.body.block.args):
            key: tuple[object, ...] = ("held", argument)
            if index < len(leaf.inputs):
                each = leaf.input_maps[index].results
                place = tuple(expression_text(e, names, ivs) for e in each)
                key = ("read", leaf.inputs[index], place, leaf.is_padded[index])
            known[argument] = number = self.number(key, (), False)
            if index < len(leaf.inputs) and _is_row(leaf, index):
                self.fetched[number] = True
                self.places[number].setdefault(leaf, argument)
        for op in leaf.body.block.ops:
            if isinstance(op, YieldOp):
                continue
            parts = tuple(
                known[operand] if operand in known else self.number(("array", operand), (), False)
                for operand in op.operands
            )
            key = (op.name, op.results[0].type, tuple(op.properties.items()), parts)
            dialect, _, function = op.name.partition(".")
            cost = dialect == "math" and function in EXPENSIVE
            known[op.results[0]] = number = self.number(key, parts, cost)
            self.places[number].setdefault(leaf, op.results[0])

    def within(self, number: int) -> set[int]:
        """The numbers of the values that a value is computed from."""
        seen: set[int] = set()
        pending = list(self.operands[number])
        while pending:
            each = pending.pop()
            if each not in seen:
                seen.add(each)
                pending += self.operands[each]
        return seen


def _is_row(leaf: ComputeOp, index: int) -> bool:
    """Whether an input is in main memory and moves along an axis of the leaf."""
    if scope_of(leaf.inputs[index]) or leaf.is_padded[index]:
        return False
    used = {dim for each in leaf.input_maps[index].results for dim in each.used_dims()}
    return any(leaf.sizes[dim] > 1 for dim in used)


def _next_shared(nest: Operation, most_elements: int, reads: Reads) -> Places | None:
    """A value that several leaves compute and that is no part of a larger such value."""
    numbering = _Numbering()
    for leaf in leaves_of(nest):
        numbering.add(leaf)
    several = [
        number
        for number, places in enumerate(numbering.places)
        if len(places) > 1 and _is_worth_keeping(numbering, number, reads)
    ]
    inner: set[int] = set()
    for number in reversed(several):
        own = set(numbering.places[number])
        parts = numbering.within(number).intersection(several)
        inner |= {part for part in parts if set(numbering.places[part]) <= own}
    for number in several:
        places = numbering.places[number]
        if number not in inner and _may_share(places, most_elements):
            return places
    return None


def _is_worth_keeping(numbering: _Numbering, number: int, reads: Reads) -> bool:
    if numbering.expensive[number]:
        return True
    is_read = not numbering.operands[number]
    return numbering.fetched[number] and (reads == "all" or (reads == "converted" and not is_read))


def _may_share(places: Places, most_elements: int) -> bool:
    """Whether the leaves walk the same points side by side, and what they read stays."""
    first, *others = places
    if prod(first.sizes) > most_elements:
        return False
    block = first.parent_block()
    for leaf in others:
        same = (
            leaf.parent_block() is block
            and leaf.axis_names == first.axis_names
            and leaf.sizes == first.sizes
            and tuple(leaf.ivs) == tuple(first.ivs)
            and bounds_of(leaf) == bounds_of(first)
        )
        if not same:
            return False
    read = {first.inputs[number] for number in _inputs_of(places[first], first)}
    op: Operation | None = first
    while op is not None and op is not others[-1]:
        if any(read & set(leaf.outputs) for leaf in op.walk() if isinstance(leaf, ComputeOp)):
            return False
        op = op.next_op
    return True


def _ops_of(value: SSAValue, leaf: ComputeOp) -> list[Operation]:
    """The ops of a leaf's body that a value is computed by, in order."""
    needed: set[Operation] = set()
    pending = [value.owner]
    while pending:
        op = pending.pop()
        if isinstance(op, Operation) and op not in needed:
            needed.add(op)
            pending += [operand.owner for operand in op.operands]
    return [op for op in leaf.body.block.ops if op in needed]


def _inputs_of(value: SSAValue, leaf: ComputeOp) -> list[int]:
    """The inputs of a leaf that a value is computed from."""
    read = {value, *(operand for op in _ops_of(value, leaf) for operand in op.operands)}
    return [number for number in range(len(leaf.inputs)) if leaf.body.block.args[number] in read]


def _share(places: Places, scope: str) -> memref.AllocOp:
    first = next(iter(places))
    value = places[first]
    type = MemRefType(value.type, list(first.sizes), memory_space=StringAttr(scope))
    buffer = memref.AllocOp([], [], type)
    buffer.memref.name_hint = value.name_hint or "shared"
    buffer.location = first.location
    block = first.parent_block()
    assert block is not None
    block.insert_op_before(buffer, first)
    if first.kind.data == "reduce":
        _write_too(first, value, buffer.memref)
        del places[first]
    else:
        block.insert_op_before(_compute_leaf(first, value, buffer.memref), first)
    for leaf, old in places.items():
        _read_instead(leaf, old, buffer.memref)
    return buffer


def _write_too(leaf: ComputeOp, value: SSAValue, buffer: SSAValue) -> None:
    """Let a fold also write a value that it computes at each of its points."""
    block = leaf.body.block
    last = block.last_op
    assert isinstance(last, YieldOp)
    block.insert_arg(value.type, len(block.args))
    last.operands = [*last.operands, value]
    rank = (len(leaf.axis_names), len(leaf.ivs))
    maps = [*(each.data for each in leaf.maps), AffineMap(*rank, _identity(rank[0]))]
    replace_leaf(leaf, outputs=[*leaf.outputs, buffer], maps=maps)


def _compute_leaf(leaf: ComputeOp, value: SSAValue, buffer: SSAValue) -> ComputeOp:
    """The leaf that computes a value of another leaf into a buffer with all its axes."""
    numbers = _inputs_of(value, leaf)
    ops = _ops_of(value, leaf)
    body = Block(arg_types=[leaf.body.block.args[number].type for number in numbers])
    copied: dict[SSAValue, SSAValue] = {}
    for argument, number in zip(body.args, numbers, strict=True):
        old = leaf.body.block.args[number]
        argument.name_hint = old.name_hint
        copied[old] = argument
    for op in ops:
        body.add_op(op.clone(copied))
    result = YieldOp([copied[value]])
    body.add_op(result)
    rank = (len(leaf.axis_names), len(leaf.ivs))
    maps = [leaf.input_maps[number] for number in numbers]
    bounds = bounds_of(leaf)
    made = ComputeOp(
        "map",
        axes=list(zip(leaf.axis_names, leaf.sizes, strict=True)),
        ivs=list(leaf.ivs),
        inputs=[leaf.inputs[number] for number in numbers],
        outputs=[buffer],
        maps=[*maps, AffineMap(*rank, _identity(rank[0]))],
        bounds=AffineMap(*rank, tuple(each for each, _ in bounds)),
        limits=[limit for _, limit in bounds],
        padded=[leaf.is_padded[number] for number in numbers],
        body=Region(body),
    )
    made.location = result.location = merge_locations(ops or [leaf])
    return made


def _identity(rank: int) -> tuple[AffineExpr, ...]:
    return tuple(AffineExpr.dimension(axis) for axis in range(rank))


def _read_instead(leaf: ComputeOp, old: SSAValue, buffer: SSAValue) -> None:
    """Let a leaf read a value from a buffer, and forget what it computed it from alone."""
    block = leaf.body.block
    argument = block.insert_arg(old.type, len(leaf.inputs))
    argument.name_hint = old.name_hint
    old.replace_all_uses_with(argument)
    for op in reversed(list(block.ops)):
        if not isinstance(op, YieldOp) and not any(result.first_use for result in op.results):
            op.detach()
            op.erase()
    rank = (len(leaf.axis_names), len(leaf.ivs))
    inputs = [*leaf.inputs, buffer]
    maps = [*leaf.input_maps, AffineMap(*rank, _identity(rank[0]))]
    padded = [*leaf.is_padded, False]
    used = [number for number in range(len(inputs)) if block.args[number].first_use]
    for number in reversed(range(len(inputs))):
        if number not in used:
            block.erase_arg(block.args[number])
    replace_leaf(
        leaf,
        inputs=[inputs[number] for number in used],
        maps=[*(maps[number] for number in used), *leaf.output_maps],
        padded=[padded[number] for number in used],
    )
