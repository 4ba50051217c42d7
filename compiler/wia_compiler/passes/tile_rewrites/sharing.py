"""Values that several leaves of a nest compute, computed once and kept in a buffer."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.tile import ComputeOp, YieldOp
from wia_compiler.dialects.tile_text import expression_text
from wia_compiler.passes.tile_rewrites.nest import bounds_of, leaves_of, replace_leaf

EXPENSIVE = ("exp", "log", "sin", "cos", "tanh", "erf", "powf", "sqrt", "rsqrt")
"""Functions of the math dialect that cost more than a load and a store."""


def share_values(nest: Operation, scope: str, most_elements: int) -> list[memref.AllocOp]:
    """Compute expensive values that several leaves need once, in a leaf of their own.

    ::

        reduce s[i] += exp(x[i, j] - m[i])              map e[i, j] = exp(x[i, j] - m[i])
        map y[i, j] = exp(x[i, j] - m[i]) / s[i]    →   reduce s[i] += e[i, j]
                                                        map y[i, j] = e[i, j] / s[i]

    Values that hold an op of ``EXPENSIVE`` are shared by leaves that stand side by side and walk
    the same points, where all their elements are at most ``most_elements``. Gives the buffers, of
    ``scope``; nothing is shared where nothing is computed twice.
    """
    made: list[memref.AllocOp] = []
    while (places := _next_shared(nest, most_elements)) is not None:
        made.append(_share(places, scope))
    return made


Places = dict[ComputeOp, SSAValue]
"""One value as several leaves compute it, in the order in which they run."""


@dataclass
class _Numbering:
    """A number for each distinct value of a nest's leaves: equal numbers are equal at a point."""

    numbers: dict[tuple[object, ...], int] = field(default_factory=dict[tuple[object, ...], int])
    operands: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    expensive: list[bool] = field(default_factory=list[bool])
    places: list[Places] = field(default_factory=list[Places])

    def number(self, key: tuple[object, ...], operands: tuple[int, ...], cost: bool) -> int:
        """The number of a key, new where the key is."""
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.operands.append(operands)
            self.expensive.append(cost or any(self.expensive[each] for each in operands))
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
            known[argument] = self.number(key, (), False)
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


def _next_shared(nest: Operation, most_elements: int) -> Places | None:
    """A value that several leaves compute and that is no part of a larger such value."""
    numbering = _Numbering()
    for leaf in leaves_of(nest):
        numbering.add(leaf)
    several = [
        number
        for number, places in enumerate(numbering.places)
        if numbering.expensive[number] and len(places) > 1
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
    read = {operand for op in _ops_of(value, leaf) for operand in op.operands}
    return [number for number in range(len(leaf.inputs)) if leaf.body.block.args[number] in read]


def _share(places: Places, scope: str) -> memref.AllocOp:
    first = next(iter(places))
    value = places[first]
    type = MemRefType(value.type, list(first.sizes), memory_space=StringAttr(scope))
    buffer = memref.AllocOp([], [], type)
    buffer.memref.name_hint = value.name_hint or "shared"
    compute = _compute_leaf(first, value, buffer.memref)
    buffer.location = compute.location
    block = first.parent_block()
    assert block is not None
    block.insert_ops_before([buffer, compute], first)
    for leaf, old in places.items():
        _read_instead(leaf, old, buffer.memref)
    return buffer


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
    made.location = result.location = merge_locations(ops)
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
