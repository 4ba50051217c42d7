"""Operands of a leaf as rows of elements: where each lies, and what is to be tested first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerType, MemRefType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineSymExpr

from wia_compiler.backends.cpu.lane_plan import flat_place
from wia_compiler.backends.cpu.vector_plan import Condition
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.dialects.tile_places import PositionsOp
from wia_compiler.passes.affine import LinearForm, atoms, linear_form
from wia_compiler.passes.emit_index import IndexEmitter
from wia_compiler.passes.emit_leaf import LeafContext
from wia_compiler.passes.llvm.types import num_elements


@dataclass(frozen=True)
class Tests:
    """Conditions not known to hold: of the leaf's points, and of each padded input."""

    bounds: tuple[Condition, ...]
    padding: tuple[tuple[Condition, ...], ...]

    @property
    def every(self) -> tuple[Condition, ...]:
        """All of them."""
        return (*self.bounds, *(each for row in self.padding for each in row))


def tests_of(context: LeafContext) -> Tests | None:
    """What must be tested where a leaf runs; ``None`` where that is not linear."""
    leaf = context.leaf

    def needed(expressions: Sequence[AffineExpr], limits: Sequence[int]) -> tuple[Condition, ...]:
        pairs = zip(expressions, limits, strict=True)
        return tuple(Condition(e, n) for e, n in pairs if not context.is_within(e, n))

    bounds = needed(leaf.bounds.data.results, leaf.limit_values)
    padding = tuple(
        needed(each.results, cast("MemRefType[Attribute]", value.type).get_shape())
        if padded
        else ()
        for value, each, padded in zip(leaf.inputs, leaf.input_maps, leaf.is_padded, strict=True)
    )
    tests = Tests(bounds, padding)
    return tests if all(linear_form(c.expression).is_linear for c in tests.every) else None


def places_of(leaf: ComputeOp) -> tuple[LinearForm, ...] | None:
    """Where the element of each input and output lies, counted in elements from its first.

    ``None`` where an axis is divided, or memory holds no whole elements that vectors could load.
    """
    operands = (*leaf.inputs, *leaf.outputs)
    if not all(_is_plain(value) for value in operands):
        return None
    maps = (*leaf.input_maps, *leaf.output_maps)
    places = tuple(linear_form(flat_place(v, m)) for v, m in zip(operands, maps, strict=True))
    return places if all(_has_whole_axes(place) for place in places) else None


def flat_view(emitter: IndexEmitter, value: SSAValue) -> SSAValue:
    """The memory of an operand as one row of elements."""
    type_ = cast("MemRefType[Attribute]", value.type)
    size = num_elements(type_)
    flat = MemRefType(type_.element_type, [size], memory_space=type_.memory_space)
    view = emitter.emit(memref.ReinterpretCastOp.from_dynamic(value, [0], [size], [1], flat))
    view.name_hint = value.name_hint
    return view


def emit_form(
    emitter: IndexEmitter, form: LinearForm, dims: Sequence[SSAValue], ivs: Sequence[SSAValue]
) -> SSAValue:
    """The value of a linear form; all that is known here becomes one number, added last.

    Places beside one another are then the same value and a number, which addresses hold.
    """
    total, number = None, form.constant
    for atom, factor in form.terms.items():
        match atom:
            case AffineDimExpr():
                value = dims[atom.position]
            case AffineSymExpr():
                value = ivs[atom.position]
            case _:
                value = emitter.affine(atom, dims, ivs)
        known = emitter.constant_of(value)
        if known is not None:
            number += known * factor
            continue
        term = emitter.scale(value, factor)
        total = term if total is None else emitter.add(total, term)
    own = emitter.constant(number)
    return own if total is None else emitter.add(total, own)


def _is_plain(value: SSAValue) -> bool:
    element = cast("MemRefType[Attribute]", value.type).element_type
    return not isinstance(value.owner, PositionsOp) and element != IntegerType(1)


def _has_whole_axes(place: LinearForm) -> bool:
    """Whether axes stand in it as they are; variables of loops may be divided."""
    return all(
        isinstance(atom, AffineDimExpr)
        or not any(isinstance(each, AffineDimExpr) for each in atoms(atom))
        for atom in place.terms
    )
