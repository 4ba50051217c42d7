"""Bands of loops in point code, each of which holds nothing but the next: order and tiles."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from wia_compiler.dialects import tile
from wia_compiler.dialects.tile_points import AXIS
from wia_compiler.passes.emit_index import INDEX, IndexEmitter, constant_of
from wia_compiler.passes.points.dependence import Dependence, dependences
from wia_compiler.passes.points.forms import Loop, PointForms
from wia_compiler.passes.points.loop_axes import (
    INDEPENDENT,
    axis_name,
    carried_of,
    inner_loop,
    is_independent,
)
from wia_compiler.passes.tile_rewrites import IllegalRewrite


@dataclass(frozen=True)
class NewLoop:
    """A loop of the new order: the old ``loop``, or with a ``size`` the loop over its tiles."""

    loop: Loop
    size: int | None = None


def band_of(nest: func.FuncOp, loops: Sequence[Loop]) -> list[Loop]:
    """The loops from the outermost of those given to the innermost, outermost first.

    ``IllegalRewrite`` where they do not stand one in another with nothing beside, or carry a value.
    """
    outermost = next(loop for loop in loops if all(_holds(loop, other) for other in loops))
    band: list[Loop] = [outermost]
    while not set(loops) <= set(band):
        inner = inner_loop(band[-1].body.block, _Nothing())
        if inner is None:
            name, last = axis_name(outermost), axis_name(band[-1])
            raise IllegalRewrite(
                f"loop {last} holds more than one loop: those in {name} cannot change places",
                hint="loops change places where each holds nothing but the next",
            )
        band.append(inner)
    for loop in band:
        if carried_of(loop):
            names = ", ".join(each.name_hint or "a value" for each in carried_of(loop))
            raise IllegalRewrite(
                f"loop {axis_name(loop)} carries {names} from one iteration to the next",
                hint="add to an element of an array, or let the sum stay in the innermost loop",
            )
    return band


def _holds(loop: Loop, other: Operation) -> bool:
    return loop is other or loop.is_ancestor(other)


class _Nothing:
    """What holds every array: no load may stand between the loops of a band."""

    def __contains__(self, _: object) -> bool:
        return True


def check_order(nest: func.FuncOp, band: Sequence[Loop], order: Sequence[NewLoop]) -> None:
    """Refuse an order in which an iteration would come before one that it depends on."""
    forms = PointForms(nest)
    _check_bounds(band, forms)
    for each in dependences(nest, forms):
        if set(band) <= set(each.loops) and (loop := _broken(each, band, order)) is not None:
            raise IllegalRewrite(
                f"the new order would break a dependence: {each.text(forms, loop)}",
                hint=f"keep {axis_name(loop)} outside of the others",
            )


def _check_bounds(band: Sequence[Loop], forms: PointForms) -> None:
    inside = {forms.atoms[loop] for loop in band if loop in forms.atoms}
    for loop in band:
        if isinstance(loop, tile.ForOp):
            continue
        for bound in (loop.lb, loop.ub, loop.step):
            form = forms.form(bound)
            atoms = {atom for atom, _ in form.terms}
            reached = {a for atom in atoms for up in atom.uppers for a, _ in up.terms} | atoms
            if reached & inside or (atoms and not atoms <= set(forms.loops)):
                raise IllegalRewrite(
                    f"the bounds of loop {axis_name(loop)} depend on a loop around it: {form}",
                    hint="only loops over a rectangle change places",
                )


def _broken(each: Dependence, band: Sequence[Loop], order: Sequence[NewLoop]) -> Loop | None:
    """A loop of the band along which a dependence would run backwards in a new order."""
    first = each.loops.index(band[0])
    if any(distance not in (None, 0) for distance in each.distances[:first]):
        return None  # a loop around the band keeps the two in order
    for signs in each.signs():
        if any(signs[:first]):
            continue
        own = dict(zip(band, signs[first : first + len(band)], strict=True))
        ways = [(0, own[new.loop]) if new.size is not None else (own[new.loop],) for new in order]
        for way in itertools.product(*ways):
            lead = next(((sign, new) for sign, new in zip(way, order, strict=True) if sign), None)
            if lead is not None and lead[0] < 0:
                return next(loop for loop in band if own[loop] > 0)
    return None


def rebuild(band: Sequence[Loop], order: Sequence[NewLoop]) -> list[Loop]:
    """Write a band anew in a new order; the loops that were made, outermost first.

    ::

        for i … { for j … { … } }   →   for j … { for ii … step 32 { for i in ii..min(…) { … } } }
    """
    outermost, innermost = band[0], band[-1]
    body = innermost.body.block
    _sink_scalars(band)
    tiled = {new.loop for new in order if new.size is not None}
    block = outermost.parent
    assert block is not None
    home = Block()
    made: list[Loop] = []
    variables: dict[Loop, SSAValue] = {}
    bounds = _Bounds(outermost)
    here = home
    for new in order:
        if new.size is not None:
            loop = bounds.tiles(new.loop, new.size, parallel=all(_is_tile(m) for m in made))
        elif new.loop in tiled:
            inside = IndexEmitter(Builder(InsertPoint.at_end(here)), new.loop.location)
            size = next(n.size for n in order if n.loop is new.loop and n.size is not None)
            loop = bounds.points(new.loop, size, variables[new.loop], inside)
        else:
            loop = bounds.again(new.loop)
        variables[new.loop] = loop.body.block.args[0]
        here.add_op(loop)
        if isinstance(here.parent_op(), scf.ForOp):
            _end(here, new.loop)
        made.append(loop)
        here = loop.body.block
    for loop in band:
        loop.body.block.args[0].replace_all_uses_with(variables[loop])
    for op in list(body.ops):
        if isinstance(op, scf.YieldOp):
            continue
        op.detach()
        here.add_op(op)
    if isinstance(made[-1], scf.ForOp):
        _end(here, innermost)
    for op in list(home.ops):
        op.detach()
        block.insert_op_before(op, outermost)
    outermost.detach()
    outermost.erase()
    return made


def _is_tile(loop: Loop) -> bool:
    return isinstance(loop, tile.ForOp)


def _end(block: Block, like: Operation) -> None:
    last = scf.YieldOp()
    last.location = like.location
    block.add_op(last)


def _sink_scalars(band: Sequence[Loop]) -> None:
    """Move what is computed between the loops to where it is used, inside the innermost."""
    body = band[-1].body.block
    for outer in reversed(band[:-1]):
        for op in reversed(list(outer.body.block.ops)):
            if op in band or isinstance(op, scf.YieldOp):
                continue
            first = body.first_op
            op.detach()
            if first is None:
                body.add_op(op)
            else:
                body.insert_op_before(op, first)


class _Bounds:
    """Makes the loops of a new order; what they are bounded by stands before the old ones."""

    def __init__(self, outermost: Loop):
        self.emitter = IndexEmitter(Builder(InsertPoint.before(outermost)), outermost.location)

    def _of(self, loop: Loop) -> tuple[SSAValue, SSAValue, SSAValue]:
        if isinstance(loop, tile.ForOp):
            numbers = 0, loop.extent.value.data, loop.step.value.data
            first, last, step = (self.emitter.constant(number) for number in numbers)
            return first, last, step
        return loop.lb, loop.ub, loop.step

    def _finish(self, made: Loop, loop: Loop) -> Loop:
        made.location = loop.location
        made.body.block.args[0].name_hint = axis_name(loop)
        if isinstance(made, scf.ForOp):
            made.attributes[AXIS] = StringAttr(axis_name(loop))
            if is_independent(loop):
                made.attributes[INDEPENDENT] = UnitAttr()
        return made

    def tiles(self, loop: Loop, size: int, *, parallel: bool) -> Loop:
        """The loop over tiles of ``size`` iterations of a loop."""
        if isinstance(loop, tile.ForOp) and parallel:
            step = loop.step.value.data * size
            made: Loop = tile.ForOp(f"{axis_name(loop)}.0", loop.extent.value.data, step)
        else:
            first, last, step = self._of(loop)
            stride = self._times(step, size)
            made = scf.ForOp(first, last, stride, [], Region(Block(arg_types=[INDEX])))
        self._finish(made, loop)
        made.body.block.args[0].name_hint = axis_name(loop) * 2
        return made

    def points(self, loop: Loop, size: int, start: SSAValue, inside: IndexEmitter) -> Loop:
        """The loop over the iterations of one tile."""
        _, last, step = self._of(loop)
        width = self._times(step, size)
        end = inside.emit(arith.AddiOp(start, width))
        end = inside.emit(arith.MinSIOp(end, last))
        made = scf.ForOp(start, end, step, [], Region(Block(arg_types=[INDEX])))
        return self._finish(made, loop)

    def _times(self, step: SSAValue, size: int) -> SSAValue:
        number = constant_of(step)
        if number is not None:
            return self.emitter.constant(number * size)
        return self.emitter.emit(arith.MuliOp(step, self.emitter.constant(size)))

    def again(self, loop: Loop) -> Loop:
        """A loop as it was."""
        if isinstance(loop, tile.ForOp):
            made: Loop = tile.ForOp(loop.axis.data, loop.extent.value.data, loop.step.value.data)
            made.properties["level"] = loop.level
        else:
            made = scf.ForOp(loop.lb, loop.ub, loop.step, [], Region(Block(arg_types=[INDEX])))
        made.attributes = dict(loop.attributes)
        return self._finish(made, loop)
